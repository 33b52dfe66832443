//! One measurement without a comparison, as text in the lines that k6's users know and as one JSON object,
//! `plumbline.measurement/1`.
//!
//! Both show everything that the load reported: nothing is left out for being zero, since "0 resumed handshakes" is what
//! the reader may have come for. The text leaves out only segments that were sent again or came out of order, if there were none.

use std::collections::BTreeMap;

use plumb_model::{
    Attempts, Better, Evidence, Measurement, MetricInfo, Notice, Reading, Search, Shortage, Statistic, Table,
    Trial, Unit,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::capacity;
use crate::cautions;
use crate::figures;
use crate::json::{ARRIVALS, pretty};
use crate::layout::{Paint, Tone, clean, left, right, widest};
use crate::load;
use crate::notices;
use crate::observed;
use crate::rows;
use crate::sheet::{Sheet, TextStyle};
use crate::waits;

/// The name and version of the format.
pub const MEASUREMENT_FORMAT: &str = "plumbline.measurement/1";

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "plumbline.measurement/1", deny_unknown_fields)]
pub struct MeasurementDocument {
    /// Always `plumbline.measurement/1`.
    #[schemars(extend("const" = MEASUREMENT_FORMAT))]
    pub format: String,
    /// The length of the window in seconds.
    pub window_s: f64,
    /// Units of work done in the window; CPU costs are per one of these.
    pub work: u64,
    /// Negotiated or observed values: for each property a count of each value, or one count, as of `handshakes_full`.
    pub observed: BTreeMap<String, ObservedDocument>,
    /// Every metric by name.
    pub metrics: BTreeMap<String, ReadingDocument>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// The attempts, and how many of them failed for whatever reason.
    pub attempts: Attempts,
    /// The longest time within the window in which nothing completed, in ns; `null` where it is not known.
    pub stall_ns_max: Option<u64>,
    /// The state of the load itself; `null` where another tool measured, which does not say.
    pub load: Option<LoadDocument>,
    /// Doubts about the measurement, with figures. `warnings` has all of them as sentences.
    pub notices: Vec<Notice>,
    /// Doubts about the measurement, in sentences.
    pub warnings: Vec<String>,
    /// Tables, such as the rounds of a migration.
    pub tables: BTreeMap<String, Table>,
    /// The objectives and bounds of a search for the capacity; `null` without a search.
    pub search: Option<SearchDocument>,
    /// The trials of a search for the capacity, in their order.
    pub trials: Vec<Trial>,
    /// Proof that what was asked for is what was measured, where the command looks for it.
    pub evidence: Vec<Evidence>,
    /// The file that it was imported from; `null` where Plumbline measured it.
    pub source: Option<Source>,
}

/// A file in which another tool says what it measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Source {
    /// The file, as it was given.
    pub file: String,
    /// The tool, with its version where the file has it.
    pub tool: String,
    /// The tool's options, as far as the file shows them.
    pub options: BTreeMap<String, String>,
    /// When the measurement began by what the file says, RFC 3339; `null` where it does not say.
    pub started_at: Option<String>,
    /// The name of the units of work, in the plural.
    pub units: String,
}

/// The observations of one property.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ObservedDocument {
    /// How often each value was seen.
    Values(BTreeMap<String, u64>),
    /// How often it happened.
    Count(u64),
}

/// One metric: a rate has `value` and `count`, a share `value`, `yes` and `no`, a distribution every statistic and its
/// bins, all else a `value`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReadingDocument {
    /// The unit of `value` and of every statistic.
    #[schemars(extend("enum" = Unit::ALL.map(Unit::symbol)))]
    pub unit: &'static str,
    /// Which direction is an improvement.
    pub better: Better,
    /// The one number, of all but distributions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// How many events a rate or a distribution is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Of a share: how many were so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yes: Option<u64>,
    /// Of a share: how many were not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no: Option<u64>,
    /// Of a rate: its value in each whole second of the window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Option<f64>>,
    /// Of a distribution: `avg`, `min`, `med`, `max`, `p90`, `p95`, `p99`, `p99.9`; `null` where it is empty.
    #[serde(flatten)]
    pub statistics: BTreeMap<String, Option<f64>>,
    /// Of a distribution: every bin that holds something, as its largest value in ns and its count, ascending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bins_ns: Option<Vec<(u64, u64)>>,
}

