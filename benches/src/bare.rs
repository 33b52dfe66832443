//! The bare cost of requests in HTTP/2: an epoll loop that replays the bytes of `plumb`, and reads only the frame headers of answers.
//!
//! It is a separate process, measured as the other tools are. Its CPU time is the kernel's share of a request and the copying of bytes.
//! It decodes no fields and takes no times. It keeps no account of windows, because `plumb` announces more than a run receives.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use plumb_host::epoll::{Epoll, Ready};
use plumb_host::process::{Command, Output, Stream};
use plumb_host::time::monotonic_ns;

use crate::tool::{Tool, built_plumb, split_arguments};
use crate::{Outcome, nginx, say};

const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// END_STREAM of DATA and HEADERS, and ACK of SETTINGS.
const FLAG: u8 = 1;
const SETTINGS_ACK: [u8; HEAD_BYTES] = [0, 0, 0, SETTINGS, FLAG, 0, 0, 0, 0];
/// SETTINGS, and on stream 1 an answer of status 200 without a body.
const FIRST_ANSWER: [u8; 19] = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0, 0, 0, 1, HEADERS, 5, 0, 0, 0, 1, 0x88];
/// A server that is silent for this long will not answer.
const SILENCE: Duration = Duration::from_secs(5);

/// The name in the table.
pub const NAME: &str = "bare loop";

/// The length, the type and the flag of a frame, from its header.
fn head([high, middle, low, kind, flags, ..]: [u8; HEAD_BYTES]) -> (usize, u8, bool) {
    (u32::from_be_bytes([0, high, middle, low]) as usize, kind, flags & FLAG != 0)
}

/// The bytes of a client to the end of its first HEADERS, and its second HEADERS; `None` if those are not whole. All later ones are
/// like the second: they name the table entries that the first made.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut at, mut opening) = (PREFACE_BYTES, None);
    loop {
        let (length, kind, _) = head(bytes.get(at..at + HEAD_BYTES)?.try_into().ok()?);
        let frame = bytes.get(at..at + HEAD_BYTES + length)?;
        at += frame.len();
        match opening {
            _ if kind != HEADERS => {}
            None => opening = bytes.get(..at),
            Some(opening) => return Some((opening, frame)),
        }
    }
}

/// The loop as a tool against the server at `url`, with as many connections and streams as `plumb` has.
pub fn tool(url: &str, (connections, streams): (u32, u32), seconds: u32) -> Outcome<Tool> {
    let file = recorded(url)?;
    let arguments =
        split_arguments(&format!("bare {connections} {streams} {seconds} {} {url}", file.display()));
    Ok(Tool { name: NAME, program: std::env::current_exe()?, arguments, read: requests_and_seconds })
}

/// Has `plumb` send two requests to a socket, and keeps the bytes in a file.
fn recorded(url: &str) -> Outcome<PathBuf> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let here = format!("http://{}/", listener.local_addr()?);
    let arguments =
        ["http", "--quiet", "-c", "1", "-d", "1s", "--protocol", "h2", "--host", authority(url), &here];
    let mut plumb =
        Command::new(built_plumb()?).args(arguments).stdout(Stream::Null).stderr(Stream::Null).spawn()?;
    let (mut socket, _) = listener.accept()?;
    socket.write_all(&FIRST_ANSWER)?;
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while split(&bytes).is_none() {
        socket.read_exact(&mut byte)?;
        bytes.extend(byte);
    }
    plumb.kill()?;
    let file = std::env::temp_dir().join("plumb-bench-h2.bin");
    fs::write(&file, bytes)?;
    Ok(file)
}

fn authority(url: &str) -> &str {
    url.trim_start_matches("http://").trim_end_matches('/')
}

/// `151207 requests in 3.001 s, 92538684 B`: as many as were sent, with a whole page each.
fn requests_and_seconds(output: &Output) -> Option<(f64, f64)> {
    let (requests, rest) = output.stderr.trim().split_once(" requests in ")?;
    let (seconds, bytes) = rest.strip_suffix(" B")?.split_once(" s, ")?;
    let (requests, bytes): (u64, u64) = (requests.parse().ok()?, bytes.parse().ok()?);
    (bytes == requests * nginx::PAGE_BYTES).then_some((requests as f64, seconds.parse().ok()?))
}

