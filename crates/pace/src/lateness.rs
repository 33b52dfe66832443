//! How far what a load sends lags its schedule for the load's own reasons. A load that is often late has measured itself.

/// A send is late when it left later than this after it was due although nothing but the load held it back: far more than a
/// wake-up takes on a host that is not overloaded, and little beside the latencies that it would distort.
const LATE_NS: u64 = 1_000_000;

/// The lags of sends that had a schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    lag_ns_max: u64,
    late: u64,
    scheduled: u64,
}

impl Lateness {
    /// Notes a send, and how much later it left than it could have.
    #[inline]
    pub fn note(&mut self, lag_ns: u64) {
        self.scheduled += 1;
        self.lag_ns_max = self.lag_ns_max.max(lag_ns);
        self.late += u64::from(lag_ns > LATE_NS);
    }

    /// Adds what another thread noted.
    pub fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.lag_ns_max = self.lag_ns_max.max(other.lag_ns_max);
        self.late += other.late;
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

    #[test]
    fn a_millisecond_is_not_late_and_more_is() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (0, 0.0));
        lateness.note(LATE_NS);
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (LATE_NS, 0.0));
        lateness.note(LATE_NS + 1);
        assert_eq!((lateness.lag_ns_max(), lateness.late_share()), (LATE_NS + 1, 0.5));
    }

    #[test]
    fn threads_add_up() {
        let (mut sum, mut other) = (Lateness::default(), Lateness::default());
        sum.note(5);
        other.note(2 * LATE_NS);
        other.note(7);
        other.note(8);
        sum.merge(&other);
        assert_eq!((sum.lag_ns_max(), sum.late_share()), (2 * LATE_NS, 0.25));
    }
}
