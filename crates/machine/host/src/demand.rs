//! How much of a CPU a thread wanted, which is more than it got where it had to wait for one.
//!
//! A load generator that is starved of CPU time looks idle by its CPU time alone. The telling figure is how long it was ready to
//! run: on a CPU, waiting for one, or on one that the hypervisor had taken away.
//!
//! The kernel counts the wait of every thread (`run_delay`, the second number of `/proc/PID/task/TID/schedstat`,
//! Documentation/scheduler/sched-stats.rst). A thread that a CPU quota stops is ready to run, so its run delay contains the time for
//! which it was throttled: under a quota of 10% CPU time and run delay of a busy loop make up the whole time, on Linux 6.18 as
//! before. Throttled time therefore only names the cause, and replaces the run delay where the kernel counts none.

mod tree;

use std::path::Path;

use crate::cgroup::CpuGroups;
use crate::cpu::{CpuSet, CpuTime, available_cpus, current_thread_cpu_time};
use crate::noise::{CpuLedger, cpu_ledger_on};
use crate::text;
use crate::time::monotonic_ns;

pub use tree::TreeDemand;

/// From this share of the time on, CPU time that a thread wanted and did not get is worth a cause.
const SHORTAGE_MIN: f64 = 0.01;
/// A thread that waited for a CPU for more than this share of the time was limited by that, whatever it does when it runs.
const WAITED_SHARE_MAX: f64 = 0.10;

/// The longest that an idle CPU takes to run a woken thread: no other thread causes that wait. A virtual CPU that left the guest takes
/// about that long, and a thread may wait like this thousands of times a second. Where a neighbour runs, a wait takes milliseconds.
const DISPATCH_NS: u64 = 10_000;

/// A reading that takes longer is taken again: another thread had the CPU in the middle of it, and that wait is on the clock and
/// not in the account.
const READING_NS_MAX: u64 = 1_000_000;
/// How often at most.
const READINGS_MAX: u32 = 4;

/// The CPU time that the calling thread had until one moment, and how long it waited for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadAccount {
    /// The moment, on the monotonic clock.
    pub at_ns: u64,
    /// CPU time.
    pub cpu: CpuTime,
    /// How it waited for a CPU; `None` where the kernel does not count it.
    waits: Option<Waits>,
}

/// The time for which a thread could have run and did not, and how often it was put on a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Waits {
    ns: u64,
    count: u64,
}

impl Waits {
    /// The wait since `earlier` beyond what idle CPUs take to wake up.
    fn since(self, earlier: Self) -> u64 {
        let dispatch_ns = self.count.saturating_sub(earlier.count).saturating_mul(DISPATCH_NS);
        self.ns.saturating_sub(earlier.ns).saturating_sub(dispatch_ns)
    }
}

impl ThreadAccount {
    /// The calling thread's account now. It takes some microseconds: it is for the ends of a window, not for each message.
    #[must_use]
    pub fn now() -> Self {
        let read = || {
            let from_ns = monotonic_ns();
            let waits = text::read_trimmed("/proc/thread-self/schedstat").and_then(|text| parse_waits(&text));
            let account = Self { at_ns: monotonic_ns(), cpu: current_thread_cpu_time(), waits };
            (account.at_ns - from_ns, account)
        };
        let better = |best: (u64, Self), _| {
            if best.0 <= READING_NS_MAX {
                best
            } else {
                std::cmp::min_by_key(best, read(), |(took_ns, _)| *took_ns)
            }
        };
        (1..READINGS_MAX).fold(read(), better).1
    }

    /// The account of a thread that has not begun.
    pub(super) fn at_start(at_ns: u64) -> Self {
        Self { at_ns, cpu: CpuTime::default(), waits: Some(Waits::default()) }
    }

    /// The account of any thread, by its directory in /proc; `None` where it has ended, or the kernel does not count. How its CPU time
    /// is divided is not known: all of it counts as user time.
    pub(super) fn of_task(task: &Path) -> Option<Self> {
        let text = text::read_trimmed(task.join("schedstat"))?;
        let user_ns = text.split_ascii_whitespace().next()?.parse().ok()?;
        let cpu = CpuTime { user_ns, ..CpuTime::default() };
        Some(Self { at_ns: monotonic_ns(), cpu, waits: Some(parse_waits(&text)?) })
    }
}

