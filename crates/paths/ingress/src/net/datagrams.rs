//! Datagram sockets.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use plumb_model::Bytes;
use plumb_quic::set_receive_buffer;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

/// Room for what arrives while the event loop is busy: more than a thousand clients send at once. Without privileges,
/// net.core.rmem_max is the limit.
const RECEIVE_BUFFER: Bytes = Bytes(8 << 20);

/// A datagram socket at an address and a port of this host, which other sockets may share. The kernel chooses among them by the
/// sender's address and port, so that all datagrams of one sender arrive at one of them.
pub(crate) fn datagram_socket(address: IpAddr, port: u16) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    set_receive_buffer(&socket, RECEIVE_BUFFER)?;
    net::bind(&socket, &SocketAddr::new(address, port))?;
    Ok(socket.into())
}