/// The state of the load itself.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LoadDocument {
    /// How many threads drove load.
    pub threads: u32,
    /// The share of the window in which the busiest load thread was on a CPU.
    pub busiest_thread: f64,
    /// The share of the window in which the neediest load thread wanted a CPU, whether it had one or not.
    pub wanted: f64,
    /// The largest share of the window for which a load thread wanted a CPU and had none.
    pub waited: f64,
    /// Why the thread that waited longest had none; `null` where the wait is too short to name a cause.
    pub shortage: Option<Shortage>,
    /// At a fixed rate: how far the sends lagged their schedule at most although a connection was free, in ns.
    pub lag_ns_max: u64,
    /// At a fixed rate: the share of requests that were sent late for the load's own reasons.
    pub late_share: f64,
    /// Whether the load, and not the system, was the bound.
    pub load_bound: bool,
    /// User CPU time of the load in the window, in ns.
    pub cpu_user_ns: u64,
    /// System CPU time of the load in the window, in ns.
    pub cpu_system_ns: u64,
}

/// The sentence that a measurement opens with where more of what was tried failed than `failures_max`, a share of 0 to 1, allows;
/// `None` where it did not.
#[must_use]
pub fn too_many_failures(measurement: &Measurement, failures_max: f64) -> Option<String> {
    let attempts = measurement.attempts;
    let share = attempts.failed_share().filter(|share| *share > failures_max)?;
    let most = measurement
        .failures()
        .max_by_key(|(_, count)| *count)
        .map(|(reason, count)| {
            format!(", most often with `{}` ({})", clean(&reason), figures::count(count as f64))
        })
        .unwrap_or_default();
    Some(format!(
        "{} of {} attempts failed ({}){most}. --failures-max allows {}: rates and times below are not those of \
         a working system",
        figures::count(attempts.failed as f64),
        figures::count(attempts.tried as f64),
        figures::share(share),
        figures::share(failures_max),
    ))
}

/// A note on an imported text of which lines may be missing at the end, such as `ab's times`.
#[must_use]
pub fn open_end(what: &str) -> String {
    format!("nothing marks the end of {what}: figures missing there cannot be noticed")
}

/// One measurement, with its metrics, evidence and source.
#[derive(Debug, Clone, Copy)]
pub struct MeasurementReport<'a> {
    /// The figures.
    pub measurement: &'a Measurement,
    /// The metrics to show; a reading of any other is left out.
    pub metrics: &'a [MetricInfo],
    /// Proof that what was asked for was measured, where the command looks for it.
    pub evidence: &'a [Evidence],
    /// The file that it was imported from; `None` where Plumbline measured it.
    pub source: Option<&'a Source>,
    /// The share of attempts that may fail, from 0 to 1.
    pub failures_max: f64,
}

