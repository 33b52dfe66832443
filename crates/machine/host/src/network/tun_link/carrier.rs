//! The thread that carries frames in one direction.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::counts::{LinkCounts, lock};
use super::schedule::{Fate, Schedule};
use crate::cpu::{cpus_of_parent, current_thread_cpu_ns, pin_current_thread, run_first};
use crate::network::tap::Tap;
use crate::time::{keep_exact_timers, monotonic_ns};

/// An Ethernet frame beyond its packet: the header, and a VLAN's tag.
const FRAME_BYTES: usize = 14 + 4;
/// Frames that may be on their way at a time. Far more than that would be memory and no link.
const FRAMES_MAX: usize = 100_000;
/// Frames that are read at a time, before those that are due are sent.
const BATCH: usize = 32;
/// The longest sleep, so that no kernel's limit on times matters.
const SLEEP_NS_MAX: u64 = 1_000_000_000;

/// A frame on its way.
struct Frame {
    /// When it was read.
    entered_ns: u64,
    /// The longest that it can have waited for that.
    waited_ns: u64,
    /// When it is to leave.
    at_ns: u64,
    bytes: Vec<u8>,
    length: usize,
}

/// All that a thread carries and knows.
pub(super) struct Carrier {
    from: Arc<Tap>,
    to: Arc<Tap>,
    bell: Arc<OwnedFd>,
    schedule: Schedule,
    frame_bytes: usize,
    delayed: VecDeque<Frame>,
    early: VecDeque<Frame>,
    /// Memory of frames that arrived.
    spare: Vec<Vec<u8>>,
    /// When nothing was there to be read, last.
    empty_ns: u64,
    counts: LinkCounts,
    published: Arc<Mutex<LinkCounts>>,
}

impl Carrier {
    pub(super) fn new(
        from: Arc<Tap>,
        to: Arc<Tap>,
        bell: Arc<OwnedFd>,
        mtu: u32,
        schedule: Schedule,
    ) -> Self {
        Self {
            from,
            to,
            bell,
            schedule,
            frame_bytes: mtu as usize + FRAME_BYTES,
            delayed: VecDeque::new(),
            early: VecDeque::new(),
            spare: Vec::new(),
            empty_ns: monotonic_ns(),
            counts: LinkCounts::default(),
            published: Arc::default(),
        }
    }

    /// Where the counts are to be read.
    pub(super) fn counts(&self) -> Arc<Mutex<LinkCounts>> {
        Arc::clone(&self.published)
    }

    /// Carries frames until the bell rings or the device is gone.
    pub(super) fn run(mut self) {
        keep_exact_timers();
        run_first();
        // An agent is pinned to the CPUs of its side; the link is on neither. A kernel that refuses leaves it there.
        let _ = cpus_of_parent().and_then(|cpus| pin_current_thread(&cpus));
        loop {
            self.send_due();
            let Ok(is_drained) = self.receive() else { break };
            self.counts.cpu_ns = current_thread_cpu_ns();
            *lock(&self.published) = self.counts;
            if self.wait(is_drained).is_break() {
                break;
            }
        }
    }

    /// Takes in a batch. Returns whether nothing more was there.
    fn receive(&mut self) -> std::io::Result<bool> {
        for _ in 0..BATCH {
            let mut bytes = self.spare.pop().unwrap_or_else(|| vec![0; self.frame_bytes]);
            let Some(length) = self.from.take_frame(&mut bytes)? else {
                self.spare.push(bytes);
                self.empty_ns = monotonic_ns();
                return Ok(true);
            };
            self.counts.entered += 1;
            let entered_ns = monotonic_ns();
            let waited_ns = entered_ns - self.empty_ns;
            let fate = self.schedule.arrive(entered_ns, length);
            let has_room = self.delayed.len() + self.early.len() < FRAMES_MAX;
            let counter = match fate {
                Fate::Delayed { at_ns } if has_room => {
                    self.delayed.push_back(Frame { entered_ns, waited_ns, at_ns, bytes, length });
                    continue;
                }
                Fate::Early { at_ns } if has_room => {
                    self.early.push_back(Frame { entered_ns, waited_ns, at_ns, bytes, length });
                    continue;
                }
                Fate::Delayed { .. } | Fate::Early { .. } => &mut self.counts.refused,
                Fate::Lost => &mut self.counts.lost,
                Fate::NoRoom => &mut self.counts.crowded_out,
            };
            *counter += 1;
            self.spare.push(bytes);
        }
        Ok(false)
    }

    /// Delivers all frames whose time has come, the earliest first.
    fn send_due(&mut self) {
        let mut now_ns = monotonic_ns();
        while let Some((at_ns, is_early)) = self.next() {
            if at_ns > now_ns {
                now_ns = monotonic_ns();
                if at_ns > now_ns {
                    return;
                }
            }
            let queue = if is_early { &mut self.early } else { &mut self.delayed };
            let Some(frame) = queue.pop_front() else { return };
            let late_ns = now_ns - at_ns + frame.waited_ns;
            let is_too_soon = !is_early && now_ns - frame.entered_ns < self.schedule.terms.least_ns();
            match self.to.write(&frame.bytes[..frame.length]) {
                Ok(()) => {
                    self.counts.forwarded += 1;
                    self.counts.forwarded_bytes += frame.length as u64;
                }
                Err(_) => self.counts.refused += 1,
            }
            self.counts.too_soon += u64::from(is_too_soon);
            self.counts.reordered += u64::from(is_early);
            self.counts.late += u64::from(late_ns > self.schedule.terms.late_ns());
            self.counts.latest_ns = self.counts.latest_ns.max(late_ns);
            self.spare.push(frame.bytes);
            // Delivering takes time, in which further frames become due and late.
            now_ns = monotonic_ns();
        }
    }

    /// When the next frame has to leave, and whether it is one without the delay.
    fn next(&self) -> Option<(u64, bool)> {
        let at = |queue: &VecDeque<Frame>| queue.front().map(|frame| frame.at_ns);
        match (at(&self.early), at(&self.delayed)) {
            (Some(early), Some(delayed)) if delayed < early => Some((delayed, false)),
            (Some(early), _) => Some((early, true)),
            (None, delayed) => delayed.map(|at_ns| (at_ns, false)),
        }
    }

    /// Sleeps until a frame has to leave or arrives, but not if there is more to read; breaks when the bell rings.
    fn wait(&mut self, is_drained: bool) -> std::ops::ControlFlow<()> {
        let next = self.next().map_or(u64::MAX, |(at_ns, _)| at_ns.saturating_sub(monotonic_ns()));
        let sleep_ns = if is_drained { next.min(SLEEP_NS_MAX) } else { 0 };
        let whole_s = i64::try_from(sleep_ns / 1_000_000_000).unwrap_or(1);
        let timeout = Timespec { tv_sec: whole_s, tv_nsec: (sleep_ns % 1_000_000_000) as _ };
        let mut events = [PollFd::new(&*self.from, PollFlags::IN), PollFd::new(&*self.bell, PollFlags::IN)];
        // An interrupted sleep is a short one.
        let _ = poll(&mut events, Some(&timeout));
        if is_drained {
            // What arrived ended the sleep, so it waited for no longer than the wake-up took.
            self.empty_ns = monotonic_ns();
        }
        if events[1].revents().is_empty() {
            std::ops::ControlFlow::Continue(())
        } else {
            std::ops::ControlFlow::Break(())
        }
    }
}
