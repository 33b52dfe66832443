//! The kernel's counters of a TCP connection (TCP_INFO; the layout is that of `include/uapi/linux/tcp.h`, which only grows).

use std::os::fd::AsFd;

use super::socket::number;

/// The part of it that is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Segments sent again, since the connection began.
    pub retransmits: u64,
    /// The smoothed round trip time.
    pub rtt_us: u64,
    /// The congestion window in segments.
    pub cwnd: u64,
    /// Payload bytes in a segment.
    pub mss: u64,
    /// Bytes in a packet on this path.
    pub path_mtu: u64,
}

const SND_MSS: usize = 16;
const PMTU: usize = 60;
const RTT: usize = 68;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;

/// Reads it; `None` where the kernel does not tell.
pub fn read(socket: impl AsFd) -> Option<TcpInfo> {
    let mut bytes = [0_u8; 256];
    let mut size = libc::socklen_t::try_from(bytes.len()).ok()?;
    // SAFETY: the kernel writes at most `size` bytes, which is what `bytes` has.
    let result = unsafe {
        libc::getsockopt(
            number(&socket),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result == 0 { parse(bytes.get(..size as usize)?) } else { None }
}

fn parse(bytes: &[u8]) -> Option<TcpInfo> {
    let field = |at: usize| Some(u64::from(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?)));
    Some(TcpInfo {
        retransmits: field(TOTAL_RETRANS)?,
        rtt_us: field(RTT)?,
        cwnd: field(SND_CWND)?,
        mss: field(SND_MSS)?,
        path_mtu: field(PMTU)?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_on_loopback_has_a_window_and_a_round_trip() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1]).unwrap();
        server.read_exact(&mut [0]).unwrap();
        let info = read(&client).unwrap();
        assert!(info.cwnd > 0 && info.mss > 500 && info.path_mtu >= info.mss, "{info:?}");
        assert_eq!(info.retransmits, 0);
        assert_eq!(read(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()), None);
    }

    #[test]
    fn a_short_answer_tells_nothing() {
        assert_eq!(parse(&[0; 50]), None);
    }
}