impl MeasurementReport<'_> {
    /// The sentences that come first, because the figures mislead: on too many failures, and on answers that only redirect.
    #[must_use]
    pub fn openings(&self) -> Vec<String> {
        let share = self.measurement.redirected_share();
        let redirects = share.filter(|share| *share > Measurement::REDIRECTS_MAX).map(|share| {
            format!(
                "{} of the answers are redirects, which count as success and are not followed: rates and times below are \
                 those of redirects. Give the address that they lead to",
                figures::share(share)
            )
        });
        too_many_failures(self.measurement, self.failures_max).into_iter().chain(redirects).collect()
    }

    /// JSON text, indented, with a line feed at its end.
    #[must_use]
    pub fn json(&self) -> String {
        pretty(&document(self))
    }

    /// Lines for a terminal, the openings first, with a line feed at their end.
    #[must_use]
    pub fn text(&self, style: &TextStyle) -> String {
        let Self { measurement, metrics, evidence, source, .. } = *self;
        let names = metrics.iter().map(|metric| metric.name.as_str());
        let mut sheet = Sheet::new(style);
        let summary = Summary {
            measurement,
            paint: sheet.paint,
            width: sheet.width,
            dots: widest(names.chain(measurement.observed.keys().map(String::as_str))).min(32) + 3,
        };
        let [of_requests, of_answers] = waits::lines(measurement, summary.paint);
        let parts = [
            capacity::lines(measurement, summary.paint, summary.width),
            summary.checks(),
            metrics.iter().filter_map(|metric| summary.metric(metric)).collect(),
            of_requests,
            of_answers,
            summary.observed(),
            summary.tables(),
            summary.evidence(evidence),
            summary.errors(),
            source.map_or_else(|| summary.load(), |source| summary.source(source)),
        ];
        for part in parts {
            sheet.block();
            part.into_iter().for_each(|line| sheet.push(line));
        }
        sheet.block();
        for warning in warnings(measurement) {
            sheet.hanging("  ! ", Some(Tone::Doubt), "", &warning);
        }
        let openings = self.openings().into_iter().map(|opening| format!("✗ {}\n", clean(&opening)));
        openings.collect::<String>() + &sheet.finish()
    }
}

fn document(of: &MeasurementReport<'_>) -> MeasurementDocument {
    let MeasurementReport { measurement, metrics, evidence, source, .. } = *of;
    let openings = of.openings();
    let notices = openings.iter().map(|opening| Notice::text(opening.as_str()));
    let values = measurement
        .observed
        .iter()
        .map(|(name, values)| (name.clone(), ObservedDocument::Values(values.clone())));
    let counts = measurement.readings.iter().filter_map(|(name, reading)| match reading {
        Reading::Count(count) => Some((name.clone(), ObservedDocument::Count(*count))),
        _ => None,
    });
    let reading = |metric: &MetricInfo| {
        let reading = measurement.readings.get(&metric.name)?;
        Some((metric.name.clone(), reading_document(reading, metric, measurement.windows.get(&metric.name))))
    };
    MeasurementDocument {
        format: MEASUREMENT_FORMAT.to_owned(),
        window_s: measurement.window_ns as f64 / 1e9,
        work: measurement.work,
        observed: counts.chain(values).collect(),
        metrics: metrics.iter().filter_map(reading).collect(),
        errors: measurement.errors.clone(),
        attempts: measurement.attempts,
        stall_ns_max: measurement.stall_ns_max,
        load: source.is_none().then(|| load_document(measurement)),
        notices: notices.chain(measurement.notices.iter().cloned()).collect(),
        warnings: openings.iter().cloned().chain(warnings(measurement)).collect(),
        tables: measurement.tables.clone(),
        search: measurement.search.as_ref().map(SearchDocument::new),
        trials: measurement.search.iter().flat_map(|search| search.trials.clone()).collect(),
        evidence: evidence.to_vec(),
        source: source.cloned(),
    }
}

/// A search for the capacity, in the words of RFC 9971.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SearchDocument {
    /// The objectives, as they were written.
    pub objectives: Vec<String>,
    /// How requests arrived: `even` is at equal intervals.
    #[schemars(extend("const" = ARRIVALS))]
    pub arrivals: String,
    /// The highest rate that met the objectives, below all that failed; `null` if none did.
    pub relevant_lower_bound: Option<f64>,
    /// The lowest rate that failed an objective; `null` if none did.
    pub relevant_upper_bound: Option<f64>,
    /// The rate at which work was done at the relevant lower bound.
    pub conditional_throughput: Option<f64>,
}

impl SearchDocument {
    fn new(search: &Search) -> Self {
        Self {
            objectives: search.objectives.iter().map(|objective| objective.text.clone()).collect(),
            arrivals: ARRIVALS.to_owned(),
            relevant_lower_bound: search.lower_bound(),
            relevant_upper_bound: search.upper_bound(),
            conditional_throughput: search.conditional_throughput(),
        }
    }
}

