//! The results of a window's runs.

use std::collections::BTreeMap;

use plumb_host::process::{Finished, Usage};
use plumb_model::{Histogram, Measurement, Metric, Notice, NoticeKind, Reading};
use plumb_stats::Moments;

use crate::extract::NoValue;
use crate::metrics;

/// The uncertainty, as a share and in bytes, of the memory that a child inherits from the process that starts it.
const FLOOR_SHARE: u64 = 8;
const FLOOR_BYTES: u64 = 1 << 20;

/// How runs ended, among what a window observed.
pub(crate) const ENDING: &str = "ending";

/// Sums over the runs of a window. Only runs that succeeded have values.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    wall: Histogram,
    wall_ms: Moments,
    user: Histogram,
    system: Histogram,
    memory: Moments,
    switches: Moments,
    faults: Moments,
    major_faults: Moments,
    written: Histogram,
    written_to_disk: Histogram,
    /// Runs whose memory was not above what the kernel begins its count with, and that.
    hidden: (u64, u64),
    own: BTreeMap<String, OwnTally>,
    endings: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    cpu_user_ns: u64,
    cpu_system_ns: u64,
    tried: u64,
    failed: u64,
    last_words: String,
}

/// The runs' values of one of the settings' metrics.
#[derive(Debug, Default)]
struct OwnTally {
    values: Moments,
    missing: u64,
    reason: String,
}

impl Tally {
    /// How many runs have ended.
    pub(crate) fn tried(&self) -> u64 {
        self.tried
    }

    /// How many of them succeeded.
    pub(crate) fn work(&self) -> u64 {
        self.tried - self.failed
    }

    /// CPU time of the runs so far.
    pub(crate) fn cpu_ns(&self) -> u64 {
        self.cpu_user_ns.saturating_add(self.cpu_system_ns)
    }

    /// A run that did not succeed.
    pub(crate) fn fail(&mut self, kind: &str, last_words: String) {
        self.tried += 1;
        self.failed += 1;
        *self.errors.entry(kind.to_owned()).or_default() += 1;
        *self.endings.entry(kind.to_owned()).or_default() += 1;
        self.last_words = last_words;
    }

    /// A run that succeeded. `floor_bytes` is the memory that the kernel begins its count with.
    pub(crate) fn succeed(&mut self, kind: &str, run: &Finished, floor_bytes: u64) {
        self.tried += 1;
        *self.endings.entry(kind.to_owned()).or_default() += 1;
        self.wall.record(run.wall_ns);
        self.wall_ms.push(run.wall_ns as f64 / 1e6);
        let Usage { cpu, resident_bytes_max, page_faults, major_page_faults, context_switches } = run.usage;
        self.user.record(cpu.user_ns);
        self.system.record(cpu.system_ns);
        self.cpu_user_ns = self.cpu_user_ns.saturating_add(cpu.user_ns);
        self.cpu_system_ns = self.cpu_system_ns.saturating_add(cpu.system_ns);
        self.switches.push(context_switches as f64);
        self.faults.push(page_faults as f64);
        self.major_faults.push(major_page_faults as f64);
        if let Some(wrote) = run.wrote {
            self.written.record(wrote.all);
            self.written_to_disk.record(wrote.to_disk);
        }
        if resident_bytes_max > floor_bytes + FLOOR_BYTES.max(floor_bytes / FLOOR_SHARE) {
            self.memory.push(resident_bytes_max as f64);
        } else {
            self.hidden = (self.hidden.0 + 1, self.hidden.1.max(floor_bytes));
        }
    }

    /// Takes in a run's value of one of the settings' metrics.
    pub(crate) fn take_value(&mut self, name: &str, value: Result<f64, NoValue>) {
        let own = self.own.entry(name.to_owned()).or_default();
        match value {
            Ok(value) => own.values.push(value),
            Err(error) => (own.missing, own.reason) = (own.missing + 1, error.to_string()),
        }
    }