/// Runs the loop, and prints what it did.
pub fn run(arguments: &[String]) -> Outcome {
    let [connections, streams, seconds, file, url] = arguments else {
        return Err("the bare loop takes CONNECTIONS STREAMS SECONDS FILE URL".into());
    };
    let recording = fs::read(file)?;
    let (opening, request) = split(&recording).ok_or("the file has no two requests")?;
    let (epoll, begun_ns) = (Epoll::new()?, monotonic_ns());
    let end_ns = begun_ns + seconds.parse::<u64>()? * 1_000_000_000;
    let (mut replays, mut sent) = (Vec::new(), 0);
    for token in 0..connections.parse()? {
        let mut replay = Replay::begin(authority(url), opening)?;
        epoll.watch_reads(&replay.socket, token)?;
        sent += 1 + replay.send(streams.parse::<u64>()? - 1, request)?;
        replays.push(replay);
    }
    let (mut answered, mut events, mut buffer) = (0, Vec::new(), vec![0; 64 << 10]);
    while answered < sent {
        epoll.wait(Some(SILENCE), &mut events)?;
        if events.is_empty() {
            return Err(format!("{} requests had no answer for {SILENCE:?}", sent - answered).into());
        }
        let goes_on = monotonic_ns() < end_ns;
        for event in &events {
            let replay = &mut replays[Ready::from(*event).token as usize];
            let ended = replay.receive(&mut buffer)?;
            answered += ended;
            sent += replay.send(if goes_on { ended } else { 0 }, request)?;
        }
    }
    let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
    let bytes: u64 = replays.iter().map(|replay| replay.body_bytes).sum();
    say(&format!("{answered} requests in {seconds:.3} s, {bytes} B"));
    Ok(())
}

/// A connection.
struct Replay {
    socket: TcpStream,
    next_stream: u32,
    /// Bytes to send after the next read.
    out: Vec<u8>,
    /// The header of the next frame, of which the first `known` bytes have come.
    head: [u8; HEAD_BYTES],
    known: usize,
    /// The part of the last frame's payload that has not come.
    to_skip: usize,
    body_bytes: u64,
}

impl Replay {
    fn begin(authority: &str, opening: &[u8]) -> Outcome<Self> {
        let socket = TcpStream::connect(authority)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let (out, head) = (opening.to_vec(), [0; HEAD_BYTES]);
        Ok(Self { socket, next_stream: 3, out, head, known: 0, to_skip: 0, body_bytes: 0 })
    }

    /// Sends this many requests, and what waits in `out`. So little never fills the socket.
    fn send(&mut self, requests: u64, request: &[u8]) -> Outcome<u64> {
        for _ in 0..requests {
            let at = self.out.len() + 5;
            self.out.extend_from_slice(request);
            self.out[at..at + 4].copy_from_slice(&self.next_stream.to_be_bytes());
            self.next_stream += 2;
        }
        if !self.out.is_empty() {
            self.socket.write_all(&self.out)?;
            self.out.clear();
        }
        Ok(requests)
    }

    /// Reads all that has come, as an edge tells of it once. Returns the number of answers that ended.
    fn receive(&mut self, buffer: &mut [u8]) -> Outcome<u64> {
        let mut ended = 0;
        loop {
            let read = match self.socket.read(buffer) {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(ended),
                Err(error) => return Err(error.into()),
            };
            ended += self.take(&buffer[..read])?;
            if read < buffer.len() {
                return Ok(ended);
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Outcome<u64> {
        let mut ended = 0;
        loop {
            let skipped = self.to_skip.min(bytes.len());
            self.to_skip -= skipped;
            bytes = &bytes[skipped..];
            let (known, come) = (self.known, (HEAD_BYTES - self.known).min(bytes.len()));
            self.head[known..known + come].copy_from_slice(&bytes[..come]);
            bytes = &bytes[come..];
            self.known += come;
            if self.known < HEAD_BYTES {
                return Ok(ended);
            }
            let (length, kind, is_flagged) = head(self.head);
            (self.known, self.to_skip) = (0, length);
            match kind {
                DATA => self.body_bytes += length as u64,
                RST_STREAM | GOAWAY => return Err("the server refused a request".into()),
                SETTINGS if !is_flagged => self.out.extend_from_slice(&SETTINGS_ACK),
                _ => {}
            }
            ended += u64::from(kind <= HEADERS && is_flagged);
        }
    }
}
