//! The server against well-behaved and hostile clients.

mod client;
mod cold;
mod floors;
mod fuzz;
mod unix;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use proptest::prelude::*;
use tempfile::TempDir;

use self::client::{Client, Reply};
use super::handshake::{Handshake, Step};
use super::places::Bounds;
use super::wire::{REQUEST_BYTES, Request};
use super::*;
use crate::Service;
use crate::limiter::{Limiter, Limits};
use crate::policy::{Fixed, Policy};
use crate::state::{State, StateError};
use crate::waiter::Waiter;

const SIZE_BYTES: u64 = 64 << 20;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

fn served(limits: Limits) -> (TempDir, Server) {
    let directory = TempDir::new().unwrap();
    let limiter = Arc::new(Limiter::new(limits, monotonic_ns()));
    let volume = Volume::open("vol1", &directory.path().join("vol1"), SIZE_BYTES, limiter).unwrap();
    let exports = Arc::new(Exports::default());
    exports.add(Arc::new(volume));
    let server = start(exports);
    (directory, server)
}

fn start(exports: Arc<Exports>) -> Server {
    let mut server = Server::bind(&Address::loopback(), 2, exports).unwrap();
    server.begin().unwrap();
    server
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    pattern_at(0, length, seed)
}

fn pattern_at(offset: usize, length: usize, seed: u8) -> Vec<u8> {
    let byte =
        |at: usize| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ (at >> 16) as u8 ^ seed;
    (offset..offset + length).map(byte).collect()
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn what_is_written_is_read_in_both_forms_of_reply_and_on_another_connection() {
    let (_directory, server) = served(Limits::NONE);
    for structured in [false, true] {
        let mut writer = Client::connect(server.address().tcp().unwrap(), "vol1", structured);
        let mut reader = Client::connect(server.address().tcp().unwrap(), "vol1", structured);
        assert_eq!(writer.size_bytes, SIZE_BYTES);
        for (offset, length) in
            [(0, 4096), (4096, 1), (8193, 300_001), (SIZE_BYTES - 4096, 4096), (1 << 20, 33 << 18)]
        {
            let data = pattern(length, structured as u8);
            assert_eq!(writer.call(WRITE, 0, offset, length as u32, &data), Reply::Done(Vec::new()));
            assert_eq!(writer.call(FLUSH, 0, 0, 0, &[]), Reply::Done(Vec::new()));
            assert_eq!(reader.call(READ, 0, offset, length as u32, &[]), Reply::Done(data));
        }
        assert_eq!(writer.call(WRITE, 1, 0, 4096, &pattern(4096, 9)), Reply::Done(Vec::new()), "FUA");
    }
}

#[test]
fn trimmed_and_zeroed_ranges_read_as_zeroes_and_trimming_gives_space_back() {
    let (_directory, server) = served(Limits::NONE);
    let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    let volume = server.exports().find("vol1").unwrap();
    for (command, flags) in [(TRIM, 0), (WRITE_ZEROES, 0), (WRITE_ZEROES, 2), (WRITE_ZEROES, 1)] {
        client.call(WRITE, 0, 0, 1 << 20, &pattern(1 << 20, 1));
        client.call(FLUSH, 0, 0, 0, &[]);
        let before = volume.used_bytes().unwrap();
        assert_eq!(client.call(command, flags, 4096, (1 << 20) - 4096, &[]), Reply::Done(Vec::new()));
        assert_eq!(client.call(READ, 0, 4096, 65_536, &[]), Reply::Done(vec![0; 65_536]));
        let after = volume.used_bytes().unwrap();
        assert_eq!(after < before, flags & 2 == 0, "command {command}, flags {flags}: {before}, {after}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_and_the_connection_goes_on() {
    let (_directory, server) = served(Limits::NONE);
    for structured in [false, true] {
        let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", structured);
        for (command, flags, offset, length, error) in [
            (READ, 0, SIZE_BYTES, 1, 22),
            (READ, 0, u64::MAX, 4096, 22),
            (READ, 0, SIZE_BYTES - 1, 2, 22),
            (READ, 0, 0, u32::MAX, 22),
            (READ, 0, 0, (32 << 20) + 1, 75),
            (WRITE, 0, SIZE_BYTES - 1, 4096, 28),
            (WRITE, 1 << 9, 0, 4096, 22),
            (TRIM, 0, SIZE_BYTES, 1, 28),
            (WRITE_ZEROES, 1 << 4, 0, 4096, 22),
            (5, 0, 0, 4096, 22),
            (999, 0, 0, 0, 22),
        ] {
            let data = if command == WRITE { vec![7; length as usize] } else { Vec::new() };
            let what = format!("command {command}, flags {flags}, offset {offset}, length {length}");
            assert_eq!(client.call(command, flags, offset, length, &data), Reply::Refused(error), "{what}");
        }
        assert_eq!(client.call(READ, 0, 0, 512, &[]), Reply::Done(vec![0; 512]));
    }
}

#[test]
fn every_option_of_the_handshake_is_answered() {
    let (_directory, server) = served(Limits::NONE);
    let mut client = client::Handshake::begin(server.address().tcp().unwrap());
    assert_eq!(client.option(3, &[]), [(2, b"\0\0\0\x04vol1".to_vec()), (1, Vec::new())]);
    assert_eq!(client.option(6, b"\0\0\0\x04nope\0\0")[0].0, (1 << 31) + 6);
    assert_eq!(client.option(6, b"\0\0\0\xffvol1\0\0")[0].0, (1 << 31) + 3);
    assert_eq!(client.option(5, &[])[0].0, (1 << 31) + 1, "TLS");
    assert_eq!(client.option(12_345, b"x")[0].0, (1 << 31) + 1);
    assert_eq!(client.option(3, b"x")[0].0, (1 << 31) + 3);
    assert_eq!(client.option(7, &vec![0; 100_000])[0].0, (1 << 31) + 9);
    let informed = client.option(6, b"\0\0\0\x04vol1\0\x02\0\x01\0\x03");
    assert_eq!(informed.len(), 4);
    assert_eq!(informed[0].1[2..10], SIZE_BYTES.to_be_bytes());
    assert_eq!(client.option(2, &[]), [(1, Vec::new())]);
    assert!(client.is_closed());
    let mut old = client::Handshake::begin(server.address().tcp().unwrap());
    assert_eq!(old.export_name("vol1"), Some(SIZE_BYTES));
    assert_eq!(client::Handshake::begin(server.address().tcp().unwrap()).export_name("nope"), None);
}

#[test]
fn who_comes_before_the_volumes_are_there_waits_for_them() {
    let (directory, exports) = (TempDir::new().unwrap(), Arc::new(Exports::default()));
    let mut server = Server::bind(&Address::loopback(), 2, Arc::clone(&exports)).unwrap();
    // Nobody reads this yet.
    let mut early = TcpStream::connect(server.address().tcp().unwrap()).unwrap();
    early.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04vol1").unwrap();
    let limiter = Arc::new(Limiter::new(Limits::NONE, monotonic_ns()));
    exports.add(Arc::new(Volume::open("vol1", &directory.path().join("vol1"), SIZE_BYTES, limiter).unwrap()));
    server.begin().unwrap();
    let mut answer = [0; 18 + 10];
    early.read_exact(&mut answer).unwrap();
    assert_eq!(answer[18..26], SIZE_BYTES.to_be_bytes());
}

#[test]
fn a_removed_volume_refuses_and_a_resized_one_has_its_new_end() {
    let (_directory, server) = served(Limits::NONE);
    let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    let volume = server.exports().find("vol1").unwrap();
    volume.resize(2 * SIZE_BYTES).unwrap();
    assert_eq!(client.call(READ, 0, SIZE_BYTES, 512, &[]), Reply::Done(vec![0; 512]));
    volume.resize(4096).unwrap();
    assert_eq!(client.call(READ, 0, 4096, 512, &[]), Reply::Refused(22));
    server.exports().remove("vol1").unwrap();
    assert_eq!(client.call(READ, 0, 0, 512, &[]), Reply::Refused(108));
    assert!(server.exports().find("vol1").is_none());
}

/// Has a request wait for the limiter, changes the volume, and lets the request go on.
fn held_up(command: u16, change: impl FnOnce(&Server, &Volume)) -> (TempDir, Server, Reply) {
    // Each byte of the first operation is charged as an operation, so the next one waits for an hour.
    let slow = Limits { iops: NonZeroU64::new(1), operation_bytes: NonZeroU64::new(1), ..Limits::NONE };
    let (directory, server) = served(slow);
    let volume = server.exports().find("vol1").unwrap();
    let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    assert_eq!(client.call(WRITE, 0, 0, 4096, &[7; 4096]), Reply::Done(Vec::new()));
    let data = if command == WRITE { &[9; 300_000][..] } else { &[] };
    client.send(command, 0, 1 << 20, 300_000, data);
    while volume.limiter().account(monotonic_ns()).delayed == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    change(&server, &volume);
    server.change_limits(&volume.limiter(), Limits::NONE);
    // In the structured form only reads that were done have other replies.
    let (_, reply) = client.receive_any(WRITE);
    (directory, server, reply)
}

#[test]
fn a_request_that_waited_while_its_volume_shrank_is_refused_and_the_file_stays_small() {
    const SMALL: u64 = (1 << 20) + 4096;
    for (command, error) in [(WRITE, 28), (WRITE_ZEROES, 28), (TRIM, 28), (READ, 22)] {
        let (directory, _server, reply) = held_up(command, |_, volume| volume.resize(SMALL).unwrap());
        assert_eq!(reply, Reply::Refused(error), "command {command}");
        assert_eq!(std::fs::metadata(directory.path().join("vol1")).unwrap().len(), SMALL);
    }
}

#[test]
fn a_request_that_waited_while_its_volume_went_offline_is_refused() {
    for command in [WRITE, WRITE_ZEROES, TRIM, READ] {
        let (directory, _server, reply) = held_up(command, |server, _| {
            server.exports().remove("vol1").unwrap();
        });
        assert_eq!(reply, Reply::Refused(108), "command {command}");
        let written = std::fs::read(directory.path().join("vol1")).unwrap();
        assert!(written[1 << 20..].iter().all(|byte| *byte == 0), "command {command}");
    }
}

#[test]
fn what_was_acknowledged_while_a_volume_shrank_is_there_after_a_new_start() {
    const SMALL: u64 = 4 << 20;
    let (directory, server) = served(Limits::NONE);
    let volume = server.exports().find("vol1").unwrap();
    let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    let writer = std::thread::spawn(move || {
        let blocks = SIZE_BYTES / (64 << 10);
        let places = (0..4 * blocks).map(|at| (at % blocks) * (64 << 10));
        places.map(|at| (at, client.call(WRITE, 0, at, 64 << 10, &[9; 64 << 10]))).collect::<Vec<_>>()
    });
    volume.resize(SMALL).unwrap();
    let written = writer.join().unwrap();
    drop(server);
    let path = directory.path().join("vol1");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SMALL, "a start has nothing to cut off");
    let data = std::fs::read(&path).unwrap();
    for (at, reply) in written.into_iter().filter(|(at, _)| *at < SMALL) {
        assert_eq!(reply, Reply::Done(Vec::new()));
        assert_eq!(data[at as usize], 9);
    }
}

#[test]
fn a_limit_holds_across_connections_can_change_and_move_and_is_accounted_for() {
    let iops = |iops| Limits { iops: NonZeroU64::new(iops), ..Limits::NONE };
    // Slow enough that all but the first request wait, even if this test is kept from sending for a while.
    let (_directory, server) = served(iops(1));
    let volume = server.exports().find("vol1").unwrap();
    let mut clients: Vec<Client> =
        (0..4).map(|_| Client::connect(server.address().tcp().unwrap(), "vol1", true)).collect();
    for client in &mut clients {
        for _ in 0..5 {
            client.send(READ, 0, 0, 4096, &[]);
        }
    }
    server.change_limits(&volume.limiter(), iops(20));
    // 20 operations, one each 50 ms: the limiter's own account says so, without a look at the clock.
    for client in &mut clients {
        for _ in 0..5 {
            assert_eq!(client.receive(READ), Reply::Done(vec![0; 4096]));
        }
    }
    let account = volume.limiter().account(monotonic_ns());
    assert_eq!((account.operations, account.bytes, account.delayed), (20, 20 * 4096, 19));
    assert!(account.bound_by_iops_ns > 900_000_000, "{account:?}");
    // One an hour; then a change and a move let those go on who wait.
    let hardly =
        |iops| Limits { bytes_per_s: NonZeroU64::new(1), iops: NonZeroU64::new(iops), ..Limits::NONE };
    server.change_limits(&volume.limiter(), hardly(1));
    for client in &mut clients {
        client.send(READ, 0, 0, 4096, &[]);
    }
    std::thread::sleep(Duration::from_millis(50));
    server.change_limits(&volume.limiter(), Limits::NONE);
    for client in &mut clients {
        client.receive(READ);
    }
    server.change_limits(&volume.limiter(), hardly(2));
    for client in &mut clients {
        client.send(READ, 0, 0, 4096, &[]);
    }
    std::thread::sleep(Duration::from_millis(50));
    server.move_volume(&volume, Arc::new(Limiter::new(Limits::NONE, monotonic_ns())), true);
    for client in &mut clients {
        assert_eq!(client.receive(READ), Reply::Done(vec![0; 4096]));
    }
}

#[test]
fn operations_that_wait_for_a_policy_go_on_when_it_is_deleted() {
    let directory = TempDir::new().unwrap();
    let state = State::open(directory.path()).unwrap();
    let hardly = Fixed { max_iops: Some(1), capacity_shared: true, ..Fixed::default() };
    state.create_policy("slow", &Policy::Fixed(hardly)).unwrap();
    for name in ["a", "b"] {
        state.create_volume(name, 1 << 20, Some("slow")).unwrap();
    }
    let hand = State::open(directory.path()).unwrap();
    let mut service = Service::start(state, &Address::loopback(), 2).unwrap();
    let mut clients = ["a", "b"].map(|name| Client::connect(service.address().tcp().unwrap(), name, true));
    for client in &mut clients {
        for _ in 0..50 {
            client.send(READ, 0, 0, 512, &[]);
        }
    }
    let released: Result<(), StateError> = hand.atomically(|| {
        hand.release_volumes("slow")?;
        hand.delete_policy("slow")
    });
    released.unwrap();
    service.follow().unwrap();
    // At 1 a second the client would give up before.
    for client in &mut clients {
        for _ in 0..50 {
            assert_eq!(client.receive(READ), Reply::Done(vec![0; 512]));
        }
    }
}

#[test]
fn a_thousand_idle_connections_and_half_messages_disturb_nobody() {
    let (_directory, server) = served(Limits::NONE);
    let idle: Vec<TcpStream> = (0..1000)
        .map(|index| {
            let mut stream = TcpStream::connect(server.address().tcp().unwrap()).unwrap();
            // Half of a handshake, of different lengths.
            stream.write_all(&b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x0a\0\0"[..index % 22]).unwrap();
            stream
        })
        .collect();
    let mut half = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    half.send(WRITE, 0, 0, 1 << 20, &[1; 5000]);
    let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    assert_eq!(client.call(WRITE, 1, 4096, 4096, &[3; 4096]), Reply::Done(Vec::new()));
    drop(half);
    drop(idle);
    assert_eq!(client.call(READ, 0, 4096, 4096, &[]), Reply::Done(vec![3; 4096]));
}

/// A server with few places, or little time for handshakes.
fn served_within(bounds: Bounds, address: &str) -> (TempDir, Server) {
    let directory = TempDir::new().unwrap();
    let limiter = Arc::new(Limiter::new(Limits::NONE, monotonic_ns()));
    let exports = Arc::new(Exports::default());
    let path = directory.path().join("vol1");
    exports.add(Arc::new(Volume::open("vol1", &path, SIZE_BYTES, limiter).unwrap()));
    let mut server = Server::bind_within(bounds, &address.parse().unwrap(), 2, exports).unwrap();
    server.begin().unwrap();
    (directory, server)
}

#[test]
fn a_client_that_chooses_no_volume_is_left_and_one_that_did_may_be_idle() {
    // Long enough for a client to choose a volume, even on a busy machine.
    let bounds = Bounds { handshake: Duration::from_secs(2), ..Bounds::for_open_files(1 << 20) };
    let (_directory, server) = served_within(bounds, "127.0.0.1:0");
    let mut chosen = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    let mut silent = client::Handshake::begin(server.address().tcp().unwrap());
    let mut half = client::Handshake::begin(server.address().tcp().unwrap());
    // On a slow machine the server may have closed this connection by now, as it should.
    let _ = half.stream.write_all(b"IHAVE");
    assert!(silent.is_closed() && half.is_closed());
    assert_eq!(chosen.call(READ, 0, 0, 512, &[]), Reply::Done(vec![0; 512]));
}

#[test]
fn an_address_that_has_its_share_keeps_no_other_out_and_a_free_place_is_taken_again() {
    let bounds = Bounds { connections: 4, address_connections: 3, ..Bounds::for_open_files(1 << 20) };
    let (_directory, server) = served_within(bounds, "[::]:0");
    let at = |host: &str| format!("{host}:{}", server.address().tcp().unwrap().port()).parse().unwrap();
    let mut idle: Vec<_> = (0..3).map(|_| Client::connect(at("127.0.0.1"), "vol1", true)).collect();
    let mut fourth = TcpStream::connect::<std::net::SocketAddr>(at("127.0.0.1")).unwrap();
    assert_eq!(fourth.read(&mut [0; 1]).unwrap_or(0), 0, "closed without a greeting");
    let mut other = Client::connect(at("[::1]"), "vol1", true);
    assert_eq!(other.call(READ, 0, 0, 512, &[]), Reply::Done(vec![0; 512]));
    // All places are taken now: the next client waits until one is free.
    let mut late = TcpStream::connect::<std::net::SocketAddr>(at("[::1]")).unwrap();
    late.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(late.read(&mut [0; 18]).is_err(), "no answer yet");
    idle.pop();
    late.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    late.read_exact(&mut [0; 18]).unwrap();
    assert_eq!(other.call(READ, 0, 0, 512, &[]), Reply::Done(vec![0; 512]));
}

#[test]
fn silent_clients_make_room_for_each_other_and_for_one_that_chooses() {
    let bounds = Bounds { connections: 8, address_connections: 3, ..Bounds::for_open_files(1 << 20) };
    let (_directory, server) = served_within(bounds, "127.0.0.1:0");
    let address = server.address().tcp().unwrap();
    let mut chosen = Client::connect(address, "vol1", true);
    let mut silent: Vec<_> = (0..20).map(|_| client::Handshake::begin(address)).collect();
    let mut late = Client::connect(address, "vol1", true);
    assert_eq!(late.call(READ, 0, 0, 512, &[]), Reply::Done(vec![0; 512]));
    assert!(silent[..18].iter_mut().all(client::Handshake::is_closed));
    assert_eq!(chosen.call(READ, 0, 0, 512, &[]), Reply::Done(vec![0; 512]));
}

#[test]
fn random_bytes_after_a_good_handshake_end_or_are_answered_but_never_more() {
    let (_directory, server) = served(Limits::NONE);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut random = || random.next();
    for round in 0..300 {
        let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", round % 2 == 0);
        let mut bytes: Vec<u8> = Vec::new();
        for _ in 0..20 {
            // A well-formed header with hostile numbers, and now and then none.
            let magic = if random() % 8 == 0 { random() as u32 } else { 0x2560_9513 };
            bytes.extend_from_slice(&magic.to_be_bytes());
            bytes.extend_from_slice(&((random() % 64) as u16).to_be_bytes());
            bytes.extend_from_slice(&((random() % 9) as u16).to_be_bytes());
            bytes.extend_from_slice(&random().to_be_bytes());
            let offset = if random() % 2 == 0 { random() } else { random() % (2 * SIZE_BYTES) };
            bytes.extend_from_slice(&offset.to_be_bytes());
            bytes.extend_from_slice(&((random() >> (32 + random() % 32)) as u32).to_be_bytes());
        }
        // The server may have closed already.
        let _ = client.stream.write_all(&bytes[..bytes.len() - (random() % 28) as usize]);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let _ = client.stream.read(&mut [0; 4096]);
    }
    let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", true);
    assert!(matches!(client.call(READ, 0, 0, 512, &[]), Reply::Done(data) if data.len() == 512));
    assert_eq!(server.exports().find("vol1").unwrap().size_bytes(), SIZE_BYTES);
}

proptest! {
    #[test]
    fn no_bytes_make_the_handshake_panic_or_grow(input in proptest::collection::vec(any::<u8>(), 0..400), flags in 0..4_u32) {
        let exports = Exports::default();
        let (mut handshake, mut out, mut at) = (Handshake::default(), Vec::new(), 0);
        let input: Vec<u8> = flags.to_be_bytes().into_iter().chain(*b"IHAVEOPT").chain(input).collect();
        while let Step::Used(used) = handshake.step(&input[at..], &exports, &mut out) {
            prop_assert!(used > 0 && at + used <= input.len());
            at += used;
        }
        prop_assert!(out.len() <= input.len() * 2);
    }

    #[test]
    fn a_handshake_does_the_same_whole_and_byte_by_byte(data in proptest::collection::vec(any::<u8>(), 0..40), number in 0..12_u32) {
        let exports = Exports::default();
        let mut input = vec![0, 0, 0, 3];
        input.extend_from_slice(b"IHAVEOPT");
        input.extend_from_slice(&number.to_be_bytes());
        input.extend_from_slice(&(data.len() as u32).to_be_bytes());
        input.extend_from_slice(&data);
        let whole = replies(&exports, &input, input.len());
        for part in 1..4 {
            prop_assert_eq!(&replies(&exports, &input, part), &whole);
        }
    }

    #[test]
    fn any_request_parses_to_what_it_holds_or_not_at_all(bytes: [u8; REQUEST_BYTES]) {
        prop_assert_eq!(Request::parse(&bytes).is_some(), bytes[..4] == [0x25, 0x60, 0x95, 0x13]);
    }
}

/// The replies of a handshake to input that comes in parts.
fn replies(exports: &Exports, input: &[u8], part: usize) -> Vec<u8> {
    let (mut handshake, mut out, mut pending) = (Handshake::default(), Vec::new(), Vec::new());
    for bytes in input.chunks(part) {
        pending.extend_from_slice(bytes);
        while let Step::Used(used) = handshake.step(&pending, exports, &mut out) {
            pending.drain(..used);
        }
    }
    out
}