fn load_document(measurement: &Measurement) -> LoadDocument {
    let health = &measurement.health;
    LoadDocument {
        threads: health.threads,
        busiest_thread: health.busiest_thread,
        wanted: health.demand(),
        waited: health.waited,
        shortage: health.shortage,
        lag_ns_max: health.lag_ns_max,
        late_share: health.late_share,
        load_bound: health.is_load_bound(),
        cpu_user_ns: measurement.cpu_user_ns,
        cpu_system_ns: measurement.cpu_system_ns,
    }
}

fn reading_document(reading: &Reading, metric: &MetricInfo, windows: Option<&Vec<f64>>) -> ReadingDocument {
    let finite = |value: f64| value.is_finite().then_some(value);
    let mut document = ReadingDocument {
        unit: metric.unit.symbol(),
        better: metric.better,
        value: reading.number(None, metric.unit).and_then(finite),
        count: None,
        yes: None,
        no: None,
        windows: windows.map(|windows| windows.iter().copied().map(finite).collect()).unwrap_or_default(),
        statistics: BTreeMap::new(),
        bins_ns: None,
    };
    match reading {
        Reading::Rate { count, .. } => document.count = Some(*count),
        Reading::Share { yes, no } => (document.yes, document.no) = (Some(*yes), Some(*no)),
        Reading::Trend(histogram) => {
            document.count = Some(histogram.count());
            document.bins_ns = Some(histogram.bins().collect());
            let value = |statistic| reading.number(Some(statistic), metric.unit);
            document.statistics = Statistic::ALL
                .into_iter()
                .map(|statistic| (statistic.name().to_owned(), value(statistic)))
                .collect();
        }
        Reading::Summary { count, statistics_ns } => {
            document.count = *count;
            let value = |statistic: &Statistic| {
                (statistic.name().to_owned(), reading.number(Some(*statistic), metric.unit).and_then(finite))
            };
            document.statistics = statistics_ns.keys().map(value).collect();
        }
        Reading::Count(_) | Reading::Gauge(_) => {}
    }
    document
}

struct Summary<'a> {
    measurement: &'a Measurement,
    paint: Paint,
    width: usize,
    /// The width of a name with its dots.
    dots: usize,
}

