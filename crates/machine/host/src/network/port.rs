//! Ports for servers that are told where to listen.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// How many ports are tried. Few are reserved at a time.
const ATTEMPTS: usize = 100;

/// A port that nobody listened on when it was looked for, and that no other plumb will pick while this value lives.
///
/// HAProxy and Caddy let others listen where they do (`SO_REUSEPORT`): of two that were given the same port
/// neither would fail, and each would get some of the other's connections.
#[derive(Debug)]
pub struct FreePort {
    number: u16,
    /// Bound to a name of this network namespace that says the port. It goes with this process at the latest.
    _reservation: UnixDatagram,
}

impl FreePort {
    /// A free port of an address of this host.
    ///
    /// # Errors
    ///
    /// When the address is not this host's, or all its ports are taken.
    pub fn at(address: IpAddr) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let number = TcpListener::bind((address, 0))?.local_addr()?.port();
            let name = SocketAddr::from_abstract_name(format!("plumb-port-{number}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(reservation) => return Ok(Self { number, _reservation: reservation }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// The number of the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use super::*;

    /// Of 900 picks from the 28,232 ports of the kernel two are the same, but for one case in a million.
    const PORTS: usize = 900;

    #[test]
    fn no_port_is_free_twice() {
        let ports: Vec<_> = (0..PORTS).map(|_| FreePort::at(Ipv4Addr::LOCALHOST.into()).unwrap()).collect();
        let numbers: BTreeSet<_> = ports.iter().map(FreePort::number).collect();
        assert_eq!(numbers.len(), PORTS);
    }
}
