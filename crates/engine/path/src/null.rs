//! The null data path: a synthetic system with a chosen effect, noise and drift, and a load that only computes.
//!
//! It drives the harness' own tests without any load. The output of the runner, the statistics and the
//! reports can then be compared with a known truth. Its numbers are synthetic, and every report says so.

use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::{
    Attempts, Better, Evidence, Histogram, LoadHealth, Measurement, Metric, MetricKind, Percent, Rate,
    Reading, Span, Unit, facts, metric, statements,
};
use plumb_pace::Frame;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capacity::CapacitySettings;
use crate::data_path::DataPath;
use crate::family::{AnyError, Load, Mark, PathError, Place, SettingsFault, Sides, Snapshot, System, Window};
use crate::settings::{About, Facts, LoadFacts, PathSettings, SeenWindow, Settings, SystemFacts};
use crate::timing::Timing;

statements! {
    OPERATIONS = "operations": "operations of the treatment", "more than 0", "{operations}";
}

/// Why a host is said to lack what a null experiment needs.
#[derive(Debug, thiserror::Error)]
#[error("this host has no such device; the experiment asked to pretend so")]
struct NoDevice;

/// The settings of a null experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NullSettings {
    /// The synthetic system.
    pub system: NullSystemSettings,
    /// The synthetic load.
    pub load: NullLoadSettings,
}

/// How a synthetic system fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// Not at all.
    #[default]
    None,
    /// This host lacks what it needs.
    Infeasible,
    /// It does not start.
    Start,
    /// Every measurement fails.
    Measure,
    /// The first attempt at every slot fails. There is no second one, as a failure is an outcome.
    MeasureOnce,
    /// The load's process crashes in the first attempt at every slot. There is no second one, as a crash is an outcome.
    CrashOnce,
    /// The load's process is killed in the first attempt at every slot, as if from outside. There is a second one.
    KillOnce,
}

/// The synthetic system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NullSystemSettings {
    /// True throughput.
    pub throughput: Rate,
    /// True median latency.
    pub latency: Span,
    /// Standard deviation of a slot's value, relative.
    pub noise: Percent,
    /// Growth of all values from one slot to the next, relative.
    pub drift: Percent,
    /// How much more the first one-second window lets through, relative.
    pub burst: Percent,
    /// CPU time of the load per unit of work.
    pub cpu: Span,
    /// Whether the treatment's counter moves.
    pub evidence: bool,
    /// Share of the window for which the load is busy.
    pub busy: Percent,
    /// Share of the work that fails.
    pub failures: Percent,
    /// Share of the slots, drawn by their seeds, in which nothing is completed.
    pub idle: Percent,
    /// How it fails.
    pub fail: Failure,
}

impl Default for NullSystemSettings {
    fn default() -> Self {
        Self {
            throughput: Rate(1000.0),
            latency: Span(5_000_000),
            noise: Percent(0.05),
            drift: Percent(0.0),
            burst: Percent(0.0),
            cpu: Span(50_000),
            evidence: true,
            busy: Percent(0.2),
            failures: Percent(0.0),
            idle: Percent(0.0),
            fail: Failure::default(),
        }
    }
}

/// The synthetic load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NullLoadSettings {
    /// The window that it pretends to measure.
    pub duration: Span,
    /// The warm-up before it.
    pub warmup: Span,
    /// Whether it really takes that long. Both sides then are agents, as those of every other data path.
    pub real_time: bool,
    /// A search for the highest rate that meets objectives. The latency then grows as in a queue.
    pub capacity: Option<CapacitySettings>,
}

impl Default for NullLoadSettings {
    fn default() -> Self {
        Self { duration: Span(1_000_000_000), warmup: Span(0), real_time: false, capacity: None }
    }
}

