//! Packets that are not what was sent: a proxy between source and destination flips a byte, or ends a connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use super::*;
use crate::engine::destination::DestinationAddress;

/// The harm that a proxy does to one of its connections.
#[derive(Debug, Clone, Copy)]
enum Harm {
    /// Flips a bit of the byte at this place.
    Flip(usize),
    /// Ends the connection at this place.
    Cut(usize),
}

/// Passes connections on to `address`, and harms the channel `victim`: the control connection is the first to come.
fn proxy(address: SocketAddr, victim: usize, harm: Harm) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, source) in listener.incoming().enumerate() {
            let Ok(source) = source else { return };
            let Ok(destination) = TcpStream::connect(address) else { return };
            let back = (destination.try_clone().unwrap(), source.try_clone().unwrap());
            let harm = (number == victim + 1).then_some(harm);
            std::thread::spawn(move || pass(source, destination, harm));
            std::thread::spawn(move || pass(back.0, back.1, None));
        }
    });
    near
}

fn pass(mut from: TcpStream, mut to: TcpStream, harm: Option<Harm>) {
    let (mut buffer, mut passed) = (vec![0; 65_536], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let here = |place: usize| place.checked_sub(passed).filter(|at| *at < count);
        match harm {
            Some(Harm::Flip(place)) => here(place).into_iter().for_each(|at| buffer[at] ^= 4),
            Some(Harm::Cut(place)) => {
                if let Some(at) = here(place) {
                    let _ = to.write_all(&buffer[..at]);
                    break;
                }
            }
            None => {}
        }
        passed += count;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// The source's error, and the destination's.
fn harmed(settings: &MigrationSettings, victim: usize, harm: Harm) -> (String, String) {
    let destination = destination(settings);
    let target = destination.target();
    let target = DestinationAddress { address: proxy(target.address, victim, harm), ..target };
    let source = Source::new(settings, target).unwrap();
    // SAFETY: the guest is idle.
    let digests = || unsafe { source.guest().memory().digests(1, 1 << 20, 1) };
    let before = digests();
    let error = source.migrate(&mut |_| {}).unwrap_err().to_string();
    assert_eq!(digests(), before, "the source's memory has changed");
    let own = loop {
        match destination.take_error() {
            Some(error) => break error,
            None => plumb_host::time::sleep(std::time::Duration::from_millis(1)),
        }
    };
    (error, own)
}

#[test]
fn a_corrupt_packet_is_caught_and_named() {
    let settings = settings(|settings| {
        settings.system.content.zero = Percent(0.0);
        settings.system.channels = 1;
    });
    // Behind the hello of 24 bytes; each packet is a header of 64 bytes and 128 pages.
    let packet = 64 + 128 * PAGE_BYTES;
    let (source, destination) = harmed(&settings, 0, Harm::Flip(24 + 3 * packet + 64 + 70_000));
    let own = "accept packet 3 on channel 0: its content is corrupt: pages 384 to 511, from 0x180000 on";
    assert_eq!(destination, own);
    assert_eq!(source, format!("go on: the destination failed to {own}"));
    let (source, destination) = harmed(&settings, 0, Harm::Flip(24 + 2 * packet + 40));
    let own = "accept packet 2 on channel 0: the header is corrupt";
    assert_eq!((source, destination), (format!("go on: the destination failed to {own}"), own.to_owned()));
}

/// Settings under a cap, without which one channel may have sent all before another has begun.
fn shared(channels: u32) -> MigrationSettings {
    settings(|settings| {
        settings.system.channels = channels;
        settings.system.cap = Cap(Some(ByteRate(40e6)));
    })
}

#[test]
fn a_corrupt_packet_on_one_of_many_channels_is_laid_to_that_one() {
    let settings = shared(4);
    let (source, destination) = harmed(&settings, 2, Harm::Flip(300_000));
    assert!(destination.contains(" on channel 2: its content is corrupt: pages "), "{destination}");
    assert_eq!(source, format!("go on: the destination failed to {destination}"));
}

#[test]
fn a_channel_that_is_cut_ends_the_migration_on_both_sides() {
    let places = [24, 60, 24 + 64, 100_000, 500_000];
    // `PLUMB_KILLS=100` for the long loop.
    let more = std::env::var("PLUMB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(0);
    let anywhere = (0..more).map(|kill: usize| 24 + kill * 7_919_983 % 2_000_000);
    for place in places.into_iter().chain(anywhere) {
        let settings = shared(3);
        let (source, destination) = harmed(&settings, 1, Harm::Cut(place));
        // The source may see it first and close the other channels.
        assert!(destination.ends_with(": the connection was closed"), "{place}: {destination}");
        assert_eq!(source, format!("go on: the destination failed to {destination}"), "{place}");
    }
}
