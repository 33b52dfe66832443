//! Messages that go one way, as fast as the kernel takes them or when they are due.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use plumb_model::Merge;
use rustix::event::PollFlags;

use super::flow::Flow;
use super::tally::{Live, Sends};
use crate::options::ZeroCopy;
use crate::wire::batch::{Outbox, segment_size, segments_max, segments_name, send_in_segments};
use crate::wire::zero_copy::{self, Completions};
use crate::wire::{datagram, socket};

/// Without a rate one datagram in this many carries a time: the clock costs as much as a tenth of a send.
const STAMP_EVERY: u64 = 8;
/// The flow reads the clock after this many bytes or messages, whichever come first. It notes its CPU time and how long it was held
/// up.
const LOOK_EVERY_BYTES: u64 = 64 << 10;
const LOOK_EVERY: u64 = 1024;

/// Completions of sends without a copy are taken once in this many calls: they take up memory that a socket has little of.
const COMPLETE_EVERY: u64 = 32;
/// How long those are waited for that are due when the last message was sent.
const COMPLETE_NS: u64 = 100_000_000;
/// How long at a time.
const COMPLETE_WAIT: Duration = Duration::from_millis(5);
/// Why nothing can be lent although nothing is.
const NO_ROOM: &str = "MSG_ZEROCOPY lends the kernel more at once than it takes: a smaller message or batch, or a higher limit of \
                       locked memory (ulimit -l) or net.core.optmem_max is needed";
/// How long after the window a flow ends by itself, where the watching thread has not ended it. That thread may have no CPU.
pub const OVERDUE_NS: u64 = 1_000_000_000;
/// How often a flow that is to end waits for room.
const WAITS_AT_END_MAX: u32 = 40;

/// Sends messages over a connection.
///
/// # Errors
/// When the connection broke.
pub fn stream(flow: &mut Flow, socket: &OwnedFd) -> io::Result<()> {
    let batch = flow.make.batch.max(1);
    let mut messages = Messages::new(flow.make.size * batch, flow.make.zero_copy, socket)?;
    let live = Arc::clone(&flow.make.live);
    let mut looks = Looks::new(flow);
    let mut sent = 0_u64;
    let mut now_ns = monotonic_ns();
    let mut ran = Ok(());
    while ran.is_ok() && goes_on(flow, &mut now_ns) {
        ran = messages.send(socket, &live);
        sent += if ran.is_ok() { batch as u64 } else { 0 };
        flow.make.part.progress.set(sent);
        looks.look(flow, sent, &mut now_ns);
    }
    flow.tally.messages = sent;
    flow.tally.sends = messages.account(socket)?;
    ran
}

/// The messages that a stream sends again and again.
struct Messages {
    from: Source,
    calls: u64,
    completions: Completions,
}

/// Where it is.
enum Source {
    /// In memory of this process, which the kernel copies.
    Memory(Vec<u8>),
    /// In a file in the page cache, whose pages the kernel sends.
    Pages(OwnedFd, u64),
    /// In memory of this process, which the kernel borrows.
    Lent(Vec<u8>),
}

impl Messages {
    fn new(bytes: usize, zero_copy: ZeroCopy, socket: &OwnedFd) -> io::Result<Self> {
        let from = match zero_copy {
            ZeroCopy::Off => Source::Memory(vec![0; bytes]),
            ZeroCopy::Sendfile => {
                let file = rustix::fs::memfd_create("messages", rustix::fs::MemfdFlags::CLOEXEC)?;
                // Written once, so that there are pages to send.
                let mut file = std::fs::File::from(file);
                io::Write::write_all(&mut file, &vec![0; bytes])?;
                Source::Pages(file.into(), bytes as u64)
            }
            ZeroCopy::MsgZerocopy => {
                zero_copy::allow(socket)?;
                Source::Lent(vec![0; bytes])
            }
        };
        Ok(Self { from, calls: 0, completions: Completions::default() })
    }

    #[inline]
    fn send(&mut self, socket: &OwnedFd, live: &Live) -> io::Result<()> {
        let Self { from, calls, completions } = self;
        match from {
            Source::Memory(bytes) => {
                let mut left = &bytes[..];
                while !left.is_empty() {
                    left = &left[socket::send(socket, left)?..];
                    *calls += 1;
                }
            }
            Source::Pages(file, bytes) => {
                let mut offset = 0;
                while offset < *bytes {
                    let left = usize::try_from(*bytes - offset).unwrap_or(usize::MAX);
                    rustix::fs::sendfile(socket, &*file, Some(&mut offset), left)?;
                    *calls += 1;
                }
            }
            Source::Lent(bytes) => {
                lend(socket, bytes, live, (calls, completions))?;
                if calls.is_multiple_of(COMPLETE_EVERY) {
                    completions.add(&zero_copy::completions(socket)?);
                }
            }
        }
        Ok(())
    }

