//! Memory that the kernel borrows for a send instead of copying it, and what it says of that afterwards (MSG_ZEROCOPY; the
//! kernel's Documentation/networking/msg_zerocopy.rst).
//!
//! The kernel may copy after all, and does so for every receiver on the same host. It says which sends it copied.

use std::io;
use std::os::fd::AsFd;

use plumb_model::{Merge, merged};

use super::options;
use super::socket::number;

/// For these the C library's headers are older than the kernel's (include/uapi/asm-generic/socket.h, linux/errqueue.h).
const SO_ZEROCOPY: libc::c_int = 60;
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;
/// Room for the one message of control that comes with a completion, and for the address in it.
const CONTROL_WORDS: usize = 16;

merged! {
    /// Sends that the kernel is done with.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Completions {
        /// It sent them from where they were.
        pub lent: u64,
        /// It copied them after all.
        pub copied: u64,
    }
}

impl Completions {
    /// How many there are.
    #[must_use]
    pub fn count(self) -> u64 {
        self.lent + self.copied
    }
}

/// Allows sends without a copy.
///
/// # Errors
/// When the kernel has no such thing.
pub fn allow(socket: impl AsFd) -> io::Result<()> {
    options::set(socket, libc::SOL_SOCKET, SO_ZEROCOPY, 1)
}

/// Sends once, without a copy where the kernel can. The caller must not change the bytes until the kernel is done with them.
///
/// # Errors
/// When the connection broke; `ENOBUFS` when too many sends are under way.
#[inline]
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads `bytes.len()` bytes. It goes on to read them after the call, which is not an access that Rust
    // knows of, and their pages are the kernel's to keep even where this process gives them up.
    let sent = unsafe { libc::send(number(&socket), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Takes all completions that are there.
///
/// # Errors
/// When the socket fails.
pub fn completions(socket: impl AsFd) -> io::Result<Completions> {
    let mut all = Completions::default();
    while let Some(some) = next(&socket)? {
        all.add(&some);
    }
    Ok(all)
}

fn next(socket: impl AsFd) -> io::Result<Option<Completions>> {
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: a message header is numbers and pointers, for all of which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points to `control`, which lives through the call, with its length.
    if unsafe { libc::recvmsg(number(&socket), &raw mut header, flags) } < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            io::ErrorKind::Interrupted => Ok(Some(Completions::default())),
            _ => Err(error),
        };
    }
    let bytes: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(Some(parse(bytes.get(..header.msg_controllen).unwrap_or_default()).unwrap_or_default()))
}

/// Reads a message of control (`struct cmsghdr`) with a `struct sock_extended_err` in it: a range of sends.
fn parse(control: &[u8]) -> Option<Completions> {
    const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();
    let error = control.get(HEADER_BYTES..)?;
    let word = |at: usize| Some(u32::from_ne_bytes(*error.get(at..)?.first_chunk()?));
    let (origin, code) = (*error.get(4)?, *error.get(6)?);
    if origin != ORIGIN_ZEROCOPY {
        return None;
    }
    // The numbers of sends wrap around.
    let count = u64::from(word(12)?.wrapping_sub(word(8)?)) + 1;
    let (lent, copied) = if code & CODE_COPIED == 0 { (count, 0) } else { (0, count) };
    Some(Completions { lent, copied })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use plumb_host::time::monotonic_ns;

    use super::*;

    #[test]
    fn what_a_receiver_on_this_host_gets_was_copied() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        allow(&client).unwrap();
        let mut taken = [0; 10_000];
        for _ in 0..3 {
            assert_eq!(send(&client, &[7; 10_000]).unwrap(), 10_000);
            server.read_exact(&mut taken).unwrap();
        }
        assert_eq!(taken, [7; 10_000]);
        let (mut all, begin_ns) = (Completions::default(), monotonic_ns());
        while all.count() < 3 && monotonic_ns() - begin_ns < 5_000_000_000 {
            all.add(&completions(&client).unwrap());
        }
        assert_eq!(all, Completions { lent: 0, copied: 3 });
        assert_eq!(completions(&client).unwrap(), Completions::default());
    }

    /// The kernel's notification about a range of sends.
    fn completion(origin: u8, code: u8, first: u32, last: u32) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<libc::cmsghdr>() + 4];
        bytes.extend([origin, 0, code, 0]);
        bytes.extend(first.to_ne_bytes());
        bytes.extend(last.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_range_of_sends_is_counted_by_whether_it_was_copied() {
        let of = |lent, copied| Some(Completions { lent, copied });
        assert_eq!(parse(&completion(5, 0, 3, 3)), of(1, 0));
        assert_eq!(parse(&completion(5, 1, 0, 99)), of(0, 100));
        assert_eq!(parse(&completion(5, 0, u32::MAX, 1)), of(3, 0));
        assert_eq!(parse(&completion(2, 0, 0, 5)), None, "an error of another origin");
        assert_eq!((parse(&[]), parse(&[0; 20])), (None, None));
    }
}
