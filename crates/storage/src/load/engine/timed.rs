//! A TCP connection with a deadline for everything until then: a server that sends a byte now and then, or facts
//! without end, must not hold a client for longer.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use plumb_host::time::monotonic_ns;

/// A connection before its deadline.
#[derive(Debug)]
pub(super) struct Timed {
    pub stream: TcpStream,
    end_ns: u64,
    patience: Duration,
}

impl Timed {
    /// Connects to one of the host's addresses. The deadline is `patience` from now.
    ///
    /// # Errors
    /// The failure at the last address, or that the time is over.
    pub(super) fn connect(patience: Duration, host_and_port: (&str, u16)) -> io::Result<Self> {
        let end_ns = monotonic_ns().saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in host_and_port.to_socket_addrs()? {
            match left(end_ns)
                .map_or_else(|| Err(late(patience)), |left| TcpStream::connect_timeout(&address, left))
            {
                Ok(stream) => return Ok(Self { stream, end_ns, patience }),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn left(&self) -> io::Result<Duration> {
        left(self.end_ns).ok_or_else(|| late(self.patience))
    }

    /// Names the deadline, where the kernel says only that the call would have to wait.
    fn named<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => late(self.patience),
            _ => error,
        })
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let read = self.stream.read(bytes);
        self.named(read)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        let written = self.stream.write(bytes);
        self.named(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time until the deadline, unless it is over.
fn left(end_ns: u64) -> Option<Duration> {
    let left_ns = end_ns.saturating_sub(monotonic_ns());
    (left_ns > 0).then(|| Duration::from_nanos(left_ns))
}

fn late(patience: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("it did not end within {patience:?}"))
}