    /// How all of it was sent.
    fn account(mut self, socket: &OwnedFd) -> io::Result<Sends> {
        let by = match self.from {
            Source::Memory(_) => "send",
            Source::Pages(..) => "sendfile",
            Source::Lent(_) => "MSG_ZEROCOPY",
        };
        if matches!(self.from, Source::Lent(_)) {
            let deadline_ns = monotonic_ns() + COMPLETE_NS;
            self.completions.add(&zero_copy::completions(socket)?);
            while self.completions.count() < self.calls && monotonic_ns() < deadline_ns {
                socket::is_ready(socket, PollFlags::empty(), COMPLETE_WAIT)?;
                self.completions.add(&zero_copy::completions(socket)?);
            }
        }
        let calls = [(by.to_owned(), self.calls)].into_iter().collect();
        Ok(Sends { calls, completions: self.completions })
    }
}

/// Has the kernel borrow all of it.
fn lend(
    socket: &OwnedFd,
    bytes: &[u8],
    live: &Live,
    (calls, completions): (&mut u64, &mut Completions),
) -> io::Result<()> {
    let (mut left, mut waits) = (bytes, 0);
    while !left.is_empty() {
        match zero_copy::send(socket, left) {
            Ok(count) => {
                left = &left[count..];
                *calls += 1;
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                if completions.count() == *calls {
                    return Err(io::Error::other(NO_ROOM));
                }
                // The kernel says so even when the socket is shut, which ends no flow then.
                if waits == WAITS_AT_END_MAX {
                    return Err(error);
                }
                waits += u32::from(live.is_over());
                socket::is_ready(socket, PollFlags::empty(), COMPLETE_WAIT)?;
                completions.add(&zero_copy::completions(socket)?);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for the time of the next message, where messages have a schedule. Returns whether there is a next one.
#[inline]
fn goes_on(flow: &mut Flow, now_ns: &mut u64) -> bool {
    if flow.make.part.due.is_none() {
        let end_ns = flow.make.part.frame.close_ns.saturating_add(OVERDUE_NS);
        return !flow.make.live.is_over() && *now_ns < end_ns;
    }
    let turn = flow.wait_for_turn(*now_ns);
    if let Some((_, at_ns)) = turn {
        *now_ns = at_ns;
    }
    turn.is_some()
}

/// When a flow reads the clock.
struct Looks {
    every: u64,
    /// The number of messages at which it is looked at next.
    next: u64,
}

impl Looks {
    fn new(flow: &Flow) -> Self {
        let every = match flow.make.part.due {
            // Each time, even where a message could not be sent.
            Some(_) => 0,
            None => (LOOK_EVERY_BYTES / flow.make.size.max(1) as u64).clamp(1, LOOK_EVERY),
        };
        Self { every, next: every }
    }

    #[inline]
    fn look(&mut self, flow: &mut Flow, sent: u64, now_ns: &mut u64) {
        if sent >= self.next {
            self.next = sent + self.every;
            *now_ns = monotonic_ns();
            flow.tally.recorder.gaps.completed(*now_ns);
            flow.observe(*now_ns);
        }
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

impl Way {
    fn new(socket: &OwnedFd, size: usize, batch: usize) -> Self {
        let segments = batch.min(segments_max(size));
        if batch == 1 {
            Self::Single(vec![0; size])
        } else if segments > 1 && send_in_segments(socket, size) {
            Self::Segments(vec![0; size * segments])
        } else {
            Self::Batch(Outbox::new(batch, size))
        }
    }

    /// Sends up to `count` datagrams by one call. Returns how many went.
    #[inline]
    fn send(
        &mut self,
        socket: &OwnedFd,
        size: usize,
        (number, count): (u64, usize),
        always: bool,
    ) -> io::Result<usize> {
        match self {
            Self::Single(message) => {
                prepare(message, number, always);
                socket::send(socket, message).map(|_| 1)
            }
            Self::Segments(messages) => {
                let bytes = messages.len().min(count * size);
                let messages = &mut messages[..bytes];
                (number..)
                    .zip(messages.chunks_mut(size))
                    .for_each(|(number, it)| prepare(it, number, always));
                socket::send(socket, messages).map(|_| bytes / size)
            }
            Self::Batch(outbox) => {
                (0..count).for_each(|at| prepare(outbox.datagram_mut(at), number + at as u64, always));
                outbox.send(socket, count)
            }
        }
    }

    /// By what calls, as the kernel has it.
    fn name(&self, socket: &OwnedFd) -> String {
        match self {
            Self::Single(_) => "send".to_owned(),
            Self::Segments(_) => match segment_size(socket) {
                Ok(size) => segments_name(size),
                Err(error) => format!("UDP_SEGMENT, which cannot be read back: {error}"),
            },
            Self::Batch(_) => "sendmmsg".to_owned(),
        }
    }
}

/// Sends datagrams.
///
/// # Errors
/// When the socket fails.
pub fn datagrams(flow: &mut Flow, socket: &OwnedFd) -> io::Result<()> {
    let (size, batch) = (flow.make.size, flow.make.batch.max(1));
    let mut way = Way::new(socket, size, batch);
    let mut looks = Looks::new(flow);
    let (mut number, mut calls, mut failures) = (0_u64, 0_u64, 0_u64);
    let mut now_ns = monotonic_ns();
    let mut ran = Ok(());
    while ran.is_ok() && goes_on(flow, &mut now_ns) {
        let always = flow.make.part.due.is_some();
        let mut left = batch;
        while left > 0 {
            match way.send(socket, size, (number, left), always) {
                Ok(count) => {
                    (number, calls, left) = (number + count as u64, calls + 1, left - count.min(left));
                    continue;
                }
                // Of an earlier one that found nobody; this one was not sent.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if is_full(&error) => {
                    flow.tally.recorder.fail("a queue of this host was full".to_owned())
                }
                Err(error) => ran = Err(error),
            }
            failures += 1;
            break;
        }
        flow.make.part.progress.set(number);
        // Failures count too: a flow of which nothing is sent has to see its end.
        looks.look(flow, number + failures, &mut now_ns);
    }
    flow.tally.messages = number;
    flow.tally.sends.calls.insert(way.name(socket), calls);
    ran
}

#[inline]
fn prepare(message: &mut [u8], number: u64, always: bool) {
    let is_stamped = datagram::has_time(message.len()) && (always || number.is_multiple_of(STAMP_EVERY));
    datagram::write(message, number, is_stamped.then(monotonic_ns));
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use plumb_pace::{Closing, Frame};
    use plumb_path::drive::Part;

    use super::super::flow::FlowParts;
    use super::*;
    use crate::settings::Test;

    /// A flow of which the window is over, for long enough, 50 ms from now.
    fn overdue(address: std::net::SocketAddr) -> Flow {
        let frame = Frame::new(monotonic_ns() - OVERDUE_NS, 0, 50_000_000);
        Flow::new(FlowParts {
            test: Test::UdpBw,
            socket: None,
            size: 64,
            batch: 1,
            zero_copy: ZeroCopy::Off,
            token: 0,
            options: crate::wire::control::SocketTerms::default(),
            address,
            netns: None,
            cpu: None,
            part: Part {
                number: 0,
                threads: 1,
                seed: 0,
                due: None,
                frame,
                end: Closing::new(frame).end(),
                budget: None,
                progress: Arc::default(),
            },
            live: Arc::default(),
        })
    }

    #[test]
    fn a_flow_that_nobody_ends_ends_by_itself_after_the_window() {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut flow = overdue(peer.local_addr().unwrap());
        let address = flow.make.address;
        datagrams(&mut flow, &socket::datagrams_to(address).unwrap()).unwrap();
        assert!(monotonic_ns() >= flow.make.part.frame.close_ns + OVERDUE_NS && flow.tally.messages > 0);
    }

    #[test]
    fn a_flow_of_which_nothing_can_be_sent_ends_by_itself_too() {
        let (full, peer) = std::os::unix::net::UnixDatagram::pair().unwrap();
        full.set_nonblocking(true).unwrap();
        while full.send(&[0; 64]).is_ok() {}
        let mut flow = overdue("127.0.0.1:9".parse().unwrap());
        datagrams(&mut flow, &OwnedFd::from(full)).unwrap();
        assert!(flow.tally.messages == 0 && !flow.tally.recorder.errors.is_empty());
        drop(peer);
    }
}
