//! What a device counts: the evidence that operations were done by it, and how well its passes were filled.
//!
//! The device's own thread writes, and any thread reads. Each device has its own counters, so an operation needs no locked
//! instruction and touches no shared cache line. A reader sums up what it wants.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::algorithm::OperationKind;
use crate::batcher::{Batch, Reason};
use crate::device_kind::LANES;
use crate::error::LaneError;
use crate::operation::Lane;

/// The counters of one device.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    operations: [Counter; OperationKind::COUNT],
    in_software: [Counter; OperationKind::COUNT],
    fill: [Counter; LANES],
    failed: Counter,
    faults_caught: Counter,
    reasons: [Counter; Reason::COUNT],
    waited: Counter,
    wait_ns: Counter,
    wait_ns_max: Counter,
}

/// A number that one thread writes.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    fn add(&self, count: u64) {
        self.set(self.get() + count);
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// A pass of the device is done.
    pub(crate) fn ran(&self, kind: OperationKind, results: &[Lane]) {
        self.operations[kind.index()].add(self.succeeded(results));
        let is_fault = |result: &&Lane| matches!(result, Err(LaneError::Faulty { .. }));
        self.faults_caught.add(results.iter().filter(is_fault).count() as u64);
        if let Some(fill) = results.len().checked_sub(1).and_then(|index| self.fill.get(index)) {
            fill.add(1);
        }
    }

    /// Operations were done in software, as they were too few to be worth a pass.
    pub(crate) fn ran_in_software(&self, kind: OperationKind, results: &[Lane]) {
        self.in_software[kind.index()].add(self.succeeded(results));
    }

    /// How many have a result; the others are counted as failed.
    fn succeeded(&self, results: &[Lane]) -> u64 {
        let done = results.iter().filter(|result| result.is_ok()).count() as u64;
        self.failed.add(results.len() as u64 - done);
        done
    }

    /// A batch was submitted at `now_ns`: why, and how long its operations waited for that. For the device's own
    /// thread to call.
    pub fn submitted<T>(&self, batch: &Batch<T>, now_ns: u64) {
        self.reasons[batch.reason.index()].add(1);
        for pushed_ns in &batch.pushed_ns {
            let wait_ns = now_ns.saturating_sub(*pushed_ns);
            self.waited.add(1);
            self.wait_ns.add(wait_ns);
            self.wait_ns_max.set(self.wait_ns_max.get().max(wait_ns));
        }
    }

    /// The values at this moment.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            operations: self.operations.each_ref().map(Counter::get),
            in_software: self.in_software.each_ref().map(Counter::get),
            fill: self.fill.each_ref().map(Counter::get),
            failed: self.failed.get(),
            faults_caught: self.faults_caught.get(),
            reasons: self.reasons.each_ref().map(Counter::get),
            waited: self.waited.get(),
            wait_ns: self.wait_ns.get(),
            wait_ns_max: self.wait_ns_max.get(),
        }
    }
}

/// The values of one device's counters, or the sums over several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Operations done by the device, by [`OperationKind::index`].
    pub operations: [u64; OperationKind::COUNT],
    /// Operations done in software because they were too few to be worth a pass, by [`OperationKind::index`]. They are not among
    /// `operations`.
    pub in_software: [u64; OperationKind::COUNT],
    /// Passes of one operation, of two, and so on.
    pub fill: [u64; LANES],
    /// Operations without a result, for whatever reason.
    pub failed: u64,
    /// Results that were wrong and were withheld; they are among `failed`.
    pub faults_caught: u64,
    /// Batches by why they were submitted, by [`Reason::index`].
    pub reasons: [u64; Reason::COUNT],
    /// Operations whose wait for their batch was taken.
    pub waited: u64,
    /// The sum of these waits in ns.
    pub wait_ns: u64,
    /// The longest of them in ns.
    pub wait_ns_max: u64,
}

impl Totals {
    /// Operations of one kind done by the device.
    #[must_use]
    pub fn operations_of(&self, kind: OperationKind) -> u64 {
        self.operations[kind.index()]
    }

    /// Operations of all kinds done by the device.
    #[must_use]
    pub fn operations_done(&self) -> u64 {
        self.operations.iter().sum()
    }

    /// Operations of one kind done in software, as they were too few to be worth a pass.
    #[must_use]
    pub fn in_software_of(&self, kind: OperationKind) -> u64 {
        self.in_software[kind.index()]
    }

    /// Passes of the device.
    #[must_use]
    pub fn passes(&self) -> u64 {
        self.fill.iter().sum()
    }

