//! What volumes hold when their server is killed with kill -9 at random moments, again and again, under writes at depth 64;
//! and what hostile clients can do to it.
//!
//! `PLUMB_INTEGRITY_SECONDS` says how long the kills go on; short by default.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Random, code, plumb, run, stderr, wait_until};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
const DEPTH: usize = 64;
const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

fn time_to_kill() -> Duration {
    let seconds = std::env::var("PLUMB_INTEGRITY_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// A server that always listens on the same port; killed when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(state: &Path, port: u16) -> Self {
        let mut command = plumb();
        command
            .args(["volumes", "serve", "--quiet", "--listen", &format!("127.0.0.1:{port}"), "--state"])
            .arg(state);
        let child = command.spawn().unwrap();
        let server = Self { child, port };
        wait_until("the server to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        server
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn volume(state: &Path, size: &str) {
    let made = run(&["volumes", "--state", state.to_str().unwrap(), "create", "vol1", "--size", size]);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
}

/// A connection in the transmission phase, without structured replies.
fn connect(port: u16) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    // No zeroes after the answer; EXPORT_NAME.
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04vol1")?;
    stream.read_exact(&mut [0; 10])?;
    Ok(stream)
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(0_u16.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The cookie of the next reply, which must be a good one.
fn reply(stream: &mut TcpStream) -> io::Result<u64> {
    let mut head = [0; 16];
    stream.read_exact(&mut head)?;
    assert_eq!((&head[..4], &head[4..8]), (&0x6744_6698_u32.to_be_bytes()[..], &[0; 4][..]));
    Ok(u64::from_be_bytes(head[8..].try_into().unwrap()))
}

/// A block that says where it belongs and when it was written, in every 16 bytes.
fn pattern(block: u64, generation: u64) -> Vec<u8> {
    [block.to_be_bytes(), generation.to_be_bytes()].concat().repeat(BLOCK / 16)
}

/// The writes to a volume, and how far they got.
#[derive(Default)]
struct Ledger {
    generation: u64,
    /// Everything that was ever sent, by block.
    sent: BTreeMap<u64, BTreeSet<u64>>,
    /// The last generation that was answered.
    answered: BTreeMap<u64, u64>,
    /// The last generation that was answered before a flush that was answered, too.
    flushed: BTreeMap<u64, u64>,
    flushes: u64,
}

impl Ledger {
    /// Writes batches of 64 and flushes now and then, until the connection breaks.
    fn write(&mut self, stream: &mut TcpStream, random: &mut Random) -> io::Result<()> {
        loop {
            let mut under_way = BTreeMap::new();
            let mut bytes = Vec::new();
            while under_way.len() < DEPTH {
                let block = random.below(BLOCKS);
                if under_way.contains_key(&block) {
                    continue;
                }
                self.generation += 1;
                under_way.insert(block, self.generation);
                self.sent.entry(block).or_default().insert(self.generation);
                bytes.extend(request(WRITE, block, block * BLOCK as u64, BLOCK as u32));
                bytes.extend(pattern(block, self.generation));
            }
            stream.write_all(&bytes)?;
            for _ in 0..DEPTH {
                let block = reply(stream)?;
                self.answered.insert(block, under_way[&block]);
            }
            if self.flushes == 0 || random.below(4) == 0 {
                stream.write_all(&request(FLUSH, u64::MAX, 0, 0))?;
                reply(stream)?;
                self.flushed.clone_from(&self.answered);
                self.flushes += 1;
            }
        }
    }

    /// Reads every block that was written.
    fn check(&mut self, port: u16) {
        let mut stream = connect(port).unwrap();
        for (block, sent) in &self.sent {
            stream.write_all(&request(READ, *block, block * BLOCK as u64, BLOCK as u32)).unwrap();
            reply(&mut stream).unwrap();
            let mut bytes = vec![0; BLOCK];
            stream.read_exact(&mut bytes).unwrap();
            let generation = u64::from_be_bytes(bytes[8..16].try_into().unwrap());
            let flushed = self.flushed.get(block).copied().unwrap_or(0);
            assert!(generation >= flushed, "block {block}: {flushed} was flushed, and {generation} is there");
            if generation == 0 {
                assert_eq!(bytes, vec![0; BLOCK], "block {block} was never written and is not empty");
                continue;
            }
            assert!(sent.contains(&generation), "block {block}: nobody wrote {generation}");
            assert!(bytes == pattern(*block, generation), "block {block} is torn");
            self.answered.insert(*block, generation);
        }
    }
}

#[test]
fn nothing_that_was_flushed_is_lost_however_often_the_server_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    volume(directory.path(), "16MiB");
    let port = free_port();
    let mut random = Random(u64::from(std::process::id()) | 1 << 40);
    let (begun, end) = (Instant::now(), time_to_kill());
    let (mut ledger, mut kills) = (Ledger::default(), 0);
    while begun.elapsed() < end || kills < 3 || ledger.flushes == 0 {
        let mut server = Server::start(directory.path(), port);
        ledger.check(port);
        let mut stream = connect(port).unwrap();
        let wait = Duration::from_millis(5 + random.below(400));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(wait);
                server.kill();
            });
            let broken = ledger.write(&mut stream, &mut random);
            assert!(broken.is_err());
        });
        kills += 1;
    }
    let _server = Server::start(directory.path(), port);
    ledger.check(port);
    println!("{kills} kills, {} writes, {} flushes", ledger.generation, ledger.flushes);
}

