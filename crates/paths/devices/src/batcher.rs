//! Gathers operations of one kind into batches, for an event loop that owns a device.
//!
//! A batch goes out when it is full, when nothing else is runnable, or when its first operation has waited for as long
//! as the bound allows, whichever is first: so a busy loop fills its passes, and a lone client is not slowed. This is
//! pure: the loop says what time it is, and asks.
//!
//! ```
//! # use plumb_devices::{Batcher, OperationKind};
//! let mut batcher = Batcher::new(8, 200_000);
//! let now_ns = 0;
//! // Something arrives: push it, and run the batch if that filled one.
//! assert!(batcher.push(OperationKind::Rsa2048, 7, "operation", now_ns).is_none());
//! // Before the loop looks for further events: run what has waited long enough, and sleep until `due_at_ns` at most.
//! assert!(batcher.due(now_ns).is_none());
//! assert_eq!(batcher.due_at_ns(), Some(200_000));
//! // No event is there: run one batch instead of sleeping, and look again.
//! let batch = batcher.flush_idle().unwrap();
//! assert_eq!((batch.tokens, batch.operations), (vec![7], vec!["operation"]));
//! ```

use std::collections::VecDeque;

use crate::algorithm::OperationKind;

/// Why a batch was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It was full.
    Full,
    /// The first operation had waited for as long as the bound allows.
    Bound,
    /// Nothing else was runnable.
    Idle,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = 3;

    /// All reasons; each stands at its [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = [Self::Full, Self::Bound, Self::Idle];

    /// The position in tables by reason.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in counters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Bound => "bound",
            Self::Idle => "idle",
        }
    }
}

/// Operations of one kind to be done in one pass.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// Of which kind.
    pub kind: OperationKind,
    /// Why now.
    pub reason: Reason,
    /// By what the event loop knows each of `operations`.
    pub tokens: Vec<u64>,
    /// The operations, in the order in which they were pushed.
    pub operations: Vec<T>,
    /// When each of `operations` was pushed, in ns.
    pub pushed_ns: Vec<u64>,
}

/// An operation that waits.
#[derive(Debug)]
struct Waiting<T> {
    token: u64,
    operation: T,
    pushed_ns: u64,
}

/// Operations that wait for company, by kind.
#[derive(Debug)]
pub struct Batcher<T> {
    width: usize,
    bound_ns: u64,
    queues: [VecDeque<Waiting<T>>; OperationKind::COUNT],
}

impl<T> Batcher<T> {
    /// The bound that experiments have unless they say otherwise.
    pub const BOUND_NS: u64 = 200_000;

    /// A batcher without operations. A width of 1 submits every operation at once and alone.
    #[must_use]
    pub fn new(width: usize, bound_ns: u64) -> Self {
        Self { width: width.max(1), bound_ns, queues: std::array::from_fn(|_| VecDeque::new()) }
    }

    /// Takes an operation; gives back a batch if that filled one.
    pub fn push(&mut self, kind: OperationKind, token: u64, operation: T, now_ns: u64) -> Option<Batch<T>> {
        let queue = &mut self.queues[kind.index()];
        queue.push_back(Waiting { token, operation, pushed_ns: now_ns });
        (queue.len() >= self.width).then(|| self.take(kind, Reason::Full))
    }

    /// A batch whose first operation has waited for as long as the bound allows. To be asked until there is none.
    pub fn due(&mut self, now_ns: u64) -> Option<Batch<T>> {
        let (kind, pushed_ns) = self.oldest()?;
        (now_ns.saturating_sub(pushed_ns) >= self.bound_ns).then(|| self.take(kind, Reason::Bound))
    }

    /// When the next batch will be due, in ns; `None` while nothing waits.
    #[must_use]
    pub fn due_at_ns(&self) -> Option<u64> {
        self.oldest().map(|(_, pushed_ns)| pushed_ns.saturating_add(self.bound_ns))
    }

    /// The batch that has waited longest, for when nothing else is runnable.
    pub fn flush_idle(&mut self) -> Option<Batch<T>> {
        let (kind, _) = self.oldest()?;
        Some(self.take(kind, Reason::Idle))
    }

    /// How many operations wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// The kind whose first operation has waited longest, and since when.
    fn oldest(&self) -> Option<(OperationKind, u64)> {
        let firsts = OperationKind::ALL
            .into_iter()
            .filter_map(|kind| self.queues[kind.index()].front().map(|waiting| (kind, waiting.pushed_ns)));
        firsts.min_by_key(|(_, pushed_ns)| *pushed_ns)
    }

