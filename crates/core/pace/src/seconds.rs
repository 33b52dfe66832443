//! The counts and times of each second of a load's window.

/// Events of each second, and the sum of their times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seconds {
    counts: Vec<u64>,
    times_ns: Vec<u64>,
}

impl Seconds {
    /// Counts an event of that second (see [`crate::Frame::second`]) and adds its time.
    #[inline]
    pub fn note(&mut self, second: usize, time_ns: u64) {
        self.note_many(second, time_ns, 1);
    }

    /// Counts several events of that second that took as long each.
    #[inline]
    pub fn note_many(&mut self, second: usize, time_ns: u64, count: u64) {
        if self.counts.len() <= second {
            self.counts.resize(second + 1, 0);
            self.times_ns.resize(second + 1, 0);
        }
        self.counts[second] += count;
        self.times_ns[second] = self.times_ns[second].saturating_add(time_ns.saturating_mul(count));
    }

    /// Adds what another thread noted.
    pub fn add(&mut self, other: &Self) {
        let Self { counts, times_ns } = other;
        for (sums, values) in [(&mut self.counts, counts), (&mut self.times_ns, times_ns)] {
            sums.resize(sums.len().max(values.len()), 0);
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }

    /// How many events each of the first `seconds` had.
    #[must_use]
    pub fn counts(&self, seconds: usize) -> Vec<f64> {
        (0..seconds).map(|at| self.counts.get(at).copied().unwrap_or(0) as f64).collect()
    }

    /// The mean time of each of the first `seconds` in us; `None` where one had no event, because it has no mean then, and a
    /// list with gaps would mislead.
    #[must_use]
    pub fn means_us(&self, seconds: usize) -> Option<Vec<f64>> {
        let mean_us = |at: usize| {
            let count = self.counts.get(at).copied().filter(|count| *count > 0)?;
            Some(self.times_ns[at] as f64 / 1e3 / count as f64)
        };
        (0..seconds).map(mean_us).collect()
    }

    /// How many events there were from second `first` on.
    #[must_use]
    pub fn count_from(&self, first: usize) -> u64 {
        self.counts.iter().skip(first).sum()
    }

    /// The sum of their times.
    #[must_use]
    pub fn time_ns_from(&self, first: usize) -> u64 {
        self.times_ns.iter().skip(first).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_counts_and_means() {
        let mut seconds = Seconds::default();
        for (second, time_ns) in [(0, 1_000), (0, 3_000), (1, 5_000)] {
            seconds.note(second, time_ns);
        }
        assert_eq!((seconds.counts(2), seconds.time_ns_from(0)), (vec![2.0, 1.0], 9_000));
        assert_eq!(seconds.means_us(2), Some(vec![2.0, 5.0]));
        assert_eq!((seconds.counts(3), seconds.means_us(3)), (vec![2.0, 1.0, 0.0], None));
        assert_eq!((seconds.count_from(1), seconds.time_ns_from(1)), (1, 5_000));
        seconds.note(3, 1);
        assert_eq!(seconds.means_us(4), None);
    }

    #[test]
    fn threads_add_up_second_by_second() {
        let (mut one, mut other) = (Seconds::default(), Seconds::default());
        one.note(0, 10);
        other.note(0, 20);
        other.note(2, 30);
        let mut sum = one.clone();
        sum.add(&other);
        other.add(&one);
        assert_eq!(sum, other);
        assert_eq!((sum.counts(3), sum.time_ns_from(0)), (vec![2.0, 0.0, 1.0], 60));
    }
}