/// The causes that kept CPUs from the threads of this process until one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuSupply {
    /// Time for which a quota stopped this process's group, or one above it.
    throttled_ns: u64,
    /// Of the CPUs that the calling thread may use.
    ledger: CpuLedger,
}

impl CpuSupply {
    /// Reads the counters now. A figure that this kernel does not count is 0.
    #[must_use]
    pub fn now() -> Self {
        let throttling = CpuGroups::own().and_then(|groups| groups.throttling());
        let cpus = available_cpus().unwrap_or_else(|_| CpuSet::default());
        Self {
            throttled_ns: throttling.map_or(0, |throttling| throttling.stopped_ns),
            ledger: cpu_ledger_on(&cpus).unwrap_or_default(),
        }
    }
}

/// Why a thread did not get the CPU time that it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// A CPU quota stopped its control group.
    Quota,
    /// Other threads held the CPUs that it may use.
    Neighbour,
    /// The hypervisor gave the CPUs to other guests.
    Steal,
}

/// The CPU time that one thread had and wanted in an interval, as shares of a CPU's time, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Demand {
    /// The share of the interval in which it ran.
    pub ran: f64,
    /// The share in which it ran in user mode. It is an estimate: most kernels sample it at their ticks.
    pub ran_user: f64,
    /// The share in which it ran or would have run.
    pub wanted: f64,
    /// The main cause of the difference, where it is large enough to name.
    pub shortage: Option<Shortage>,
}

impl Demand {
    /// The demand of a thread in a window of `window_ns`, between two of its own moments, while the supply went from one
    /// state to another.
    ///
    /// A thread that was blocked when the window opened takes its first reading later. What it did since is related to the
    /// whole window all the same, as it did nothing while it was blocked.
    ///
    /// Steal falls on threads by how much they ran: a CPU that loses a third of its time to the hypervisor takes half as
    /// long again for everything. While a thread waits, its run delay contains the steal already.
    #[must_use]
    pub fn between(
        (before, after): (&ThreadAccount, &ThreadAccount),
        (from, to): (&CpuSupply, &CpuSupply),
        window_ns: u64,
    ) -> Self {
        let elapsed_ns = after.at_ns.saturating_sub(before.at_ns).max(window_ns);
        if elapsed_ns == 0 {
            return Self::default();
        }
        let share = |part_ns: u64| (part_ns as f64 / elapsed_ns as f64).min(1.0);
        let cpu = after.cpu.saturating_sub(before.cpu);
        let ran = share(cpu.total_ns());
        let throttled = share(to.throttled_ns.saturating_sub(from.throttled_ns));
        let waited = match (before.waits, after.waits) {
            (Some(before), Some(after)) => share(after.since(before)),
            _ => throttled,
        };
        let ledger = to.ledger.saturating_sub(from.ledger);
        let stolen = match ledger.busy_ns() {
            0 => 0.0,
            busy_ns => ran * ledger.steal_ns as f64 / busy_ns as f64,
        };
        let by_quota = throttled.min(waited);
        let causes = [
            (by_quota, Shortage::Quota),
            (waited - by_quota, Shortage::Neighbour),
            (stolen, Shortage::Steal),
        ];
        let largest = causes.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        Self {
            ran,
            ran_user: share(cpu.user_ns),
            wanted: (ran + waited + stolen).min(1.0),
            shortage: largest.filter(|(part, _)| *part >= SHORTAGE_MIN).map(|(_, cause)| cause),
        }
    }
}

impl Demand {
    /// The demand without the wait for which other threads of the same program had the CPU; `related` is their share of it.
    #[must_use]
    pub fn beside(self, related: f64) -> Self {
        let waited = (self.wanted - self.ran - related).max(0.0);
        Self { wanted: (self.ran + waited).min(1.0), ..self }
    }