    fn take(&mut self, kind: OperationKind, reason: Reason) -> Batch<T> {
        // A full queue goes out at once, so that none is ever longer than a batch.
        let queue = std::mem::take(&mut self.queues[kind.index()]);
        let mut batch = Batch {
            kind,
            reason,
            tokens: Vec::with_capacity(queue.len()),
            operations: Vec::with_capacity(queue.len()),
            pushed_ns: Vec::with_capacity(queue.len()),
        };
        for waiting in queue {
            batch.tokens.push(waiting.token);
            batch.operations.push(waiting.operation);
            batch.pushed_ns.push(waiting.pushed_ns);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Push(usize),
        Pass(u64),
        Idle,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..OperationKind::COUNT).prop_map(Step::Push),
            2 => (0_u64..300).prop_map(Step::Pass),
            1 => Just(Step::Idle),
        ]
    }

    /// What came out of a batcher, with what has to be so of every batch.
    #[derive(Default)]
    struct Seen {
        tokens: Vec<u64>,
    }

    impl Seen {
        fn take(&mut self, batch: &Batch<usize>, width: usize) {
            assert!(!batch.tokens.is_empty() && batch.tokens.len() <= width);
            assert_eq!(
                (batch.tokens.len(), batch.tokens.len()),
                (batch.operations.len(), batch.pushed_ns.len())
            );
            assert_eq!(batch.reason == Reason::Full, batch.tokens.len() == width);
            // The operation is the index of its kind here.
            assert!(batch.operations.iter().all(|operation| *operation == batch.kind.index()));
            assert!(batch.tokens.is_sorted() && batch.pushed_ns.is_sorted());
            self.tokens.extend(&batch.tokens);
        }
    }

    proptest! {
        #[test]
        fn no_operation_is_lost_done_twice_or_kept_longer_than_the_bound(
            width in 1_usize..9,
            bound_ns in 0_u64..500,
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let mut batcher = Batcher::new(width, bound_ns);
            let (mut now_ns, mut pushed, mut seen) = (0, Vec::new(), Seen::default());
            for step in steps {
                match step {
                    Step::Push(index) => {
                        let token = pushed.len() as u64;
                        pushed.push(now_ns);
                        if let Some(batch) = batcher.push(OperationKind::ALL[index], token, index, now_ns) {
                            seen.take(&batch, width);
                        }
                    }
                    Step::Pass(ns) => now_ns += ns,
                    Step::Idle => {
                        if let Some(batch) = batcher.flush_idle() {
                            prop_assert_eq!(batch.reason, Reason::Idle);
                            seen.take(&batch, width);
                        }
                    }
                }
                while let Some(batch) = batcher.due(now_ns) {
                    prop_assert_eq!(batch.reason, Reason::Bound);
                    prop_assert!(now_ns - batch.pushed_ns[0] >= bound_ns);
                    seen.take(&batch, width);
                }
                prop_assert_eq!(batcher.len() + seen.tokens.len(), pushed.len());
                prop_assert_eq!(batcher.is_empty(), seen.tokens.len() == pushed.len());
                let waiting = (0..pushed.len() as u64).filter(|token| !seen.tokens.contains(token));
                let first_ns = waiting.map(|token| pushed[token as usize]).min();
                prop_assert_eq!(batcher.due_at_ns(), first_ns.map(|first_ns| first_ns + bound_ns));
                prop_assert!(first_ns.is_none_or(|first_ns| now_ns - first_ns < bound_ns));
            }
            while let Some(batch) = batcher.flush_idle() {
                seen.take(&batch, width);
            }
            seen.tokens.sort_unstable();
            prop_assert_eq!(seen.tokens, (0..pushed.len() as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_longest_wait_goes_first() {
        let mut batcher = Batcher::new(8, 100);
        batcher.push(OperationKind::X25519Derive, 1, (), 5);
        batcher.push(OperationKind::Rsa2048, 2, (), 3);
        assert_eq!(batcher.due_at_ns(), Some(103));
        assert_eq!(batcher.due(102), None);
        assert_eq!(batcher.due(104).unwrap().tokens, [2]);
        assert_eq!(batcher.flush_idle().unwrap().tokens, [1]);
        assert_eq!(batcher.due(u64::MAX), None);
    }
}
