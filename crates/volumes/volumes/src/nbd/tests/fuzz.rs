//! A client that talks nearly as it should, to handshake and transmission without sockets.
//!
//! Each conversation is held twice, in one piece and in small ones. The server has to answer the same, its answers have to be whole, and
//! a request that was read has to be written as the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use plumb_fuzz::Target;

use super::super::buffer::{BUFFER_BYTES, Buffer, Pool};
use super::super::transmission::{Progress, Tools, Transmission};
use super::super::wire::{Command, Head, Refusal};
use super::super::workers::{Workers, perform};
use super::*;

/// Not a multiple of anything, and more than two pieces of a read.
const VOLUME_BYTES: u64 = 300_001;
const COOKIE: [u8; 8] = *b"cookie00";

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&b"IHAVEOPT"[..], &number.to_be_bytes(), &length, data].concat()
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    // Cookies differ, so that replies can be told apart.
    let cookie = (offset ^ u64::from(command) << 40 ^ u64::from(length) << 8).to_be_bytes();
    let (magic, flags, command) = (0x2560_9513_u32.to_be_bytes(), flags.to_be_bytes(), command.to_be_bytes());
    [&magic[..], &flags, &command, &cookie, &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

fn conversations() -> Vec<Vec<u8>> {
    let go = option(7, b"\0\0\0\x04vol1\0\x02\0\x01\0\x03");
    let requests = [
        request(READ, 0, 0, 4096),
        [request(WRITE, 1, 4096, 512), vec![7; 512]].concat(),
        request(READ, 0, 4000, 290_000),
        request(TRIM, 0, 0, 8192),
        request(WRITE_ZEROES, 2, 100, 9000),
        request(FLUSH, 0, 0, 0),
        request(READ, 4, 299_000, 1001),
        request(READ, 0, 299_001, 1001),
        request(2, 0, 0, 0),
    ]
    .concat();
    let flags = 3_u32.to_be_bytes().to_vec();
    vec![
        [flags.clone(), option(8, b""), option(3, b""), go.clone(), requests.clone()].concat(),
        [flags.clone(), option(6, b"\0\0\0\x00\0\0"), go, requests.clone()].concat(),
        [vec![0; 4], option(1, b"vol1"), requests].concat(),
        [flags, option(2, b"")].concat(),
    ]
}

/// A client that checks replies as they come, and does not keep them.
#[derive(Default)]
struct Client {
    /// By cookie: the bytes of the read, or 0. `None` where two requests have the same cookie.
    asked: BTreeMap<[u8; 8], Option<u64>>,
    structured: bool,
    head: Vec<u8>,
    data_left: u64,
    hash: DefaultHasher,
    replies: usize,
}

impl Client {
    fn ask(&mut self, request: &Request) {
        let bytes = if request.command == Command::Read { u64::from(request.length) } else { 0 };
        let known = self.asked.contains_key(&request.cookie);
        self.asked.insert(request.cookie, Some(bytes).filter(|_| !known));
    }

    fn is_ambiguous(&self) -> bool {
        self.asked.values().any(Option::is_none)
    }

    /// Takes a head that is whole; `None` while it is not.
    fn take_head(&mut self) -> Option<()> {
        let head = &self.head;
        let cookie = |at: usize| head.get(at..at + 8).map(|bytes| <[u8; 8]>::try_from(bytes).unwrap());
        let word =
            |at: usize| head.get(at..at + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
        let read_bytes = |cookie: [u8; 8]| *self.asked.get(&cookie).expect("a reply to what was not asked");
        self.data_left = match word(0)? {
            0x6744_6698 => match (word(4)?, read_bytes(cookie(8)?)?) {
                (0, bytes) => {
                    assert!(!self.structured || bytes == 0, "a simple reply to a read");
                    bytes
                }
                _ => 0,
            },
            0x668e_33ef => {
                let bytes = read_bytes(cookie(8)?)?;
                let (kind, length) = (word(4)? & 0xffff, u64::from(word(16)?));
                match kind {
                    0 => assert_eq!(length, 0),
                    1 => assert!((9..=bytes + 8).contains(&length), "{length} bytes of {bytes}"),
                    0x8001 => assert_eq!(length, 6),
                    other => panic!("a chunk of kind {other}"),
                }
                length
            }
            magic => panic!("{magic:#x} is not a reply"),
        };
        let expected = if word(0)? == 0x6744_6698 { 16 } else { 20 };
        (head.len() == expected).then_some(())
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hash.write(bytes);
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_ambiguous() {
            if self.data_left > 0 {
                let part = rest.len().min(usize::try_from(self.data_left).unwrap());
                self.data_left -= part as u64;
                rest = &rest[part..];
                continue;
            }
            self.head.push(rest[0]);
            rest = &rest[1..];
            if self.take_head().is_some() {
                self.replies += 1;
                self.head.clear();
            } else {
                self.data_left = 0;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The replies to an option, one after the other, up to the last byte.
fn check_said(mut said: &[u8]) {
    while let Some((magic, rest)) = said.split_first_chunk::<8>() {
        assert_eq!(u64::from_be_bytes(*magic), 0x0003_e889_0455_65a9);
        let length = u32::from_be_bytes(rest[8..12].try_into().unwrap());
        said = &rest[12 + length as usize..];
    }
    assert_eq!(said, b"");
}

fn encoded(request: &Request) -> [u8; REQUEST_BYTES] {
    let command = match request.command {
        Command::Read => 0,
        Command::Write => 1,
        Command::Disconnect => 2,
        Command::Flush => 3,
        Command::Trim => 4,
        Command::WriteZeroes => 6,
        Command::Unknown(other) => other,
    };
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(request.flags.to_be_bytes());
    bytes.extend(u16::to_be_bytes(command));
    bytes.extend(request.cookie);
    bytes.extend(request.offset.to_be_bytes());
    bytes.extend(request.length.to_be_bytes());
    bytes.try_into().unwrap()
}

/// The server's side of one connection.
struct Side<'e> {
    exports: &'e Exports,
    pool: Pool,
    input: Buffer,
    output: Buffer,
    disk: Workers,
    readers: Workers,
    client: Client,
    /// How the conversation went, for the outcome: what was answered in the handshake, and how each step of the transmission ended.
    steps: BTreeSet<u8>,
}

impl<'e> Side<'e> {
    fn new(exports: &'e Exports) -> Self {
        Self {
            exports,
            pool: Pool::default(),
            input: Buffer::default(),
            output: Buffer::default(),
            disk: Workers::default(),
            readers: Workers::default(),
            client: Client::default(),
            steps: BTreeSet::new(),
        }
    }

    /// Talks with a client that sends `bytes` in pieces of at most `piece` bytes.
    fn talk(&mut self, bytes: &[u8], piece: usize) {
        let mut pieces = bytes.chunks(piece);
        let Some(mut transmission) = self.shake(&mut pieces) else { return };
        loop {
            let before = self.input.data().len();
            let coming = self.input.data().first_chunk::<REQUEST_BYTES>().copied();
            match self.step(&mut transmission) {
                Progress::More => {}
                Progress::NeedInput => match pieces.next() {
                    Some(piece) => self.feed(piece),
                    None => return,
                },
                Progress::NeedRoom => {}
                Progress::Blocked(limiter) => assert!(limiter.is_none(), "nothing is limited"),
                Progress::Close => return,
            }
            if before - self.input.data().len().min(before) == REQUEST_BYTES
                && let Some(request) = coming.as_ref().and_then(Request::parse)
            {
                assert_eq!(Some(encoded(&request)), coming, "what was read is written as it was");
                self.client.ask(&request);
            }
            self.work(&mut transmission);
            while !self.output.is_empty() {
                self.output.send(&mut self.client).unwrap();
            }
        }
    }

    fn feed(&mut self, mut piece: &[u8]) {
        self.input.receive(&mut piece, &mut self.pool).unwrap();
        assert!(piece.is_empty(), "there is room");
    }

    fn shake<'b>(&mut self, pieces: &mut impl Iterator<Item = &'b [u8]>) -> Option<Transmission> {
        let mut handshake = Handshake::default();
        loop {
            let mut said = Vec::new();
            match handshake.step(self.input.data(), self.exports, &mut said) {
                Step::More => {
                    let piece = pieces.next()?;
                    self.feed(piece);
                }
                Step::Used(used) => {
                    self.input.consume(used);
                    check_said(&said);
                }
                Step::Enter { used, volume, structured } => {
                    self.input.consume(used);
                    self.client.structured = structured;
                    return Some(Transmission::new(volume, structured));
                }
                Step::Close => return None,
            }
            self.client.hash.write(&said);
            let kinds = said.chunks(4).skip(3).step_by(5).map(|kind| kind[kind.len() - 1]);
            self.steps.extend(kinds.take(8));
        }
    }

    fn step(&mut self, transmission: &mut Transmission) -> Progress {
        let progress = transmission.step(&mut Tools {
            input: &mut self.input,
            output: &mut self.output,
            pool: &mut self.pool,
            disk: &self.disk,
            readers: &self.readers,
            waiter: Waiter { thread: 0, connection: 0 },
            arrival_ns: 0,
            now_ns: 0,
        });
        self.steps.insert(match &progress {
            Progress::More => 101,
            Progress::NeedInput => 102,
            Progress::NeedRoom => 103,
            Progress::Blocked(_) => 104,
            Progress::Close => 105,
        });
        progress
    }

    /// Does what was left to the workers.
    fn work(&mut self, transmission: &mut Transmission) {
        let mut scratch = Vec::new();
        for (is_read, workers) in [(false, &self.disk), (true, &self.readers)] {
            for job in workers.take_all() {
                let refusal =
                    perform(&job, &mut scratch).err().map(|fault| Refusal::from_fault(&fault, is_read));
                transmission.finish(job.cookie, job.work, refusal);
                self.steps.insert(if is_read { 106 } else { 107 });
            }
        }
    }
}

/// A head that is written says what it should, in the numbers of the protocol.
fn check_heads(bytes: &[u8]) {
    let Some((words, _)) = bytes.split_first_chunk::<20>() else { return };
    let cookie: [u8; 8] = words[..8].try_into().unwrap();
    let offset = u64::from_be_bytes(words[8..16].try_into().unwrap());
    let length = u32::from_be_bytes(words[16..].try_into().unwrap()) >> 1;
    let head = Head::data(cookie, offset, length, words[0] & 1 == 1);
    let expected = [
        &0x668e_33ef_u32.to_be_bytes()[..],
        &[0, words[0] & 1, 0, 1],
        &cookie,
        &(length + 8).to_be_bytes(),
        &offset.to_be_bytes(),
    ];
    assert_eq!(head.as_slice(), expected.concat());
    let expected = [&0x6744_6698_u32.to_be_bytes()[..], &[0, 0, 0, 108], &cookie].concat();
    assert_eq!(Head::simple(cookie, Some(Refusal::Shutdown)).as_slice(), expected);
}

#[test]
fn fuzz_nbd_requests() {
    // In memory, so that a flush costs nothing.
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let limiter = Arc::new(Limiter::new(Limits::NONE, 0));
    let volume = Volume::open("vol1", &directory.path().join("vol1"), VOLUME_BYTES, limiter).unwrap();
    let volume = Arc::new(volume);
    let exports = Exports::default();
    exports.add(Arc::clone(&volume));
    let requests = [READ, WRITE, FLUSH, TRIM, WRITE_ZEROES, 2, 5].map(|it| request(it, 0, 0, 4096));
    let options = [1, 2, 3, 6, 7, 8, 9].map(|number| option(number, b"\0\0\0\x04vol1\0\0"));
    let target =
        Target::new("fuzz_nbd_requests").seeds(conversations()).with_words(requests).with_words(options);
    target.with_words([COOKIE]).run(|bytes| {
        check_heads(bytes);
        let [whole, pieces] = [BUFFER_BYTES / 4, 1 + bytes.len() % 61].map(|piece| {
            volume.discard(0, VOLUME_BYTES).unwrap();
            let mut side = Side::new(&exports);
            side.talk(bytes, piece);
            (side.client.hash.finish(), side.client.replies, side.steps)
        });
        assert_eq!((whole.0, whole.1), (pieces.0, pieces.1), "the pieces change the answers");
        let mut outcome = DefaultHasher::new();
        (whole.1.min(20), whole.2).hash(&mut outcome);
        outcome.finish()
    });
}
