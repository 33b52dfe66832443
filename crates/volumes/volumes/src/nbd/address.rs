//! Where a server listens, and the sockets that it accepts there.
//!
//! A Unix socket has two advantages over loopback. Only those who may enter its directory reach it. And the kernel tells
//! at once when a client has gone, which TCP does not.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;

use plumb_host::address::AddressError;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Serialize, Serializer};

/// The beginning of a Unix socket's address.
const UNIX: &str = "unix:";

/// Where a server listens: `HOST:PORT`, or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// The IP address and the port, where it has them.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The URI of a volume, as the NBD project defines it (`doc/uri.md` beside the protocol document).
    #[must_use]
    pub fn uri(&self, volume: &str) -> String {
        match self {
            // The interface behind an address follows an encoded `%` (RFC 6874).
            Self::Tcp(address) => format!("nbd://{}/{volume}", address.to_string().replace('%', "%25")),
            Self::Unix(path) => format!("nbd+unix:///{volume}?socket={}", path.display()),
        }
    }
}

#[cfg(test)]
impl Address {
    /// A free port of loopback.
    pub(crate) fn loopback() -> Self {
        Self::Tcp((Ipv4Addr::LOCALHOST, 0).into())
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "{UNIX}{}", path.display()),
        }
    }
}

/// Why a text is not an address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAddress {
    /// A Unix socket has no path.
    #[error("`{UNIX}` needs a path, such as `{UNIX}/run/plumb.sock`")]
    NoPath,
    /// It is not an IP address with a port.
    #[error("{_0}; a Unix socket is `{UNIX}PATH`")]
    Tcp(#[from] AddressError),
}

impl FromStr for Address {
    type Err = NotAddress;

    fn from_str(text: &str) -> Result<Self, NotAddress> {
        match text.strip_prefix(UNIX) {
            Some("") => Err(NotAddress::NoPath),
            Some(path) => Ok(Self::Unix(path.into())),
            None => Ok(Self::Tcp(plumb_host::address::parse(text)?)),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The socket that clients connect to. It never blocks.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens, and says where, as port 0 takes a free one. A Unix socket that an earlier server left is replaced: the
    /// caller knows that no other server runs.
    pub(super) fn bind(address: &Address) -> io::Result<(Self, Address)> {
        match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let bound = Address::Tcp(listener.local_addr()?);
                Ok((Self::Tcp(listener), bound))
            }
            Address::Unix(path) => {
                remove_socket(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok((Self::Unix(listener), address.clone()))
            }
        }
    }

    /// The next client, ready for an event loop, and the address that bounds its connections.
    pub(super) fn accept(&self) -> io::Result<(Socket, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok((Socket(stream.into()), client.ip()))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // All of them are of this host.
                Ok((Socket(stream.into()), Ipv4Addr::LOCALHOST.into()))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Removes the socket at a path, if there is one. Any other file stays, so that a wrong path costs no file.
///
/// # Errors
/// When it cannot be removed.
pub fn remove_socket(path: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A connected socket of either kind.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl io::Read for &Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.0, into, RecvFlags::empty())?.0)
    }
}

impl io::Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in ["127.0.0.1:10809", "[::1]:0", "unix:/run/plumb.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert!("unix:".parse::<Address>().is_err());
        assert!("/run/plumb.sock".parse::<Address>().is_err());
        let unix: Address = "unix:/run/a.sock".parse().unwrap();
        assert_eq!(unix.uri("vol1"), "nbd+unix:///vol1?socket=/run/a.sock");
        assert_eq!(unix.tcp(), None);
        let link: Address = "[fe80::1%7]:10809".parse().unwrap();
        assert_eq!(link.uri("vol1"), "nbd://[fe80::1%257]:10809/vol1");
    }

    #[test]
    fn only_a_socket_gives_way_to_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let address = Address::Unix(path.clone());
        drop(Listener::bind(&address).unwrap());
        assert_eq!(Listener::bind(&address).unwrap().1, address);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(Listener::bind(&address).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