impl Summary<'_> {
    fn line(&self, sign: &str, tone: Tone, name: &str, value: &str) -> String {
        let sign = if sign.is_empty() { " ".to_owned() } else { self.paint.on(tone, sign) };
        format!("  {sign} {}: {value}", dotted(&clean(name), self.dots)).trim_end().to_owned()
    }

    fn checks(&self) -> Vec<String> {
        let line = |(name, good, bad): (&str, u64, u64)| {
            let (sign, tone) = passed(bad == 0);
            self.line(sign, tone, name, &share_words(good, bad, Better::Higher))
        };
        observed::checks(&self.measurement.observed).into_iter().map(line).collect()
    }

    fn metric(&self, metric: &MetricInfo) -> Option<String> {
        let reading = self.measurement.readings.get(&metric.name)?;
        if rows::is_none(&metric.name, reading) {
            return None;
        }
        let (sign, tone) = match reading {
            Reading::Share { no, .. } if metric.better == Better::Higher => passed(*no == 0),
            Reading::Share { yes, .. } if metric.better == Better::Lower => passed(*yes == 0),
            _ => ("", Tone::Quiet),
        };
        let line = self.line(sign, tone, &metric.name, &reading_words(reading, metric));
        Some(if line.chars().count() > self.width { self.in_two(&line) } else { line })
    }

    /// A line of statistics that is too long, broken where the percentiles begin.
    fn in_two(&self, line: &str) -> String {
        match line.split_once(" p(90)") {
            Some((first, rest)) => format!("{}\n{}p(90){rest}", first.trim_end(), " ".repeat(self.dots + 6)),
            None => line.to_owned(),
        }
    }

    fn observed(&self) -> Vec<String> {
        let line = |(name, values): (&str, &BTreeMap<String, u64>)| {
            let values = observed::values(values);
            let words: Vec<String> =
                values.iter().map(|(value, often)| format!("{} ({often})", clean(value))).collect();
            self.line("", Tone::Quiet, name, &words.join(", "))
        };
        observed::properties(&self.measurement.observed).map(line).collect()
    }

    /// Each table under its name, its numbers to the right.
    fn tables(&self) -> Vec<String> {
        let table = |(name, table): (&String, &Table)| {
            let head: Vec<String> = table.columns.iter().map(|column| clean(&column.name)).collect();
            let words = |row: &Vec<f64>| -> Vec<String> {
                let cells = row.iter().zip(&table.columns);
                cells.map(|(value, column)| figures::value(*value, column.unit)).collect()
            };
            let rows: Vec<Vec<String>> = std::iter::once(head).chain(table.rows.iter().map(words)).collect();
            let width = |at: usize| widest(rows.iter().filter_map(|row| row.get(at)).map(String::as_str));
            let line = |row: &Vec<String>| {
                let cells = (0..).zip(row).map(|(at, cell)| right(cell, width(at)));
                format!("    {}", cells.collect::<Vec<String>>().join("  "))
            };
            let heading = format!("    {}", clean(name));
            std::iter::once(heading).chain(rows.iter().map(line)).collect::<Vec<String>>()
        };
        self.measurement.tables.iter().flat_map(table).collect()
    }

    fn evidence(&self, evidence: &[Evidence]) -> Vec<String> {
        let line = |evidence: &Evidence| {
            let (sign, tone) = passed(evidence.holds);
            let words = format!("{}; {}", clean(&evidence.expected), clean(&evidence.observed));
            self.line(sign, tone, &evidence.what, &words)
        };
        evidence.iter().map(line).collect()
    }

    fn errors(&self) -> Vec<String> {
        let errors = self.measurement.errors.iter().filter(|(_, count)| **count > 0);
        errors.map(|(kind, count)| self.line("✗", Tone::Bad, kind, &figures::count(*count as f64))).collect()
    }

    fn load(&self) -> Vec<String> {
        let measurement = self.measurement;
        let health = &measurement.health;
        let (sign, tone) = passed(!health.is_load_bound() && !health.is_held_up());
        let per_work = |time_ns: u64| figures::time_ns(time_ns as f64 / measurement.work as f64);
        let mut lines = vec![self.line(sign, tone, "load", &load::of_measurement(health))];
        if measurement.work > 0 {
            let (user, system) = (measurement.cpu_user_ns, measurement.cpu_system_ns);
            let cost = format!(
                "{} per unit of work (user {}, system {}), {} units in {}",
                per_work(user.saturating_add(system)),
                per_work(user),
                per_work(system),
                figures::count(measurement.work as f64),
                figures::time_ns(measurement.window_ns as f64)
            );
            lines.push(self.line("", Tone::Quiet, "load's CPU time", &cost));
        }
        lines.extend(self.stall());
        if health.late_share > 0.0 || health.lag_ns_max > 0 {
            let late = figures::share(health.late_share);
            let lag = figures::time_ns(health.lag_ns_max as f64);
            lines.push(self.line(
                "",
                Tone::Quiet,
                "late sends",
                &format!("{late}, at most {lag} behind the schedule"),
            ));
        }
        lines
    }

    /// The tool, the time and the work: no more is known of a load that another tool drove.
    fn source(&self, source: &Source) -> Vec<String> {
        let line = |name: &str, value: &str| self.line("", Tone::Quiet, name, &clean(value));
        let mut lines = vec![line("measured by", &source.tool)];
        lines.extend(source.started_at.iter().map(|when| line("started at", when)));
        let (work, window_ns) = (self.measurement.work, self.measurement.window_ns);
        let time = figures::time_ns(window_ns as f64);
        match work {
            _ if window_ns == 0 => {}
            0 | 1 => lines.push(line("took", &time)),
            _ => lines
                .push(line("work", &format!("{} {} in {time}", figures::count(work as f64), source.units))),
        }
        lines.extend(source.options.iter().map(|(name, value)| line(name, value)));
        lines.extend(self.stall());
        lines
    }

    /// The longest time in which nothing completed, where that is more than a hundredth of the window.
    fn stall(&self) -> Option<String> {
        let window_ns = self.measurement.window_ns;
        let stall_ns =
            self.measurement.stall_ns_max.filter(|stall_ns| stall_ns.saturating_mul(100) > window_ns)?;
        let words = format!("nothing completed for {}", figures::time_ns(stall_ns as f64));
        Some(self.line("", Tone::Quiet, "longest stall", &words))
    }
}

