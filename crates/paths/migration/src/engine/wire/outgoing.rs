//! The sending end of a channel, under the cap.
//!
//! Pages of a guest that is paused or idle are not copied on this side: they go into a pipe by reference (`vmsplice`) and from there into
//! the socket (`splice`). On loopback the destination then copies them out of the source's own pages, once instead of twice. Nothing may
//! change them before they have arrived, so the pages of a guest that writes are copied first.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustls::{ClientConnection, StreamOwned};

use super::super::alarm::Alarm;
use super::super::memory::GuestMemory;
use super::super::pace::Pacer;
use super::tls::Protection;
use plumb_codec::PAGE_BYTES;

/// The capacity of the pipe before a socket.
const PIPE_BYTES: usize = 1 << 20;

/// The sending end of a channel.
#[derive(Debug)]
pub enum Outgoing {
    /// Plain TCP.
    Plain(Plain),
    /// TLS.
    Tls(Box<StreamOwned<ClientConnection, Paced>>),
}

/// A socket that waits for its turn under the cap before each write.
#[derive(Debug)]
pub struct Paced {
    stream: TcpStream,
    pacer: Arc<Pacer>,
    alarm: Arc<Alarm>,
}

/// A plain socket, and the pipe that hands it pages by reference.
#[derive(Debug)]
pub struct Plain {
    socket: Paced,
    pipe: Option<Pipe>,
}

#[derive(Debug)]
struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    bytes: usize,
}

impl Outgoing {
    /// Makes a channel of a connection, encrypted with `tls`.
    pub fn new(
        stream: TcpStream,
        pacer: Arc<Pacer>,
        alarm: Arc<Alarm>,
        tls: Option<ClientConnection>,
    ) -> Self {
        let socket = Paced { stream, pacer, alarm };
        match tls {
            Some(connection) => Self::Tls(Box::new(StreamOwned::new(connection, socket))),
            None => Self::Plain(Plain { socket, pipe: Pipe::open().ok() }),
        }
    }

    /// The protection of the connection, once something was sent.
    #[must_use]
    pub fn protection(&self) -> Protection {
        match self {
            Self::Plain(_) => Protection::None,
            Self::Tls(stream) => Protection::of_connection(&stream.conn),
        }
    }

    /// Sends the bytes before the pages: a header and its table.
    ///
    /// # Errors
    /// When the connection is closed or broken.
    pub fn send_front(&mut self, front: &[&[u8]], is_last: bool) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.send_front(front, is_last),
            Self::Tls(stream) => {
                for piece in front {
                    stream.write_all(piece)?;
                }
                if is_last { stream.flush() } else { Ok(()) }
            }
        }
    }

    /// Sends bytes that may change as soon as this returns.
    ///
    /// # Errors
    /// When the connection is closed or broken.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.socket.write_all(bytes),
            Self::Tls(stream) => {
                stream.write_all(bytes)?;
                stream.flush()
            }
        }
    }

    /// Sends ranges of memory without a copy.
    ///
    /// # Safety
    /// Nothing writes to the ranges until the destination has them.
    ///
    /// # Errors
    /// When the connection is closed or broken.
    pub unsafe fn send_quiet(&mut self, memory: &GuestMemory, ranges: &[Range<usize>]) -> io::Result<()> {
        for range in ranges {
            match self {
                Self::Plain(Plain { socket, pipe: Some(pipe) }) => pipe.send(socket, memory, range)?,
                _ => {
                    // SAFETY: the caller keeps writers away.
                    let bytes = unsafe { memory.quiet(range) };
                    self.send_bytes(bytes)?;
                }
            }
        }
        Ok(())
    }
}

impl Plain {
    fn send_front(&mut self, front: &[&[u8]], is_last: bool) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = front.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut slices = slices.as_mut_slice();
        self.socket.wait(slices.iter().map(|slice| slice.len()).sum());
        let flags = libc::MSG_NOSIGNAL | if is_last { 0 } else { libc::MSG_MORE };
        while !slices.is_empty() {
            // SAFETY: the message is zero but for the slices, which live until the call is over.
            let sent = unsafe {
                let mut message: libc::msghdr = std::mem::zeroed();
                message.msg_iov = slices.as_mut_ptr().cast();
                message.msg_iovlen = slices.len() as _;
                libc::sendmsg(self.socket.stream.as_raw_fd(), &raw const message, flags)
            };
            IoSlice::advance_slices(&mut slices, count(sent)?);
        }
        Ok(())
    }
}

impl Pipe {
    fn open() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let bytes = fcntl_setpipe_size(&writer, PIPE_BYTES)?;
        Ok(Self { reader, writer, bytes })
    }

    /// Hands a range to the socket by reference, in pieces that the pipe and the cap allow.
    fn send(&self, socket: &Paced, memory: &GuestMemory, range: &Range<usize>) -> io::Result<()> {
        // A pipe holds this many pages, whole or in part.
        let piece_bytes = (self.bytes - PAGE_BYTES).min(socket.pacer.piece_bytes());
        let mut start = range.start;
        while start < range.end {
            let piece = start..range.end.min(start + piece_bytes);
            socket.wait(piece.len());
            let taken = self.take(memory, &piece)?;
            self.pass_on(&socket.stream, taken, start + taken < range.end)?;
            start += taken;
        }
        Ok(())
    }

    fn take(&self, memory: &GuestMemory, piece: &Range<usize>) -> io::Result<usize> {
        let pointer = memory.pointer(piece).cast();
        let slice = libc::iovec { iov_base: pointer, iov_len: piece.len() };
        loop {
            // SAFETY: the range is within the mapping, and the kernel only reads it.
            let taken = unsafe { libc::vmsplice(self.writer.as_raw_fd(), &raw const slice, 1, 0) };
            match count(taken) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn pass_on(&self, stream: &TcpStream, mut bytes: usize, is_more: bool) -> io::Result<()> {
        let flags = if is_more { libc::SPLICE_F_MORE } else { 0 };
        let (from, to) = (self.reader.as_raw_fd(), stream.as_raw_fd());
        while bytes > 0 {
            // SAFETY: both descriptors are open, and no offsets are given.
            let moved =
                unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), bytes, flags) };
            match count(moved) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => bytes -= moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The result of a system call that returns a number of bytes.
fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Paced {
    fn wait(&self, bytes: usize) {
        self.pacer.pass(bytes, || self.alarm.is_raised());
    }
}

impl Write for Paced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(self.pacer.piece_bytes())];
        self.wait(piece.len());
        self.stream.write_all(piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl io::Read for Paced {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }
}
