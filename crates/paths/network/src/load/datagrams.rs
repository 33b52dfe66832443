//! Datagrams there and back. The lowest bytes of a datagram's number tell its answer from others.
//!
//! A flow waits for one answer at a time, without a timer. When that takes too long the watching thread sends a probe: the
//! answer to it frees the flow, which goes on with its next message. The late answer counts when it comes, with its time, and
//! is lost after a second or more (`overdue`). Probes are not measured.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use rustix::event::PollFlags;

use super::flow::Flow;
use super::overdue::{Overdue, Waiting, loss_ns};
use crate::wire::socket;

/// Why a datagram failed.
const LOST: &str = "no answer";
/// How long late answers are waited for at a time.
const WAIT: Duration = Duration::from_millis(50);

/// The socket and the buffers of a flow.
struct Talk<'a> {
    socket: &'a OwnedFd,
    message: Vec<u8>,
    answer: Vec<u8>,
    overdue: Overdue,
}

/// The result of waiting for an answer.
enum Came {
    /// It, at that moment.
    Answer(u64),
    /// That to its probe.
    Probe,
    /// Nothing any more.
    Nothing,
}

/// Sends messages and waits for their answers until the flow is over.
///
/// # Errors
/// When the socket fails.
pub fn round_trips(flow: &mut Flow, socket: &OwnedFd) -> io::Result<()> {
    let size = flow.make.size;
    let mut talk =
        Talk { socket, message: vec![0; size], answer: vec![0; size + 1], overdue: Overdue::new(size) };
    let mut current = None;
    let ran = talk.round_trips(flow, &mut current);
    let ran = ran.and_then(|()| talk.late_answers(flow, None));
    // Messages without an answer have waited until now.
    let now_ns = monotonic_ns();
    let left = talk.overdue.take_sent_by(u64::MAX);
    left.into_iter().chain(current).for_each(|one| give_up(flow, one, now_ns));
    ran
}

impl Talk<'_> {
    fn round_trips(&mut self, flow: &mut Flow, current: &mut Option<Waiting>) -> io::Result<()> {
        let (mut now_ns, mut number) = (monotonic_ns(), 1);
        loop {
            if !self.overdue.is_empty() {
                self.late_answers(flow, Some(flow.due_ns().unwrap_or(0).min(flow.make.part.frame.close_ns)))?;
                now_ns = monotonic_ns();
            }
            let Some((due_ns, start_ns)) = flow.wait_for_turn(now_ns) else { return Ok(()) };
            // The one behind it is its probe's.
            number = self.overdue.free_number(number + 2);
            let one = Waiting { number, due_ns, start_ns, is_probe: false };
            *current = Some(one);
            flow.make.live.number.store(number, Ordering::Relaxed);
            let bytes = number.to_le_bytes();
            let room = self.message.len().min(bytes.len());
            self.message[..room].copy_from_slice(&bytes[..room]);
            match socket::send(self.socket, &self.message) {
                // Of an earlier one that found nobody.
                Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => return Err(error),
                _ => {}
            }
            match self.wait(flow, one)? {
                Came::Answer(at_ns) => now_ns = at_ns,
                Came::Probe => {
                    self.overdue.push(one);
                    now_ns = monotonic_ns();
                }
                Came::Nothing => return Ok(()),
            }
            *current = None;
        }
    }

    /// Waits for the answer to a message, or to its probe.
    #[inline]
    fn wait(&mut self, flow: &mut Flow, one: Waiting) -> io::Result<Came> {
        loop {
            let Some(number) = self.receive()? else { return Ok(Came::Nothing) };
            let now_ns = monotonic_ns();
            if self.overdue.is_same(number, one.number) {
                let live = &flow.make.live;
                live.answered.store(one.number, Ordering::Relaxed);
                live.round_trip_ns.store(now_ns - one.start_ns, Ordering::Relaxed);
                if live.probed.load(Ordering::Relaxed) == one.number {
                    // Else its answer could be taken for that of a later message.
                    self.overdue.push(Waiting { number: one.number + 1, is_probe: true, ..one });
                }
                flow.came_back(one.due_ns, one.start_ns, now_ns);
                return Ok(Came::Answer(now_ns));
            }
            if self.overdue.is_same(number, one.number + 1) {
                flow.observe(now_ns);
                return Ok(Came::Probe);
            }
            self.late(flow, number, now_ns);
        }
    }

    /// Receives one answer. Returns its number, of which only the lowest bytes may be right; nothing where the flow was ended.
    #[inline]
    fn receive(&mut self) -> io::Result<Option<u64>> {
        loop {
            let count = match socket::receive(self.socket, &mut self.answer) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                received => received?,
            };
            if count == 0 {
                return Ok(None);
            }
            // A datagram of another size is a late answer to the hello.
            if count == self.message.len() {
                let mut bytes = [0; 8];
                let room = count.min(bytes.len());
                bytes[..room].copy_from_slice(&self.answer[..room]);
                return Ok(Some(u64::from_le_bytes(bytes)));
            }
        }
    }

    /// Counts a late answer. One that nobody waits for came twice, or after it had been given up.
    fn late(&mut self, flow: &mut Flow, number: u64, now_ns: u64) {
        if let Some(one) = self.overdue.take(number).filter(|one| !one.is_probe) {
            flow.tally.ends.late += u64::from(flow.make.part.frame.measures(one.due_ns));
            flow.came_back(one.due_ns, one.start_ns, now_ns);
        }
    }

    /// Takes late answers until a moment, or until none is waited for any more, and gives up those that are too late.
    fn late_answers(&mut self, flow: &mut Flow, until_ns: Option<u64>) -> io::Result<()> {
        loop {
            let now_ns = monotonic_ns();
            let lost_ns = loss_ns(flow.make.live.round_trip_ns.load(Ordering::Relaxed));
            let lost = self.overdue.take_sent_by(now_ns.saturating_sub(lost_ns));
            lost.into_iter().for_each(|one| give_up(flow, one, now_ns));
            let left_ns = until_ns.map_or(u64::MAX, |until_ns| until_ns.saturating_sub(now_ns));
            if self.overdue.is_settled() || left_ns == 0 {
                return Ok(());
            }
            let wait = WAIT.min(Duration::from_nanos(left_ns));
            if socket::is_ready(self.socket, PollFlags::IN, wait)? {
                let Some(number) = self.receive()? else { return Ok(()) };
                self.late(flow, number, monotonic_ns());
            }
        }
    }
}

/// Counts one without an answer: it is lost where it has waited long enough for that.
fn give_up(flow: &mut Flow, one: Waiting, now_ns: u64) {
    if one.is_probe {
        return;
    }
    let time_ns = flow.time_ns(one.due_ns, one.start_ns, now_ns);
    if now_ns - one.start_ns >= loss_ns(flow.make.live.round_trip_ns.load(Ordering::Relaxed)) {
        flow.tally.fail_one(one.due_ns, time_ns, LOST);
    } else {
        flow.tally.leave(one.due_ns, time_ns, 1);
    }
}
