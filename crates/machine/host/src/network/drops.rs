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
    }
}