impl Settings for NullSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        if self.system.throughput.0 <= 0.0 {
            return Err(SettingsFault::new(
                "system.throughput",
                "the throughput must be above 0, such as `1000 /s`",
            ));
        }
        if self.load.duration.0 == 0 {
            return Err(SettingsFault::new(
                "load.duration",
                "the duration must be longer than 0, such as `1 s`",
            ));
        }
        self.load
            .capacity
            .as_ref()
            .map_or(Ok(()), |capacity| capacity.to_capacity(METRICS, &[LATENCY]).map(drop))
    }

    fn share(&self, _number: u32, of: u32) -> Result<PathSettings, SettingsFault> {
        let mut share = self.clone();
        share.system.throughput.0 /= f64::from(of);
        Ok(PathSettings::new(share))
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        match self.system.fail {
            Failure::Infeasible if at.system => Err(NoDevice.into()),
            _ => Ok(()),
        }
    }

    fn timing(&mut self) -> Timing<'_> {
        let NullLoadSettings { duration, warmup, capacity, .. } = &mut self.load;
        Timing { capacity: capacity.as_mut(), ..Timing::new(duration, warmup) }
    }

    fn facts(&self) -> Facts {
        let ends_its_process = matches!(self.system.fail, Failure::CrashOnce | Failure::KillOnce);
        let in_process = !ends_its_process && !self.load.real_time;
        let capacity =
            self.load.capacity.as_ref().and_then(|capacity| capacity.to_capacity(METRICS, &[LATENCY]).ok());
        Facts {
            system: SystemFacts { in_process, ..SystemFacts::default() },
            load: LoadFacts {
                weight: Some(self.system.throughput.0),
                spans_hosts: Ok(()),
                in_process,
                ..LoadFacts::searching(capacity)
            },
        }
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        let moved = seen.after.moved(seen.before, "operations").unwrap_or(0);
        vec![OPERATIONS.evidence(moved > 0, facts![operations = moved])]
    }

    fn system(&self, _: &Place) -> Result<Box<dyn System>, PathError> {
        if self.system.fail == Failure::Start {
            return Err(PathError::new("start the synthetic system: it was told to fail"));
        }
        Ok(Box::new(NullSystem { moves: self.system.evidence, operations: 0 }))
    }

    fn load(&self, _: &Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
        Ok(Box::new(NullLoad { settings: self.clone() }))
    }
}

/// The metric that an objective speaks of if it names none.
const LATENCY: &str = "latency";

/// The metrics of the data path `null`.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "throughput",
        unit: Unit::PerSecond,
        better: Better::Higher,
        kind: MetricKind::Rate,
        about: "Synthetic units of work per second",
    },
    Metric {
        name: LATENCY,
        unit: Unit::Milliseconds,
        better: Better::Lower,
        kind: MetricKind::Trend,
        about: "Synthetic time per unit of work",
    },
    metric::CPU_SYSTEM,
    metric::CPU_LOAD,
];

/// The data path `null`.
pub const NULL: DataPath = DataPath::with_settings::<NullSettings>(About {
    synthetic: true,
    system_is_unprivileged: true,
    load_is_unprivileged: true,
    ..About::new("null", METRICS)
});

#[derive(Debug)]
struct NullSystem {
    moves: bool,
    operations: u64,
}

impl System for NullSystem {
    fn target(&self) -> Value {
        Value::Null
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        self.operations += if self.moves { 1000 } else { 0 };
        let mut snapshot = Snapshot::default();
        snapshot.counters.insert("operations".to_owned(), self.operations);
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}

#[derive(Debug)]
struct NullLoad {
    settings: NullSettings,
}

impl Load for NullLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let fail = self.settings.system.fail;
        if fail == Failure::Measure || (fail == Failure::MeasureOnce && window.attempt == 0) {
            return Err(PathError::new("measure: the synthetic load was told to fail"));
        }
        if fail == Failure::CrashOnce && window.attempt == 0 {
            std::process::abort();
        }
        if fail == Failure::KillOnce && window.attempt == 0 {
            plumb_host::process::kill_this_process();
        }
        if self.settings.load.real_time {
            pass_time(window, mark);
        } else {
            mark(Mark::Opened);
            mark(Mark::Closed);
        }
        Ok(synthesise(&self.settings, window))
    }
}

