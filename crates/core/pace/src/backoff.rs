//! How long to wait before the next try after failures in a row.

/// A wait that doubles with each failure, from a first to a longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first_ns: u64,
    longest_ns: u64,
    next_ns: u64,
}

impl Backoff {
    /// Waits `first_ns` after the first failure and never more than `longest_ns`.
    #[must_use]
    pub const fn new(first_ns: u64, longest_ns: u64) -> Self {
        Self { first_ns, longest_ns, next_ns: first_ns }
    }

    /// How long to wait after one more failure.
    pub fn fail(&mut self) -> u64 {
        let wait_ns = self.next_ns.min(self.longest_ns);
        self.next_ns = wait_ns.saturating_mul(2);
        wait_ns
    }

    /// Forgets the failures.
    pub fn succeed(&mut self) {
        self.next_ns = self.first_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::new(1, 100);
        let waits: Vec<u64> = (0..9).map(|_| backoff.fail()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
        backoff.succeed();
        assert_eq!(backoff.fail(), 1);
    }

    #[test]
    fn a_wait_does_not_overflow() {
        let mut backoff = Backoff::new(u64::MAX / 2 + 1, u64::MAX);
        assert_eq!([backoff.fail(), backoff.fail()], [u64::MAX / 2 + 1, u64::MAX]);
    }
}