    /// Why no run succeeded, as it follows the command and a colon.
    pub(crate) fn why_none(&self) -> String {
        let kinds: Vec<&str> = self.errors.keys().map(String::as_str).collect();
        let runs = if self.tried == 1 { String::new() } else { format!(" in all {} runs", self.tried) };
        format!("{}{runs}{}", kinds.join(", "), self.last_words)
    }

    /// The measurement of a window of that length.
    pub(crate) fn into_measurement(mut self, window_ns: u64) -> Measurement {
        let mut measurement = Measurement {
            window_ns,
            work: self.work(),
            attempts: plumb_model::Attempts { tried: self.tried, failed: self.failed },
            cpu_user_ns: self.cpu_user_ns,
            cpu_system_ns: self.cpu_system_ns,
            errors: std::mem::take(&mut self.errors),
            observed: [(ENDING.to_owned(), std::mem::take(&mut self.endings))].into(),
            sizes: self.sizes(),
            ..Measurement::default()
        };
        let mut put = |metric: &Metric, reading: Option<Reading>| {
            measurement.readings.extend(reading.map(|reading| (metric.name.to_owned(), reading)));
        };
        let mean = |moments: &Moments| moments.mean().map(Reading::Gauge);
        put(&metrics::WALL_TIME, Some(Reading::Trend(std::mem::take(&mut self.wall))));
        put(&metrics::WALL_TIME_SD, self.wall_ms.standard_deviation().map(Reading::Gauge));
        put(&metrics::USER_TIME, Some(Reading::Trend(std::mem::take(&mut self.user))));
        put(&metrics::SYSTEM_TIME, Some(Reading::Trend(std::mem::take(&mut self.system))));
        put(&metrics::MEMORY_MAX, mean(&self.memory).filter(|_| self.hidden.0 == 0));
        put(&metrics::CONTEXT_SWITCHES, mean(&self.switches));
        put(&metrics::PAGE_FAULTS, mean(&self.faults));
        put(&metrics::MAJOR_PAGE_FAULTS, mean(&self.major_faults));
        measurement.read_cpu_load();
        self.own_metrics(&mut measurement);
        measurement.notices.extend(self.notices());
        measurement
    }

    /// A metric that a run lacks has no value in the whole slot: the other runs may not be like it.
    fn own_metrics(&self, measurement: &mut Measurement) {
        for (name, OwnTally { values, missing, reason }) in &self.own {
            if *missing == 0 {
                let mean = values.mean().map(Reading::Gauge);
                measurement.readings.extend(mean.map(|mean| (name.clone(), mean)));
                continue;
            }
            measurement.errors.insert(format!("no value of {name}"), *missing);
            measurement.notices.push(Notice::from(NoticeKind::NoValue).about([name, reason]));
        }
    }

    /// How much runs wrote, where all tell it.
    fn sizes(&self) -> BTreeMap<String, Histogram> {
        let written = [("written", &self.written), ("written to disk", &self.written_to_disk)];
        let is_known = |(_, sizes): &(&str, &Histogram)| sizes.count() > 0;
        written.into_iter().filter(is_known).map(|(what, sizes)| (what.to_owned(), sizes.clone())).collect()
    }

    fn notices(&self) -> impl Iterator<Item = Notice> {
        let failed =
            (self.failed > 0).then(|| Notice::from(NoticeKind::RunsFailed).about([&self.last_words]));
        let (hidden, floor_bytes) = self.hidden;
        let hidden = (hidden > 0).then(|| NoticeKind::MemoryHidden.with([floor_bytes as f64]));
        failed.into_iter().chain(hidden)
    }
}