/// qemu-nbd between fio and the server: it connects again and sends again what was under way, so that fio sees no break. It
/// waits longer than the breaks of a pass take together.
fn proxy(port: u16) -> Option<(Child, u16)> {
    let own = free_port();
    let image = format!(
        "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port={port},export=vol1,reconnect-delay=600"
    );
    let child = Command::new("qemu-nbd")
        .args([
            "--persistent",
            "--shared=8",
            "--bind=127.0.0.1",
            &format!("--port={own}"),
            "--image-opts",
            &image,
        ])
        .spawn()
        .ok()?;
    wait_until("qemu-nbd to listen", || TcpStream::connect(("127.0.0.1", own)).is_ok());
    Some((child, own))
}

#[test]
fn fio_finds_every_block_right_while_the_server_is_killed_and_started_again() {
    let directory = tempfile::tempdir().unwrap();
    volume(directory.path(), "16MiB");
    let port = free_port();
    let mut server = Server::start(directory.path(), port);
    let Some((mut proxy, proxy_port)) = proxy(server.port) else {
        crate::common::skip("qemu-nbd is not installed");
        return;
    };
    let is_over = AtomicBool::new(false);
    let (begun, end) = (Instant::now(), time_to_kill());
    let mut passes = 0;
    let mut outcome = Ok(());
    let kills = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut random = Random(u64::from(std::process::id()) | 1 << 41);
            let mut kills = 0;
            // Endless kills would keep a pass of fio from ending on a busy machine.
            while !is_over.load(Ordering::Acquire) && (kills < 10 || begun.elapsed() < end) {
                std::thread::sleep(Duration::from_millis(100 + random.below(900)));
                server.kill();
                server = Server::start(directory.path(), port);
                kills += 1;
            }
            kills
        });
        while outcome.is_ok() && (passes == 0 || begun.elapsed() < end) {
            outcome = fio(directory.path(), proxy_port, passes);
            passes += 1;
        }
        is_over.store(true, Ordering::Release);
        killer.join().unwrap()
    });
    let _ = proxy.kill();
    let _ = proxy.wait();
    outcome.unwrap_or_else(|said| panic!("after {passes} passes and {kills} kills: {said}"));
    println!("{passes} passes of fio, {kills} kills");
}

/// One pass of random writes over the volume at depth 64, flushed now and then, and the check of every block.
fn fio(directory: &Path, port: u16, pass: u32) -> Result<(), String> {
    let arguments = format!(
        "--name=verify --ioengine=nbd --uri=nbd://127.0.0.1:{port}/ --rw=randwrite --bs=4k --iodepth=64 --size=16m \
         --fsync=256 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed={} --output-format=terse",
        pass + 1
    );
    let ran = Command::new("fio")
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("fio: {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if ran.status.success() && !said.contains("verify:") {
        Ok(())
    } else {
        Err(format!("{}: {said}", ran.status))
    }
}

/// The most memory that a process ever had, in MiB.
fn memory_mib_max(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn clients_that_announce_much_and_idle_ones_cost_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    volume(directory.path(), "64MiB");
    let server = Server::start(directory.path(), free_port());
    // Fewer than one address may have.
    let idle: Vec<TcpStream> =
        (0..800).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    // Each announces 32 MiB and sends 300 KB of it; then one that asks for 32 MiB often and reads nothing.
    let mut half: Vec<TcpStream> = (0..100).map(|_| connect(server.port).unwrap()).collect();
    for stream in &mut half {
        stream.write_all(&request(WRITE, 1, 0, 32 << 20)).unwrap();
        stream.write_all(&vec![7; 300_000]).unwrap();
    }
    let mut greedy = connect(server.port).unwrap();
    for cookie in 0..64 {
        greedy.write_all(&request(READ, cookie, 0, 32 << 20)).unwrap();
    }
    // Past the end: refused, and nothing of a neighbour's bytes.
    let mut client = connect(server.port).unwrap();
    client.write_all(&request(READ, 9, (64 << 20) - 1, 2)).unwrap();
    let mut head = [0; 16];
    client.read_exact(&mut head).unwrap();
    assert_ne!(head[4..8], [0; 4]);
    client.write_all(&request(READ, 10, 4096, 4096)).unwrap();
    assert_eq!(reply(&mut client).unwrap(), 10);
    let found = memory_mib_max(server.child.id());
    // Two buffers of 256 KiB for each of the 102 that are under way, and 64 MiB for all else.
    assert!(found <= 51 + 64, "{found} MiB");
    drop((idle, half, greedy));
}