    /// The work done since an earlier moment. The longest wait is that of all the time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        fn less<const N: usize>(now: [u64; N], earlier: [u64; N]) -> [u64; N] {
            std::array::from_fn(|index| now[index].saturating_sub(earlier[index]))
        }
        Self {
            operations: less(self.operations, earlier.operations),
            in_software: less(self.in_software, earlier.in_software),
            fill: less(self.fill, earlier.fill),
            failed: self.failed.saturating_sub(earlier.failed),
            faults_caught: self.faults_caught.saturating_sub(earlier.faults_caught),
            reasons: less(self.reasons, earlier.reasons),
            waited: self.waited.saturating_sub(earlier.waited),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            wait_ns_max: self.wait_ns_max,
        }
    }

    /// Every value by a name, as a snapshot of a system carries them: `device_rsa-2048`, `device_in_software_rsa-2048`,
    /// `device_passes`, `device_passes_of_8`, `device_batches_full`, `device_wait_ns`, and so on. They only grow.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let kinds = OperationKind::ALL.map(|kind| (kind.name().to_owned(), self.operations_of(kind)));
        let in_software = OperationKind::ALL
            .map(|kind| (format!("in_software_{}", kind.name()), self.in_software_of(kind)));
        let fill = (1..).zip(self.fill).map(|(lanes, passes)| (format!("passes_of_{lanes}"), passes));
        let reasons =
            Reason::ALL.map(|reason| (format!("batches_{}", reason.name()), self.reasons[reason.index()]));
        let others = [
            ("operations", self.operations_done()),
            ("in_software", self.in_software.iter().sum()),
            ("passes", self.passes()),
            ("failed", self.failed),
            ("faults_caught", self.faults_caught),
            ("waited", self.waited),
            ("wait_ns", self.wait_ns),
            ("wait_ns_max", self.wait_ns_max),
        ];
        let others = others.map(|(name, value)| (name.to_owned(), value));
        kinds
            .into_iter()
            .chain(in_software)
            .chain(fill)
            .chain(reasons)
            .chain(others)
            .map(|(name, value)| (format!("device_{name}"), value))
            .collect()
    }
}

impl Add for Totals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        fn sum<const N: usize>(left: [u64; N], right: [u64; N]) -> [u64; N] {
            std::array::from_fn(|index| left[index] + right[index])
        }
        Self {
            operations: sum(self.operations, other.operations),
            in_software: sum(self.in_software, other.in_software),
            fill: sum(self.fill, other.fill),
            failed: self.failed + other.failed,
            faults_caught: self.faults_caught + other.faults_caught,
            reasons: sum(self.reasons, other.reasons),
            waited: self.waited + other.waited,
            wait_ns: self.wait_ns + other.wait_ns,
            wait_ns_max: self.wait_ns_max.max(other.wait_ns_max),
        }
    }
}

impl std::iter::Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batcher::Batcher;
    use crate::device_kind::DeviceKind;
    use crate::operation::Outcome;

    fn lane(result: Result<(), LaneError>) -> Lane {
        result.map(|()| Outcome::Signature(Vec::new()))
    }

    #[test]
    fn a_pass_counts_what_it_did_and_what_it_withheld() {
        let counters = Counters::default();
        let faulty = LaneError::Faulty { what: "sign", device: DeviceKind::Multibuffer };
        counters.ran(OperationKind::Rsa2048, &[lane(Ok(())), lane(Err(faulty)), lane(Err(LaneError::Peer))]);
        counters.ran(OperationKind::P256Derive, &[lane(Ok(()))]);
        counters.ran_in_software(OperationKind::Rsa2048, &[lane(Ok(())), lane(Ok(()))]);
        let totals = counters.totals();
        assert_eq!((totals.operations_of(OperationKind::Rsa2048), totals.operations_done()), (1, 2));
        assert_eq!(totals.in_software_of(OperationKind::Rsa2048), 2);
        assert_eq!((totals.failed, totals.faults_caught), (2, 1));
        assert_eq!((totals.fill[0], totals.fill[2], totals.passes()), (1, 1, 2));
    }

    #[test]
    fn a_batch_counts_its_waits_and_why_it_was_submitted() {
        let counters = Counters::default();
        let mut batcher = Batcher::new(8, 1000);
        assert!(batcher.push(OperationKind::Rsa2048, 1, (), 100).is_none());
        assert!(batcher.push(OperationKind::Rsa2048, 2, (), 400).is_none());
        counters.submitted(&batcher.due(1100).unwrap(), 1200);
        let named = counters.totals().by_name();
        let values = ["device_batches_bound", "device_waited", "device_wait_ns", "device_wait_ns_max"];
        assert_eq!(values.map(|name| named[name]), [1, 2, 1900, 1100]);
    }

    #[test]
    fn totals_add_and_subtract() {
        let counters = Counters::default();
        counters.ran(OperationKind::Rsa2048, &[lane(Ok(()))]);
        let before = counters.totals();
        counters.ran(OperationKind::Rsa2048, &[lane(Ok(())), lane(Ok(()))]);
        let after = counters.totals();
        assert_eq!(after.since(&before) + before, after);
        assert_eq!([before, after.since(&before)].into_iter().sum::<Totals>().by_name(), after.by_name());
    }
}
