//! A client of the Network Block Device protocol (NetworkBlockDevice/nbd, doc/proto.md): fixed newstyle negotiation,
//! structured replies where the server has them, one connection per job.
//!
//! The client does not trust the server: a reply that fits no request, or is longer than the request asked for, ends the
//! measurement and is never written anywhere.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use plumb_host::signals::unless_asked_to_stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::error::Error;
use super::interface::{Completion, Engine, Request};
use super::timed::Timed;
use crate::nbd_address::NbdAddress;

const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const ACK: u32 = 1;
const INFO: u32 = 3;
const REFUSED: u32 = 1 << 31;
const CHUNK_DONE: u16 = 1;
/// Longer answers to an option, and longer messages, are not for us.
const TEXT_BYTES_MAX: usize = 64 << 10;
const INPUT_BYTES: usize = 256 << 10;
/// The time limit for connecting and negotiating together.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most facts about an export that the server may send. The protocol has five kinds.
const FACTS_MAX: usize = 64;

/// The server's description of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// The size.
    pub bytes: u64,
    flags: u16,
}

impl Export {
    /// Whether it cannot be written.
    #[must_use]
    pub fn is_read_only(self) -> bool {
        self.flags & 2 != 0
    }

    /// Whether several connections see each other's writes.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self.flags & 256 != 0
    }
}

