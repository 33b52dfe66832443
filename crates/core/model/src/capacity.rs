//! A capacity: the highest rate at which a system still meets its objectives, and the trials that found it.

use serde::{Deserialize, Serialize};

use crate::quantity::Dimension;
use crate::relation::Relation;
use crate::{Statistic, Unit};

/// A limit that a trial has to keep, such as `iteration_duration.p99 < 10 ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The text as it was written.
    pub text: String,
    /// The metric's name.
    pub metric: String,
    /// The statistic of a distribution.
    pub statistic: Option<Statistic>,
    /// The relation; never an equality or an estimate.
    pub relation: Relation,
    /// The limit, in the metric's unit.
    pub limit: f64,
    /// The metric's unit.
    pub unit: Unit,
    /// Whether the metric has a value for every unit of work. One that was tried and has none then exceeds every limit.
    pub is_of_all: bool,
}

impl Objective {
    /// Whether a value keeps the limit. A missing value does not.
    #[must_use]
    pub fn is_met(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| match self.relation {
            Relation::AtMost => value <= self.limit,
            Relation::AtLeast => value >= self.limit,
            Relation::Above => value > self.limit,
            Relation::Below => value < self.limit,
            // No objective has these.
            Relation::EqualWithin(_) | Relation::KnownWithin(_) | Relation::KnownWithinOrApart(_) => false,
        })
    }

    /// The limit in ns, if it is one of time.
    #[must_use]
    pub fn limit_ns(&self) -> Option<f64> {
        (self.unit.dimension() == Dimension::Time).then(|| self.limit / self.unit.per_base() * 1e9)
    }
}

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrialKind {
    /// It looks for the first estimate, and is not judged.
    Pilot,
    /// It belongs to the search around the estimate.
    Search,
    /// It shows, at half the rate, whether the system has recovered from a trial that failed.
    Probe,
}

/// A rate that was tried, with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Trial {
    /// The purpose.
    pub kind: TrialKind,
    /// The intended rate; `None` for a closed loop, which sends as fast as the answers come.
    pub rate_per_s: Option<f64>,
    /// The rate of what was done in its window.
    pub done_per_s: f64,
    /// The value of each objective's metric; `None` where it is above every limit.
    pub values: Vec<Option<f64>>,
    /// Whether it met all objectives.
    pub is_met: bool,
    /// CPU time of the system per unit of work, in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_system_us: Option<f64>,
    /// The possible limits of a trial that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strain: Option<Strain>,
}

/// A trial's load on everything that can limit a system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Strain {
    /// Whether the load itself was the limit.
    pub is_load: bool,
    /// Whether requests waited because all connections, jobs or flows of the load were busy.
    pub is_pool: bool,
    /// The share of attempts that failed.
    pub failed: f64,
    /// The most frequent reason: a status, an error or a check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How many CPUs the system used; `None` where its CPU time is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_cpus: Option<f64>,
    /// How many CPUs its threads may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_cpus_allowed: Option<u32>,
}

/// How a capacity was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The limits that every trial had to keep.
    pub objectives: Vec<Objective>,
    /// The trials in their order.
    pub trials: Vec<Trial>,
}

impl Search {
    /// The lowest rate of the search that failed: the relevant upper bound of RFC 9971.
    #[must_use]
    pub fn upper_bound(&self) -> Option<f64> {
        self.lowest_failed()?.rate_per_s
    }

    /// The trial that shows the limit: the one in which the load itself was it, or else [`Search::lowest_failed`].
    #[must_use]
    pub fn limiting(&self) -> Option<&Trial> {
        let is_load = |trial: &&Trial| trial.strain.as_ref().is_some_and(|strain| strain.is_load);
        let tried = self.trials.iter().rev().filter(|trial| trial.kind != TrialKind::Probe);
        tried.filter(|trial| trial.rate_per_s.is_some()).find(is_load).or_else(|| self.lowest_failed())
    }

    /// The first trial that failed at the lowest rate.
    #[must_use]
    pub fn lowest_failed(&self) -> Option<&Trial> {
        let rate = |trial: &Trial| trial.rate_per_s.unwrap_or(f64::INFINITY);
        let failed = self.judged().filter(|trial| !trial.is_met);
        failed.min_by(|one, other| rate(one).total_cmp(&rate(other)))
    }

    /// The highest rate below [`Search::upper_bound`] that met the objectives: the relevant lower bound of RFC 9971.
    #[must_use]
    pub fn lower_bound(&self) -> Option<f64> {
        let upper = self.upper_bound().unwrap_or(f64::INFINITY);
        let met = self.judged().filter(|trial| trial.is_met).filter_map(|trial| trial.rate_per_s);
        met.filter(|rate| *rate < upper).reduce(f64::max)
    }

    /// The work per second in the trial at [`Search::lower_bound`]: the conditional throughput of RFC 9971.
    #[must_use]
    pub fn conditional_throughput(&self) -> Option<f64> {
        let bound = self.lower_bound()?;
        let at_bound = self.judged().filter(|trial| trial.is_met && trial.rate_per_s == Some(bound));
        at_bound.map(|trial| trial.done_per_s).reduce(f64::min)
    }

    /// The change of the rate from one trial of the search to the next, as a logarithm.
    #[must_use]
    pub fn ln_step(&self) -> Option<f64> {
        let mut rates = self.judged().filter_map(|trial| trial.rate_per_s);
        Some((rates.next()? / rates.next()?).ln().abs())
    }

