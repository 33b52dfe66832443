//! How far what a load sends lags its schedule for the load's own reasons. A load that is often late has measured itself.

use crate::Frame;

/// The lags of sends that had a schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    lag_ns_max: u64,
    late: u64,
    scheduled: u64,
}

impl Lateness {
    /// Notes a send at `now_ns` that was due in the window and had been free to leave since `free_ns`.
    #[inline]
    pub fn note(&mut self, frame: &Frame, due_ns: u64, free_ns: u64, now_ns: u64) {
        if frame.measures(due_ns) {
            self.lag(now_ns.saturating_sub(due_ns.max(free_ns)), frame.late_ns);
        }
    }

    fn lag(&mut self, lag_ns: u64, late_ns: u64) {
        self.scheduled += 1;
        self.lag_ns_max = self.lag_ns_max.max(lag_ns);
        self.late += u64::from(lag_ns > late_ns);
    }

    /// Adds what another thread noted.
    pub fn add(&mut self, other: &Self) {
        let Self { lag_ns_max, late, scheduled } = *other;
        self.lag_ns_max = self.lag_ns_max.max(lag_ns_max);
        self.late += late;
        self.scheduled += scheduled;
    }

    /// The longest lag.
    #[must_use]
    pub fn lag_ns_max(&self) -> u64 {
        self.lag_ns_max
    }

    /// The share of sends that were late; 0 where none had a schedule.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        if self.scheduled == 0 { 0.0 } else { self.late as f64 / self.scheduled as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::LATE_NS;

    #[test]
    fn a_millisecond_is_not_late_and_more_is() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (0, 0.0));
        lateness.lag(LATE_NS, LATE_NS);
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (LATE_NS, 0.0));
        lateness.lag(LATE_NS + 1, LATE_NS);
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (LATE_NS + 1, 0.5));
    }

    #[test]
    fn what_could_not_leave_earlier_is_not_late() {
        let (mut lateness, frame) = (Lateness::default(), Frame::new(0, 100 * LATE_NS, 900 * LATE_NS));
        lateness.note(&frame, 99 * LATE_NS, 0, 500 * LATE_NS);
        assert_eq!(lateness, Lateness::default(), "it was due before the window");
        lateness.note(&frame, 100 * LATE_NS, 200 * LATE_NS, 200 * LATE_NS + 10);
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (10, 0.0));
        lateness.note(&frame, 300 * LATE_NS, 0, 400 * LATE_NS);
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (100 * LATE_NS, 0.5));
        let patient = Frame { late_ns: 100 * LATE_NS, ..frame };
        lateness.note(&patient, 300 * LATE_NS, 0, 400 * LATE_NS);
        assert_eq!(lateness.late_share(), 1.0 / 3.0);
    }

    #[test]
    fn threads_add_up() {
        let (mut sum, mut other) = (Lateness::default(), Lateness::default());
        sum.lag(5, LATE_NS);
        other.lag(2 * LATE_NS, LATE_NS);
        other.lag(7, LATE_NS);
        other.lag(8, LATE_NS);
        sum.add(&other);
        assert_eq!((sum.lag_ns_max(), sum.late_share()), (2 * LATE_NS, 0.25));
    }
}
