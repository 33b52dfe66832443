//! The fixed moments of one measurement: it starts, the window opens, the window closes.

const SECOND_NS: u64 = 1_000_000_000;
/// The usual [`Frame::late_ns`]: far more than a wake-up takes on a host that is not overloaded, and little beside the latencies that it
/// would distort.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// The moments of one measurement on the caller's time line, in ns. All threads of a load share one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frame {
    /// The warm-up begins.
    pub start_ns: u64,
    /// The measured window opens.
    pub open_ns: u64,
    /// The measured window closes; this moment is not part of it.
    pub close_ns: u64,
    /// A send is late when it left later than this after it was due although nothing but the load held it back.
    pub late_ns: u64,
}

impl Frame {
    /// A frame that begins at `start_ns`.
    #[must_use]
    pub fn new(start_ns: u64, warmup_ns: u64, window_ns: u64) -> Self {
        let open_ns = start_ns.saturating_add(warmup_ns);
        Self { start_ns, open_ns, close_ns: open_ns.saturating_add(window_ns), late_ns: LATE_NS }
    }

    /// Whether a moment lies in the window.
    #[must_use]
    pub fn measures(&self, at_ns: u64) -> bool {
        self.open_ns <= at_ns && at_ns < self.close_ns
    }

    /// In which second of the window a moment lies, from 0; `None` outside of the window.
    #[must_use]
    pub fn second(&self, at_ns: u64) -> Option<usize> {
        self.measures(at_ns).then(|| ((at_ns - self.open_ns) / SECOND_NS) as usize)
    }

    /// How many whole seconds the window has had by `end_ns`.
    #[must_use]
    pub fn whole_seconds(&self, end_ns: u64) -> usize {
        (end_ns.min(self.close_ns).saturating_sub(self.open_ns) / SECOND_NS) as usize
    }

    /// The next whole second of the window after `at_ns`, counted from its opening.
    #[must_use]
    pub fn next_second_ns(&self, at_ns: u64) -> u64 {
        let passed = at_ns.saturating_sub(self.open_ns) / SECOND_NS;
        self.open_ns.saturating_add((passed + 1).saturating_mul(SECOND_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_belong_to_the_second_in_which_they_lie() {
        let frame = Frame::new(100, 50, 2_500_000_000);
        assert_eq!(frame, Frame { start_ns: 100, open_ns: 150, close_ns: 2_500_000_150, late_ns: LATE_NS });
        let second = |offset_ns: u64| frame.second(150 + offset_ns);
        assert_eq!(second(0), Some(0));
        assert_eq!(second(999_999_999), Some(0));
        assert_eq!(second(1_000_000_000), Some(1));
        assert_eq!(second(2_499_999_999), Some(2));
        assert_eq!(second(2_500_000_000), None);
        assert_eq!(frame.second(149), None);
    }

    #[test]
    fn only_whole_seconds_count() {
        let frame = Frame::new(0, 0, 2_500_000_000);
        assert_eq!(frame.whole_seconds(u64::MAX), 2);
        assert_eq!(frame.whole_seconds(1_999_999_999), 1);
        assert_eq!(Frame::new(0, 10, 5).whole_seconds(3), 0);
    }

    #[test]
    fn the_next_second_lies_ahead() {
        let frame = Frame::new(0, 7, 5 * SECOND_NS);
        assert_eq!(frame.next_second_ns(7), SECOND_NS + 7);
        assert_eq!(frame.next_second_ns(SECOND_NS + 7), 2 * SECOND_NS + 7);
    }

    #[test]
    fn a_frame_at_the_end_of_time_does_not_overflow() {
        assert_eq!(Frame::new(u64::MAX - 1, 5, 5).close_ns, u64::MAX);
    }
}
