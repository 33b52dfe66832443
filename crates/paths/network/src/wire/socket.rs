//! Sockets of both ends. They block: a thread has one flow, and is woken by a shutdown when its flow is to end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt,
};

use super::control::SocketTerms;
use super::options::{self, OptionError};

const BACKLOG: i32 = 4096;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// An option was refused.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Nobody answers, or with a refusal.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET }
}

/// Opens a TCP connection, with its options set before it exists, as its window depends on them.
///
/// # Errors
/// When no answer comes in time, or an option is refused.
pub fn connect(
    address: SocketAddr,
    terms: Option<&SocketTerms>,
    timeout: Duration,
) -> Result<OwnedFd, ConnectError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // TCP by name, so that no setting of the system makes it MPTCP.
    let socket = net::socket_with(family(address), SocketType::STREAM, flags, Some(ipproto::TCP))
        .map_err(io::Error::from)?;
    if let Some(terms) = terms {
        options::apply(&socket, terms, true)?;
    }
    match net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            if !is_ready(&socket, PollFlags::OUT, timeout)? {
                return Err(ConnectError::Io(io::ErrorKind::TimedOut.into()));
            }
            sockopt::socket_error(&socket).map_err(io::Error::from)?.map_err(io::Error::from)?;
        }
        Err(error) => return Err(ConnectError::Io(error.into())),
    }
    rustix::io::ioctl_fionbio(&socket, false).map_err(io::Error::from)?;
    Ok(socket)
}

/// Waits until a socket is ready. Returns whether it is.
///
/// # Errors
/// When the kernel refuses to wait.
pub fn is_ready(socket: impl AsFd, flags: PollFlags, timeout: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(&socket, flags)];
    let timeout = Timespec::try_from(timeout).ok();
    Ok(retry_on_intr(|| poll(&mut polled, timeout.as_ref()))? > 0)
}

/// Listens for TCP connections.
///
/// # Errors
/// When the port is not to be had.
pub fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket =
        net::socket_with(family(address), SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Accepts a connection. Returns it with the address of its peer.
///
/// # Errors
/// When the listener was shut down.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let (connection, peer) = retry_on_intr(|| net::acceptfrom_with(&listener, SocketFlags::CLOEXEC))?;
    let peer = peer.ok_or(io::ErrorKind::NotConnected)?;
    Ok((connection, SocketAddr::try_from(peer)?))
}

/// A socket for datagrams at an address that several sockets may share.
///
/// # Errors
/// When the port is not to be had.
pub fn datagrams(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket =
        net::socket_with(family(address), SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP))?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &address)?;
    Ok(socket)
}

/// A socket for datagrams to one peer.
///
/// # Errors
/// When the host has no route to the peer.
pub fn datagrams_to(peer: SocketAddr) -> io::Result<OwnedFd> {
    let socket = net::socket_with(family(peer), SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP))?;
    net::connect(&socket, &peer)?;
    Ok(socket)
}

/// The address of this end.
///
/// # Errors
/// When the socket has none.
pub fn own_address(socket: impl AsFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(net::getsockname(socket)?)?)
}

/// Ends both directions, which wakes every thread that waits for the socket.
pub fn shut(socket: impl AsFd) {
    // One that is not connected any more needs no more.
    let _ = net::shutdown(socket, Shutdown::Both);
}

/// Ends the sending direction.
pub fn finish(socket: impl AsFd) {
    let _ = net::shutdown(socket, Shutdown::Write);
}

/// Receives once; 0 at the end.
///
/// # Errors
/// When the connection broke.
#[inline]
pub fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::recv(&socket, &mut *into, RecvFlags::empty()))?.0)
}

/// Receives once without waiting; `WouldBlock` where nothing has arrived.
///
/// # Errors
/// When nothing is there, or the connection broke.
#[inline]
pub fn receive_now(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::recv(&socket, &mut *into, RecvFlags::DONTWAIT))?.0)
}

/// Receives until `into` is full. Returns whether it is; it is not at the end of the connection.
///
/// # Errors
/// When the connection broke.
#[inline]
pub fn receive_all(socket: impl AsFd, into: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < into.len() {
        match receive(&socket, &mut into[filled..])? {
            0 => return Ok(false),
            count => filled += count,
        }
    }
    Ok(true)
}

/// Sends once.
///
/// # Errors
/// When the connection broke.
#[inline]
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| net::send(&socket, bytes, SendFlags::NOSIGNAL))?)
}

/// Sends all.
///
/// # Errors
/// When the connection broke.
#[inline]
pub fn send_all(socket: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = send(&socket, bytes)?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// How long a receive waits at most; for ever if absent. Only for what is not measured: it costs a timer each time.
///
/// # Errors
/// When the kernel refuses.
pub fn set_receive_timeout(socket: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, timeout)?)
}

/// The control connection: small lines at once, and an end within seconds when the other host is gone.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_watch(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(2))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    sockopt::set_tcp_user_timeout(socket, 5000)?;
    Ok(())
}

/// Receives one datagram and whose it is.
///
/// # Errors
/// When the socket was shut down.
pub fn receive_from(socket: impl AsFd, into: &mut [u8]) -> io::Result<(usize, Option<SocketAddr>)> {
    let (count, _, from) = retry_on_intr(|| net::recvfrom(&socket, &mut *into, RecvFlags::empty()))?;
    Ok((count, from.and_then(|from| SocketAddr::try_from(from).ok())))
}

/// The number of a socket, for calls that the libraries do not have.
pub fn number(socket: impl AsFd) -> libc::c_int {
    socket.as_fd().as_raw_fd()
}
