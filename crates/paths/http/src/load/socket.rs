//! A non-blocking TCP connection that knows how much it carried.
//!
//! It also keeps what edge-triggered readiness needs: after a read that did not fill its buffer there is nothing
//! left, and the next bytes will make a new event (epoll(7), "Questions and answers", 9). So no read is spent on
//! finding that the socket is empty. The end of the stream is the exception: it makes an event only once, so that
//! after a hang-up reading goes on until the end is seen.

use std::cell::Cell;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, ipproto, sockopt,
};

use super::errors::Failure;

/// Bytes on the wire of all connections of a thread, TLS records and all.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes handed to the kernel.
    pub sent: Cell<u64>,
    /// Bytes taken from the kernel.
    pub received: Cell<u64>,
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing now; an event will tell.
    Nothing,
    /// The stream ended in order.
    End,
    /// The connection ended without the end that the layer above prescribes.
    Cut,
}

/// The socket of a connection.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    traffic: Rc<Traffic>,
    /// Whether nothing is left to read.
    is_drained: bool,
    /// The last read did not fill its buffer.
    was_short: bool,
    /// The other side ended its stream, or the connection broke.
    is_hangup: bool,
}

impl Socket {
    /// Begins to connect, from `source` if one is given.
    ///
    /// # Errors
    /// When the kernel refuses at once.
    pub fn connect(to: SocketAddr, source: Option<Ipv4Addr>, traffic: Rc<Traffic>) -> Result<Self, Failure> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        if let Some(source) = source {
            bind_address(&fd, source)?;
        }
        match rustix::net::connect(&fd, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { fd, traffic, is_drained: false, was_short: false, is_hangup: false })
    }

    /// Whether the connection stands. Asks by connecting again, which changes nothing.
    ///
    /// # Errors
    /// When it was refused or failed otherwise.
    pub fn is_connected(&self, to: SocketAddr) -> Result<bool, Failure> {
        match rustix::net::connect(&self.fd, &to) {
            Ok(()) | Err(Errno::ISCONN) => Ok(true),
            Err(Errno::ALREADY | Errno::INPROGRESS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// An event said that there is something to read.
    pub fn became_readable(&mut self, is_hangup: bool) {
        self.is_drained = false;
        self.is_hangup |= is_hangup;
    }

    /// Whether the other side has ended its stream or broken the connection off.
    #[must_use]
    pub fn is_hangup(&self) -> bool {
        self.is_hangup
    }

    /// Whether the other side ended its stream and everything before that was read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_hangup && self.was_short
    }

    /// Sends what the kernel takes; `None` where it takes nothing now.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        Ok(counted(rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL), &self.traffic.sent)?)
    }

    /// Reads into `buffer`, unless it is known that there is nothing.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, Failure> {
        Ok(match self.read_some(buffer)? {
            None => Received::Nothing,
            Some(0) => Received::End,
            Some(bytes) => Received::Bytes(bytes),
        })
    }

    /// `None` where there is nothing now, 0 at the end.
    fn read_some(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        if self.is_drained {
            return Ok(None);
        }
        let room = buffer.len();
        let result = rustix::net::recv(&self.fd, buffer, RecvFlags::empty()).map(|(_, bytes)| bytes);
        let bytes = counted(result, &self.traffic.received)?;
        self.was_short = bytes.is_none_or(|bytes| bytes < room);
        self.is_hangup |= bytes == Some(0);
        self.is_drained = self.was_short && !self.is_hangup;
        Ok(bytes)
    }
}

fn counted(result: Result<usize, Errno>, counter: &Cell<u64>) -> Result<Option<usize>, Errno> {
    match result {
        Ok(bytes) => {
            counter.set(counter.get() + bytes as u64);
            Ok(Some(bytes))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// For TLS libraries, which know only the standard library's traits.
impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(buffer)?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        let bytes = rustix::net::sendmsg(&self.fd, pieces, &mut nothing, SendFlags::NOSIGNAL)?;
        self.traffic.sent.set(self.traffic.sent.get() + bytes as u64);
        Ok(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Binds the address alone and leaves the port to the connect, which may then share it between destinations.
fn bind_address(fd: &OwnedFd, source: Ipv4Addr) -> Result<(), Failure> {
    use std::os::fd::AsRawFd;
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the length describe `on`, which the kernel only reads.
    unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        );
    }
    rustix::net::bind(fd, &SocketAddrV4::new(source, 0))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn connected(source: Option<Ipv4Addr>) -> (Socket, std::net::TcpStream, Rc<Traffic>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let traffic = Rc::new(Traffic::default());
        let socket = Socket::connect(to, source, Rc::clone(&traffic)).unwrap();
        let (peer, _) = listener.accept().unwrap();
        assert!(socket.is_connected(to).unwrap());
        (socket, peer, traffic)
    }

    #[test]
    fn bytes_are_counted_and_a_short_read_drains() {
        let (mut socket, mut peer, traffic) = connected(None);
        assert_eq!(socket.send(b"hello").unwrap(), Some(5));
        let mut buffer = [0; 8];
        peer.read_exact(&mut buffer[..5]).unwrap();
        peer.write_all(b"world").unwrap();
        // On loopback a write has arrived when it returns.
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(5));
        peer.write_all(b"!").unwrap();
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Nothing);
        socket.became_readable(false);
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(1));
        assert_eq!((traffic.sent.get(), traffic.received.get()), (5, 6));
    }

    #[test]
    fn after_a_hang_up_the_end_is_read() {
        let (mut socket, mut peer, _) = connected(None);
        peer.write_all(b"bye").unwrap();
        drop(peer);
        socket.became_readable(true);
        let mut buffer = [0; 8];
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::Bytes(3));
        assert_eq!(socket.receive(&mut buffer).unwrap(), Received::End);
    }

    #[test]
    fn a_source_address_can_be_chosen() {
        let (_socket, peer, _) = connected(Some(Ipv4Addr::new(127, 1, 2, 3)));
        assert_eq!(peer.peer_addr().unwrap().ip(), Ipv4Addr::new(127, 1, 2, 3));
    }

    #[test]
    fn nobody_listening_is_refused() {
        let to = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let socket = Socket::connect(to, None, Rc::default()).unwrap();
        assert_eq!(socket.is_connected(to).unwrap_err(), Failure::Refused);
    }
}
