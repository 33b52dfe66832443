//! The datagrams of one connection.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;

use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};

use crate::load::datagram_counts::DatagramCounts;
use crate::load::errors::Failure;
use crate::load::socket::Traffic;

/// The figures of SO_MEMINFO, and the place of the drops among them (`include/uapi/linux/sock_diag.h`).
const SO_MEMINFO_FIGURES: usize = 9;
const SK_MEMINFO_DROPS: usize = 8;

/// A socket of datagrams. Both it and the kernel take several at a time, in segments of one size (GSO, GRO).
#[derive(Debug)]
pub struct Datagrams {
    socket: UdpSocket,
    state: UdpSocketState,
    traffic: Rc<Traffic>,
    counts: Cell<DatagramCounts>,
}

/// Datagrams in a row, all of the same size but the last, which may be shorter.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    pub from: SocketAddr,
    /// Bytes of all of them.
    pub bytes: usize,
    /// Bytes of one.
    pub segment_bytes: usize,
    pub ecn: Option<EcnCodepoint>,
}

impl Datagrams {
    /// A socket for datagrams to and from one address.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn connect(to: SocketAddr, traffic: Rc<Traffic>) -> Result<Self, Failure> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self { socket, state, traffic, counts: Cell::default() })
    }

    /// The most datagrams of a call.
    #[must_use]
    pub fn segments_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends datagrams; `false` where the kernel takes none now.
    ///
    /// # Errors
    /// When the server's host refuses them.
    pub fn send(&self, transmit: &quinn_proto::Transmit, contents: &[u8]) -> Result<bool, Failure> {
        let ecn = transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let (destination, segment_size) = (transmit.destination, transmit.segment_size);
        let transmit = Transmit { destination, ecn, contents, segment_size, src_ip: None };
        match self.state.try_send((&self.socket).into(), &transmit) {
            Ok(()) => {
                self.traffic.sent.set(self.traffic.sent.get() + contents.len() as u64);
                self.count(|counts| {
                    counts.send_calls += 1;
                    counts.sent +=
                        contents.len().div_ceil(segment_size.unwrap_or(contents.len()).max(1)) as u64;
                });
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            // A probe of the path's MTU was too large.
            Err(error) if quinn_udp::is_msg_size_err(&error) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives datagrams, if there are any.
    ///
    /// # Errors
    /// When the server's host refused earlier ones.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>, Failure> {
        let mut meta = RecvMeta::default();
        loop {
            let (mut buffers, meta) = ([IoSliceMut::new(buffer)], std::slice::from_mut(&mut meta));
            match self.state.recv((&self.socket).into(), &mut buffers, meta) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.traffic.received.set(self.traffic.received.get() + meta.len as u64);
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

    /// The counts since the socket was made, but for those of the connection.
    #[must_use]
    pub fn counts(&self) -> DatagramCounts {
        DatagramCounts { dropped: self.dropped(), ..self.counts.get() }
    }

    /// Datagrams that the kernel dropped, because the socket's buffer was full.
    fn dropped(&self) -> u64 {
        let mut figures = [0_u32; SO_MEMINFO_FIGURES];
        let mut length = size_of_val(&figures) as libc::socklen_t;
        // SAFETY: the socket is open, and the kernel writes at most `length` bytes into `figures`, which has as many.
        unsafe {
            let (socket, into) = (self.socket.as_raw_fd(), figures.as_mut_ptr().cast());
            libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, into, &raw mut length);
        }
        figures[SK_MEMINFO_DROPS].into()
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
