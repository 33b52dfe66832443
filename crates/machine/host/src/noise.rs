//! Other activity on the machine during a measurement.
//!
//! A [`Snapshot`] of the kernel's counters is taken before and after; [`Noise`] is their difference.
//! The counters are those of the whole host, also in most containers. CPU times in /proc/stat come in
//! ticks of 10 ms and on many kernels are sampled at the tick: over one second and a few CPUs they are
//! good to about two parts in a hundred.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::cgroup::{CpuGroups, Throttling};
use crate::cpu::{CpuSet, CpuTime, ns_per_tick};
use crate::text;
use crate::time::monotonic_ns;

/// Where one CPU's time, or that of several together, went since the boot. Nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuLedger {
    /// Programs, with those of low priority and with guests of virtual machines.
    pub user_ns: u64,
    /// The kernel on behalf of programs.
    pub system_ns: u64,
    /// Interrupts.
    pub irq_ns: u64,
    /// Deferred work of interrupts, above all the network's.
    pub softirq_ns: u64,
    /// The time that the hypervisor gave to other guests although this one wanted it.
    pub steal_ns: u64,
    /// Nothing to do, or only waiting for storage.
    pub idle_ns: u64,
}

impl CpuLedger {
    /// Time in which the CPU did something for anyone here.
    #[must_use]
    pub fn busy_ns(self) -> u64 {
        [self.user_ns, self.system_ns, self.irq_ns, self.softirq_ns].into_iter().fold(0, u64::saturating_add)
    }

    /// All time there was.
    #[must_use]
    pub fn total_ns(self) -> u64 {
        self.busy_ns().saturating_add(self.steal_ns).saturating_add(self.idle_ns)
    }

    /// The time spent since `earlier`. Kernels let some of these counters step back a little: 0 then.
    #[must_use]
    pub fn saturating_sub(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            user_ns: combine(self.user_ns, other.user_ns),
            system_ns: combine(self.system_ns, other.system_ns),
            irq_ns: combine(self.irq_ns, other.irq_ns),
            softirq_ns: combine(self.softirq_ns, other.softirq_ns),
            steal_ns: combine(self.steal_ns, other.steal_ns),
            idle_ns: combine(self.idle_ns, other.idle_ns),
        }
    }
}

/// The counters of one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    taken_ns: u64,
    stat: SystemStat,
    cpu_pressure_us: Option<u64>,
    memory_pressure_us: Option<u64>,
    io_pressure_us: Option<u64>,
    throttling: Option<Throttling>,
    frequency_khz: Option<u64>,
    overheated_count: Option<u64>,
}

impl Snapshot {
    /// Reads the counters now.
    ///
    /// # Errors
    ///
    /// When /proc is not mounted. Figures that this kernel does not count are left out.
    pub fn take() -> Result<Self, Error> {
        let pressure =
            |of: &str| parse_pressure_us(&text::read_trimmed(Path::new("/proc/pressure").join(of))?);
        let stat = text::require("/proc/stat", |text| parse_stat(text, ns_per_tick()))?;
        Ok(Self {
            taken_ns: monotonic_ns(),
            cpu_pressure_us: pressure("cpu"),
            memory_pressure_us: pressure("memory"),
            io_pressure_us: pressure("io"),
            throttling: CpuGroups::own().and_then(|groups| groups.throttling()),
            frequency_khz: mean_frequency_khz(&stat),
            overheated_count: overheated_count(&stat),
            stat,
        })
    }

    /// Where the time of these CPUs went, such as those of one side. CPUs that are not there add nothing.
    #[must_use]
    pub fn ledger_on(&self, cpus: &CpuSet) -> CpuLedger {
        self.stat.ledger_on(cpus)
    }
}

/// Where the time of these CPUs went until now; `None` when /proc is not mounted.
pub(crate) fn cpu_ledger_on(cpus: &CpuSet) -> Option<CpuLedger> {
    let stat = text::require("/proc/stat", |text| parse_stat(text, ns_per_tick())).ok()?;
    Some(stat.ledger_on(cpus))
}

/// Softirq time of all CPUs since the boot, in ticks of 10 ms on most kernels.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn softirq_ns() -> Result<u64, Error> {
    let stat = text::require("/proc/stat", |text| parse_stat(text, ns_per_tick()))?;
    Ok(stat.all.softirq_ns)
}

