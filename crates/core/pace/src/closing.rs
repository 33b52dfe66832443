//! A window's end that can be brought forward while its threads run, as by Ctrl-C.
//!
//! All threads close at the same moment, which lies a little ahead: a thread that closed when it happened to notice would
//! make the window longer than the others' work.

use std::sync::atomic::Ordering;

use crate::Frame;
use crate::sync::{Arc, AtomicU64};

/// How far ahead the new end lies, so that every thread has looked at the clock by then.
const AHEAD_NS: u64 = 150_000_000;

/// The thread that watches a measurement has this, and gives each thread an [`End`].
#[derive(Debug)]
pub struct Closing {
    planned: Frame,
    frame: Frame,
    end: End,
}

/// The end of the window as its threads see it.
#[derive(Debug, Clone)]
pub struct End(Arc<AtomicU64>);

impl Closing {
    /// The window of `frame`.
    #[must_use]
    pub fn new(frame: Frame) -> Self {
        Self { planned: frame, frame, end: End(Arc::new(AtomicU64::new(frame.close_ns))) }
    }

    /// The state that each thread looks at.
    #[must_use]
    pub fn end(&self) -> End {
        self.end.clone()
    }

    /// The window as it is now.
    #[must_use]
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Brings the end forward where that is asked for and the end is not near anyway.
    pub fn look(&mut self, now_ns: u64, is_interrupted: bool) {
        let close_ns = now_ns.saturating_add(AHEAD_NS);
        let is_planned = self.frame == self.planned;
        if is_planned && close_ns < self.planned.close_ns && is_interrupted {
            self.frame.close_ns = close_ns;
            self.end.0.store(close_ns, Ordering::Relaxed);
        }
    }

    /// Ends the window of every thread at once, because nobody takes what they measure.
    pub fn abandon(&mut self, now_ns: u64) {
        self.end.0.fetch_min(now_ns, Ordering::Relaxed);
    }
}

impl End {
    /// The new end, where it was brought forward from that of `frame`.
    #[must_use]
    pub fn before(&self, frame: Frame) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|close_ns| *close_ns < frame.close_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_window_ends_for_all_at_one_moment_that_lies_ahead() {
        let frame = Frame::new(0, 1_000, 10_000_000_000);
        let mut closing = Closing::new(frame);
        let end = closing.end();
        closing.look(2_000_000_000, false);
        assert_eq!((closing.frame(), end.before(frame)), (frame, None));
        closing.look(3_000_000_000, true);
        closing.look(3_100_000_000, true);
        assert_eq!(end.before(frame), Some(3_000_000_000 + AHEAD_NS), "it is brought forward once");
        assert_eq!(closing.frame().close_ns, 3_000_000_000 + AHEAD_NS);
        closing.abandon(3_050_000_000);
        assert_eq!(end.before(frame), Some(3_050_000_000), "what nobody takes ends at once");
    }

    #[test]
    fn an_end_that_is_near_stays() {
        let frame = Frame::new(0, 0, 1_000_000_000);
        let mut closing = Closing::new(frame);
        closing.look(900_000_000, true);
        assert_eq!(closing.frame(), frame);
    }
}