impl NbdAddress {
    fn unanswered(&self, cause: &io::Error) -> Error {
        self.error(match (cause.raw_os_error(), cause.kind()) {
            (Some(libc::EMFILE | libc::ENFILE), _) => format!("no connection can be opened here: {cause}"),
            (None, io::ErrorKind::Interrupted) => "the server has not answered yet".to_owned(),
            // The name does not resolve.
            (None, io::ErrorKind::Other) => format!("failed to {cause}"),
            _ => format!("the server does not answer: {cause}"),
        })
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::Nbd { address: self.text.clone(), message: message.into() }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Nbd {
    address: NbdAddress,
    stream: TcpStream,
    export: Export,
    /// The requests under way, by tag.
    requests: Vec<Option<Request>>,
    /// The first failure of a request that is still under way, by tag.
    failures: Vec<i32>,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    filled: usize,
}

impl Nbd {
    /// Connects and negotiates, unless this process is asked to stop meanwhile.
    pub fn connect(address: &NbdAddress, depth: u32) -> Result<Self, Error> {
        Self::connect_within(PATIENCE, address, depth)
    }

    fn connect_within(patience: Duration, address: &NbdAddress, depth: u32) -> Result<Self, Error> {
        let to = address.clone();
        let reached = unless_asked_to_stop(move || reach(patience, &to));
        let (stream, export) = reached.map_err(|cause| address.unanswered(&cause))??;
        Ok(Self {
            address: address.clone(),
            stream,
            export,
            requests: vec![None; depth as usize],
            failures: vec![0; depth as usize],
            output: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES],
            filled: 0,
        })
    }

    /// The server's description of it.
    #[must_use]
    pub fn export(&self) -> Export {
        self.export
    }

    fn send(&mut self) -> Result<(), Error> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.address.error(format!("sending failed: {cause}"))),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        loop {
            match self.stream.read(room(&mut self.input, self.filled)) {
                // Replies before the end count; the next call comes here again.
                Ok(0) if !completions.is_empty() => return Ok(()),
                Ok(0) => return Err(self.address.error("the server closed the connection")),
                Ok(got) => self.filled += got,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return Err(self.address.error(format!("receiving failed: {cause}"))),
            }
            self.take_whole(completions)?;
        }
    }

    /// Takes every whole reply out of the input.
    fn take_whole(&mut self, completions: &mut Vec<Completion>) -> Result<(), Error> {
        let mut at = 0;
        while let Some(length) = self.take(at, completions)? {
            at += length;
        }
        self.input.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    /// Takes the reply that begins at `at`. Returns its length, `None` while it is not whole.
    fn take(&mut self, at: usize, completions: &mut Vec<Completion>) -> Result<Option<usize>, Error> {
        let bytes = &self.input[at..self.filled];
        let Some(magic) = number(bytes, 0, 4) else { return Ok(None) };
        if magic == u64::from(SIMPLE_MAGIC) {
            self.take_simple(at, completions)
        } else if magic == u64::from(STRUCTURED_MAGIC) {
            self.take_chunk(at, completions)
        } else {
            Err(self.address.error("the server sent something that is not a reply"))
        }
    }

    fn take_simple(&mut self, at: usize, completions: &mut Vec<Completion>) -> Result<Option<usize>, Error> {
        let bytes = &self.input[at..self.filled];
        let (Some(error), Some(cookie)) = (number(bytes, 4, 4), number(bytes, 8, 8)) else { return Ok(None) };
        let (tag, request) = self.request(cookie)?;
        let length = if error == 0 && !request.is_write { request.length as usize } else { 0 };
        let Some(data) = bytes.get(16..16 + length) else { return Ok(None) };
        place(&request, 0, data);
        self.failures[tag] = errno(error);
        self.complete(tag, completions);
        Ok(Some(16 + length))
    }

    fn take_chunk(&mut self, at: usize, completions: &mut Vec<Completion>) -> Result<Option<usize>, Error> {
        let bytes = &self.input[at..self.filled];
        let fields = [(4, 2), (6, 2), (8, 8), (16, 4)].map(|(from, length)| number(bytes, from, length));
        let [Some(flags), Some(kind), Some(cookie), Some(length)] = fields else { return Ok(None) };
        let (tag, request) = self.request(cookie)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let wrong = |what| Err(self.address.error(format!("the server sent {what}")));
        if length > (request.length as usize + 8).max(TEXT_BYTES_MAX) {
            return wrong("a reply that is longer than what was asked for");
        }
        let Some(payload) = bytes.get(20..20 + length) else { return Ok(None) };
        let begin = number(payload, 0, 8).map(|offset| offset.wrapping_sub(request.offset));
        let within =
            |length: u64| begin.filter(|begin| begin.saturating_add(length) <= request.length.into());
        match kind {
            0 => {}
            1 if !request.is_write && length > 8 => match within(length as u64 - 8) {
                Some(begin) => place(&request, begin, &payload[8..]),
                None => return wrong("data that was not asked for"),
            },
            2 if !request.is_write && length == 12 => {
                let hole = number(payload, 8, 4).unwrap_or(0);
                match within(hole) {
                    Some(begin) => clear(&request, begin, hole),
                    None => return wrong("a hole where nothing was asked for"),
                }
            }
            kind if kind & 0x8000 != 0 => {
                self.failures[tag] = errno(number(payload, 0, 4).unwrap_or(5).max(1));
            }
            _ => return wrong("a kind of reply that does not exist"),
        }
        if flags & u64::from(CHUNK_DONE) != 0 {
            self.complete(tag, completions);
        }
        Ok(Some(20 + length))
    }

    fn request(&self, cookie: u64) -> Result<(usize, Request), Error> {
        let tag = usize::try_from(cookie).unwrap_or(usize::MAX);
        let request = self.requests.get(tag).copied().flatten();
        request
            .map(|request| (tag, request))
            .ok_or_else(|| self.address.error("the server answered a request that was not made"))
    }

    fn complete(&mut self, tag: usize, completions: &mut Vec<Completion>) {
        let failure = std::mem::take(&mut self.failures[tag]);
        if let Some(request) = self.requests[tag].take() {
            let whole = i32::try_from(request.length).unwrap_or(i32::MAX);
            let result = if failure == 0 { whole } else { -failure };
            completions.push(Completion { tag: request.tag, result });
        }
    }
}

/// Connects to a server, and negotiates the export.
fn reach(patience: Duration, address: &NbdAddress) -> Result<(TcpStream, Export), Error> {
    let failed = |cause: io::Error| address.unanswered(&cause);
    let mut timed = Timed::connect(patience, address.server()).map_err(failed)?;
    timed.stream.set_nodelay(true).map_err(failed)?;
    let export = negotiate(&mut timed, address)?;
    timed.stream.set_nonblocking(true).map_err(failed)?;
    Ok((timed.stream, export))
}

