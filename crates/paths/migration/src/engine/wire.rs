//! Connections between source and destination: their setup, their first bytes, and the kernel's counters.

mod control;
mod hello;
mod incoming;
mod outgoing;
pub mod tls;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

use plumb_host::namespace::inside;
use plumb_host::tcp_info::TcpInfo;
use rustix::net::sockopt;

pub use self::control::Control;
pub use self::hello::Hello;
pub use self::incoming::Incoming;
pub use self::outgoing::Outgoing;

/// The time for which bytes may stay unacknowledged before a connection counts as dead.
const DEAD_AFTER: Duration = Duration::from_secs(4);
/// The time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// The share of a second of the cap that may wait unsent in all sockets together, because it is sent at once when a receiver resumes after a
/// pause. Sent bytes that are not yet acknowledged are not limited: a sender that waits for each acknowledgement would stop for as long as
/// the receiver delays it, which is 40 ms.
const UNSENT_SHARE: f64 = 0.002;
const UNSENT_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 20;

/// The receive buffer of a connection over loopback.
const LOOPBACK_RECEIVE_BYTES: usize = 4 << 20;

/// Connects to a destination, from a network namespace if one is given.
///
/// # Errors
/// When nothing listens there, or nothing answers.
pub fn connect(address: SocketAddr, netns: Option<&Path>) -> io::Result<TcpStream> {
    let connect = || TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
    let stream = match netns {
        None => connect()?,
        Some(netns) => inside(netns, connect).map_err(io::Error::other)??,
    };
    prepare(&stream)?;
    Ok(stream)
}

/// Sets the options that both ends of every connection need.
///
/// # Errors
/// When the kernel refuses.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_nodelay(stream, true)?;
    // Without these a peer whose machine is gone would be waited for a quarter of an hour.
    let dead_after_ms = u32::try_from(DEAD_AFTER.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, dead_after_ms)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(1))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(1))?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    if stream.peer_addr()?.ip().is_loopback() {
        // Algorithms that estimate a path's bandwidth (BBR) find none on loopback and wander between too much and too
        // little. A kernel without CUBIC keeps what it has.
        let _ = sockopt::set_tcp_congestion(stream, "cubic");
        // A segment is 64 KiB there, and the buffer that a connection begins with offers hardly more than one: the sender
        // waits for room for a whole one, the receiver for a second one before it answers, and both for a timer.
        sockopt::set_socket_recv_buffer_size(stream, LOOPBACK_RECEIVE_BYTES)?;
    }
    Ok(())
}

/// Keeps the unsent bytes in the sockets of all channels small against one second of a cap.
///
/// # Errors
/// When the kernel refuses.
pub fn limit_unsent(stream: &TcpStream, cap_bytes_per_s: f64, channels: u32) -> io::Result<()> {
    let bytes = (cap_bytes_per_s * UNSENT_SHARE / f64::from(channels.max(1))) as usize;
    let bytes = bytes.clamp(*UNSENT_BYTES.start(), *UNSENT_BYTES.end());
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or(0);
    // SAFETY: the option takes a number, and the pointer and the length describe one.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's counts of a connection: bytes of payload, repeated ones included, without the headers of TCP and IP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketBytes {
    /// `tcpi_bytes_sent`.
    pub sent: u64,
    /// `tcpi_bytes_retrans`: the bytes among them that were sent again, because they were lost or an answer took long.
    pub repeated: u64,
    /// `tcpi_bytes_received`.
    pub received: u64,
}

/// Reads `TCP_INFO`. Returns zeros if the kernel has none.
#[must_use]
pub fn socket_bytes(stream: impl AsFd) -> SocketBytes {
    let Ok(info) = TcpInfo::of_socket(stream) else { return SocketBytes::default() };
    SocketBytes {
        sent: info.bytes_sent().unwrap_or(0),
        repeated: info.bytes_retransmitted().unwrap_or(0),
        received: info.bytes_received().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
