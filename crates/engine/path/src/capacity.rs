//! The settings of a search for the capacity, which all loads share.

use plumb_model::claim::Scope;
use plumb_model::{Metric, MetricInfo, Notice, NoticeKind, Objective, Percent, Rate, Span, metric};
use plumb_pace::Schedule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::SettingsFault;

/// A search for the highest rate that still meets objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacitySettings {
    /// The limits that a rate has to keep, such as `p99 < 10 ms`: any metric and statistic, or a statistic of the latency.
    pub objective: Vec<String>,
    /// How many rates a slot tries after any pilot.
    #[serde(default = "trials")]
    pub trials: u32,
    /// How long each trial is measured; at least 100 times the longest limit is best.
    #[serde(default = "trial")]
    pub trial: Span,
    /// The change of the rate from trial to trial.
    #[serde(default = "step")]
    pub step: Percent,
}

/// With fewer trials, or a smaller step, more than 5% of the simulated comparisons of two equal noisy systems found a difference.
fn trials() -> u32 {
    8
}

fn trial() -> Span {
    Span(1_000_000_000)
}

fn step() -> Percent {
    Percent(0.05)
}

/// A trial that is this many times as long as the limit forgives an overload of 1%: requests wait longer and longer, and reach the
/// limit only at its end.
pub const TRIAL_PER_LIMIT: f64 = 100.0;
/// A send that is late by this share of the limit adds little to a time that is near it.
const LATE_PER_LIMIT: f64 = 0.1;

/// Fewer trials tell nothing: the first one only says where to go.
const TRIALS_MIN: u32 = 3;
/// Beyond this no slot ends in a reasonable time.
const TRIALS_MAX: u32 = 100;

/// The goal of a load's search.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    /// The objectives that a rate has to meet.
    pub objectives: Vec<Objective>,
    /// Trials of a slot.
    pub trials: u32,
    /// The change of the rate from trial to trial, as a share.
    pub step: f64,
}

impl CapacitySettings {
    /// Checks the settings and reads the objectives. A statistic alone is one of the first of the metrics `latency`, which have a
    /// time for each unit of work.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub fn to_capacity(&self, metrics: &[Metric], latency: &[&str]) -> Result<Capacity, SettingsFault> {
        let fault = |key: &str, message: String| SettingsFault::new(format!("load.capacity.{key}"), message);
        if self.objective.is_empty() {
            return Err(fault("objective", "name at least one limit, such as `p99 < 10 ms`".to_owned()));
        }
        if !(TRIALS_MIN..=TRIALS_MAX).contains(&self.trials) {
            return Err(fault("trials", format!("a slot has {TRIALS_MIN} to {TRIALS_MAX} trials")));
        }
        if self.trial.0 == 0 {
            return Err(fault("trial", "a trial must be longer than 0, such as `1 s`".to_owned()));
        }
        if !(0.001..=0.5).contains(&self.step.0) {
            return Err(fault("step", "a step is 0.1% to 50%".to_owned()));
        }
        let metrics: Vec<MetricInfo> = metrics.iter().map(MetricInfo::from).collect();
        let scope = Scope { variants: &[], metrics: &metrics };
        let read = |(index, text): (usize, &String)| {
            let objective = scope.read_objective(text, latency);
            objective.map_err(|error| fault(&format!("objective[{index}]"), error.message))
        };
        let objectives = self.objective.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Capacity { objectives, trials: self.trials, step: self.step.0 })
    }

    /// Refuses what a search has no room for: settings with their keys under `load`, and loads that are not plumb's own.
    ///
    /// # Errors
    /// The first such setting, with its key.
    pub fn check_alone(is_native: bool, others: &[(&str, bool)]) -> Result<(), SettingsFault> {
        if let Some((key, _)) = others.iter().find(|(_, is_set)| *is_set) {
            let message = "a search for the capacity sets the rate and the time of each trial; leave it out";
            return Err(SettingsFault::new(format!("load.{key}"), message));
        }
        if !is_native {
            let message = "only the load of plumb itself searches; leave `driver` out";
            return Err(SettingsFault::new("load.capacity", message));
        }
        Ok(())
    }
}

impl Capacity {
    /// The metrics that a search has.
    pub const METRICS: [Metric; 2] = [metric::CAPACITY, metric::CAPACITY_RECOVERY];

    /// The longest limit of time, in ns.
    #[must_use]
    pub fn limit_ns(&self) -> Option<f64> {
        self.objectives.iter().filter_map(Objective::limit_ns).reduce(f64::max)
    }

    /// How late a send may be: a tenth of the shortest limit of time, in ns; 0 without one.
    #[must_use]
    pub fn late_ns(&self) -> u64 {
        let shortest_ns = self.objectives.iter().filter_map(Objective::limit_ns).reduce(f64::min);
        (shortest_ns.unwrap_or(0.0) * LATE_PER_LIMIT) as u64
    }

    /// The notice that trials of this length are short for the limit, if they are.
    #[must_use]
    pub fn short_trials(&self, trial_ns: u64) -> Option<Notice> {
        let (limit_ns, trial_ns) = (self.limit_ns()?, trial_ns as f64);
        let is_short = trial_ns < TRIAL_PER_LIMIT * limit_ns;
        is_short.then(|| NoticeKind::ShortTrials.with([trial_ns, limit_ns, limit_ns / trial_ns]))
    }
}

/// The rate of a window: the one that a search asks for, or that of the settings.
#[must_use]
pub fn rate_per_s(asked: Option<f64>, settings: Option<Rate>) -> Option<f64> {
    asked.filter(|rate| Schedule::constant(*rate).is_some()).or(settings.map(|rate| rate.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::METRICS;

    fn capacity_from(json: serde_json::Value) -> Result<Capacity, SettingsFault> {
        let settings: CapacitySettings = serde_json::from_value(json).unwrap();
        settings.to_capacity(METRICS, &["latency"])
    }

    #[test]
    fn the_rest_of_a_search_has_defaults() {
        let capacity =
            capacity_from(serde_json::json!({"objective": ["p99 < 10 ms", "throughput > 5 /s"]})).unwrap();
        assert_eq!((capacity.trials, capacity.step, capacity.limit_ns()), (8, 0.05, Some(10e6)));
        assert_eq!(capacity.late_ns(), 1_000_000);
        assert_eq!(capacity.objectives[0].metric, "latency");
    }

    #[test]
    fn a_fault_is_at_its_key() {
        for (json, key) in [
            (serde_json::json!({"objective": []}), "objective: name at least one limit"),
            (
                serde_json::json!({"objective": ["p99 < 1 s", "p98 < 1 s"]}),
                "objective[1]: no statistic is named `p98`; known: avg",
            ),
            (
                serde_json::json!({"objective": ["p99 < 1 s"], "trials": 2}),
                "trials: a slot has 3 to 100 trials",
            ),
            (
                serde_json::json!({"objective": ["p99 < 1 s"], "trial": "0 s"}),
                "trial: a trial must be longer",
            ),
            (serde_json::json!({"objective": ["p99 < 1 s"], "step": "0%"}), "step: a step is 0.1% to 50%"),
        ] {
            let fault = capacity_from(json).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("load.capacity.{key}")), "{fault}");
        }
    }
}