/// The part of the input that holds nothing yet, after making it larger if there is none.
fn room(input: &mut Vec<u8>, filled: usize) -> &mut [u8] {
    if filled == input.len() {
        input.resize(input.len() * 2, 0);
    }
    &mut input[filled..]
}

/// Puts what was read where it was asked to be; the caller made sure that it fits.
fn place(request: &Request, begin: u64, data: &[u8]) {
    assert!(begin + data.len() as u64 <= request.length.into(), "the caller made sure that it fits");
    // SAFETY: the request's buffer is valid for its length until it is complete, and nobody else uses it until then.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), request.buffer.add(begin as usize), data.len()) };
}

fn clear(request: &Request, begin: u64, length: u64) {
    assert!(begin + length <= request.length.into(), "the caller made sure that it fits");
    // SAFETY: as in `place`.
    unsafe { std::ptr::write_bytes(request.buffer.add(begin as usize), 0, length as usize) };
}

/// An error of the protocol, which numbers them as Linux does.
fn errno(error: u64) -> i32 {
    i32::try_from(error).unwrap_or(libc::EIO)
}

/// A number of `length` bytes, most significant first; `None` where the bytes end before.
fn number(bytes: &[u8], from: usize, length: usize) -> Option<u64> {
    let bytes = bytes.get(from..from.checked_add(length)?)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

impl Engine for Nbd {
    fn queue(&mut self, request: Request) {
        self.requests[request.tag as usize] = Some(request);
        self.output.extend(REQUEST_MAGIC.to_be_bytes());
        self.output.extend([0, 0, 0, u8::from(request.is_write)]);
        self.output.extend(u64::from(request.tag).to_be_bytes());
        self.output.extend(request.offset.to_be_bytes());
        self.output.extend(request.length.to_be_bytes());
        if request.is_write {
            // SAFETY: the buffer is valid for the request's length and nobody writes to it while it is under way.
            let data = unsafe { std::slice::from_raw_parts(request.buffer, request.length as usize) };
            self.output.extend_from_slice(data);
        }
    }

    fn submit(&mut self) -> Result<(), Error> {
        self.send()
    }

    fn wait(&mut self, timeout_ns: Option<u64>, completions: &mut Vec<Completion>) -> Result<(), Error> {
        loop {
            self.send()?;
            self.receive(completions)?;
            if !completions.is_empty() {
                return Ok(());
            }
            let mut events = PollFlags::IN;
            events.set(PollFlags::OUT, !self.output.is_empty());
            let timeout = timeout_ns.map(|ns| Timespec {
                tv_sec: (ns / 1_000_000_000).cast_signed(),
                tv_nsec: (ns % 1_000_000_000).cast_signed(),
            });
            match poll(&mut [PollFd::new(&self.stream, events)], timeout.as_ref()) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return Err(self.address.error(format!("waiting failed: {cause}"))),
            }
        }
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        // A polite end; a server that does not hear it sees the connection close.
        let mut goodbye = [0; 28];
        goodbye[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        goodbye[7] = 2;
        let _ = self.stream.write_all(&goodbye);
    }
}

fn negotiate(stream: &mut (impl Read + Write), address: &NbdAddress) -> Result<Export, Error> {
    let failed = |cause: io::Error| address.error(format!("the negotiation failed: {cause}"));
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).map_err(failed)?;
    let (magic, option, flags) = (&greeting[..8], number(&greeting, 8, 8), number(&greeting, 16, 2));
    let flags = u16::try_from(flags.unwrap_or(0)).unwrap_or(0);
    if magic != b"NBDMAGIC" || option != Some(OPTION_MAGIC) || flags & FIXED_NEWSTYLE == 0 {
        return Err(address.error("it is not an NBD server with fixed newstyle negotiation"));
    }
    let client_flags = u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES));
    stream.write_all(&client_flags.to_be_bytes()).map_err(failed)?;
    ask(stream, STRUCTURED_REPLY, &[]).map_err(failed)?;
    // Without structured replies the simple ones do.
    answer(stream, STRUCTURED_REPLY, address)?;
    let name_length = u32::try_from(address.name.len()).unwrap_or(0);
    let mut go = name_length.to_be_bytes().to_vec();
    go.extend(address.name.as_bytes());
    go.extend([0, 0]);
    ask(stream, GO, &go).map_err(failed)?;
    let mut export = None;
    for _ in 0..FACTS_MAX {
        match answer(stream, GO, address)? {
            (INFO, data) if number(&data, 0, 2) == Some(0) => {
                if let (Some(bytes), Some(flags)) = (number(&data, 2, 8), number(&data, 10, 2)) {
                    export = Some(Export { bytes, flags: u16::try_from(flags).unwrap_or(0) });
                }
            }
            (INFO, _) => {}
            (ACK, _) => {
                return export.ok_or_else(|| address.error("the server did not say how large the export is"));
            }
            (_, text) => {
                let text = String::from_utf8_lossy(&text);
                let text: String = text.chars().filter(|letter| !letter.is_control()).take(200).collect();
                let text = if text.is_empty() { "it gives no reason" } else { &text };
                return Err(
                    address.error(format!("the server refuses the export `{}`: {text}", address.name))
                );
            }
        }
    }
    Err(address.error(format!("the server sent more than {FACTS_MAX} facts about the export")))
}

