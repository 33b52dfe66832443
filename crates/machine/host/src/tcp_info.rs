//! The kernel's counters of a TCP connection (TCP_INFO; the layout is that of `include/uapi/linux/tcp.h`, which only grows).
//!
//! An older kernel fills in less of the structure. A figure behind its end is not known, which is different from 0.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Bytes of the structure up to the last field that is read here.
const BYTES: usize = 228;

const SND_MSS: usize = 16;
const PMTU: usize = 60;
const RTT: usize = 68;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const BYTES_RECEIVED: usize = 128;
const DATA_SEGS_IN: usize = 152;
const BYTES_SENT: usize = 200;
const BYTES_RETRANS: usize = 208;
const RCV_OOOPACK: usize = 224;

/// The counters of a connection since it began, and its present state. A figure that the kernel does not know is `None`.
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    bytes: [u8; BYTES],
    length: usize,
}

impl TcpInfo {
    /// Reads them with one system call, which takes less than a microsecond.
    ///
    /// # Errors
    ///
    /// When the socket is not one of TCP.
    pub fn of_socket(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        let mut length = BYTES as libc::socklen_t;
        // SAFETY: the socket is open, and the kernel writes at most `length` bytes into `bytes`, which has as many.
        let outcome = unsafe {
            let (number, into) = (socket.as_fd().as_raw_fd(), bytes.as_mut_ptr().cast());
            libc::getsockopt(number, libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut length)
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { bytes, length: BYTES.min(length as usize) })
    }

    /// Segments that this end sent again, also those that ask for the connection (`tcpi_total_retrans`).
    #[must_use]
    pub fn retransmits(&self) -> Option<u32> {
        self.number(TOTAL_RETRANS)
    }

    /// Segments that reached this end out of order (`tcpi_rcv_ooopack`, from Linux 5.4 on).
    #[must_use]
    pub fn out_of_order(&self) -> Option<u32> {
        self.number(RCV_OOOPACK)
    }

    /// Segments with payload that reached this end (`tcpi_data_segs_in`).
    #[must_use]
    pub fn data_segments_received(&self) -> Option<u32> {
        self.number(DATA_SEGS_IN)
    }

    /// The smoothed round trip time in µs.
    #[must_use]
    pub fn rtt_us(&self) -> Option<u32> {
        self.number(RTT)
    }

    /// The congestion window in segments.
    #[must_use]
    pub fn cwnd(&self) -> Option<u32> {
        self.number(SND_CWND)
    }

    /// Payload bytes in a segment.
    #[must_use]
    pub fn mss(&self) -> Option<u32> {
        self.number(SND_MSS)
    }

    /// Bytes in a packet on this path.
    #[must_use]
    pub fn path_mtu(&self) -> Option<u32> {
        self.number(PMTU)
    }

    /// Payload bytes that were sent, those that were sent again included (`tcpi_bytes_sent`, from Linux 4.19 on).
    #[must_use]
    pub fn bytes_sent(&self) -> Option<u64> {
        self.field(BYTES_SENT).map(u64::from_ne_bytes)
    }

    /// Payload bytes that were sent again (`tcpi_bytes_retrans`, from Linux 4.19 on).
    #[must_use]
    pub fn bytes_retransmitted(&self) -> Option<u64> {
        self.field(BYTES_RETRANS).map(u64::from_ne_bytes)
    }

    /// Payload bytes that were received in order (`tcpi_bytes_received`).
    #[must_use]
    pub fn bytes_received(&self) -> Option<u64> {
        self.field(BYTES_RECEIVED).map(u64::from_ne_bytes)
    }

    fn number(&self, at: usize) -> Option<u32> {
        self.field(at).map(u32::from_ne_bytes)
    }

    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..self.length)?.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;
    use crate::namespace::{Namespace, may_create};
    use crate::process::which;

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_connection_on_loopback_has_a_window_and_has_lost_nothing() {
        let (mut client, mut server) = pair("127.0.0.1:0");
        client.write_all(&[1]).unwrap();
        server.read_exact(&mut [0]).unwrap();
        let (sent, received) = (TcpInfo::of_socket(&client).unwrap(), TcpInfo::of_socket(&server).unwrap());
        assert!(sent.cwnd() > Some(0) && sent.mss() > Some(500) && sent.path_mtu() >= sent.mss(), "{sent:?}");
        assert_eq!((sent.retransmits(), sent.out_of_order()), (Some(0), Some(0)));
        assert_eq!((sent.bytes_sent(), sent.bytes_retransmitted()), (Some(1), Some(0)));
        assert_eq!(received.bytes_received(), Some(1));
        assert!(TcpInfo::of_socket(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn an_older_kernel_does_not_know_the_newer_fields() {
        let old = TcpInfo { bytes: [1; BYTES], length: RCV_OOOPACK };
        assert_eq!((old.out_of_order(), old.retransmits()), (None, Some(0x0101_0101)));
        let older = TcpInfo { bytes: [1; BYTES], length: BYTES_SENT + 4 };
        assert_eq!((older.bytes_sent(), older.bytes_received()), (None, Some(0x0101_0101_0101_0101)));
        let oldest = TcpInfo { bytes: [1; BYTES], length: 50 };
        assert_eq!((oldest.retransmits(), oldest.mss()), (None, Some(0x0101_0101)));
    }

    /// The first of every four segments with data is lost, so those that follow it come out of order.
    const LOSSY: &str = "\
table inet lossy {
  chain input {
    type filter hook input priority 0;
    tcp dport 7777 tcp flags & psh == psh numgen inc mod 4 == 0 drop
  }
}
";

    #[test]
    fn a_lost_segment_is_sent_again_by_one_end_and_missed_by_the_other() {
        let test = "tcp_info::tests::a_lost_segment_is_sent_again_by_one_end_and_missed_by_the_other";
        if which("nft").is_none() {
            let _ = writeln!(io::stderr(), "test skipped: {test}: nft is not installed");
            return;
        }
        if !may_create() {
            return crate::unprivileged::skip(test, "make network namespaces");
        }
        let namespace = Namespace::create().unwrap();
        let (mut client, mut server) = namespace.inside(|| pair("127.0.0.1:7777")).unwrap();
        namespace.add_rules(LOSSY).unwrap();
        for _ in 0..3 {
            client.write_all(&[1]).unwrap();
        }
        server.read_exact(&mut [0; 3]).unwrap();
        let (sent, received) = (TcpInfo::of_socket(&client).unwrap(), TcpInfo::of_socket(&server).unwrap());
        assert!(sent.retransmits() > Some(0) && received.out_of_order() > Some(0), "{sent:?} {received:?}");
        assert_eq!((sent.out_of_order(), received.retransmits()), (Some(0), Some(0)));
    }
}
