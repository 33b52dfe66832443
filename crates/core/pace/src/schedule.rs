//! Arrivals at a constant rate: the time at which the n-th unit of work is to begin.
//!
//! The n-th time is computed from n, never by adding up intervals, so that a schedule does not drift however long
//! it runs. Times are kept in 64.64 fixed point: 2^-64 ns of error per arrival.

const SECOND_NS: f64 = 1e9;
/// 2^64 as a float.
const FIXED_POINT: f64 = 18_446_744_073_709_551_616.0;

/// Due times at a constant rate, as offsets from an origin that the caller keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Nanoseconds between arrivals, 64.64 fixed point, never 0.
    period: u128,
    /// The time of arrival 0, 64.64 fixed point.
    first: u128,
}

impl Schedule {
    /// A schedule of `rate_per_s` arrivals per second; `None` where that is not a positive number.
    #[must_use]
    pub fn constant(rate_per_s: f64) -> Option<Self> {
        let is_rate = rate_per_s.is_finite() && rate_per_s > 0.0;
        is_rate.then(|| Self { period: ((SECOND_NS / rate_per_s * FIXED_POINT) as u128).max(1), first: 0 })
    }

    /// The schedule, later by this part of its interval: several loads that share a rate send in turn, so that their
    /// arrivals together are even.
    #[must_use]
    pub fn later(self, phase: f64) -> Self {
        Self { first: (self.period as f64 * phase.clamp(0.0, 1.0)) as u128, ..self }
    }

    /// The time of arrival `index` (from 0), in ns after the origin; the end of time if that is later.
    #[must_use]
    pub fn due_ns(&self, index: u64) -> u64 {
        self.period
            .checked_mul(u128::from(index))
            .and_then(|due| u64::try_from(due.checked_add(self.first)? >> 64).ok())
            .unwrap_or(u64::MAX)
    }

    /// The first arrival at `offset_ns` or later.
    #[must_use]
    pub fn first_at_or_after(&self, offset_ns: u64) -> u64 {
        let index = (u128::from(offset_ns) << 64).saturating_sub(self.first).div_ceil(self.period);
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        // Times are rounded down to whole nanoseconds, which can push an arrival back over the edge.
        if self.due_ns(index) < offset_ns { index.saturating_add(1) } else { index }
    }

    /// Every `parts`-th arrival beginning with arrival `part`: the share of one of several threads.
    #[must_use]
    pub fn share(self, part: u64, parts: u64) -> Share {
        Share { schedule: self, index: part, step: parts.max(1) }
    }
}

/// The arrivals of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    schedule: Schedule,
    index: u64,
    step: u64,
}

