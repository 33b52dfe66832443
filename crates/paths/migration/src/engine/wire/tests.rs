//! Connections over loopback.

use std::io::{IoSliceMut, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::super::alarm::Alarm;
use super::super::memory::GuestMemory;
use super::super::pace::Pacer;
use super::*;
use plumb_codec::PAGE_BYTES;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = connect(listener.local_addr().unwrap(), None).unwrap();
    (near, listener.accept().unwrap().0)
}

fn memory(pages: usize) -> GuestMemory {
    let mut memory = GuestMemory::map((pages * PAGE_BYTES) as u64).unwrap();
    for (at, byte) in memory.as_mut_slice().iter_mut().enumerate() {
        *byte = (at / 3 % 251) as u8;
    }
    memory
}

fn move_over(cap: Option<f64>, is_encrypted: bool) -> SocketBytes {
    let (near, far) = pair();
    let identity = tls::Identity::make().unwrap();
    let trust = tls::Trust::in_certificate(&identity.certificate_pem).unwrap();
    let client = is_encrypted.then(|| trust.connect().unwrap());
    let server = is_encrypted.then(|| identity.accept().unwrap());
    let counted = near.try_clone().unwrap();
    let mut outgoing = Outgoing::new(near, Arc::new(Pacer::new(cap)), Arc::new(Alarm::default()), client);
    let source = memory(700);
    let ranges = [0..300 * PAGE_BYTES, 400 * PAGE_BYTES..700 * PAGE_BYTES];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut incoming = Incoming::new(far, server);
            let (mut front, mut tail) = ([0; 7], [0; 9]);
            incoming.read_exact(&mut front).unwrap();
            let mut received = vec![0; 600 * PAGE_BYTES];
            let (first, second) = received.split_at_mut(300 * PAGE_BYTES);
            incoming.fill(&mut [IoSliceMut::new(first), IoSliceMut::new(second)]).unwrap();
            incoming.read_exact(&mut tail).unwrap();
            assert_eq!((&front, &tail), (b"a front", b"and bytes"));
            // SAFETY: nothing writes to the memory any more.
            let expected = ranges.iter().map(|range| unsafe { source.quiet(range) });
            assert!(expected.flatten().eq(&received));
            let end = incoming.read_exact(&mut [0]).unwrap_err().to_string();
            assert_eq!(end, "the connection was closed");
        });
        outgoing.send_front(&[b"a ", b"front"], false).unwrap();
        // SAFETY: nothing writes to the memory any more.
        unsafe { outgoing.send_quiet(&source, &ranges) }.unwrap();
        outgoing.send_bytes(b"and bytes").unwrap();
        drop(outgoing);
        let _ = counted.shutdown(std::net::Shutdown::Write);
    });
    socket_bytes(&counted)
}

#[test]
fn memory_arrives_by_reference_and_the_kernel_counts_it() {
    // A tail that the kernel probes for counts twice.
    assert!(move_over(None, false).sent >= (600 * PAGE_BYTES + 16) as u64);
}

#[test]
fn memory_arrives_under_a_cap_and_encrypted() {
    assert!(move_over(Some(200e6), false).sent >= (600 * PAGE_BYTES + 16) as u64);
    assert!(move_over(None, true).sent > (600 * PAGE_BYTES + 16) as u64);
    assert!(move_over(Some(200e6), true).sent > (600 * PAGE_BYTES + 16) as u64);
}

#[test]
fn a_hello_is_read_back_and_strangers_are_turned_away() {
    for hello in [
        Hello::Control { is_encrypted: true },
        Hello::Control { is_encrypted: false },
        Hello::Channel { token: u64::MAX - 3, channel: 7 },
    ] {
        assert_eq!(Hello::receive(&mut hello.encode().as_slice()).unwrap(), hello);
    }
    let mut bytes = Hello::Control { is_encrypted: false }.encode();
    bytes[9] = 2;
    assert!(Hello::receive(&mut bytes.as_slice()).is_err());
    assert!(Hello::receive(&mut b"GET / HTTP/1.1\r\nHost: example".as_slice()).is_err());
    assert!(Hello::receive(&mut b"plumb".as_slice()).is_err());
}

#[test]
fn an_alarm_wakes_who_waits_for_a_socket() {
    let (near, mut far) = pair();
    far.write_all(b"x").unwrap();
    let alarm = Alarm::default();
    alarm.watch(near.try_clone().unwrap(), std::net::Shutdown::Both);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| Incoming::new(near, None).read_exact(&mut [0; 2]).unwrap_err());
        alarm.raise(super::super::error::MigrationError::Gone { peer: "source" });
        assert_eq!(waits.join().unwrap().to_string(), "the connection was closed");
    });
    assert!(alarm.is_raised() && alarm.take().is_some() && alarm.take().is_none());
}
