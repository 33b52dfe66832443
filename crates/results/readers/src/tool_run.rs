//! One run of a tool, as its output tells it.

use std::collections::BTreeMap;

use plumb_model::{
    Better, Histogram, Measurement, Metric, MetricInfo, MetricKind, Notice, Reading, Statistic, Unit,
};

/// One run of a tool, as its output tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// The tool's name.
    pub tool: &'static str,
    /// The version, if the output has it.
    pub version: Option<String>,
    /// The data path whose metrics it measures.
    pub path: &'static str,
    /// The name that tells it from other runs in the same text, such as the command that was measured.
    pub label: Option<String>,
    /// The tool's options, as far as the output shows them. Two runs with different options measured different things.
    pub options: BTreeMap<String, String>,
    /// The line of the text at which it begins, from 1.
    pub line: usize,
    /// Why it has no readings, if it has none.
    pub failure: Option<NoReading>,
    /// The part without a mark at its end, such as `ab's times`: nobody can see whether lines are missing there.
    pub open_end: Option<&'static str>,
    /// Figures that must agree with others in the same output.
    pub sums: Vec<Sum>,
    /// When the measurement began, in seconds since 1970, where the output says so.
    pub started_unix_s: Option<f64>,
    /// The name of the units of work, in the plural.
    pub units: &'static str,
    /// The metrics that it has readings of, as this tool measures them.
    pub metrics: Vec<MetricInfo>,
    /// Readings, errors, windows, notices. Health and CPU time are never known.
    pub measurement: Measurement,
    /// By metric: a clause that says how to have the tool print more of it.
    pub remedies: BTreeMap<String, &'static str>,
}

impl ToolRun {
    /// A run of which nothing is known yet.
    pub(crate) fn new(tool: &'static str, path: &'static str, units: &'static str) -> Self {
        Self {
            tool,
            version: None,
            path,
            label: None,
            options: BTreeMap::new(),
            line: 1,
            failure: None,
            open_end: None,
            sums: Vec::new(),
            started_unix_s: None,
            units,
            metrics: Vec::new(),
            measurement: Measurement::default(),
            remedies: BTreeMap::new(),
        }
    }

    /// A run without readings.
    pub(crate) fn without(tool: &'static str, path: &'static str, failure: NoReading) -> Self {
        Self { failure: Some(failure), ..Self::new(tool, path, "runs") }
    }

    /// Notes that `said` should equal `follows` to within a share of it, where the output has both.
    pub(crate) fn sum(
        &mut self,
        what: [&'static str; 2],
        said: Option<f64>,
        follows: Option<f64>,
        share: f64,
    ) {
        if let (Some(said), Some(follows)) = (said, follows)
            && said > 0.0
            && follows > 0.0
        {
            self.sums.push(Sum { what, said, follows, share });
        }
    }

    /// Without work there are no times: tools print zeros instead.
    pub(crate) fn forget_what_did_not_happen(&mut self) {
        if self.measurement.work == 0 {
            let readings = &mut self.measurement.readings;
            readings.retain(|_, reading| !matches!(reading, Reading::Summary { .. }));
            self.metrics.retain(|metric| readings.contains_key(&metric.name));
        }
    }

    /// Whether this repeats `other` in another form, as a tool's table below its text does.
    pub(crate) fn is_again(&self, other: &Self) -> bool {
        let number = |run: &Self, name: &str, unit| {
            run.measurement.readings.get(name)?.number(Some(Statistic::Avg), unit)
        };
        let is_near = |metric: &MetricInfo| {
            let both = number(self, &metric.name, metric.unit).zip(number(other, &metric.name, metric.unit));
            both.is_none_or(|(one, another)| (one - another).abs() <= ROUNDED * another.abs())
        };
        let has_common = self.metrics.iter().any(|metric| other.metric(&metric.name).is_some());
        let is_named = self.tool == other.tool && self.label == other.label;
        is_named && has_common && self.metrics.iter().all(is_near)
    }

    /// As [`ToolRun::sum`], where versions of the tool count differently: the nearest value must agree.
    pub(crate) fn sum_of_one(
        &mut self,
        what: [&'static str; 2],
        said: Option<f64>,
        follows: &[f64],
        share: f64,
    ) {
        let off = |follows: &f64| (follows - said.unwrap_or_default()).abs();
        let possible = follows.iter().copied().filter(|follows| follows.is_finite());
        let nearest = possible.min_by(|one, other| off(one).total_cmp(&off(other)));
        self.sum(what, said, nearest, share);
    }

    /// Figures that disagree, and percentiles out of order.
    #[must_use]
    pub fn contradictions(&self) -> Vec<String> {
        self.wrong_sums().map(Sum::to_string).chain(self.disorders()).collect()
    }

    /// Figures that disagree.
    pub fn wrong_sums(&self) -> impl Iterator<Item = &Sum> {
        self.sums.iter().filter(|sum| !sum.holds())
    }

    /// Percentiles out of order, in words.
    pub fn disorders(&self) -> impl Iterator<Item = String> {
        self.metrics.iter().filter_map(|metric| self.disorder(metric))
    }

    /// A higher percentile must not be smaller.
    fn disorder(&self, metric: &MetricInfo) -> Option<String> {
        let Some(Reading::Summary { statistics_ns, .. }) = self.measurement.readings.get(&metric.name) else {
            return None;
        };
        let ordered = ORDERED.into_iter().filter_map(|it| Some((it, *statistics_ns.get(&it)?)));
        let known: Vec<(Statistic, f64)> = ordered.collect();
        let wrong = known.windows(2).find(|pair| pair[0].1 > pair[1].1 * (1.0 + ROUNDED))?;
        let [(lower, more_ns), (higher, less_ns)] = [wrong[0], wrong[1]];
        Some(format!(
            "{} of {} is {} ms, and {} is {} ms",
            lower.name(),
            metric.name,
            figure(more_ns / 1e6),
            higher.name(),
            figure(less_ns / 1e6)
        ))
    }

    /// The tool and its version: `fio 3.33`.
    #[must_use]
    pub fn tool_words(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.tool),
            None => format!("{}, of unknown version", self.tool),
        }
    }

