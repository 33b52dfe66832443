//! A number of units of work that several threads share, for loads that stop after that number.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Units of work that may still begin.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
}

impl Budget {
    /// A budget of `units`.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Self { left: AtomicU64::new(units) }
    }

    /// Takes one unit; `false` where none is left.
    pub fn take(&self) -> bool {
        // Nothing else is published through the counter, so that no ordering is needed.
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_take_exactly_the_budget() {
        let budget = Budget::new(10_000);
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| std::iter::from_fn(|| budget.take().then_some(())).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 10_000);
        assert!(!budget.take());
    }
}