/// Doubts about the measurement, in sentences.
fn warnings(measurement: &Measurement) -> Vec<String> {
    let steady = measurement.steady_rate().map(|found| cautions::steady(&found));
    measurement.notices.iter().map(notices::sentence).chain(steady).collect()
}

fn passed(is_good: bool) -> (&'static str, Tone) {
    if is_good { ("✓", Tone::Good) } else { ("✗", Tone::Bad) }
}

/// A share of good things has both counts with their signs. A share of failures has none: "✓ 0" beside it would read as
/// if nothing had gone well.
fn share_words(yes: u64, no: u64, better: Better) -> String {
    let all = yes.saturating_add(no);
    let share = if all == 0 { "–".to_owned() } else { figures::share(yes as f64 / all as f64) };
    let (share, yes) = (left(&share, FIRST_WIDTH), figures::count(yes as f64));
    match better {
        Better::Higher => format!("{share} ✓ {yes}  ✗ {}", figures::count(no as f64)),
        Better::Lower | Better::Neither => format!("{share} {yes} of {}", figures::count(all as f64)),
    }
}

/// The width of the first number, so that what follows stands in a column.
const FIRST_WIDTH: usize = 9;

/// A reading in the words of k6: `10,474    524/s`, `99.98%    ✓ 20,946  ✗ 2`, `avg=7.33ms min=…`.
pub(crate) fn reading_words(reading: &Reading, metric: &MetricInfo) -> String {
    let unit = metric.unit;
    match reading {
        Reading::Rate { value, count } => {
            let unit_of_count = if unit == Unit::BytesPerSecond { Unit::Bytes } else { Unit::Count };
            let count = figures::value(*count as f64, unit_of_count);
            format!("{} {}", left(&count, FIRST_WIDTH), figures::value(*value, unit))
        }
        Reading::Share { yes, no } => share_words(*yes, *no, metric.better),
        Reading::Count(count) => figures::value(*count as f64, unit),
        Reading::Gauge(value) => figures::value(*value, unit),
        Reading::Trend(histogram) => trend_words(|statistic| {
            Some(histogram.statistic_ns(statistic).map_or("–".to_owned(), figures::time_ns))
        }),
        Reading::Summary { statistics_ns, .. } => {
            trend_words(|statistic| statistics_ns.get(&statistic).map(|value_ns| figures::time_ns(*value_ns)))
        }
    }
}

/// The statistics that have a value, or a dash.
fn trend_words(value: impl Fn(Statistic) -> Option<String>) -> String {
    let words = |statistic: Statistic| {
        let name = match statistic.name().strip_prefix('p') {
            Some(percent) => format!("p({percent})"),
            None => statistic.name().to_owned(),
        };
        Some(left(&format!("{name}={}", value(statistic)?.replace(' ', "")), name.len() + 8))
    };
    let known: Vec<String> = Statistic::ALL.into_iter().filter_map(words).collect();
    known.join(" ").trim_end().to_owned()
}