/// Other activity on the machine in an interval. Shares are of all CPUs' time, 0 to 1, and
/// pressures are of the interval, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// The interval.
    pub elapsed_ns: u64,
    /// Share that the CPUs were busy, with everything.
    pub busy_share: f64,
    /// Share that the hypervisor gave to other guests.
    pub steal_share: f64,
    /// Share that went to interrupts.
    pub irq_share: f64,
    /// Share that went to deferred work of interrupts, above all the network's.
    pub softirq_share: f64,
    /// CPU time of processes that are not ours. At least this much: on kernels without IRQ time
    /// accounting our own processes' time contains the interrupts that hit them, and hides as much.
    pub other_cpu_ns: u64,
    /// The same as a share.
    pub other_cpu_share: f64,
    /// How many CPUs these processes, the hypervisor and all interrupts used up together, of which some may be our own.
    pub taken_cpus: f64,
    /// Share of the interval in which some process waited for a CPU; `None` without PSI.
    pub cpu_pressure: Option<f64>,
    /// Share of the interval in which some process waited for memory; `None` without PSI.
    pub memory_pressure: Option<f64>,
    /// Share of the interval in which some process waited for storage; `None` without PSI.
    pub io_pressure: Option<f64>,
    /// How a CPU limit stopped our control group; `None` where no level of it has a CPU controller.
    pub throttling: Option<Throttling>,
    /// Changes from one process to another on all CPUs, per second.
    pub context_switches_per_s: f64,
    /// Processes that ran or could have run at the end.
    pub runnable_count: u64,
    /// Mean clock of the CPUs at the end, in kHz; `None` where the kernel does not tell.
    pub frequency_khz: Option<u64>,
    /// How often a CPU slowed down as it was too hot; `None` where the kernel does not tell.
    pub overheated_count: Option<u64>,
}

impl Noise {
    /// The activity from `before` to `after`, in which `own` is the CPU time of all processes that
    /// belong to the measurement.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot, own: CpuTime) -> Self {
        let elapsed_ns = after.taken_ns.saturating_sub(before.taken_ns);
        let cpu = after.stat.all.saturating_sub(before.stat.all);
        let share = |part_ns: u64| ratio(part_ns, cpu.total_ns());
        // Pressure is counted in microseconds, and can seem longer than the interval by as much as lies
        // between the two readings of the clock and of the counter.
        let pressure = |before_us: Option<u64>, after_us: Option<u64>| {
            let waited_ns = after_us?.saturating_sub(before_us?).saturating_mul(1_000);
            Some(ratio(waited_ns, elapsed_ns).min(1.0))
        };
        let other_cpu_ns = cpu.user_ns.saturating_add(cpu.system_ns).saturating_sub(own.total_ns());
        let switch_count = after.stat.context_switches.saturating_sub(before.stat.context_switches);
        Self {
            elapsed_ns,
            busy_share: share(cpu.busy_ns()),
            steal_share: share(cpu.steal_ns),
            irq_share: share(cpu.irq_ns),
            softirq_share: share(cpu.softirq_ns),
            other_cpu_ns,
            other_cpu_share: share(other_cpu_ns),
            taken_cpus: ratio(
                [cpu.steal_ns, cpu.irq_ns, cpu.softirq_ns]
                    .into_iter()
                    .fold(other_cpu_ns, u64::saturating_add),
                elapsed_ns,
            ),
            cpu_pressure: pressure(before.cpu_pressure_us, after.cpu_pressure_us),
            memory_pressure: pressure(before.memory_pressure_us, after.memory_pressure_us),
            io_pressure: pressure(before.io_pressure_us, after.io_pressure_us),
            throttling: throttling_between(before.throttling, after.throttling),
            context_switches_per_s: ratio(switch_count, elapsed_ns) * 1e9,
            runnable_count: after.stat.runnable_count,
            frequency_khz: after.frequency_khz,
            overheated_count: difference(before.overheated_count, after.overheated_count),
        }
    }
}

/// 0 for nothing out of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

fn throttling_between(before: Option<Throttling>, after: Option<Throttling>) -> Option<Throttling> {
    let (before, after) = (before?, after?);
    Some(Throttling {
        periods_count: after.periods_count.saturating_sub(before.periods_count),
        stopped_ns: after.stopped_ns.saturating_sub(before.stopped_ns),
    })
}

/// The part of /proc/stat that is used (proc_stat(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SystemStat {
    all: CpuLedger,
    cpus: BTreeMap<u32, CpuLedger>,
    context_switches: u64,
    runnable_count: u64,
}

