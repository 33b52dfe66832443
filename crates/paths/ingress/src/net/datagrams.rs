//! Sockets of datagrams.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Room for what arrives while the event loop is busy, in bytes: more than a thousand clients send at once.
const RECEIVE_BYTES: usize = 8 << 20;

/// A socket of datagrams at an address and a port of this host, which other sockets may share. The kernel chooses among them by the
/// sender's address and port, so that all datagrams of one sender arrive at one of them.
pub(crate) fn datagram_socket(address: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES).is_err() {
        // Without the privilege, net.core.rmem_max is the limit.
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
    }
    net::bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket.into())
}
