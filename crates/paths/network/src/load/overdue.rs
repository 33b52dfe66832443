//! Datagrams whose answers are late. A flow does not wait for them but goes on, and knows them when they come.
//!
//! An answer is waited for alone for [`patience_ns`]; then a probe, a message that is not measured, frees the flow. The answer
//! may come beside those of later messages until [`loss_ns`] have passed. Only then is it lost.

/// How many round trips a flow waits for one answer alone, with a lower and an upper bound in ns.
const PATIENCE_ROUND_TRIPS: u64 = 16;
const PATIENCE_NS_MIN: u64 = 20_000_000;
const PATIENCE_NS_MAX: u64 = 1_000_000_000;
/// An answer counts as lost after a second, or after as many round trips where these take longer.
const LOSS_NS_MIN: u64 = 1_000_000_000;
const LOSS_NS_MAX: u64 = 4_000_000_000;

/// For how long a flow waits for one answer alone, where the last round trip took `round_trip_ns`; 0 for none yet.
#[must_use]
pub fn patience_ns(round_trip_ns: u64) -> u64 {
    match round_trip_ns {
        0 => PATIENCE_NS_MAX,
        ns => ns.saturating_mul(PATIENCE_ROUND_TRIPS).clamp(PATIENCE_NS_MIN, PATIENCE_NS_MAX),
    }
}

/// After how long an answer counts as lost.
#[must_use]
pub fn loss_ns(round_trip_ns: u64) -> u64 {
    round_trip_ns.saturating_mul(PATIENCE_ROUND_TRIPS).clamp(LOSS_NS_MIN, LOSS_NS_MAX)
}

/// A datagram whose answer has not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The number.
    pub number: u64,
    /// When it was due.
    pub due_ns: u64,
    /// When it was sent.
    pub start_ns: u64,
    /// Whether it is a probe, which is not measured.
    pub is_probe: bool,
}

/// Those that are waited for beside the current one. They are at most 50 and as many probes, as each
/// took a flow a fiftieth of the time after which it is lost: a byte tells them apart.
#[derive(Debug)]
pub struct Overdue {
    /// The bits of a number that a message has room for.
    mask: u64,
    waiting: Vec<Waiting>,
}

impl Overdue {
    /// None, for messages that carry the lowest `bytes` bytes of their numbers.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let bits = 8 * u32::try_from(bytes.clamp(1, 8)).unwrap_or(8);
        Self { mask: u64::MAX >> (64 - bits), waiting: Vec::new() }
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is none that is measured.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.waiting.iter().all(|one| one.is_probe)
    }

    /// Whether an answer with these lowest bytes belongs to a number.
    #[inline]
    #[must_use]
    pub fn is_same(&self, one: u64, other: u64) -> bool {
        (one ^ other) & self.mask == 0
    }

    /// The first number from `from` on that nobody can take for one that is waited for, nor the one after it, which is its probe's.
    #[inline]
    #[must_use]
    pub fn free_number(&self, from: u64) -> u64 {
        let is_taken = |number: u64| self.waiting.iter().any(|one| self.is_same(one.number, number));
        (from..).find(|number| !is_taken(*number) && !is_taken(number + 1)).unwrap_or(from)
    }

    /// Goes on without one.
    pub fn push(&mut self, one: Waiting) {
        self.waiting.push(one);
    }

    /// Takes the one that an answer belongs to.
    pub fn take(&mut self, number: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|one| self.is_same(one.number, number))?;
        Some(self.waiting.swap_remove(at))
    }

    /// Takes those that were sent at `before_ns` or earlier.
    pub fn take_sent_by(&mut self, before_ns: u64) -> Vec<Waiting> {
        let (taken, left) = self.waiting.iter().partition(|one| one.start_ns <= before_ns);
        self.waiting = left;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn waiting(number: u64, start_ns: u64) -> Waiting {
        Waiting { number, due_ns: start_ns, start_ns, is_probe: false }
    }

    #[test]
    fn a_flow_goes_on_after_some_round_trips_and_gives_up_after_a_second_or_more() {
        assert_eq!([0, 10_000, 5 * MS, 90 * MS].map(patience_ns), [1000 * MS, 20 * MS, 80 * MS, 1000 * MS]);
        assert_eq!(
            [0, 10_000, 100 * MS, 900 * MS].map(loss_ns),
            [1000 * MS, 1000 * MS, 1600 * MS, 4000 * MS]
        );
    }

    #[test]
    fn a_byte_is_enough_to_tell_a_late_answer() {
        let mut overdue = Overdue::new(1);
        overdue.push(waiting(7, 0));
        overdue.push(waiting(300, 0));
        // 263 and 300 are 7 and 44 in one byte, and a number's probe has the next one.
        assert_eq!(
            [262, 263, 264, 299, 300].map(|from| overdue.free_number(from)),
            [264, 264, 264, 301, 301]
        );
        assert_eq!(overdue.take(44), Some(waiting(300, 0)));
        assert_eq!((overdue.take(44), overdue.take(8)), (None, None));
        assert_eq!(overdue.take(263), Some(waiting(7, 0)));
        assert!(overdue.is_empty());
        assert!(!Overdue::new(8).is_same(7, 263) && Overdue::new(2).is_same(1, 65_537));
    }

    #[test]
    fn the_oldest_are_given_up() {
        let mut overdue = Overdue::new(8);
        [5, 20, 10].iter().for_each(|at| overdue.push(waiting(*at, *at)));
        assert_eq!(overdue.take_sent_by(10), [waiting(5, 5), waiting(10, 10)]);
        assert_eq!(overdue.take_sent_by(10), []);
        assert_eq!(overdue.take(20), Some(waiting(20, 20)));
    }
}