    /// The metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricInfo> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    pub(crate) fn option(&mut self, name: &str, value: impl Into<String>) {
        self.options.insert(name.to_owned(), value.into());
    }

    pub(crate) fn options_from<'a>(&mut self, known: impl IntoIterator<Item = (&'a str, Option<String>)>) {
        for (name, value) in known {
            if let Some(value) = value {
                self.option(name, value);
            }
        }
    }

    pub(crate) fn warn(&mut self, notice: impl Into<Notice>) {
        let notice = notice.into();
        if !self.measurement.notices.contains(&notice) {
            self.measurement.notices.push(notice);
        }
    }

    /// Failures of a kind; none are not worth a line.
    pub(crate) fn error(&mut self, kind: &str, count: u64) {
        if count > 0 {
            let known = self.measurement.errors.entry(kind.to_owned()).or_default();
            *known = known.saturating_add(count);
        }
    }

    /// How long the run took and how much it did. Without a count it did one thing, as a whole.
    pub(crate) fn worked(&mut self, seconds: Option<f64>, work: Option<u64>) {
        self.measurement.window_ns = seconds.map_or(0, seconds_to_ns);
        self.measurement.work = work.unwrap_or(1);
    }

    pub(crate) fn add_reading(&mut self, metric: &Metric, reading: Reading) {
        self.add_own_reading(MetricInfo::from(metric), reading);
    }

    /// A reading of a metric that no data path has.
    pub(crate) fn add_own_reading(&mut self, metric: MetricInfo, reading: Reading) {
        if self.metric(&metric.name).is_none() {
            self.measurement.readings.insert(metric.name.clone(), reading);
            self.metrics.push(metric);
        }
    }

    /// A rate with its count, or without where the tool does not say how many.
    pub(crate) fn rate(&mut self, metric: &Metric, value: Option<f64>, count: Option<u64>) {
        if let Some(value) = value {
            let reading = count.map_or(Reading::Gauge(value), |count| Reading::Rate { value, count });
            if count.is_none() {
                self.measurement.additive.insert(metric.name.to_owned());
            }
            self.add_reading(metric, reading);
        }
    }

    pub(crate) fn gauge(&mut self, metric: &Metric, value: Option<f64>) {
        if let Some(value) = value {
            self.add_reading(metric, Reading::Gauge(value));
        }
    }

    pub(crate) fn share(&mut self, metric: &Metric, yes: u64, all: u64) {
        if all > 0 {
            self.add_reading(metric, Reading::Share { yes: yes.min(all), no: all.saturating_sub(yes) });
        }
    }

    /// Statistics in ns without their distribution; `None` where there is none.
    pub(crate) fn summary(
        &mut self,
        metric: &Metric,
        count: Option<u64>,
        statistics: impl IntoIterator<Item = (Statistic, Option<f64>)>,
    ) {
        let known = statistics.into_iter().filter_map(|(statistic, value_ns)| Some((statistic, value_ns?)));
        let statistics_ns: BTreeMap<Statistic, f64> = known.collect();
        if !statistics_ns.is_empty() {
            self.add_reading(metric, Reading::Summary { count, statistics_ns });
        }
    }

    pub(crate) fn trend(&mut self, metric: &Metric, histogram: Histogram) {
        if histogram.count() > 0 {
            self.add_reading(metric, Reading::Trend(histogram));
        }
    }

    /// How to have the tool print more of a metric that it has a reading of.
    pub(crate) fn remedy(&mut self, metric: &Metric, remedy: &'static str) {
        if self.metric(metric.name).is_some() {
            self.remedies.insert(metric.name.to_owned(), remedy);
        }
    }

    /// A metric by the tool's own name.
    pub(crate) fn own(name: &str, unit: Unit, better: Better, kind: MetricKind, about: &str) -> MetricInfo {
        MetricInfo { name: identifier(name), unit, better, kind, about: about.to_owned() }
    }
}

