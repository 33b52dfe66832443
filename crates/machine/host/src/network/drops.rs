//! Datagrams that the kernel dropped at the sockets of other processes.

use std::path::PathBuf;
use std::{fs, io};

use crate::Error;

/// How many datagrams the kernel dropped at the UDP sockets of a port, in the network namespace of a process; `None` if no socket has
/// that port. A socket's count disappears with it.
///
/// # Errors
///
/// When the kernel does not list the sockets, as when the process has ended.
pub fn datagrams_dropped(pid: u32, port: u16) -> Result<Option<u64>, Error> {
    let mut dropped = None;
    // A kernel without IPv6 lacks the second.
    for (name, is_optional) in [("udp", false), ("udp6", true)] {
        let path = PathBuf::from(format!("/proc/{pid}/net/{name}"));
        match fs::read_to_string(&path) {
            Ok(text) => {
                let sockets = text.lines().skip(1).filter_map(|line| drops_at(line, port));
                dropped = dropped.into_iter().chain(sockets).reduce(|all, one| all + one);
            }
            Err(cause) if is_optional && cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(Error::Read { path, cause }),
        }
    }
    Ok(dropped)
}

/// The last field of a line, if its socket has this local port (proc(5), `/proc/net/udp`).
fn drops_at(line: &str, port: u16) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (_, local) = fields.nth(1)?.rsplit_once(':')?;
    if u16::from_str_radix(local, 16).ok()? != port {
        return None;
    }
    fields.next_back()?.parse().ok()
}

/// How many datagrams the kernel dropped in the network namespace of a process because a UDP socket's buffer was full. It includes those of
/// sockets that are gone, and of other processes.
///
/// # Errors
///
/// When the kernel does not say, as when the process has ended.
pub fn datagrams_dropped_in_namespace(pid: u32) -> Result<u64, Error> {
    let read = |name: &str| {
        let path = PathBuf::from(format!("/proc/{pid}/net/{name}"));
        fs::read_to_string(&path).map_err(|cause| Error::Read { path, cause })
    };
    let ipv4 = rcvbuf_errors(&read("snmp")?);
    // A kernel without IPv6 lacks this file.
    let ipv6 = read("snmp6").ok().and_then(|text| value_after(&text, "Udp6RcvbufErrors"));
    Ok(ipv4.unwrap_or(0) + ipv6.unwrap_or(0))
}

/// From a line of names and one of values, both of which begin with `Udp:` (RFC 4113, and the kernel's `net/ipv4/proc.c`).
fn rcvbuf_errors(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut fields = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    fields.find_map(|(name, value)| (name == "RcvbufErrors").then(|| value.parse().ok())?)
}

fn value_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    const SENT: u64 = 100;

    #[test]
    fn a_full_socket_drops_and_says_so() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let dropped = || datagrams_dropped(std::process::id(), port).unwrap();
        assert_eq!(dropped(), Some(0));
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 1).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..SENT {
            client.send_to(&[0; 1000], ("127.0.0.1", port)).unwrap();
        }
        socket.set_nonblocking(true).unwrap();
        let arrived = std::iter::from_fn(|| socket.recv(&mut [0; 1000]).ok()).count() as u64;
        assert!(arrived < SENT, "{arrived}");
        assert_eq!(dropped(), Some(SENT - arrived));
        drop(socket);
        assert_eq!(dropped(), None);
        // Other tests drop some in this namespace, too.
        assert!(datagrams_dropped_in_namespace(std::process::id()).unwrap() >= SENT - arrived);
    }

    #[test]
    fn the_kernels_counts_are_found_by_their_names() {
        let snmp = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
                    Udp: 11 12 13 14 15 16\nUdpLite: InDatagrams RcvbufErrors\nUdpLite: 1 2\n";
        assert_eq!(rcvbuf_errors(snmp), Some(15));
        assert_eq!(rcvbuf_errors("Udp: RcvbufErrors\n"), None);
        let snmp6 = "Ip6InReceives  5\nUdp6InErrors   6\nUdp6RcvbufErrors                \t7\n";
        assert_eq!(value_after(snmp6, "Udp6RcvbufErrors"), Some(7));
    }
}
