//! Several datagrams by one call: `recvmmsg`, `sendmmsg`, and the kernel's own segmentation (UDP_SEGMENT, UDP_GRO).

use std::io;
use std::os::fd::AsFd;

use super::bounds::DATAGRAM_SIZE_MAX;
use super::options;
use super::socket::number;

/// No call sends more segments (UDP_MAX_SEGMENTS of kernels before 6.9; later ones have 128).
const SEGMENTS_MAX: usize = 64;

/// How many datagrams of `size` bytes one call can send in segments: to the kernel they are one datagram before it is cut.
#[must_use]
pub fn segments_max(size: usize) -> usize {
    SEGMENTS_MAX.min(DATAGRAM_SIZE_MAX / size.max(1))
}

/// The name of such a call, with the size that the kernel cuts to.
#[must_use]
pub fn segments_name(size: libc::c_int) -> String {
    format!("UDP_SEGMENT of {size} B")
}

/// Has the kernel hand over datagrams that came in a row as one. Returns whether it does.
pub fn accept_segments(socket: impl AsFd) -> bool {
    options::set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok()
}

/// Has the kernel cut what is sent into datagrams of `size` bytes. Returns whether it does.
pub fn send_in_segments(socket: impl AsFd, size: usize) -> bool {
    let Ok(size) = libc::c_int::try_from(size) else { return false };
    options::set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, size).is_ok()
}

/// Whether it does, as it says itself.
///
/// # Errors
/// When it does not say.
pub fn accepts_segments(socket: impl AsFd) -> io::Result<bool> {
    Ok(options::get(socket, libc::SOL_UDP, libc::UDP_GRO)? != 0)
}

/// The size that the kernel cuts to, as it says itself.
///
/// # Errors
/// When it does not say.
pub fn segment_size(socket: impl AsFd) -> io::Result<libc::c_int> {
    options::get(socket, libc::SOL_UDP, libc::UDP_SEGMENT)
}

/// Memory for several datagrams, and headers that point to it for one call.
#[derive(Debug)]
struct Batch {
    room: usize,
    bytes: Vec<u8>,
    /// The vectors that the headers point to. Neither they nor `bytes` are resized, so all stay in place.
    _pieces: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Batch {
    fn new(count: usize, room: usize) -> Self {
        let mut bytes = vec![0; count * room];
        let mut pieces: Vec<libc::iovec> = bytes.chunks_mut(room).map(piece).collect();
        let headers = pieces.iter_mut().map(header).collect();
        Self { room, bytes, _pieces: pieces, headers }
    }
}

fn piece(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn header(piece: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: a message header is numbers and pointers, for all of which zero is a value.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = piece;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// Room for a batch of datagrams that come.
#[derive(Debug)]
pub struct Inbox(Batch);

impl Inbox {
    /// Room for `count` datagrams of `room` bytes.
    #[must_use]
    pub fn new(count: usize, room: usize) -> Self {
        Self(Batch::new(count, room))
    }

    /// Takes all datagrams that are there, up to its room; waits for the first one if it `waits`. Returns how many.
    ///
    /// # Errors
    /// When the socket fails; `WouldBlock` where nothing is there and it does not wait.
    pub fn receive(&mut self, socket: impl AsFd, waits: bool) -> io::Result<usize> {
        let flags = if waits { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let count = libc::c_uint::try_from(self.0.headers.len()).unwrap_or(libc::c_uint::MAX);
        loop {
            // SAFETY: the headers point to pieces, and these to bytes, that live in `self` and do not move.
            let taken = unsafe {
                libc::recvmmsg(
                    number(&socket),
                    self.0.headers.as_mut_ptr(),
                    count,
                    flags,
                    std::ptr::null_mut(),
                )
            };
            match usize::try_from(taken) {
                Ok(taken) => return Ok(taken),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// How many datagrams it takes by one call.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.headers.len()
    }

    /// One of the datagrams that were taken last.
    #[inline]
    #[must_use]
    pub fn datagram(&self, at: usize) -> &[u8] {
        let length = (self.0.headers[at].msg_len as usize).min(self.0.room);
        &self.0.bytes[at * self.0.room..][..length]
    }
}

/// A batch of datagrams to send.
#[derive(Debug)]
pub struct Outbox(Batch);

impl Outbox {
    /// Room for `count` datagrams of `room` bytes.
    #[must_use]
    pub fn new(count: usize, room: usize) -> Self {
        Self(Batch::new(count, room))
    }

    /// One of the datagrams.
    #[inline]
    pub fn datagram_mut(&mut self, at: usize) -> &mut [u8] {
        &mut self.0.bytes[at * self.0.room..][..self.0.room]
    }

    /// Sends the first `count`. Returns how many went.
    ///
    /// # Errors
    /// When not one could be sent.
    pub fn send(&mut self, socket: impl AsFd, count: usize) -> io::Result<usize> {
        let count = libc::c_uint::try_from(count.min(self.0.headers.len())).unwrap_or(libc::c_uint::MAX);
        // SAFETY: the headers point to pieces, and these to bytes, that live in `self` and do not move.
        let sent = unsafe {
            libc::sendmmsg(number(&socket), self.0.headers.as_mut_ptr(), count, libc::MSG_NOSIGNAL)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_batch_arrives_as_it_was_sent() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let mut outbox = Outbox::new(5, 7);
        for at in 0..5 {
            outbox.datagram_mut(at).fill(at as u8);
        }
        assert_eq!(outbox.send(&sender, 5).unwrap(), 5);
        let mut inbox = Inbox::new(3, 64);
        assert_eq!(inbox.receive(&receiver, true).unwrap(), 3);
        assert_eq!(inbox.datagram(2), [2; 7]);
        assert_eq!(inbox.receive(&receiver, true).unwrap(), 2);
        assert_eq!(inbox.datagram(1), [4; 7]);
        assert_eq!(inbox.receive(&receiver, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