#[cfg(test)]
mod tests {
    use plumb_host::cpu::CpuTime;
    use plumb_host::process::{Exit, Written};
    use plumb_model::{Statistic, Unit};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn finished(wall_ms: u64, resident_bytes_max: u64) -> Finished {
        let cpu = CpuTime { user_ns: 2_000_000, system_ns: 1_000_000 };
        Finished {
            exit: Exit::Code(0),
            is_overdue: false,
            wall_ns: wall_ms * 1_000_000,
            usage: Usage {
                cpu,
                resident_bytes_max,
                page_faults: 100,
                major_page_faults: 4,
                context_switches: 3,
            },
            wrote: Some(plumb_host::process::WrittenBytes { all: 1 << 20, to_disk: 0 }),
            stdout: Written::default(),
            stderr: Written::default(),
        }
    }

    #[test]
    fn a_slot_has_the_means_of_its_runs() {
        let mut tally = Tally::default();
        for wall_ms in [10, 12, 14] {
            tally.succeed("exit code 0", &finished(wall_ms, 64 * MIB), 10 * MIB);
            tally.take_value("rps", Ok(wall_ms as f64));
        }
        let measurement = tally.into_measurement(40_000_000);
        let number = |name: &str, statistic| measurement.readings[name].number(statistic, Unit::Milliseconds);
        assert!((number("wall_time", Some(Statistic::Avg)).unwrap() / 12.0 - 1.0).abs() < 1e-3);
        assert_eq!(number("wall_time_sd", None), Some(2.0));
        assert_eq!(number("memory_max", None), Some(64.0 * MIB as f64));
        let counts = ["context_switches", "page_faults", "major_page_faults"];
        assert_eq!(counts.map(|name| number(name, None)), [Some(3.0), Some(100.0), Some(4.0)]);
        assert_eq!(number("cpu_load", None), Some(3000.0));
        assert_eq!(number("rps", None), Some(12.0));
        let median = |what: &str| measurement.sizes[what].statistic_ns(Statistic::Med).unwrap();
        assert!((median("written") / MIB as f64 - 1.0).abs() < 1e-3 && median("written to disk") == 0.0);
        assert_eq!((measurement.work, measurement.attempts.tried, measurement.notices.len()), (3, 3, 0));
    }

    #[test]
    fn memory_that_may_be_the_starters_is_left_out() {
        let mut tally = Tally::default();
        tally.succeed("exit code 0", &finished(1, 64 * MIB), 10 * MIB);
        tally.succeed("exit code 0", &finished(1, 11 * MIB), 10 * MIB);
        let measurement = tally.into_measurement(1);
        assert_eq!(measurement.readings.get("memory_max"), None);
        assert_eq!(measurement.notices, [NoticeKind::MemoryHidden.with([10.0 * MIB as f64])]);
    }

    #[test]
    fn a_run_without_a_value_takes_the_value_of_its_slot() {
        let mut tally = Tally::default();
        for value in [Ok(1.0), Err(NoValue::NoMatch { place: "stdout".to_owned() })] {
            tally.succeed("exit code 0", &finished(1, 64 * MIB), 0);
            tally.take_value("rps", value);
        }
        let measurement = tally.into_measurement(1);
        assert_eq!(measurement.readings.get("rps"), None);
        assert_eq!(measurement.errors["no value of rps"], 1);
        assert!(measurement.notices[0].about == ["rps", "no match in stdout"], "{:?}", measurement.notices);
    }

    #[test]
    fn failed_runs_have_no_part_in_the_times() {
        let mut tally = Tally::default();
        tally.fail("exit code 3", "; its last words: oops".to_owned());
        assert_eq!(tally.why_none(), "exit code 3; its last words: oops");
        tally.succeed("exit code 0", &finished(10, 64 * MIB), 0);
        let measurement = tally.into_measurement(1);
        assert_eq!((measurement.work, measurement.attempts.tried, measurement.attempts.failed), (1, 2, 1));
        assert_eq!(measurement.errors["exit code 3"], 1);
        assert_eq!(measurement.observed_count(ENDING, "exit code 3"), 1);
        assert!(measurement.notices[0].about[0].ends_with("oops"));
        let Reading::Trend(wall) = &measurement.readings["wall_time"] else { panic!() };
        assert_eq!(wall.count(), 1);
    }
}