impl SystemStat {
    fn ledger_on(&self, cpus: &CpuSet) -> CpuLedger {
        let those = self.cpus.iter().filter(|&(&cpu, _)| cpus.contains(cpu));
        those.fold(CpuLedger::default(), |sum, (_, ledger)| sum.with(*ledger, u64::saturating_add))
    }
}

fn parse_stat(text: &str, ns_per_tick: u64) -> Option<SystemStat> {
    let mut stat = SystemStat::default();
    let mut has_all = false;
    for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match (name, name.strip_prefix("cpu")) {
            ("ctxt", _) => stat.context_switches = value.trim().parse().ok()?,
            ("procs_running", _) => stat.runnable_count = value.trim().parse().ok()?,
            (_, Some("")) => {
                stat.all = parse_ledger(value, ns_per_tick)?;
                has_all = true;
            }
            (_, Some(cpu)) => {
                stat.cpus.insert(cpu.parse().ok()?, parse_ledger(value, ns_per_tick)?);
            }
            _ => {}
        }
    }
    has_all.then_some(stat)
}

fn parse_ledger(fields: &str, ns_per_tick: u64) -> Option<CpuLedger> {
    let ticks: Option<Vec<u64>> = fields.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
    // The guests' time that follows is part of the user time already.
    let &[user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks?.as_slice() else { return None };
    let ns = |ticks: u64| ticks.saturating_mul(ns_per_tick);
    Some(CpuLedger {
        user_ns: ns(user.saturating_add(nice)),
        system_ns: ns(system),
        irq_ns: ns(irq),
        softirq_ns: ns(softirq),
        steal_ns: ns(steal),
        idle_ns: ns(idle.saturating_add(iowait)),
    })
}

/// For how long some process waited, from a file of /proc/pressure (Documentation/accounting/psi.rst).
fn parse_pressure_us(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

fn mean_frequency_khz(stat: &SystemStat) -> Option<u64> {
    let (sum_khz, count) = sum_over_cpus(stat, "cpufreq/scaling_cur_freq")?;
    Some(sum_khz / count)
}

fn overheated_count(stat: &SystemStat) -> Option<u64> {
    sum_over_cpus(stat, "thermal_throttle/core_throttle_count").map(|(sum, _)| sum)
}

/// The sum of the numbers in a file that each CPU may have, and how many have it; `None` for none.
fn sum_over_cpus(stat: &SystemStat, file: &str) -> Option<(u64, u64)> {
    let path = |cpu: &u32| Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}")).join(file);
    let numbers = stat.cpus.keys().filter_map(|cpu| text::read_number(path(cpu)));
    numbers.map(|number| (number, 1)).reduce(|a, b| (a.0.saturating_add(b.0), a.1 + b.1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "cpu  100 20 30 800 50 1 9 40 7 0\n\
                        cpu0 60 20 10 400 25 1 4 30 7 0\n\
                        cpu1 40 0 20 400 25 0 5 10 0 0\n\
                        intr 293457 0 0 13\nctxt 533598\nbtime 1763695000\nprocesses 3\nprocs_running 2\n\
                        procs_blocked 0\nsoftirq 5 0 1\n";

    fn snapshot(taken_ns: u64, stat: &str) -> Snapshot {
        Snapshot {
            taken_ns,
            stat: parse_stat(stat, 10_000_000).unwrap(),
            cpu_pressure_us: Some(taken_ns / 4_000),
            memory_pressure_us: Some(taken_ns / 500),
            io_pressure_us: None,
            throttling: Some(Throttling {
                periods_count: taken_ns / 1_000_000_000,
                stopped_ns: taken_ns / 10,
            }),
            frequency_khz: None,
            overheated_count: Some(4),
        }
    }

    #[test]
    fn stat_is_read_with_its_cpus() {
        let stat = parse_stat(STAT, 10).unwrap();
        let expected = CpuLedger {
            user_ns: 1_200,
            system_ns: 300,
            irq_ns: 10,
            softirq_ns: 90,
            steal_ns: 400,
            idle_ns: 8_500,
        };
        assert_eq!(stat.all, expected);
        assert_eq!((expected.busy_ns(), expected.total_ns()), (1_600, 10_500));
        assert_eq!((stat.context_switches, stat.runnable_count), (533_598, 2));
        assert_eq!(stat.cpus.keys().copied().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(stat.cpus[&1].softirq_ns, 50);
    }

    #[test]
    fn the_ledger_of_some_cpus_is_their_sum() {
        let taken = snapshot(0, STAT);
        assert_eq!(taken.ledger_on(&"0-1".parse().unwrap()), taken.stat.all);
        assert_eq!(taken.ledger_on(&"1,7".parse().unwrap()), taken.stat.cpus[&1]);
        assert_eq!(taken.ledger_on(&CpuSet::default()), CpuLedger::default());
    }

    #[test]
    fn malformed_stat_is_none() {
        for text in [
            "",
            "intr 1",
            "cpu0 1 2 3 4 5 6 7 8",
            "cpu 1 2 3",
            "cpu  1 2 3 4 5 6 7 x",
            "cpux 1 2 3 4 5 6 7 8",
        ] {
            assert_eq!(parse_stat(text, 1), None, "{text:?}");
        }
    }

    #[test]
    fn pressure_is_read() {
        let text = "some avg10=4.22 avg60=1.81 avg300=1.70 total=13435939\nfull avg10=0.00 total=7\n";
        assert_eq!(parse_pressure_us(text), Some(13_435_939));
        assert_eq!(parse_pressure_us("full avg10=0.00 total=7\n"), None);
        assert_eq!(parse_pressure_us("some total=x"), None);
    }

    #[test]
    fn noise_is_the_difference() {
        // One second on two CPUs: 120 ticks of programs, 10 of softirq, 20 stolen, 50 idle.
        let later = "cpu  200 20 50 850 50 1 19 60 7 0\nctxt 534598\nprocs_running 3\n";
        let (before, after) = (snapshot(1_000_000_000, STAT), snapshot(2_000_000_000, later));
        let noise = Noise::between(&before, &after, CpuTime { user_ns: 900_000_000, system_ns: 100_000_000 });
        let expected = Noise {
            elapsed_ns: 1_000_000_000,
            busy_share: 0.65,
            steal_share: 0.1,
            irq_share: 0.0,
            softirq_share: 0.05,
            other_cpu_ns: 200_000_000,
            other_cpu_share: 0.1,
            taken_cpus: 0.5,
            cpu_pressure: Some(0.25),
            memory_pressure: Some(1.0),
            io_pressure: None,
            throttling: Some(Throttling { periods_count: 1, stopped_ns: 100_000_000 }),
            context_switches_per_s: 1_000.0,
            runnable_count: 3,
            frequency_khz: None,
            overheated_count: Some(0),
        };
        assert_eq!(noise, expected);
        let json = serde_json::to_string(&noise).unwrap();
        assert_eq!(serde_json::from_str::<Noise>(&json).unwrap(), noise);
    }

    #[test]
    fn own_time_beyond_the_machines_leaves_nothing_to_others() {
        let taken = snapshot(5, STAT);
        let noise = Noise::between(&taken, &taken, CpuTime { user_ns: u64::MAX, system_ns: 5 });
        assert_eq!((noise.other_cpu_ns, noise.other_cpu_share, noise.elapsed_ns), (0, 0.0, 0));
    }

    #[test]
    fn this_machine_keeps_a_ledger() {
        let before = Snapshot::take().unwrap();
        let after = Snapshot::take().unwrap();
        assert!(after.taken_ns > before.taken_ns);
        assert!(after.stat.all.total_ns() > 0 && !after.stat.cpus.is_empty());
        assert!(after.ledger_on(&crate::cpu::available_cpus().unwrap()).total_ns() > 0);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "((cpu|cpu1|ctxt|some|procs_running) [0-9 a=total]*\n?)*") {
            drop(parse_stat(&text, u64::MAX));
            let _ = parse_pressure_us(&text);
        }

        #[test]
        fn shares_stay_within_the_whole(a in any::<[u16; 8]>(), more in any::<[u16; 8]>(), own: u32) {
            let line = |ticks: [u64; 8]| format!("cpu {}", ticks.map(|tick| tick.to_string()).join(" "));
            let a = a.map(u64::from);
            let b = std::array::from_fn(|i| a[i] + u64::from(more[i]));
            let own = CpuTime { user_ns: u64::from(own), system_ns: 0 };
            let noise = Noise::between(&snapshot(1, &line(a)), &snapshot(9, &line(b)), own);
            for share in [noise.busy_share, noise.steal_share, noise.softirq_share, noise.other_cpu_share] {
                prop_assert!((0.0..=1.0).contains(&share), "{}", share);
            }
            prop_assert!(noise.busy_share + noise.steal_share <= 1.0 + 1e-9);
        }
    }
}
