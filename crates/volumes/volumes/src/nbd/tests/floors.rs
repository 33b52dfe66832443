//! Volumes that are below their floor, where operations wait for one another.

use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::super::address::Listener;
use super::super::event_loop::{Common, EventLoop};
use super::super::mailbox::Mailbox;
use super::super::places::{Bounds, Places};
use super::super::wire::Command;
use super::super::work::Work;
use super::super::workers::{Job, Workers};
use super::*;
use crate::limiter::Floor;

fn volume(name: &str, path: &Path) -> Arc<Volume> {
    let limiter = Arc::new(Limiter::new(Limits::NONE, monotonic_ns()));
    Arc::new(Volume::open(name, path, SIZE_BYTES, limiter).unwrap())
}

#[test]
fn reads_that_are_owed_go_first_and_starve_no_others() {
    let directory = TempDir::new().unwrap();
    let volume = volume("vol1", &directory.path().join("vol1"));
    let workers = Workers::default();
    let submit = |name: u8, is_owed| {
        let cookie = [name; 8];
        let request = Request { command: Command::Read, flags: 0, cookie, offset: 0, length: 4096 };
        let work = Work::Fetch { request, done: 0, until: 4096, is_owed };
        let waiter = Waiter { thread: 0, connection: 9 };
        workers.submit(Job { volume: Arc::clone(&volume), work, waiter, cookie });
    };
    (0..3).for_each(|name| submit(name, false));
    (10..30).for_each(|name| submit(name, true));
    let order: Vec<u8> = workers.take_all().iter().map(|job| job.cookie[0]).collect();
    let expected = [
        &[10, 11, 12, 13, 14, 15, 16, 17, 0][..],
        &[18, 19, 20, 21, 22, 23, 24, 25, 1],
        &[26, 27, 28, 29, 2],
    ];
    assert_eq!(order, expected.concat());
}

/// Whether a reply is there.
fn is_answered(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let seen = client.stream.peek(&mut [0; 16]);
    client.stream.set_nonblocking(false).unwrap();
    matches!(seen, Ok(16))
}

#[test]
fn who_is_below_their_floor_has_the_first_turn() {
    const ROUNDS: usize = 40;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("both");
    // Two volumes in one file, so that what is in it says who wrote last.
    let (free, promised) = (volume("free", &path), volume("promised", &path));
    let floor = Floor { iops: NonZeroU64::new(1_000_000), ..Floor::default() };
    promised.limiter().change_floor(floor, monotonic_ns());
    let exports = Arc::new(Exports::default());
    exports.add(Arc::clone(&free));
    exports.add(promised);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let mailboxes: Arc<[Mailbox]> = Arc::from([Mailbox::new().unwrap()]);
    let common = Common {
        listener: Arc::new(Listener::Tcp(listener)),
        places: Arc::new(Places::new(Bounds::for_open_files(1 << 20))),
        mailboxes: Arc::clone(&mailboxes),
        disk: Arc::default(),
        readers: Arc::default(),
        exports,
        has_floors: Arc::new(AtomicBool::new(true)),
    };
    let mut event_loop = EventLoop::new(0, common).unwrap();
    let mut events = Vec::with_capacity(16);
    let mut turn = || {
        mailboxes[0].ring();
        event_loop.turn(&mut events);
    };
    let connecting =
        std::thread::spawn(move || ["free", "promised"].map(|name| Client::connect(address, name, true)));
    while !connecting.is_finished() {
        turn();
    }
    let mut clients = connecting.join().unwrap();
    let mut written_last = [0; 2];
    for _ in 0..ROUNDS {
        for (client, byte) in clients.iter_mut().zip([0, 1]) {
            client.send(WRITE, 0, 0, 512, &[byte; 512]);
        }
        while !clients.iter().all(is_answered) {
            turn();
        }
        for client in &mut clients {
            assert_eq!(client.receive(WRITE), Reply::Done(Vec::new()));
        }
        let mut found = [9; 1];
        free.read_at(&mut found, 0).unwrap();
        written_last[usize::from(found[0])] += 1;
    }
    // The kernel may bring the two to the loop one after the other now and then.
    assert!(written_last[0] > ROUNDS * 3 / 4, "{written_last:?}");
}
