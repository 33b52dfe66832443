//! When nothing completed: the spans between completions, and what of them all threads of a load share.
//!
//! A closed loop sends nothing while it waits, so a stall adds one slow answer for each connection and hardly moves a
//! percentile. How long nothing completed shows it.

use crate::Frame;

/// A gap shorter than this is not a stall; the limit doubles whenever more than [`SPANS_MAX`] gaps would be kept.
const SHORTEST_NS: u64 = 1_000_000;
const SPANS_MAX: usize = 4096;

/// The spans of one window without a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gaps {
    frame: Frame,
    last_ns: u64,
    shortest_ns: u64,
    spans: Vec<(u64, u64)>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self::new(Frame::default())
    }
}

impl Gaps {
    /// No completion yet: the gap begins with the window.
    #[must_use]
    pub fn new(frame: Frame) -> Self {
        Self { frame, last_ns: frame.open_ns, shortest_ns: SHORTEST_NS, spans: Vec::new() }
    }

    /// Something completed. Moments outside the window are ignored; one before the last is too.
    #[inline]
    pub fn completed(&mut self, at_ns: u64) {
        if at_ns <= self.last_ns || at_ns > self.frame.close_ns {
            return;
        }
        if at_ns - self.last_ns >= self.shortest_ns {
            self.keep((self.last_ns, at_ns));
        }
        self.last_ns = at_ns;
    }

    /// The window closed, or the load ended before that. A gap that goes on after the end counts up to it.
    pub fn close(&mut self, end_ns: u64) {
        self.completed(end_ns.min(self.frame.close_ns));
        self.spans.iter_mut().for_each(|(_, end)| *end = end_ns.min(*end));
    }

    /// Leaves what was a gap here and in another thread. The span after a thread's last completion is open: a thread that ended
    /// early completes nothing after its end.
    pub fn add(&mut self, other: &Self) {
        let (mine, others) = (self.with_open(), other.with_open());
        self.shortest_ns = self.shortest_ns.max(other.shortest_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        let (mut mine, mut others) = (mine.iter().peekable(), others.iter().peekable());
        let mut shared = Vec::new();
        while let (Some(a), Some(b)) = (mine.peek(), others.peek()) {
            let (begin, end) = (a.0.max(b.0), a.1.min(b.1));
            if begin.saturating_add(self.shortest_ns) <= end {
                shared.push((begin, end));
            }
            if a.1 < b.1 {
                mine.next()
            } else {
                others.next()
            };
        }
        // The last one is open in both.
        shared.pop();
        self.spans = shared;
    }

    fn with_open(&self) -> Vec<(u64, u64)> {
        self.spans.iter().copied().chain([(self.last_ns, u64::MAX)]).collect()
    }

    /// The longest gap in ns; 0 where all are shorter than what is kept.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.spans.iter().map(|(begin, end)| end.saturating_sub(*begin)).max().unwrap_or(0)
    }

    fn keep(&mut self, span: (u64, u64)) {
        self.spans.push(span);
        while self.spans.len() > SPANS_MAX {
            self.shortest_ns *= 2;
            let shortest_ns = self.shortest_ns;
            self.spans.retain(|(begin, end)| end - begin >= shortest_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn gaps(moments_ms: &[u64]) -> Gaps {
        let mut gaps = Gaps::new(Frame::new(0, 100 * MS, 1000 * MS));
        moments_ms.iter().for_each(|at| gaps.completed(at * MS));
        gaps.close(1100 * MS);
        gaps
    }

    #[test]
    fn the_longest_gap_may_lie_at_either_end_of_the_window() {
        assert_eq!(gaps(&[50, 400, 500, 600, 1000]).longest_ns(), 400 * MS);
        assert_eq!(gaps(&[110, 120, 130]).longest_ns(), 970 * MS);
        assert_eq!(gaps(&[]).longest_ns(), 1000 * MS);
        assert_eq!(gaps(&[300, 600, 900, 2000]).longest_ns(), 300 * MS);
    }

    #[test]
    fn threads_share_only_the_gaps_that_both_have() {
        let mut one = gaps(&[200, 700, 1090]);
        one.add(&gaps(&[300, 600, 1000]));
        assert_eq!(one.longest_ns(), 300 * MS, "from 300 to 600 ms");
        one.add(&gaps(&[400]));
        assert_eq!(one.longest_ns(), 300 * MS, "from 700 to 1000 ms");
    }

    #[test]
    fn a_thread_that_ended_early_shares_every_later_gap() {
        let open = |moments_ms: &[u64]| {
            let mut gaps = Gaps::new(Frame::new(0, 100 * MS, 1000 * MS));
            moments_ms.iter().for_each(|at| gaps.completed(at * MS));
            gaps
        };
        for (mine, others) in [(&[200, 300][..], &[250, 600, 900][..]), (&[250, 600, 900], &[200, 300])] {
            let mut sum = open(&[]);
            sum.add(&open(mine));
            sum.add(&open(others));
            sum.close(1050 * MS);
            assert_eq!((sum.longest_ns(), sum.spans.len()), (300 * MS, 6), "300 to 600, 600 to 900 ms");
        }
        let mut ended_early = open(&[200, 900]);
        ended_early.close(450 * MS);
        assert_eq!(ended_early.longest_ns(), 250 * MS, "200 to 450 ms");
    }

    #[test]
    fn many_gaps_take_little_memory_and_keep_the_longest() {
        let mut gaps = Gaps::new(Frame::new(0, 0, u64::MAX));
        let mut at = 0;
        for step in 0..50_000_u64 {
            at += if step == 30_000 { 90 * MS } else { 2 * MS };
            gaps.completed(at);
        }
        assert!(gaps.spans.len() <= SPANS_MAX);
        assert_eq!(gaps.longest_ns(), 90 * MS);
    }
}