    fn judged(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.kind == TrialKind::Search)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{ClaimError, Scope};
    use crate::{Attempts, Better, Histogram, Measurement, MetricInfo, MetricKind, Reading};

    fn metrics() -> Vec<MetricInfo> {
        let metric = |name: &str, unit, kind| MetricInfo {
            name: name.to_owned(),
            unit,
            better: Better::Lower,
            kind,
            about: String::new(),
        };
        vec![
            metric("iteration_duration", Unit::Milliseconds, MetricKind::Trend),
            metric("http_req_failed", Unit::Share, MetricKind::Share),
        ]
    }

    fn read_objective(text: &str) -> Result<Objective, ClaimError> {
        Scope { variants: &[], metrics: &metrics() }.read_objective(text, &["iteration_duration"])
    }

    fn measured(fast: u64, slow: u64, missing: u64) -> Measurement {
        let mut times = Histogram::new();
        times.record_many(1_000_000, fast);
        times.record_many(50_000_000, slow);
        let readings = [("iteration_duration".to_owned(), Reading::Trend(times))].into();
        let attempts = Attempts { tried: fast + slow + missing, failed: missing };
        Measurement { readings, attempts, ..Measurement::default() }
    }

    #[test]
    fn a_statistic_alone_is_one_of_the_paths_latency() {
        let (short, long) = (
            read_objective("p99.9 < 10 ms").unwrap(),
            read_objective("iteration_duration.p99.9 < 10 ms").unwrap(),
        );
        assert_eq!(
            Objective { text: String::new(), ..short },
            Objective { text: String::new(), ..long.clone() }
        );
        assert_eq!(long.limit_ns(), Some(10e6));
        let failed = read_objective("http_req_failed <= 0.1%").unwrap();
        assert_eq!((failed.limit, failed.limit_ns()), (0.001, None));
    }

    #[test]
    fn a_text_that_is_no_objective_says_where() {
        let at = |text: &str| {
            let error = read_objective(text).unwrap_err();
            (text[error.offset..error.offset + error.length].to_owned(), error.message)
        };
        assert_eq!(at("p98 < 10 ms").0, "p98");
        assert_eq!(at("p99 < 10").0, "10");
        assert_eq!(at("iteration_duraton.p99 < 10 ms").0, "iteration_duraton");
        assert_eq!(at("iteration_duration < 10 ms").0, "iteration_duration");
        assert_eq!(at("p99 == 10 ms within 1%").0, "==");
        let inverted = at("p99 > 10 ms");
        assert_eq!(inverted.0, ">");
        assert_eq!(
            inverted.1,
            "an objective on `iteration_duration` is written with `<` or `<=`: less of it is better"
        );
        assert!(at("p99").1.contains("relation"), "{:?}", at("p99"));
    }

    #[test]
    fn a_statistic_of_several_times_needs_the_name_of_one() {
        let metrics = metrics();
        let without_latency =
            |text: &str| Scope { variants: &[], metrics: &metrics }.read_objective(text, &[]);
        let error = without_latency("p99 < 10 ms").unwrap_err();
        assert_eq!(
            error.message,
            "several times have a `p99` here; name one, such as `iteration_duration.p99`"
        );
        assert!(!without_latency("iteration_duration.p99 < 10 ms").unwrap().is_of_all);
    }

    #[test]
    fn an_answer_that_is_missing_is_over_the_objective() {
        let objective = read_objective("p99 < 10 ms").unwrap();
        let is_met = |measurement: &Measurement| objective.is_met(measurement.value_of(&objective));
        assert!(is_met(&measured(995, 5, 0)) && is_met(&measured(991, 0, 9)));
        assert!(!is_met(&measured(985, 15, 0)) && !is_met(&measured(985, 0, 15)));
        assert!(!is_met(&measured(985, 6, 9)), "neither alone would be too many");
        assert!(!is_met(&measured(0, 0, 10)) && !is_met(&Measurement::default()));
        assert_eq!(measured(1, 0, 99).value_of(&objective), None);
    }

    #[test]
    fn the_bounds_of_a_search_are_those_of_rfc_9971() {
        let trial = |rate, is_met| Trial {
            kind: TrialKind::Search,
            rate_per_s: Some(rate),
            done_per_s: rate,
            values: Vec::new(),
            is_met,
            cpu_system_us: None,
            strain: None,
        };
        let of = |trials| Search { objectives: Vec::new(), trials };
        let inverted =
            of(vec![trial(90.0, true), trial(100.0, false), trial(95.0, true), trial(110.0, true)]);
        assert_eq!((inverted.lower_bound(), inverted.upper_bound()), (Some(95.0), Some(100.0)));
        assert_eq!(inverted.conditional_throughput(), Some(95.0));
        let load = Some(Strain { is_load: true, ..Strain::default() });
        let beside = of(vec![
            trial(100.0, false),
            Trial { kind: TrialKind::Pilot, strain: load, ..trial(300.0, false) },
        ]);
        assert_eq!((beside.upper_bound(), beside.limiting().unwrap().rate_per_s), (Some(100.0), Some(300.0)));
        assert_eq!(inverted.limiting().unwrap().rate_per_s, Some(100.0));
        let met = of(vec![trial(90.0, true), Trial { kind: TrialKind::Probe, ..trial(45.0, false) }]);
        assert_eq!((met.lower_bound(), met.upper_bound()), (Some(90.0), None));
    }
}
