//! The floor that a volume was promised: which of its operations are within the promise, and so go before those of others where
//! operations wait for one another.
//!
//! It is the schedule of a limit read the other way round: an operation that a limit of that rate would let begin is owed. What
//! was not asked for is owed for [`CREDIT_NS`] longer, since operations come in bursts. Operations above the promise are
//! neither held up nor counted here.

use std::num::NonZeroU64;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::limits::{Cost, Limits};
use super::sync::{AtomicBool, Mutex, MutexGuard};
use super::virtual_schedule::{VirtualSchedule, ns};

/// For how long what was not asked for is owed. A client that has 64 in flight asks for them at once.
const CREDIT_NS: u64 = 100_000_000;

/// The least that each second should hold while clients ask for it, separately for operations and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Floor {
    /// Operations per second.
    pub iops: Option<NonZeroU64>,
    /// Bytes per second.
    pub bytes_per_s: Option<NonZeroU64>,
}

/// The debt of a floor; see the module.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Without a floor nobody takes the lock.
    is_set: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    floor: Floor,
    /// One for each rate that is promised: all are to be reached, so a volume that is below one is below the floor.
    schedules: Vec<VirtualSchedule>,
}

impl Meter {
    pub(super) fn floor(&self) -> Floor {
        self.lock().floor
    }

    pub(super) fn change(&self, floor: Floor, now_ns: u64) {
        let rates = [
            Limits { iops: floor.iops, ..Limits::NONE },
            Limits { bytes_per_s: floor.bytes_per_s, ..Limits::NONE },
        ];
        let given = rates.iter().filter(|rate| rate.is_limited());
        let schedule = |rate: &Limits| VirtualSchedule::new(&Limits { burst_ns: CREDIT_NS, ..*rate }, now_ns);
        let schedules = given.map(schedule).collect();
        let mut inner = self.lock();
        *inner = Inner { floor, schedules };
        // Under the lock: of two changes at once, the flag and the floor must be those of the same one.
        self.is_set.store(floor != Floor::default(), Ordering::Release);
    }

    /// Whether an operation on this many bytes is owed, which it is not any more then.
    pub(super) fn take(&self, bytes: u64, now_ns: u64) -> bool {
        if !self.is_set.load(Ordering::Acquire) {
            return false;
        }
        let cost = Cost { operations: 1, bytes };
        let mut is_owed = false;
        for schedule in &mut self.lock().schedules {
            let due = schedule.due(cost, now_ns, now_ns);
            // An operation that moves no data does not count towards a promise of data.
            if schedule.time(cost) > 0 && ns(due.at) <= now_ns {
                schedule.charge(cost, due);
                is_owed = true;
            }
        }
        is_owed
    }

    /// Whether any operation that came now would be owed.
    pub(super) fn owes(&self, now_ns: u64) -> bool {
        let any = Cost { operations: 1, bytes: 1 };
        let is_due = |schedule: &VirtualSchedule| ns(schedule.due(any, now_ns, now_ns).at) <= now_ns;
        self.is_set.load(Ordering::Acquire) && self.lock().schedules.iter().any(is_due)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics halfway through a change, so what a panicking thread left is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn meter(iops: u64, bytes_per_s: u64) -> Meter {
        let meter = Meter::default();
        let floor = Floor { iops: NonZeroU64::new(iops), bytes_per_s: NonZeroU64::new(bytes_per_s) };
        meter.change(floor, SECOND_NS);
        assert_eq!(meter.floor(), floor);
        meter
    }

    /// How many of the operations that come all the time in 10 s are owed.
    fn owed(meter: &Meter, every_ns: u64, bytes: u64) -> u64 {
        let times = (SECOND_NS..11 * SECOND_NS).step_by(usize::try_from(every_ns).unwrap());
        times.map(|at_ns| u64::from(meter.take(bytes, at_ns))).sum()
    }

    #[test]
    fn so_many_are_owed_as_were_promised_and_all_of_who_asks_for_less() {
        // A tenth of a second's worth comes on top, once.
        for (iops, bytes_per_s, expected) in [
            (500, 0, 5_049..=5_051),
            (0, 4096 * 500, 5_049..=5_051),
            // At least the one that asks for more, and never more than both.
            (500, 4096 * 300, 5_049..=8_081),
            (300, 4096 * 500, 5_049..=8_081),
            (50_000, 0, 10_000..=10_000),
            (0, 0, 0..=0),
        ] {
            let counted = owed(&meter(iops, bytes_per_s), 1_000_000, 4096);
            assert!(expected.contains(&counted), "{iops} {bytes_per_s}: {counted}");
        }
        assert_eq!(owed(&meter(0, 1 << 20), 1_000_000, 0), 0, "what moves no data is not of data");
    }

    #[test]
    fn what_was_not_asked_for_is_owed_for_a_tenth_of_a_second() {
        let meter = meter(1_000, 0);
        let burst = |at_ns| (0..1_000).filter(|_| meter.take(4096, at_ns)).count();
        assert_eq!(burst(5 * SECOND_NS), 101);
        assert!(!meter.owes(5 * SECOND_NS) && meter.owes(5 * SECOND_NS + 1_000_000));
        assert_eq!(burst(5 * SECOND_NS + 10_000_000), 10);
        meter.change(Floor::default(), 6 * SECOND_NS);
        assert!(!meter.owes(7 * SECOND_NS) && !meter.take(4096, 7 * SECOND_NS));
    }
}