    /// The demand of a thread in whose own time the work that is measured is done, such as the kernel's for a message. That work
    /// is not a reason to call the load the limit; `own` is the share of the time that went to anything else.
    ///
    /// Waiting counts all the same, except for `related`: the share for which its CPU did such work for another thread.
    #[must_use]
    pub fn beside_measured(self, own: f64, related: f64) -> Self {
        let waited = (self.wanted - self.ran - related).max(0.0);
        if waited > WAITED_SHARE_MAX {
            return self;
        }
        Self { ran: own, wanted: (own + waited).min(1.0), ..self }
    }
}

/// The second of the three numbers of a schedstat file: CPU time, run delay, and how often it ran.
fn parse_waits(text: &str) -> Option<Waits> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse::<u64>().ok());
    let (ran_ns, ns, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
    // A kernel without these counters writes zeros, and nobody reads this who has not run.
    (ran_ns > 0).then_some(Waits { ns, count })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::cpu::{current_thread_cpu_ns, pin_current_thread};
    use crate::time::sleep;

    const SECOND: u64 = 1_000_000_000;

    fn account(at_ms: u64, ran_ms: u64, waited_ms: Option<u64>) -> ThreadAccount {
        ThreadAccount {
            at_ns: at_ms * 1_000_000,
            cpu: CpuTime { user_ns: ran_ms * 1_000_000, system_ns: 0 },
            waits: waited_ms.map(|ms| Waits { ns: ms * 1_000_000, count: 0 }),
        }
    }

    /// The demand in one second, in which a thread ran and waited for this many ms.
    fn in_a_second(ran_ms: u64, waited_ms: Option<u64>, to: CpuSupply) -> Demand {
        let before = account(0, 0, waited_ms.map(|_| 0));
        Demand::between((&before, &account(1_000, ran_ms, waited_ms)), (&CpuSupply::default(), &to), SECOND)
    }

    fn supply(throttled_ms: u64, busy_ms: u64, steal_ms: u64) -> CpuSupply {
        let ns = |ms: u64| ms * 1_000_000;
        let ledger = CpuLedger { user_ns: ns(busy_ms), steal_ns: ns(steal_ms), ..CpuLedger::default() };
        CpuSupply { throttled_ns: ns(throttled_ms), ledger }
    }

    #[test]
    fn throttled_time_is_part_of_the_run_delay_and_counts_once() {
        // The figures of a busy loop under a quota of 10% on Linux 6.18.
        let demand = in_a_second(100, Some(390), supply(350, 100, 0));
        assert!((demand.wanted - 0.49).abs() < 1e-9, "{demand:?}");
        assert_eq!(demand.shortage, Some(Shortage::Quota));
        let uncounted = in_a_second(100, None, supply(800, 100, 0));
        assert!((uncounted.wanted - 0.9).abs() < 1e-9, "{uncounted:?}");
        assert_eq!(uncounted.shortage, Some(Shortage::Quota));
    }

    #[test]
    fn the_cause_is_what_took_most() {
        let neighbour = in_a_second(500, Some(450), supply(40, 1_000, 10));
        assert_eq!((neighbour.shortage, neighbour.wanted), (Some(Shortage::Neighbour), 0.955));
        // Half of what ran on the CPU was this thread: half of the steal hit it.
        let stolen = in_a_second(300, Some(50), supply(0, 600, 400));
        assert!((stolen.wanted - 0.55).abs() < 1e-9, "{stolen:?}");
        assert_eq!(stolen.shortage, Some(Shortage::Steal));
        assert_eq!(in_a_second(300, Some(5), supply(0, 600, 0)).shortage, None);
    }

    #[test]
    fn a_thread_that_shares_its_cpu_with_a_busy_one_wanted_all_of_it() {
        let one: CpuSet = available_cpus().unwrap().iter().take(1).collect();
        let is_over = AtomicBool::new(false);
        let spin = |until: &dyn Fn() -> bool| {
            pin_current_thread(&one).unwrap();
            while !until() {
                std::hint::spin_loop();
            }
        };
        let (demand, neighbour) = std::thread::scope(|scope| {
            let neighbour = scope.spawn(|| spin(&|| is_over.load(Ordering::Relaxed)));
            let demand = scope.spawn(|| {
                pin_current_thread(&one).unwrap();
                let (before, from) = (ThreadAccount::now(), CpuSupply::now());
                // By clocks alone: a thread that reads files and allocates sleeps on the locks of threads that fork, and
                // while it sleeps it wants no CPU.
                let ran_before = current_thread_cpu_ns();
                let enough = || {
                    let ran = current_thread_cpu_ns() - ran_before;
                    let elapsed = monotonic_ns() - before.at_ns;
                    // Bounded where nothing takes this CPU away, which would make the test fail.
                    // Long enough that a wait in the middle of a reading is a small part of it.
                    (ran > 50_000_000 && elapsed > (2 * ran - ran / 4).max(SECOND)) || elapsed > 20 * SECOND
                };
                spin(&enough);
                Demand::between((&before, &ThreadAccount::now()), (&from, &CpuSupply::now()), 0)
            });
            let demand = demand.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            (demand, neighbour.join())
        });
        neighbour.unwrap();
        assert!(demand.ran < 0.8 && demand.wanted > 0.9, "{demand:?}");
        assert!(demand.shortage.is_some(), "{demand:?}");
    }

    #[test]
    fn a_thread_that_sleeps_wants_nothing() {
        let (before, from) = (ThreadAccount::now(), CpuSupply::now());
        sleep(Duration::from_millis(200));
        let demand = Demand::between((&before, &ThreadAccount::now()), (&from, &CpuSupply::now()), 0);
        assert!(demand.wanted < 0.5, "{demand:?}");
    }

    #[test]
    fn a_thread_that_was_blocked_when_the_window_opened_is_no_busier_for_it() {
        let (before, after) = (account(999, 0, Some(0)), account(1_000, 1, Some(0)));
        let still = CpuSupply::default();
        let demand = Demand::between((&before, &after), (&still, &still), SECOND);
        assert_eq!((demand.ran, demand.wanted), (0.001, 0.001));
        assert_eq!(Demand::between((&after, &after), (&still, &still), 0), Demand::default());
    }

    #[test]
    fn work_that_is_measured_is_no_limit_but_waiting_for_a_cpu_is() {
        let sender = |ran, waited| Demand { ran, ran_user: 0.02, wanted: ran + waited, shortage: None };
        let wanted = |demand: Demand, related| demand.beside_measured(0.02, related).wanted;
        // All of a CPU, and in turns with three more threads that do the same.
        assert!(wanted(sender(1.0, 0.0), 0.0) < 0.1);
        assert!(wanted(sender(0.25, 0.75), 0.75) < 0.1);
        // A quota of 10%, and a neighbour that takes half of the CPU from one thread and a third from each of two.
        assert!(wanted(sender(0.1, 0.9), 0.0) > 0.9);
        assert!(wanted(sender(0.5, 0.5), 0.0) > 0.9);
        assert!(wanted(sender(0.33, 0.67), 0.33) > 0.9);
        // One that sleeps half of the time does not want a CPU all the time.
        assert!(wanted(sender(0.2, 0.3), 0.0) < 0.9);
    }

    #[test]
    fn run_delay_is_the_second_number() {
        assert_eq!(parse_waits("236195 17 1"), Some(Waits { ns: 17, count: 1 }));
        for text in ["", "1", "x 2 3", "1 x 3", "0 0 0"] {
            assert_eq!(parse_waits(text), None, "{text:?}");
        }
    }

    #[test]
    fn waking_up_an_idle_cpu_is_no_wait_for_a_neighbour() {
        let woken = |count, ns| Waits { ns, count }.since(Waits::default());
        assert_eq!(woken(30_000, 200_000_000), 0, "30,000 times 7 us");
        assert_eq!(woken(100, 400_000_000), 399_000_000, "100 times 4 ms");
    }

    proptest! {
        #[test]
        fn shares_are_shares(
            ran in 0..5_000_u64, waited in proptest::option::of(0..5_000_u64), throttled in 0..9_000_u64,
            busy in 0..9_000_u64, steal in 0..9_000_u64,
        ) {
            let demand = in_a_second(ran, waited, supply(throttled, busy, steal));
            prop_assert!((0.0..=1.0).contains(&demand.ran));
            prop_assert!(demand.ran_user <= demand.ran && demand.ran <= demand.wanted && demand.wanted <= 1.0);
        }
    }
}