/// Waits as long as a load works, from the start that was agreed on.
fn pass_time(window: Window, mark: &mut dyn FnMut(Mark)) {
    let frame = Frame::new(monotonic_ns().max(window.start_ns), window.warmup_ns, window.window_ns);
    let wait_until = |at_ns: u64| sleep(Duration::from_nanos(at_ns.saturating_sub(monotonic_ns())));
    mark(Mark::Agreed { open_ns: frame.open_ns, close_ns: frame.close_ns });
    wait_until(frame.open_ns);
    mark(Mark::Opened);
    wait_until(frame.close_ns);
    mark(Mark::Closed);
}

/// How many different times a window has.
const TIMES: u64 = 200;

/// A standard normal value by the method of Box and Muller.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

fn synthesise(settings: &NullSettings, window: Window) -> Measurement {
    let system = &settings.system;
    let mut random = ChaCha8Rng::seed_from_u64(window.seed);
    let drift = (1.0 + system.drift.0).powf(window.index as f64);
    let factor = |random: &mut ChaCha8Rng| (system.noise.0 * normal(random)).exp();
    let mut rate = system.throughput.0 * drift * factor(&mut random);
    let mut slot_latency_ns = system.latency.0 as f64 * drift * factor(&mut random);
    if let Some(offered) = window.rate_per_s {
        let room = 1.0 - offered / rate;
        slot_latency_ns = if room > 0.0 { slot_latency_ns / room } else { window.window_ns as f64 };
        rate = rate.min(offered);
    }
    let mut latency = Histogram::new();
    let is_idle = system.idle.0 > 0.0 && random.random::<f64>() < system.idle.0;
    if is_idle {
        rate = 0.0;
    }
    let seconds = window.window_ns as f64 / 1e9;
    let work = (rate * seconds) as u64;
    // An objective asks for a time of every unit of work.
    let each = if window.rate_per_s.is_some() { work.div_ceil(TIMES) } else { 1 };
    for _ in 0..if is_idle { 0 } else { TIMES } {
        latency.record_many((slot_latency_ns * (0.3 * normal(&mut random)).exp()) as u64, each);
    }
    let windows = (0..seconds as usize)
        .map(|second| if second == 0 { rate * (1.0 + system.burst.0) } else { rate })
        .collect();
    Measurement {
        window_ns: window.window_ns,
        work,
        readings: [
            ("throughput".to_owned(), Reading::Rate { value: rate, count: work }),
            ("latency".to_owned(), Reading::Trend(latency.packed())),
        ]
        .into(),
        windows: [("throughput".to_owned(), windows)].into(),
        attempts: Attempts { tried: work, failed: (work as f64 * system.failures.0).round() as u64 },
        health: LoadHealth { busiest_thread: system.busy.0, threads: 1, ..LoadHealth::default() },
        cpu_user_ns: (work as f64 * system.cpu.0 as f64) as u64,
        ..Measurement::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_in_real_time_starts_at_the_moment_agreed_on() {
        let mut settings = NullSettings::default();
        settings.load.real_time = true;
        let start_ns = monotonic_ns() + 20_000_000;
        let window = Window { start_ns, ..Window::at_once(1_000_000, 2_000_000, 1) };
        let mut marks = Vec::new();
        NullLoad { settings }.measure(window, &mut |mark| marks.push((mark, monotonic_ns()))).unwrap();
        let (open_ns, close_ns) = (start_ns + 1_000_000, start_ns + 3_000_000);
        let [(agreed, _), (Mark::Opened, opened_ns), (Mark::Closed, closed_ns)] = marks[..] else {
            panic!("{marks:?}")
        };
        assert_eq!(agreed, Mark::Agreed { open_ns, close_ns });
        assert!(opened_ns >= open_ns && closed_ns >= close_ns, "{marks:?}");
    }

    fn window(seed: u64, index: u64) -> Window {
        Window { index, ..Window::at_once(0, 1_000_000_000, seed) }
    }

    fn rate(settings: &NullSettings, window: Window) -> f64 {
        synthesise(settings, window).readings["throughput"].number(None, Unit::PerSecond).unwrap()
    }

    #[test]
    fn the_mean_of_many_slots_is_the_true_value() {
        let settings = NullSettings::default();
        let logs: Vec<f64> = (0..2000).map(|seed| (rate(&settings, window(seed, 0)) / 1000.0).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 2000.0;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 1999.0).sqrt();
        assert!(mean.abs() < 0.005, "{mean}");
        assert!((deviation - 0.05).abs() < 0.005, "{deviation}");
    }

    #[test]
    fn drift_grows_with_the_slots_and_noise_can_be_none() {
        let mut settings = NullSettings::default();
        settings.system.noise = Percent(0.0);
        settings.system.drift = Percent(0.1);
        assert!((rate(&settings, window(1, 0)) - 1000.0).abs() < 1e-9);
        assert!((rate(&settings, window(2, 2)) - 1210.0).abs() < 1e-6);
    }

    #[test]
    fn a_share_of_the_work_fails_and_in_a_share_of_the_slots_nothing_is_done() {
        let mut settings = NullSettings::default();
        settings.system.failures = Percent(0.5);
        let attempts = synthesise(&settings, window(3, 0)).attempts;
        assert!(attempts.tried > 500 && attempts.failed == attempts.tried.div_ceil(2), "{attempts:?}");
        settings.system.idle = Percent(0.3);
        let slots: Vec<Measurement> = (0..500).map(|seed| synthesise(&settings, window(seed, 0))).collect();
        let idle: Vec<&Measurement> = slots.iter().filter(|slot| slot.work == 0).collect();
        assert!((110..190).contains(&idle.len()), "{}", idle.len());
        assert!(idle.iter().all(|slot| slot.attempts.tried == 0));
        assert_eq!(
            idle[0].readings["latency"].number(Some(plumb_model::Statistic::P95), Unit::Milliseconds),
            None
        );
    }

    #[test]
    fn the_shares_of_several_agents_are_the_whole_and_only_the_systems_host_lacks_the_device() {
        let mut settings = NullSettings::default();
        settings.system.fail = Failure::Infeasible;
        let shares = (0..3).map(|number| settings.share(number, 3).unwrap().facts().load.weight.unwrap());
        assert!((shares.sum::<f64>() - 1000.0).abs() < 1e-9);
        assert!(settings.feasible(Sides { system: true, load: false }).is_err());
        assert!(settings.feasible(Sides { system: false, load: true }).is_ok());
    }

    #[test]
    fn only_what_takes_time_or_ends_a_process_needs_one() {
        let with = |fail, real_time| NullSettings {
            system: NullSystemSettings { fail, ..NullSystemSettings::default() },
            load: NullLoadSettings { real_time, ..NullLoadSettings::default() },
        };
        for fail in
            [Failure::None, Failure::Infeasible, Failure::Start, Failure::Measure, Failure::MeasureOnce]
        {
            assert!(with(fail, false).facts().run_in_process(), "{fail:?}");
            assert!(!with(fail, true).facts().run_in_process(), "{fail:?}");
        }
        for fail in [Failure::CrashOnce, Failure::KillOnce] {
            assert!(!with(fail, false).facts().run_in_process(), "{fail:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_slot() {
        let settings = NullSettings::default();
        assert_eq!(synthesise(&settings, window(9, 0)), synthesise(&settings, window(9, 0)));
        assert_ne!(synthesise(&settings, window(9, 0)), synthesise(&settings, window(10, 0)));
    }
}