fn ask(stream: &mut impl Write, option: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)
}

/// The kind of the next answer to an option, and its data.
fn answer(stream: &mut impl Read, option: u32, address: &NbdAddress) -> Result<(u32, Vec<u8>), Error> {
    let failed = |cause: io::Error| address.error(format!("the negotiation failed: {cause}"));
    let mut header = [0; 20];
    stream.read_exact(&mut header).map_err(failed)?;
    let field = |from, length| number(&header, from, length).unwrap_or(0);
    let length = usize::try_from(field(16, 4)).unwrap_or(usize::MAX);
    if field(0, 8) != OPTION_REPLY_MAGIC || field(8, 4) != u64::from(option) || length > TEXT_BYTES_MAX {
        return Err(address.error("the server sent something that is not an answer to an option"));
    }
    let mut data = vec![0; length];
    stream.read_exact(&mut data).map_err(failed)?;
    let kind = u32::try_from(field(12, 4)).unwrap_or(REFUSED);
    Ok((kind, data))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A client of a server that sends these bytes and closes.
    fn client_of(bytes: Vec<u8>) -> Result<Nbd, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = NbdAddress::parse(&format!("nbd://{}/x", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let client = Nbd::connect(&address, 2);
        if client.is_err() {
            server.join().unwrap();
        }
        client
    }

    /// The error of a client with this patience whose server sends these bytes over and over, with a wait after each time.
    fn given_up(patience: Duration, bytes: &'static [u8], wait: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = NbdAddress::parse(&format!("nbd://{}/x", listener.local_addr().unwrap())).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(&greeting()[..38]);
            while !bytes.is_empty() && stream.write_all(bytes).is_ok() {
                plumb_host::time::sleep(wait);
            }
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let error = Nbd::connect_within(patience, &address, 2).unwrap_err();
        server.join().unwrap();
        error.to_string()
    }

    #[test]
    fn the_server_is_blamed_only_for_what_it_did() {
        let address = NbdAddress::parse("nbd://192.0.2.1/x").unwrap();
        let text = |cause: io::Error| {
            let text = address.unanswered(&cause).to_string();
            text.strip_prefix("use nbd://192.0.2.1/x: ").unwrap().to_owned()
        };
        let of_kernel = |errno| text(io::Error::from_raw_os_error(errno));
        assert_eq!(
            of_kernel(libc::ECONNREFUSED),
            "the server does not answer: Connection refused (os error 111)"
        );
        assert_eq!(
            of_kernel(libc::EMFILE),
            "no connection can be opened here: Too many open files (os error 24)"
        );
        assert_eq!(text(io::ErrorKind::Interrupted.into()), "the server has not answered yet");
        assert_eq!(text(io::Error::other("resolve `x`: no")), "failed to resolve `x`: no");
    }

    #[test]
    fn a_server_that_negotiates_without_end_is_given_up() {
        const FACT: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x02\0\x09";
        let error = given_up(Duration::from_secs(60), FACT, Duration::ZERO);
        assert!(error.ends_with("the server sent more than 64 facts about the export"), "{error}");
        // Every byte comes soon after the last one.
        let (patience, soon) = (Duration::from_millis(400), Duration::from_millis(50));
        let error = given_up(patience, &[0], soon);
        assert!(error.ends_with("the negotiation failed: it did not end within 400ms"), "{error}");
        let error = given_up(patience, &[], soon);
        assert!(error.ends_with("the negotiation failed: it did not end within 400ms"), "{error}");
    }

    fn greeting() -> Vec<u8> {
        let option = |option: u32, kind: u32, data: &[u8]| {
            let mut bytes = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
            bytes.extend(option.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend((data.len() as u32).to_be_bytes());
            bytes.extend(data);
            bytes
        };
        let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        bytes.extend(option(STRUCTURED_REPLY, ACK, &[]));
        bytes.extend(option(GO, INFO, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]));
        bytes.extend(option(GO, ACK, &[]));
        bytes
    }

    fn chunk(kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = STRUCTURED_MAGIC.to_be_bytes().to_vec();
        bytes.extend(1_u16.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    fn data_at(offset: u64, data: &[u8]) -> Vec<u8> {
        [&offset.to_be_bytes(), data].concat()
    }

    /// Asks for 8 bytes at 512 of a server that has this answer ready.
    fn read_of(answer: &[u8]) -> (Result<Vec<Completion>, Error>, [u8; 24]) {
        let mut client = client_of([greeting(), answer.to_vec()].concat()).unwrap();
        assert_eq!(client.export().bytes, 1 << 16);
        let (mut memory, mut completions) = ([9; 24], Vec::new());
        let buffer = memory[8..16].as_mut_ptr();
        client.queue(Request { tag: 1, is_write: false, offset: 512, buffer, length: 8 });
        let waited = client.wait(None, &mut completions);
        (waited.map(|()| completions), memory)
    }

    #[test]
    fn data_holes_and_failures_reach_the_one_who_asked() {
        let expected = |result| vec![Completion { tag: 1, result }];
        let (got, memory) = read_of(&chunk(1, 1, &data_at(512, b"abcdefgh")));
        assert_eq!((got.unwrap(), &memory[8..16]), (expected(8), &b"abcdefgh"[..]));
        let (got, memory) = read_of(&chunk(2, 1, &data_at(512, &[0, 0, 0, 8])));
        assert_eq!((got.unwrap(), memory[8..16].to_vec()), (expected(8), vec![0; 8]));
        let (got, _) = read_of(&chunk(0x8001, 1, &[0, 0, 0, 28, 0, 0]));
        assert_eq!(got.unwrap(), expected(-28));
    }

    #[test]
    fn what_was_not_asked_for_is_refused_and_written_nowhere() {
        for (answer, message) in [
            (chunk(1, 1, &data_at(511, b"abcdefgh")), "data that was not asked for"),
            (chunk(1, 1, &data_at(513, b"abcdefgh")), "data that was not asked for"),
            (chunk(1, 1, &data_at(512, &[1; 9])), "data that was not asked for"),
            (chunk(2, 1, &data_at(512, &[255; 4])), "a hole where nothing was asked for"),
            (chunk(1, 0, &data_at(512, b"abcdefgh")), "that was not made"),
            (chunk(1, 77, &data_at(512, b"abcdefgh")), "that was not made"),
            (chunk(7, 1, &[]), "that does not exist"),
            (b"HTTP/1.1 400".to_vec(), "something that is not a reply"),
            (chunk(1, 1, &[0; 70_000]), "longer than what was asked for"),
            (Vec::new(), "closed the connection"),
        ] {
            let (got, memory) = read_of(&answer);
            let error = got.unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
            assert_eq!(memory, [9; 24], "{message}");
        }
    }

    #[test]
    fn what_is_no_server_is_said_to_be_none() {
        let message = |bytes: &[u8]| client_of(bytes.to_vec()).unwrap_err().to_string();
        assert!(message(b"SSH-2.0-OpenSSH_9.2p1\r\n").contains("it is not an NBD server"));
        assert!(message(b"NBD").contains("the negotiation failed"));
    }
}
