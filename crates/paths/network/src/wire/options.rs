//! Socket options: set, and read back, because some of them are silently cut or refused.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::control::SocketTerms;

/// Since Linux 2.6.32; the C library's headers have it for some systems only.
const SO_PROTOCOL: libc::c_int = 38;

/// The counter of a one-way receiver's calls.
pub const RECEIVES: &str = "receives";
/// Calls that found nothing.
pub const EMPTY_POLLS: &str = "empty polls";
/// Times that it slept although data may have come.
pub const PAUSES: &str = "pauses";

/// An option that the kernel did not take.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {cause}")]
pub struct OptionError {
    what: String,
    cause: io::Error,
    /// Whether somebody has to ask for something else, or with more rights.
    pub is_usage: bool,
}

impl OptionError {
    fn new(what: impl Into<String>, cause: io::Error, hint: &str) -> Self {
        let is_refused = cause.kind() == io::ErrorKind::PermissionDenied;
        let cause = if is_refused { io::Error::new(cause.kind(), format!("{cause}; {hint}")) } else { cause };
        Self { what: what.into(), cause, is_usage: is_refused }
    }
}

/// Sets an option that is a number.
///
/// # Errors
/// What the kernel says.
pub fn set(socket: impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let size = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or_default();
    // SAFETY: `value` lives through the call, and `size` is its size.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is a number.
///
/// # Errors
/// What the kernel says.
pub fn get(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    let fd = socket.as_fd().as_raw_fd();
    let mut value: libc::c_int = 0;
    let mut size = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or_default();
    // SAFETY: `value` and `size` live through the call, and `size` is the size of `value`.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Sets what a test asks of a socket.
///
/// # Errors
/// The first option that the kernel does not take as it was asked for.
pub fn apply(socket: impl AsFd, terms: &SocketTerms, is_tcp: bool) -> Result<(), OptionError> {
    let socket = socket.as_fd();
    if is_tcp {
        set(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, terms.nodelay.into())
            .map_err(|cause| OptionError::new("set TCP_NODELAY", cause, ""))?;
    }
    if terms.busy_poll_us > 0 {
        let us = libc::c_int::try_from(terms.busy_poll_us).unwrap_or(libc::c_int::MAX);
        set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, us).map_err(|cause| {
            OptionError::new(
                format!("set busy polling (busy_poll) to {us} us"),
                cause,
                "it needs CAP_NET_ADMIN or a higher net.core.busy_read",
            )
        })?;
    }
    let buffers = [
        (terms.send_buffer, "send_buffer", "wmem_max", libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        (terms.receive_buffer, "receive_buffer", "rmem_max", libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
    ];
    for (bytes, key, limit, force, name) in buffers {
        if let Some(bytes) = bytes {
            buffer(socket, bytes, (key, limit), force, name)?;
        }
    }
    Ok(())
}

/// Sets a buffer's size past the system's limit where that is allowed. Without that right the kernel cuts it in silence.
fn buffer(
    socket: impl AsFd,
    bytes: u32,
    (key, limit): (&str, &str),
    force: libc::c_int,
    name: libc::c_int,
) -> Result<(), OptionError> {
    let socket = socket.as_fd();
    let asked = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let failed = |cause| OptionError::new(format!("set {key} to {bytes} B"), cause, "");
    if set(socket, libc::SOL_SOCKET, force, asked).is_ok() {
        return Ok(());
    }
    set(socket, libc::SOL_SOCKET, name, asked).map_err(failed)?;
    // The kernel gives twice as much as it was asked for, for its own bookkeeping, and says so (socket(7)).
    let given = get(socket, libc::SOL_SOCKET, name).map_err(failed)? / 2;
    if given < asked {
        let cause = io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "this process may have {given} B at most; it needs CAP_NET_ADMIN or a higher net.core.{limit}"
            ),
        );
        return Err(OptionError { what: format!("set {key} to {bytes} B"), cause, is_usage: true });
    }
    Ok(())
}

/// By property and value, how many sockets had it.
pub type Observed = BTreeMap<String, BTreeMap<String, u64>>;

/// Counts a value of a property.
pub fn see(into: &mut Observed, property: &str, value: String, count: u64) {
    *into.entry(property.to_owned()).or_default().entry(value).or_default() += count;
}

/// Reads back what matters of a socket, and counts it.
pub fn observe(socket: impl AsFd, is_tcp: bool, into: &mut Observed) {
    let socket = socket.as_fd();
    let mut see = |property: &str, value: String| see(into, property, value, 1);
    let number = |name| {
        get(socket, libc::SOL_SOCKET, name).map_or_else(|_| "unknown".to_owned(), |value| value.to_string())
    };
    if is_tcp {
        let nodelay = get(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY);
        see("nodelay", nodelay.map_or("unknown", |on| if on != 0 { "on" } else { "off" }).to_owned());
        // A socket of MPTCP says so, also where something made it one behind our back.
        let protocol = get(socket, libc::SOL_SOCKET, SO_PROTOCOL);
        let mptcp = protocol.map_or("unknown", |it| if it == libc::IPPROTO_MPTCP { "on" } else { "off" });
        see("mptcp", mptcp.to_owned());
    }
    see("busy_poll_us", number(libc::SO_BUSY_POLL));
    see("send_buffer", number(libc::SO_SNDBUF));
    see("receive_buffer", number(libc::SO_RCVBUF));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let terms = SocketTerms { nodelay: true, send_buffer: Some(8192), ..SocketTerms::default() };
        apply(&listener, &terms, true).unwrap();
        let mut observed = Observed::new();
        observe(&listener, true, &mut observed);
        let one = |name: &str, value: &str| observed[name].get(value).copied();
        assert_eq!(one("nodelay", "on"), Some(1));
        assert_eq!(one("mptcp", "off"), Some(1));
        assert_eq!(one("send_buffer", "16384"), Some(1));
    }
}