impl Share {
    /// The time of the next arrival, in ns after the origin.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.schedule.due_ns(self.index)
    }

    /// How many of its arrivals are due before `offset_ns`.
    #[must_use]
    pub fn due_before(&self, offset_ns: u64) -> u64 {
        self.schedule.first_at_or_after(offset_ns).saturating_sub(self.index).div_ceil(self.step)
    }

    /// Takes several arrivals off the share.
    pub fn skip(&mut self, arrivals: u64) {
        self.index = self.index.saturating_add(self.step.saturating_mul(arrivals));
    }

    /// Takes the next arrival off the share.
    pub fn advance(&mut self) {
        self.index = self.index.saturating_add(self.step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn round_rates_are_exact_for_ever() {
        let schedule = Schedule::constant(1000.0).unwrap();
        assert_eq!(schedule.due_ns(0), 0);
        assert_eq!(schedule.due_ns(1), 1_000_000);
        // A year later.
        assert_eq!(schedule.due_ns(31_536_000_000), 31_536_000_000_000_000);
    }

    #[test]
    fn odd_rates_do_not_drift() {
        // A day at 3/s: the last arrival of 259,200 falls one third of a second before its end.
        let schedule = Schedule::constant(3.0).unwrap();
        assert!(schedule.due_ns(259_200).abs_diff(86_400_000_000_000) <= 20);
    }

    #[test]
    fn loads_that_share_a_rate_send_in_turn() {
        let whole = Schedule::constant(1000.0).unwrap();
        let loads = [0.0, 0.25, 0.5, 0.75].map(|phase| Schedule::constant(250.0).unwrap().later(phase));
        let mut due: Vec<u64> = (0..50).flat_map(|index| loads.map(|load| load.due_ns(index))).collect();
        due.sort_unstable();
        assert_eq!(due, (0..200).map(|index| whole.due_ns(index)).collect::<Vec<_>>());
        assert_eq!(loads.map(|load| load.first_at_or_after(2_000_000)), [1, 1, 0, 0]);
    }

    #[test]
    fn what_is_no_rate_makes_no_schedule() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Schedule::constant(rate), None, "{rate}");
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let slow = Schedule::constant(f64::MIN_POSITIVE).unwrap();
        assert_eq!((slow.due_ns(0), slow.due_ns(u64::MAX)), (0, u64::MAX));
        let fast = Schedule::constant(f64::MAX).unwrap();
        assert_eq!(fast.due_ns(u64::MAX), 0);
        assert_eq!(fast.first_at_or_after(u64::MAX), u64::MAX);
        let mut share = fast.share(u64::MAX, 5);
        share.advance();
        assert_eq!(share.due_ns(), 0);
    }

    proptest! {
        #[test]
        fn times_never_run_backwards(rate in 1e-3..1e9_f64, index in 0..1_u64 << 40) {
            let schedule = Schedule::constant(rate).unwrap();
            prop_assert!(schedule.due_ns(index) <= schedule.due_ns(index + 1));
        }

        #[test]
        fn a_second_holds_as_many_arrivals_as_the_rate_says(rate in 1..1_000_000_u64, second in 0..100_000_u64) {
            let schedule = Schedule::constant(rate as f64).unwrap();
            let begin = schedule.first_at_or_after(second * 1_000_000_000);
            let end = schedule.first_at_or_after((second + 1) * 1_000_000_000);
            prop_assert!((end - begin).abs_diff(rate) <= 1, "{} for {rate}", end - begin);
        }

        #[test]
        fn the_first_arrival_after_a_time_is_the_first(rate in 1e-2..1e9_f64, offset_ns in 0..1_u64 << 50) {
            let schedule = Schedule::constant(rate).unwrap();
            let index = schedule.first_at_or_after(offset_ns);
            prop_assert!(schedule.due_ns(index) >= offset_ns);
            prop_assert!(index == 0 || schedule.due_ns(index - 1) < offset_ns);
        }

        #[test]
        fn arrivals_before_a_time_are_as_many_as_one_can_take(rate in 1.0..1e6_f64, parts in 1..9_u64, offset_ns in 0..1_000_000_u64) {
            let mut share = Schedule::constant(rate).unwrap().share(parts - 1, parts);
            let before = share.due_before(offset_ns);
            let mut skipped = share;
            skipped.skip(before);
            let mut taken = 0;
            while share.due_ns() < offset_ns {
                share.advance();
                taken += 1;
            }
            prop_assert_eq!((taken, share), (before, skipped));
        }

        #[test]
        fn shares_together_are_the_schedule(rate in 1.0..1e6_f64, parts in 1..9_u64) {
            let schedule = Schedule::constant(rate).unwrap();
            let mut due: Vec<u64> = (0..parts)
                .flat_map(|part| {
                    let mut share = schedule.share(part, parts);
                    std::iter::repeat_with(move || {
                        let due_ns = share.due_ns();
                        share.advance();
                        due_ns
                    })
                    .take(20)
                })
                .collect();
            due.sort_unstable();
            let all: Vec<u64> = (0..parts * 20).map(|index| schedule.due_ns(index)).collect();
            prop_assert_eq!(due, all);
        }
    }
}
