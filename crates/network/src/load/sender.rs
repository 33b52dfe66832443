//! Messages that go one way, as fast as the kernel takes them or when they are due.

use std::io;
use std::os::fd::OwnedFd;

use plumb_host::time::monotonic_ns;

use super::flow::Flow;
use crate::wire::batch::{Outbox, SEGMENTED_BYTES_MAX, SEGMENTS_MAX, send_in_segments};
use crate::wire::{datagram, socket};

/// Without a rate every so many datagrams one carries a time: the clock costs as much as a tenth of a send.
const STAMP_EVERY: u64 = 8;
/// The clock is looked at for the thread's own CPU time every so many messages.
const LOOK_EVERY: u64 = 1024;

/// Sends messages over a connection.
///
/// # Errors
/// When the connection broke.
pub fn stream(flow: &mut Flow, socket: &OwnedFd) -> io::Result<()> {
    let batch = flow.make.batch.max(1);
    let messages = Messages::new(flow.make.size * batch, flow.make.zero_copy)?;
    let mut sent = 0_u64;
    let mut now_ns = monotonic_ns();
    while goes_on(flow, &mut now_ns) {
        messages.send(socket)?;
        sent += batch as u64;
        flow.make.live.set_messages(sent);
        look(flow, sent, &mut now_ns);
    }
    flow.tally.messages = sent;
    Ok(())
}

/// What a stream sends again and again.
enum Messages {
    /// From memory of this process, which the kernel copies.
    Memory(Vec<u8>),
    /// From a file in the page cache, whose pages the kernel sends.
    Pages(OwnedFd, u64),
}

impl Messages {
    fn new(bytes: usize, zero_copy: bool) -> io::Result<Self> {
        if !zero_copy {
            return Ok(Self::Memory(vec![0; bytes]));
        }
        let file = rustix::fs::memfd_create("messages", rustix::fs::MemfdFlags::CLOEXEC)?;
        // Written once, so that there are pages to send.
        let mut file = std::fs::File::from(file);
        io::Write::write_all(&mut file, &vec![0; bytes])?;
        Ok(Self::Pages(file.into(), bytes as u64))
    }

    #[inline]
    fn send(&self, socket: &OwnedFd) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => socket::send_all(socket, bytes),
            Self::Pages(file, bytes) => {
                let mut offset = 0;
                while offset < *bytes {
                    let left = usize::try_from(*bytes - offset).unwrap_or(usize::MAX);
                    rustix::fs::sendfile(socket, file, Some(&mut offset), left)?;
                }
                Ok(())
            }
        }
    }
}

/// Waits until the next message is due, where messages have a schedule. Returns whether there is a next one.
#[inline]
fn goes_on(flow: &mut Flow, now_ns: &mut u64) -> bool {
    if flow.make.due.is_none() {
        return !flow.make.live.is_over();
    }
    let turn = flow.wait_for_turn(*now_ns);
    if let Some((_, at_ns)) = turn {
        *now_ns = at_ns;
    }
    turn.is_some()
}

/// Now and then, the clock.
#[inline]
fn look(flow: &mut Flow, sent: u64, now_ns: &mut u64) {
    if flow.make.due.is_some() || sent.is_multiple_of(LOOK_EVERY) {
        *now_ns = monotonic_ns();
        flow.observe(*now_ns);
    }
}

/// How datagrams go out.
enum Way {
    /// One by one.
    Single(Vec<u8>),
    /// As one, which the kernel or the device cuts.
    Segments(Vec<u8>),
    /// Several by one call.
    Batch(Outbox),
}

/// Sends datagrams.
///
/// # Errors
/// When the socket fails.
pub fn datagrams(flow: &mut Flow, socket: &OwnedFd) -> io::Result<()> {
    let (size, batch) = (flow.make.size, flow.make.batch.max(1));
    let segments = batch.min(SEGMENTS_MAX).min(SEGMENTED_BYTES_MAX / size);
    let mut way = if batch == 1 {
        Way::Single(vec![0; size])
    } else if segments > 1 && send_in_segments(socket, size) {
        Way::Segments(vec![0; size * segments])
    } else {
        Way::Batch(Outbox::new(batch, size))
    };
    let mut number = 0_u64;
    let mut now_ns = monotonic_ns();
    while goes_on(flow, &mut now_ns) {
        let always = flow.make.due.is_some();
        let sent = match &mut way {
            Way::Single(message) => {
                prepare(message, number, always);
                socket::send(socket, message).map(|_| 1)
            }
            Way::Segments(messages) => {
                let count = messages.len() / size;
                (number..)
                    .zip(messages.chunks_mut(size))
                    .for_each(|(number, it)| prepare(it, number, always));
                socket::send(socket, messages).map(|_| count)
            }
            Way::Batch(outbox) => {
                (0..batch).for_each(|at| prepare(outbox.datagram_mut(at), number + at as u64, always));
                outbox.send(socket, batch)
            }
        };
        match sent {
            Ok(count) => number += count as u64,
            // Of an earlier one that found nobody; this one was not sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if is_full(&error) => flow.tally.fail("a queue of this host was full".to_owned()),
            Err(error) => return Err(error),
        }
        flow.make.live.set_messages(number);
        look(flow, number, &mut now_ns);
    }
    flow.tally.messages = number;
    Ok(())
}

#[inline]
fn prepare(message: &mut [u8], number: u64, always: bool) {
    let is_stamped = datagram::has_time(message.len()) && (always || number.is_multiple_of(STAMP_EVERY));
    datagram::write(message, number, is_stamped.then(monotonic_ns));
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN))
}
