//! The receiving end of a channel. It reads bytes from the socket straight into the guest's memory.

use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use rustls::{ServerConnection, StreamOwned};

use super::tls::Protection;

/// The receiving end of a channel.
#[derive(Debug)]
pub enum Incoming {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS.
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Incoming {
    /// Makes a channel of a connection, encrypted with `tls`.
    pub fn new(stream: TcpStream, tls: Option<ServerConnection>) -> Self {
        match tls {
            Some(connection) => Self::Tls(Box::new(StreamOwned::new(connection, stream))),
            None => Self::Plain(stream),
        }
    }

    /// The protection.
    #[must_use]
    pub fn protection(&self) -> Protection {
        match self {
            Self::Plain(_) => Protection::None,
            Self::Tls(stream) => Protection::of_connection(&stream.conn),
        }
    }

    /// Fills all slices; each stays within its own memory.
    ///
    /// # Errors
    /// When the connection ends before, or breaks.
    pub fn fill(&mut self, slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => fill_plain(stream, slices),
            Self::Tls(stream) => slices.iter_mut().try_for_each(|slice| stream.read_exact(slice)),
        }
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the connection was closed"),
            _ => error,
        })
    }

    /// Fills one slice.
    ///
    /// # Errors
    /// As [`Incoming::fill`].
    pub fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.fill(&mut [IoSliceMut::new(bytes)])
    }
}

/// Fills all slices with one system call, or more if the kernel fills only some.
fn fill_plain(stream: &TcpStream, mut slices: &mut [IoSliceMut<'_>]) -> io::Result<()> {
    IoSliceMut::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        // SAFETY: the message is zero but for the slices, which live until the call is over.
        let received = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = slices.as_mut_ptr().cast();
            message.msg_iovlen = slices.len() as _;
            libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_WAITALL)
        };
        match usize::try_from(received) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => IoSliceMut::advance_slices(&mut slices, received),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    Ok(())
}
