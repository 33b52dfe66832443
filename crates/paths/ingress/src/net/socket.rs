//! Nonblocking TCP sockets on the loopback device.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt};

/// Longer than any burst of connections that a load opens at once.
const BACKLOG: i32 = 4096;

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// This many bytes; `emptied` if there was room for more, so that the socket has none left.
    Bytes { count: usize, emptied: bool },
    /// Nothing for now.
    Nothing,
    /// The other side sends no more.
    End,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// This many bytes went; `filled` if the socket took less than it was given.
    Bytes { count: usize, filled: bool },
    /// The socket has no room for now.
    Nothing,
}

/// Reads once.
pub(crate) fn read_once(socket: impl AsFd, into: &mut [u8]) -> io::Result<Received> {
    let room = into.len();
    read_result(retry_on_intr(|| rustix::io::read(&socket, &mut *into)), room)
}

pub(super) fn read_result(result: rustix::io::Result<usize>, room: usize) -> io::Result<Received> {
    match result {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes { count, emptied: count < room }),
        Err(Errno::AGAIN) => Ok(Received::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Writes once.
pub(crate) fn write_once(socket: impl AsFd, bytes: &[u8]) -> io::Result<Sent> {
    // A closed connection is an error here and no signal to the whole process.
    write_result(retry_on_intr(|| net::send(&socket, bytes, SendFlags::NOSIGNAL)), bytes.len())
}

/// Writes several byte strings, one after the other, in one call.
pub(crate) fn write_all_of(socket: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<Sent> {
    let send = || net::sendmsg(&socket, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL);
    write_result(retry_on_intr(send), slices.iter().map(|slice| slice.len()).sum())
}

fn write_result(result: rustix::io::Result<usize>, offered: usize) -> io::Result<Sent> {
    match result {
        Ok(count) => Ok(Sent::Bytes { count, filled: count < offered }),
        Err(Errno::AGAIN) => Ok(Sent::Nothing),
        Err(error) => Err(error.into()),
    }
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, SocketType::STREAM, flags, None)?)
}

/// A listener on a free port of an address of this host, and that port. Connections that it accepts send small writes at once.
pub(super) fn listen_on(address: IpAddr) -> io::Result<(OwnedFd, u16)> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = stream_socket(family)?;
    // Accepted sockets inherit it from their listener (tcp(7)), which saves a call for each.
    sockopt::set_tcp_nodelay(&listener, true)?;
    net::bind(&listener, &SocketAddr::new(address, 0))?;
    net::listen(&listener, BACKLOG)?;
    let address = SocketAddr::try_from(net::getsockname(&listener)?)?;
    Ok((listener, address.port()))
}

/// Takes one waiting connection, and whose it is; `None` when there is none, or it went away while it waited.
pub(super) fn accept(listener: impl AsFd) -> io::Result<Option<(OwnedFd, IpAddr)>> {
    match net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, address)) => {
            let peer = address.and_then(|address| SocketAddr::try_from(address).ok());
            Ok(Some((socket, peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip()))))
        }
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Begins to connect to a port of 127.0.0.1. The socket becomes writable when that has ended, well or not.
pub(crate) fn connect(port: u16) -> io::Result<OwnedFd> {
    let socket = stream_socket(AddressFamily::INET)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}
