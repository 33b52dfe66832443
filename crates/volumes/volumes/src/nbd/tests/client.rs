//! The client's side of the protocol, as far as the tests need it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that says nothing for so long has hung.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A handshake in progress.
pub struct Handshake {
    pub stream: TcpStream,
}

impl Handshake {
    pub fn begin(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }

    /// Over a Unix socket, too: to reading and writing it is the same.
    pub fn over(mut stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        Self { stream }
    }

    fn ask(&mut self, number: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Every reply to an option, up to the acknowledgement or the error.
    pub fn option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.ask(number, data);
        let mut replies = Vec::new();
        loop {
            assert_eq!(u64::from_be_bytes(take(&mut self.stream)), 0x0003_e889_0455_65a9);
            assert_eq!(u32::from_be_bytes(take(&mut self.stream)), number);
            let kind = u32::from_be_bytes(take(&mut self.stream));
            let mut data = vec![0; u32::from_be_bytes(take(&mut self.stream)) as usize];
            self.stream.read_exact(&mut data).unwrap();
            replies.push((kind, data));
            if kind == 1 || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    /// The size of a volume that was chosen in the oldest way.
    pub fn export_name(&mut self, name: &str) -> Option<u64> {
        self.ask(1, name.as_bytes());
        let mut answer = [0; 10];
        self.stream.read_exact(&mut answer).ok()?;
        answer.first_chunk().map(|size| u64::from_be_bytes(*size))
    }

    /// A server that closes before it has read everything resets the connection.
    pub fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, with the data of a read.
    Done(Vec<u8>),
    /// Refused with this error.
    Refused(u32),
}

/// A request that has no whole reply yet.
struct Expected {
    cookie: u64,
    offset: u64,
    length: usize,
    /// The result, in chunks.
    data: Vec<u8>,
}

/// A connection in its transmission phase.
pub struct Client {
    pub stream: TcpStream,
    pub size_bytes: u64,
    structured: bool,
    cookie: u64,
    expected: Vec<Expected>,
}

impl Client {
    pub fn connect(address: SocketAddr, name: &str, structured: bool) -> Self {
        Self::enter(Handshake::begin(address), name, structured)
    }

    pub fn enter(mut handshake: Handshake, name: &str, structured: bool) -> Self {
        if structured {
            assert_eq!(handshake.option(8, &[]), [(1, Vec::new())]);
        }
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&[0, 0]);
        let told = handshake.option(7, &data);
        let size_bytes = u64::from_be_bytes(*told[0].1[2..].first_chunk().unwrap());
        Self { stream: handshake.stream, size_bytes, structured, cookie: 0, expected: Vec::new() }
    }

    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) {
        self.cookie += 1;
        let (cookie, length_bytes) = (self.cookie, length as usize);
        self.expected.push(Expected { cookie, offset, length: length_bytes, data: Vec::new() });
        let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&self.cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes).unwrap();
    }

    pub fn call(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Reply {
        self.send(command, flags, offset, length, data);
        self.receive(command)
    }

    /// One whole reply, to any of the requests that are out.
    pub fn receive(&mut self, command: u16) -> Reply {
        self.receive_any(command).1
    }

    /// One whole reply, and the number of the request that it answers; the first request is number 1.
    pub fn receive_any(&mut self, command: u16) -> (u64, Reply) {
        loop {
            match u32::from_be_bytes(take(&mut self.stream)) {
                0x6744_6698 => return self.receive_simple(command),
                0x668e_33ef if self.structured => {
                    if let Some(whole) = self.receive_chunk() {
                        return whole;
                    }
                }
                other => panic!("no reply begins with {other:#x}"),
            }
        }
    }

    fn receive_simple(&mut self, command: u16) -> (u64, Reply) {
        assert!(!(self.structured && command == 0), "a read is answered in chunks");
        let error = u32::from_be_bytes(take(&mut self.stream));
        let cookie = u64::from_be_bytes(take(&mut self.stream));
        let request = self.forget(cookie);
        let mut data = vec![0; if command == 0 && error == 0 { request.length } else { 0 }];
        self.stream.read_exact(&mut data).unwrap();
        (cookie, if error == 0 { Reply::Done(data) } else { Reply::Refused(error) })
    }

    /// One chunk; the reply if it is the last of it. Chunks of other replies may come in between.
    fn receive_chunk(&mut self) -> Option<(u64, Reply)> {
        let flags = u16::from_be_bytes(take(&mut self.stream));
        let kind = u16::from_be_bytes(take(&mut self.stream));
        let cookie = u64::from_be_bytes(take(&mut self.stream));
        let mut payload = vec![0; u32::from_be_bytes(take(&mut self.stream)) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        match kind {
            0 => {}
            1 => {
                let request = self.expected.iter_mut().find(|request| request.cookie == cookie).unwrap();
                let offset = request.offset + request.data.len() as u64;
                assert_eq!(payload[..8], offset.to_be_bytes());
                request.data.extend_from_slice(&payload[8..]);
            }
            0x8001 => {
                self.forget(cookie);
                return Some((cookie, Reply::Refused(u32::from_be_bytes(*payload.first_chunk().unwrap()))));
            }
            other => panic!("no chunk is a {other}"),
        }
        (flags & 1 == 1).then(|| (cookie, Reply::Done(self.forget(cookie).data)))
    }

    fn forget(&mut self, cookie: u64) -> Expected {
        let at = self.expected.iter().position(|request| request.cookie == cookie);
        self.expected.swap_remove(at.expect("an answer to a question"))
    }
}

fn take<const N: usize>(stream: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}