/// Why a run has no readings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReading {
    /// The tool reports that it failed, and why.
    #[error("{0}")]
    Failed(String),
    /// It cannot be read, and why; other runs of the same text can.
    #[error("it cannot be read: {0}")]
    Unread(String),
}

/// Two figures of one output that must agree.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// The names of the figure and of the source of the other: `per second`, `the count over the time`.
    what: [&'static str; 2],
    /// The figure in the output.
    said: f64,
    /// The value that follows from the other figures.
    follows: f64,
    /// By what share of it they may differ, because the tool rounds.
    share: f64,
}

impl Sum {
    fn holds(&self) -> bool {
        (self.follows / self.said - 1.0).abs() <= self.share
    }
}

impl std::fmt::Display for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [figure_of, given_by] = self.what;
        write!(f, "it says {} {figure_of}, and {given_by} gives {}", figure(self.said), figure(self.follows))
    }
}

/// A number for a message: whole where it is large.
fn figure(value: f64) -> String {
    if value >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// The warning about an incomplete text.
pub(crate) const CUT: &str = "the output was cut off: its last lines are missing";

/// A printed rate, and the count over the time.
pub(crate) const RATE_AND_COUNT: [&str; 2] = ["per second", "the count over the time"];
/// Printed bytes per second, and the bytes over the time.
pub(crate) const BYTES_AND_RATE: [&str; 2] = ["bytes per second", "the number of bytes over the time"];

/// From the smallest to the largest.
const ORDERED: [Statistic; 7] = [
    Statistic::Min,
    Statistic::Med,
    Statistic::P90,
    Statistic::P95,
    Statistic::P99,
    Statistic::P999,
    Statistic::Max,
];
/// How far approximate percentiles may be out of order.
const ROUNDED: f64 = 0.02;

/// A name as claims can have it: lower case, with underscores for all else.
pub(crate) fn identifier(name: &str) -> String {
    let letters = name.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    let joined: String = letters.collect();
    let parts: Vec<&str> = joined.split('_').filter(|part| !part.is_empty()).collect();
    let name = parts.join("_");
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("m_{name}") } else { name }
}

/// The largest count that a float holds exactly; no tool counted more.
const COUNT_MAX: u64 = 1 << 53;

/// Adds values to a distribution, unless there are more than anybody can have counted.
pub(crate) fn record(histogram: &mut Histogram, value_ns: u64, count: u64) {
    if histogram.count().saturating_add(count) <= COUNT_MAX {
        histogram.record_many(value_ns, count);
    }
}

/// Seconds as whole nanoseconds; 0 for a negative number or NaN.
pub(crate) fn seconds_to_ns(seconds: f64) -> u64 {
    (seconds * 1e9).round().max(0.0) as u64
}

/// The statistic that a percentile is, from 0 to 100; `None` for percentiles that Plumbline does not name.
pub(crate) fn percentile(percent: f64) -> Option<Statistic> {
    let known = [
        (0.0, Statistic::Min),
        (50.0, Statistic::Med),
        (90.0, Statistic::P90),
        (95.0, Statistic::P95),
        (99.0, Statistic::P99),
        (99.9, Statistic::P999),
        (100.0, Statistic::Max),
    ];
    known.into_iter().find(|(at, _)| (at - percent).abs() < 1e-9).map(|(_, statistic)| statistic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_can_stand_in_a_claim() {
        assert_eq!(identifier("RSA 2048 (sign)"), "rsa_2048_sign");
        assert_eq!(identifier("my.metric{group:a}"), "my_metric_group_a");
        assert_eq!(identifier("2xx"), "m_2xx");
    }

    #[test]
    fn percentiles_have_the_names_of_statistics() {
        assert_eq!(percentile(99.9), Some(Statistic::P999));
        assert_eq!(percentile(75.0), None);
    }
}
