//! A TCP connection with one deadline for connecting and negotiating. A timeout per call would let a server that
//! sends a byte now and then hold the client for ever.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use plumb_host::address::resolve;
use plumb_host::time::monotonic_ns;

/// A connection whose reads and writes fail after its deadline.
#[derive(Debug)]
pub(super) struct Timed {
    pub stream: TcpStream,
    deadline: Deadline,
}

#[derive(Debug, Clone, Copy)]
struct Deadline {
    end_ns: u64,
    patience: Duration,
}

impl Timed {
    /// Connects to one of the host's addresses. The deadline is `patience` from now.
    ///
    /// # Errors
    /// When the name has no address, no address accepts the connection, or the time is over.
    pub(super) fn connect(patience: Duration, (host, port): (&str, u16)) -> io::Result<Self> {
        let deadline = Deadline::after(patience);
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in resolve(host, port).map_err(io::Error::other)? {
            match deadline.left().and_then(|left| TcpStream::connect_timeout(&address, left)) {
                Ok(stream) => return Ok(Self { stream, deadline }),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

impl Deadline {
    fn after(patience: Duration) -> Self {
        let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        Self { end_ns: monotonic_ns().saturating_add(patience_ns), patience }
    }

    /// The time until the deadline; an error once it is over.
    fn left(self) -> io::Result<Duration> {
        match self.end_ns.saturating_sub(monotonic_ns()) {
            0 => Err(self.missed()),
            left_ns => Ok(Duration::from_nanos(left_ns)),
        }
    }

    /// Names the deadline, because the kernel says only that the call would have to wait.
    fn named<T>(self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.missed(),
            _ => error,
        })
    }

    fn missed(self) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, format!("it did not end within {:?}", self.patience))
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.deadline.named(self.stream.read(bytes))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.deadline.named(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
