//! Datagrams, between a socket and QUIC.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use plumb_model::Bytes;
use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::net::sockopt;

use crate::datagram_counts::DatagramCounts;

/// The figures of SO_MEMINFO, and the places of some among them (`include/uapi/linux/sock_diag.h`).
const SO_MEMINFO_FIGURES: usize = 9;
const SK_MEMINFO_RCVBUF: usize = 1;
const SK_MEMINFO_SNDBUF: usize = 3;
const SK_MEMINFO_DROPS: usize = 8;

/// A datagram socket. Both it and the kernel take several at a time, in segments of one size (GSO, GRO).
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    counts: Cell<DatagramCounts>,
}

/// Datagrams in a row, all of the same size but the last, which may be shorter.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    /// The sender.
    pub from: SocketAddr,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Bytes of one.
    pub segment_bytes: usize,
    /// The congestion mark.
    pub ecn: Option<EcnCodepoint>,
}

/// The sizes of a socket's buffers, as the kernel has them: twice those that a program asks for, because they include its own costs.
#[derive(Debug, Clone, Copy)]
pub struct Buffers {
    /// For datagrams that arrive.
    pub receive: Bytes,
    /// For datagrams that leave.
    pub send: Bytes,
}

impl Buffers {
    /// The size that a program must ask for to have this buffer for datagrams that arrive.
    #[must_use]
    pub fn receive_asked(self) -> Bytes {
        Bytes(self.receive.0 / 2)
    }
}

impl Datagrams {
    /// A socket for datagrams to and from one address, with a buffer for them of at least this size if the kernel allows it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn connect(to: SocketAddr, receive_buffer: Option<Bytes>) -> io::Result<Self> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        if let Some(bytes) = receive_buffer {
            set_receive_buffer(&socket, bytes)?;
        }
        socket.connect(to)?;
        Self::on(socket)
    }

    /// Datagrams of a socket that exists.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn on(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state, counts: Cell::default() })
    }

    /// The most datagrams of a call.
    #[must_use]
    pub fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends datagrams. Returns how many bytes left; `None` where the kernel takes none now.
    ///
    /// # Errors
    /// When the peer's host refuses them.
    pub fn send(&self, transmit: &quinn_proto::Transmit, contents: &[u8]) -> io::Result<Option<usize>> {
        let ecn = transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let (destination, segment_size) = (transmit.destination, transmit.segment_size);
        let transmit = Transmit { destination, ecn, contents, segment_size, src_ip: None };
        match self.state.try_send((&self.socket).into(), &transmit) {
            Ok(()) => {
                self.count(|counts| {
                    counts.send_calls += 1;
                    counts.sent +=
                        contents.len().div_ceil(segment_size.unwrap_or(contents.len()).max(1)) as u64;
                });
                Ok(Some(contents.len()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // A probe of the path's MTU was too large.
            Err(error) if quinn_udp::is_msg_size_err(&error) => Ok(Some(0)),
            // The network card does not send segments. From now on they are sent singly, and QUIC sends these again.
            Err(error)
                if segment_size.is_some()
                    && matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) =>
            {
                Ok(Some(0))
            }
            Err(error) => Err(error),
        }
    }

    /// Receives datagrams, if there are any.
    ///
    /// # Errors
    /// When the peer's host refused earlier ones.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut meta = RecvMeta::default();
        loop {
            let (mut buffers, meta) = ([IoSliceMut::new(buffer)], std::slice::from_mut(&mut meta));
            match self.state.recv((&self.socket).into(), &mut buffers, meta) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.count(|counts| {
            counts.receive_calls += 1;
            counts.received += meta.len.div_ceil(meta.stride.max(1)) as u64;
        });
        let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
        Ok(Some(Received { from: meta.addr, bytes: meta.len, segment_bytes: meta.stride, ecn }))
    }
}

impl Datagrams {
    fn count(&self, add: impl FnOnce(&mut DatagramCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    /// The counts since the socket was made, but for those that only the connection or the kernel has.
    #[must_use]
    pub fn counts(&self) -> DatagramCounts {
        self.counts.get()
    }

    /// The same with the datagrams that the kernel dropped, because the socket's buffer was full.
    #[must_use]
    pub fn counts_with_drops(&self) -> DatagramCounts {
        DatagramCounts { dropped: dropped(self), ..self.counts.get() }
    }

    /// The sizes of the buffers that the kernel has for the socket.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        buffers_of(self)
    }
}

/// Datagrams to a socket that the kernel dropped, because the socket's buffer was full.
pub fn dropped(socket: impl AsFd) -> u64 {
    memory_of(socket)[SK_MEMINFO_DROPS].into()
}

fn buffers_of(socket: impl AsFd) -> Buffers {
    let memory = memory_of(socket);
    let bytes = |figure: usize| Bytes(memory[figure].into());
    Buffers { receive: bytes(SK_MEMINFO_RCVBUF), send: bytes(SK_MEMINFO_SNDBUF) }
}

fn memory_of(socket: impl AsFd) -> [u32; SO_MEMINFO_FIGURES] {
    let mut figures = [0_u32; SO_MEMINFO_FIGURES];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the socket is open, and the kernel writes at most `length` bytes into `figures`, which has as many.
    unsafe {
        let (socket, into) = (socket.as_fd().as_raw_fd(), figures.as_mut_ptr().cast());
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, into, &raw mut length);
    }
    figures
}

/// The size of the receive buffer that a socket of this process gets when it asks for this one.
///
/// # Errors
/// When the kernel refuses.
pub fn receive_buffer_given(asked: Bytes) -> io::Result<Bytes> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    set_receive_buffer(&socket, asked)?;
    Ok(buffers_of(&socket).receive_asked())
}

/// Sets the size of a socket's receive buffer, past the system's limit where that is allowed. Elsewhere the kernel cuts it silently.
///
/// # Errors
/// When the kernel refuses.
pub fn set_receive_buffer(socket: impl AsFd, bytes: Bytes) -> io::Result<()> {
    let bytes = usize::try_from(bytes.0).unwrap_or(usize::MAX);
    let forced = sockopt::set_socket_recv_buffer_size_force(&socket, bytes);
    Ok(forced.or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes))?)
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: u64 = 100;
    const BYTES: usize = 1000;

    #[test]
    fn datagrams_that_find_the_buffer_full_are_counted_as_dropped() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = socket.local_addr().unwrap();
        set_receive_buffer(&socket, Bytes(1)).unwrap();
        let receiver = Datagrams::on(socket).unwrap();
        assert_eq!(receiver.counts_with_drops().dropped, 0);
        let sender = Datagrams::connect(to, None).unwrap();
        let transmit = quinn_proto::Transmit {
            destination: to,
            ecn: None,
            size: BYTES,
            segment_size: None,
            src_ip: None,
        };
        for _ in 0..SENT {
            assert_eq!(sender.send(&transmit, &[0; BYTES]).unwrap(), Some(BYTES));
        }
        let mut buffer = vec![0; 1 << 16];
        while receiver.receive(&mut buffer).unwrap().is_some() {}
        let counts = receiver.counts_with_drops();
        assert_eq!((sender.counts().sent, sender.counts_with_drops().dropped), (SENT, 0));
        assert!(counts.received < SENT, "{counts:?}");
        assert_eq!(counts.dropped, SENT - counts.received);
        assert_eq!(receiver.counts().dropped, 0, "only the kernel has this count");
    }
}
