//! Reads of what is not in memory.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise};

use super::super::buffer::{Buffer, Pool};
use super::super::transmission::{PIECE_BYTES, Progress, Tools, Transmission};
use super::super::wire::Refusal;
use super::super::work::Work;
use super::super::workers::{DURABLE, Job, Workers};
use super::*;
use crate::limiter::Floor;

const BLOCK_BYTES: u32 = 4096;
/// The distance between blocks that are looked at on their own, so that none of them follows another.
const APART: u64 = 300 << 10;

/// A file with a pattern.
fn file() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("vol1");
    std::fs::write(&path, pattern(SIZE_BYTES as usize, 7)).unwrap();
    (directory, path)
}

/// Only what is on disk already is dropped.
fn drop_cache(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

fn volume(path: &Path) -> Arc<Volume> {
    let limiter = Arc::new(Limiter::new(Limits::NONE, monotonic_ns()));
    Arc::new(Volume::open("vol1", path, SIZE_BYTES, limiter).unwrap())
}

fn expected(offset: u64, length: u32) -> Vec<u8> {
    pattern_at(offset as usize, length as usize, 7)
}

/// A transmission whose readers never come, as on a disk that does not answer.
struct Bench {
    transmission: Transmission,
    input: Buffer,
    output: Buffer,
    pool: Pool,
    disk: Workers,
    readers: Workers,
}

/// The connection of a bench.
const WAITER: Waiter = Waiter { thread: 0, connection: 9 };

impl Bench {
    fn new(volume: Arc<Volume>, structured: bool) -> Self {
        Self {
            transmission: Transmission::new(volume, structured),
            input: Buffer::default(),
            output: Buffer::default(),
            pool: Pool::default(),
            disk: Workers::default(),
            readers: Workers::default(),
        }
    }

    /// Asks for a read.
    fn ask(&mut self, cookie: u64, offset: u64, length: u32) {
        self.request(READ, cookie, offset, length);
    }

    fn request(&mut self, command: u16, cookie: u64, offset: u64, length: u32) {
        let request = [
            &0x2560_9513_u32.to_be_bytes()[..],
            &[0; 2],
            &command.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
        ];
        self.input.push(&request.concat(), &mut self.pool);
    }

    /// Steps until it needs something but room, and takes what it said.
    fn run(&mut self) -> (Progress, Vec<u8>) {
        let mut tools = Tools {
            input: &mut self.input,
            output: &mut self.output,
            pool: &mut self.pool,
            disk: &self.disk,
            readers: &self.readers,
            waiter: WAITER,
            arrival_ns: 0,
            now_ns: 0,
        };
        let mut said = Vec::new();
        loop {
            let progress = self.transmission.step(&mut tools);
            said.extend_from_slice(tools.output.data());
            tools.output.consume(tools.output.data().len());
            if !matches!(progress, Progress::More | Progress::NeedRoom) {
                return (progress, said);
            }
        }
    }

    fn come_back(&mut self, job: &Job, refusal: Option<Refusal>) {
        self.transmission.finish(job.cookie, job.work, refusal);
    }
}

fn simple_reply(cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let head = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat();
    [head, expected(offset, length)].concat()
}

/// Brings a range into memory and nothing around it.
fn warm(path: &Path, offset: u64, length: u32) {
    let file = File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    file.read_exact_at(&mut vec![0; length as usize], offset).unwrap();
}

/// Lets `attempt` look at a file of which nothing is in memory, until it met a read that had to wait. A fast disk may be
/// faster than the question, and a file system that cannot tell (tmpfs) never makes one wait.
fn until_cold(test: &str, path: &Path, mut attempt: impl FnMut(&Arc<Volume>) -> bool) {
    let is_met = (0..50).any(|_| {
        drop_cache(path);
        attempt(&volume(path))
    });
    if !is_met {
        let reason = "hardware: no read from the temporary directory's disk has to be waited for";
        let _ = writeln!(std::io::stderr(), "test skipped: nbd::tests::cold::{test}: {reason}");
    }
}

#[test]
fn a_read_that_waits_for_the_disk_holds_up_no_other_of_its_connection() {
    const TEST: &str = "a_read_that_waits_for_the_disk_holds_up_no_other_of_its_connection";
    let (_directory, path) = file();
    let reply = |cookie: u64| simple_reply(cookie, cookie * APART, BLOCK_BYTES);
    until_cold(TEST, &path, |volume| {
        warm(&path, 20 * APART, BLOCK_BYTES);
        let mut bench = Bench::new(Arc::clone(volume), false);
        for cookie in [8, 20, 30] {
            bench.ask(cookie, cookie * APART, BLOCK_BYTES);
        }
        let (progress, said) = bench.run();
        assert!(matches!(progress, Progress::NeedInput), "{progress:?}");
        let waiting = bench.readers.take_all();
        if waiting.len() < 2 {
            return false;
        }
        assert!(said == reply(20), "the one that is in memory is answered, alone");
        // Reads are answered in the order in which they come back.
        bench.come_back(&waiting[1], None);
        bench.come_back(&waiting[0], Some(Refusal::Io));
        let refused = [&0x6744_6698_u32.to_be_bytes()[..], &[0, 0, 0, 5], &8_u64.to_be_bytes()].concat();
        assert!(bench.run().1 == [reply(30), refused].concat());
        true
    });
}

#[test]
fn readers_have_a_bounded_number_of_requests_of_one_connection() {
    const TEST: &str = "readers_have_a_bounded_number_of_requests_of_one_connection";
    let (_directory, path) = file();
    until_cold(TEST, &path, |volume| {
        let mut bench = Bench::new(Arc::clone(volume), true);
        for cookie in 0..200 {
            bench.ask(cookie, cookie * APART, BLOCK_BYTES);
        }
        let (progress, _) = bench.run();
        let waiting = bench.readers.take_all();
        assert!(waiting.len() <= 64, "{}", waiting.len());
        if waiting.len() < 64 {
            return false;
        }
        assert!(matches!(progress, Progress::Blocked(None)), "{progress:?}");
        // For each that comes back another one may go.
        for job in &waiting[..3] {
            bench.come_back(job, None);
        }
        bench.run();
        assert!(bench.readers.take_all().len() <= 3);
        true
    });
}

#[test]
fn what_a_floor_owes_is_fetched_before_what_others_wait_for() {
    const TEST: &str = "what_a_floor_owes_is_fetched_before_what_others_wait_for";
    let (_directory, path) = file();
    until_cold(TEST, &path, |free| {
        let promised = volume(&path);
        // Two in a tenth of a second and the one at its end.
        promised.limiter().change_floor(Floor { iops: NonZeroU64::new(20), ..Floor::default() }, 0);
        let mut other = Bench::new(Arc::clone(free), true);
        (0..20).for_each(|cookie| other.ask(cookie, cookie * APART, BLOCK_BYTES));
        other.run();
        let mut bench = Bench::new(promised, true);
        bench.readers = std::mem::take(&mut other.readers);
        (100..110).for_each(|cookie| bench.ask(cookie, cookie * APART, BLOCK_BYTES));
        bench.run();
        let order: Vec<u64> =
            bench.readers.take_all().iter().map(|job| u64::from_be_bytes(job.cookie)).collect();
        let expected: Vec<u64> = (100..103).chain(0..20).chain(103..110).collect();
        // A disk that answered some at once says nothing of the order.
        if order.len() < expected.len() {
            return false;
        }
        assert_eq!(order, expected);
        true
    });
}

#[test]
fn a_large_read_is_fetched_a_part_at_a_time() {
    const TEST: &str = "a_large_read_is_fetched_a_part_at_a_time";
    const LENGTH: u32 = 32 << 20;
    let (_directory, path) = file();
    until_cold(TEST, &path, |volume| {
        let mut bench = Bench::new(Arc::clone(volume), true);
        bench.ask(1, 0, LENGTH);
        let mut said = bench.run().1;
        let (mut parts, mut before) = (0, None);
        while let [job] = &bench.readers.take_all()[..] {
            let Work::Fetch { done, until, .. } = job.work else { panic!("{job:?}") };
            assert!((1..=1 << 20).contains(&(until - done)) && Some(done) > before, "{job:?}");
            (parts, before) = (parts + 1, Some(done));
            bench.come_back(job, None);
            said.extend_from_slice(&bench.run().1);
        }
        assert_eq!(said.len(), 256 * (28 + PIECE_BYTES as usize), "each piece once");
        parts > 0
    });
}

#[test]
fn a_reply_that_began_is_not_broken_by_others() {
    const TEST: &str = "a_reply_that_began_is_not_broken_by_others";
    const LENGTH: u32 = 4 * PIECE_BYTES;
    // Not at the start of the file, from where the kernel reads far ahead.
    const START: u64 = 32 << 20;
    let (piece, other) = (PIECE_BYTES as usize, BLOCK_BYTES as usize);
    let (_directory, path) = file();
    for structured in [false, true] {
        until_cold(TEST, &path, |volume| {
            warm(&path, START, PIECE_BYTES);
            warm(&path, APART, BLOCK_BYTES);
            let mut bench = Bench::new(Arc::clone(volume), structured);
            bench.ask(1, START, LENGTH);
            bench.ask(2, APART, BLOCK_BYTES);
            let (progress, mut said) = bench.run();
            let waiting = bench.readers.take_all();
            let [job] = &waiting[..] else { return false };
            let Work::Fetch { done, .. } = job.work else { panic!("{job:?}") };
            let pieces = (done / PIECE_BYTES) as usize;
            assert!(pieces >= 1, "the first one is in memory");
            // Chunks of others may stand between those of one reply; a simple reply has to go on.
            let expected = if structured { pieces * (28 + piece) + 28 + other } else { 16 + pieces * piece };
            assert_eq!(said.len(), expected);
            assert_eq!(matches!(progress, Progress::Blocked(None)), !structured, "{progress:?}");
            bench.come_back(job, None);
            said.extend_from_slice(&bench.run().1);
            if structured {
                assert_eq!(said.len(), 4 * (28 + piece) + 28 + other);
                assert_eq!(said[said.len() - piece - 28 + 4..][..2], [0, 1], "the last chunk says so");
            } else {
                let whole = [simple_reply(1, START, LENGTH), simple_reply(2, APART, BLOCK_BYTES)].concat();
                assert!(said == whole, "one reply after the other");
            }
            true
        });
    }
}

#[test]
fn nothing_waits_for_a_connection_that_has_gone() {
    let (_directory, path) = file();
    let mut bench = Bench::new(volume(&path), true);
    for cookie in 0..3 {
        bench.request(FLUSH, cookie, 0, 0);
    }
    bench.run();
    let mut jobs = bench.disk.take_all();
    assert_eq!(jobs.len(), 3);
    let other = Waiter { connection: WAITER.connection + 1, ..WAITER };
    jobs[1].waiter = other;
    for job in jobs {
        bench.disk.submit(job);
    }
    bench.transmission.abandon(WAITER, [&bench.disk, &bench.readers]);
    let left: Vec<Waiter> = bench.disk.take_all().iter().map(|job| job.waiter).collect();
    assert_eq!(left, [other], "what others asked for stays");
}

#[test]
fn threads_that_are_to_end_begin_nothing_more() {
    let (_directory, path) = file();
    let mut bench = Bench::new(volume(&path), true);
    bench.request(FLUSH, 1, 0, 0);
    bench.run();
    let disk = Arc::new(bench.disk);
    disk.close();
    let mut threads = Vec::new();
    disk.start(DURABLE, &Arc::from([]), &mut threads).unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(disk.take_all().len(), 1);
}

#[test]
fn many_connections_read_the_right_data_from_a_file_that_leaves_memory_all_the_time() {
    const CONNECTIONS: u64 = 8;
    const ROUNDS: u64 = 8;
    const DEPTH: u64 = 32;
    let (_directory, path) = file();
    drop_cache(&path);
    let volume = volume(&path);
    // Far above what can be reached, so that the limiter keeps its account.
    let many = Limits { iops: NonZeroU64::new(1 << 40), ..Limits::NONE };
    volume.limiter().change(many, monotonic_ns(), &mut Vec::new());
    let exports = Arc::new(Exports::default());
    exports.add(Arc::clone(&volume));
    let server = start(exports);
    let read_bytes = AtomicU64::new(0);
    let read_at_random = |seed: u64| {
        let mut client = Client::connect(server.address().tcp().unwrap(), "vol1", seed.is_multiple_of(2));
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        for _ in 0..ROUNDS {
            let wanted: Vec<(u64, u32)> = (0..DEPTH)
                .map(|_| {
                    let length = if random.next().is_multiple_of(8) { 300_000 } else { BLOCK_BYTES };
                    (random.next() % (SIZE_BYTES - u64::from(length)), length)
                })
                .collect();
            for &(offset, length) in &wanted {
                client.send(READ, 0, offset, length, &[]);
                read_bytes.fetch_add(length.into(), Ordering::Relaxed);
            }
            for _ in 0..DEPTH {
                let (cookie, reply) = client.receive_any(READ);
                let (offset, length) = wanted[((cookie - 1) % DEPTH) as usize];
                assert!(reply == Reply::Done(expected(offset, length)), "{length} at {offset}");
            }
            drop_cache(&path);
        }
    };
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            scope.spawn(move || read_at_random(connection));
        }
    });
    let account = volume.limiter().account(monotonic_ns());
    let all = (CONNECTIONS * ROUNDS * DEPTH, read_bytes.into_inner());
    assert_eq!((account.operations, account.bytes), all, "each read is charged once");
}