/// `http_reqs............`: a name, followed by dots up to a width.
pub(crate) fn dotted(name: &str, width: usize) -> String {
    format!("{name}{}", ".".repeat(width.saturating_sub(name.chars().count())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Dice};
    use plumb_model::{Histogram, LoadHealth};
    use serde_json::Value;
    use std::sync::LazyLock;

    fn report(measurement: &Measurement) -> MeasurementReport<'_> {
        static METRICS: LazyLock<Vec<MetricInfo>> = LazyLock::new(fixture::metrics);
        MeasurementReport { measurement, metrics: &METRICS, evidence: &[], source: None, failures_max: 1.0 }
    }

    fn sample() -> Measurement {
        let mut measurement = fixture::measurement(&mut Dice::new(3), &fixture::SOFTWARE, 5.0, 2000);
        let passed = [("status == 200".to_owned(), 6520), ("duration < 200 ms".to_owned(), 6519)];
        measurement.observed.insert("checks passed".to_owned(), passed.into());
        measurement.observed.insert("checks failed".to_owned(), [("duration < 200 ms".to_owned(), 1)].into());
        measurement.errors.insert("tls alert: handshake_failure".to_owned(), 2);
        let text = "3 of 6,520 handshakes used the group secp256r1, which was not asked for";
        measurement.notices.push(Notice::text(text));
        measurement
    }

    #[test]
    fn a_measurement_reads_like_a_summary_of_k6() {
        let style = TextStyle { colour: false, width: 160 };
        insta::assert_snapshot!(report(&sample()).text(&style), @r"
        ✗ duration < 200 ms..........: 99.98%    ✓ 6,519  ✗ 1
        ✓ status == 200..............: 100%      ✓ 6,520  ✗ 0

          http_reqs..................: 6,436     1.29k/s
          http_req_duration..........: avg=8.05ms  min=1.41ms  med=7.30ms  max=35.9ms  p(90)=12.9ms  p(95)=15.1ms  p(99)=19.9ms  p(99.9)=27.6ms
          http_req_blocked...........: avg=12.6ms  min=2.30ms  med=11.2ms  max=52.8ms  p(90)=20.8ms  p(95)=24.8ms  p(99)=32.7ms  p(99.9)=40.2ms
          http_req_connecting........: avg=297µs   min=56.9µs  med=269µs   max=1.29ms  p(90)=465µs   p(95)=564µs   p(99)=748µs   p(99.9)=1.12ms
          http_req_tls_handshaking...: avg=12.2ms  min=2.93ms  med=10.9ms  max=57.2ms  p(90)=19.5ms  p(95)=22.9ms  p(99)=31.3ms  p(99.9)=44.6ms
          http_req_sending...........: avg=22.6µs  min=4.40µs  med=20.7µs  max=112µs   p(90)=35.7µs  p(95)=42.1µs  p(99)=55.6µs  p(99.9)=78.8µs
          http_req_waiting...........: avg=7.59ms  min=1.25ms  med=6.90ms  max=31.3ms  p(90)=12.2ms  p(95)=14.2ms  p(99)=19.7ms  p(99.9)=27.4ms
          http_req_receiving.........: avg=55.2µs  min=8.33µs  med=50.6µs  max=205µs   p(90)=88.5µs  p(95)=103µs   p(99)=141µs   p(99.9)=172µs
        ✓ http_req_failed............: 0%        0 of 6,436
        ✓ checks.....................: 100%      ✓ 12,872  ✗ 0
          data_sent..................: 759 kB    152 kB/s
          data_received..............: 5.44 MB   1.09 MB/s
          handshakes_full............: 6,436
          handshakes_resumed.........: 0
          cpu_system.................: 632 µs
          cpu_load...................: 86.9 µs

          cipher.....................: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 (6,436)
          group......................: x25519 (6,433, 99.95%), secp256r1 (3, 0.05%)
          status.....................: 200 (6,436)
          tls_version................: TLSv1.2 (6,436)

        ✗ tls alert: handshake_failure: 2

        ✓ load.......................: 1 thread, the busiest 41.5% of the time on a CPU
          load's CPU time............: 86.9 µs per unit of work (user 60.2 µs, system 26.7 µs), 6,436 units in 5.00 s

        ! 3 of 6,520 handshakes used the group secp256r1, which was not asked for
        ");
    }

    #[test]
    fn a_load_at_its_limit_says_so_and_an_empty_measurement_is_fine() {
        let style = TextStyle { colour: false, width: 80 };
        let mut measurement = Measurement {
            health: LoadHealth { busiest_thread: 0.97, threads: 2, ..LoadHealth::default() },
            ..Measurement::default()
        };
        measurement.window_ns = 5_000_000_000;
        measurement.stall_ns_max = Some(207_000_000);
        measurement.health.late_share = 0.02;
        measurement.health.lag_ns_max = 3_200_000;
        measurement.readings.insert("http_req_duration".to_owned(), Reading::Trend(Histogram::new()));
        measurement.readings.insert("checks".to_owned(), Reading::Share { yes: 0, no: 0 });
        insta::assert_snapshot!(report(&measurement).text(&style), @r"
          http_req_duration..........: avg=–       min=–       med=–       max=–
                                       p(90)=–       p(95)=–       p(99)=–       p(99.9)=–
        ✓ checks.....................: –         ✓ 0  ✗ 0

        ✗ load.......................: 2 threads, the busiest 97.0% of the time on a CPU: the load was the limit, not the system
          longest stall..............: nothing completed for 207 ms
          late sends.................: 2.00%, at most 3.20 ms behind the schedule
        ");
    }

    #[test]
    fn segments_that_were_sent_again_are_shown_if_there_were_any() {
        let segments = plumb_model::Segments::Retransmitted.metric();
        let metrics = [MetricInfo::from(&segments)];
        let mut measurement = sample();
        let mut shown = |count| {
            measurement.readings.insert(segments.name.to_owned(), Reading::Count(count));
            let report = MeasurementReport { metrics: &metrics, ..report(&measurement) };
            assert_eq!(document(&report).metrics[segments.name].value, Some(count as f64));
            report.text(&TextStyle::default()).contains("segments_retransmitted...: 3")
        };
        assert!(shown(3) && !shown(0));
    }

    #[test]
    fn more_failures_than_allowed_come_first() {
        let mut measurement = sample();
        assert_eq!(too_many_failures(&measurement, 0.0), None, "nothing is known of attempts");
        measurement.attempts = plumb_model::Attempts { tried: 6522, failed: 66 };
        assert_eq!(too_many_failures(&measurement, 0.02), None);
        measurement
            .observed
            .insert("status".to_owned(), [("200".to_owned(), 6458), ("503".to_owned(), 64)].into());
        insta::assert_snapshot!(too_many_failures(&measurement, 0.01).unwrap(), @"66 of 6,522 attempts failed (1.01%), most often with `status 503` (64). --failures-max allows 1.00%: rates and times below are not those of a working system");
    }

    #[test]
    fn the_object_has_the_documented_shape() {
        let found: Value = serde_json::from_str(&report(&sample()).json()).unwrap();
        assert_eq!(found["format"], "plumbline.measurement/1");
        assert!(found["observed"]["tls_version"]["TLSv1.2"].is_u64());
        assert!(
            found["observed"]["handshakes_full"].is_u64() && found["observed"]["handshakes_resumed"] == 0
        );
        let reqs = &found["metrics"]["http_reqs"];
        assert!(reqs["value"].is_f64() && reqs["count"].is_u64() && reqs["unit"] == "1/s");
        assert_eq!(reqs["windows"].as_array().unwrap().len(), 5);
        let duration = &found["metrics"]["http_req_duration"];
        for statistic in Statistic::ALL {
            assert!(duration[statistic.name()].is_f64(), "{}", statistic.name());
        }
        let bins = duration["bins_ns"].as_array().unwrap();
        let count: u64 = bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum();
        assert_eq!(Some(count), duration["count"].as_u64());
        assert_eq!(found["errors"]["tls alert: handshake_failure"], 2);
    }

    #[test]
    fn the_schema_names_every_field() {
        let schema: Value = schemars::schema_for!(MeasurementDocument).to_value();
        let found: Value = serde_json::from_str(&report(&sample()).json()).unwrap();
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<String>>();
        assert_eq!(names(&schema["properties"]), names(&found));
    }
}
