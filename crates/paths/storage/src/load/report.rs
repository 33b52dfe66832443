//! Merges the jobs' tallies into one measurement.

use std::collections::BTreeMap;
use std::ops::Range;

use plumb_model::measurement::per_second;
use plumb_model::{
    Attempts, Bytes, Histogram, Measurement, Merge, Metric, Notice, NoticeKind, Reading, Table, hidden_stall,
};
use plumb_pace::Seconds;
use plumb_path::drive::Driven;

use super::burst::Burst;
use super::limiter::{MetLimiter, Observations};
use super::steady::{self, Steadiness};
use super::tally::{Direction, Tally};
use crate::metrics;
use crate::settings::{Limit, LoadSettings};

/// The facts of a measurement beside the counts of its jobs.
#[derive(Debug)]
pub struct Circumstances<'a> {
    /// The settings of the load.
    pub spec: &'a LoadSettings,
    /// Which engine it was.
    pub engine: &'static str,
    /// Whether the page cache was passed by.
    pub direct: &'static str,
    /// How many bytes the target has.
    pub bytes: u64,
    /// The limit of the target's policy, where that is known.
    pub limit: Option<Limit>,
    /// The notices from before the load.
    pub notices: &'a [Notice],
}

/// Puts the tallies of all jobs together.
#[must_use]
pub fn measurement(driven: &Driven<Tally>, of: &Circumstances<'_>) -> Measurement {
    let (is_open_loop, frame) = (of.spec.rate.is_some(), driven.frame);
    let mut tally = Tally::new(frame, is_open_loop);
    driven.tallies().for_each(|one| tally.add(one));
    let work = tally.directions.iter().map(|direction| direction.completed).sum();
    let measurement = driven.measurement(work, &tally.recorder);
    let window_ns = measurement.window_ns;
    let seconds = frame.whole_seconds(driven.end_ns());
    let windows = windows(&tally, of.spec, seconds);
    let mut both = tally.directions[0].seconds.clone();
    both.add(&tally.directions[1].seconds);
    let sums = both.counts(seconds);
    let burst = Burst::find(&sums, &tally.steps).filter(|_| !is_open_loop);
    // The seconds of a burst count neither for a rate nor for whether that had settled.
    let first = burst.map_or(0, |burst| burst.seconds);
    let Attempts { tried, failed } = measurement.attempts;
    let mut measurement = Measurement {
        observed: observed(of, &windows, first),
        windows,
        // Blocks that are read back after the window may hold something else, too.
        attempts: Attempts { tried: tried.max(failed), failed },
        notices: of.notices.to_vec(),
        additive: [metrics::ACHIEVED_DEPTH.name.to_owned()].into(),
        ..measurement
    };
    measurement.readings.extend(readings(&tally, of.spec, window_ns, first));
    measurement.notices.extend(burst.map(|burst| burst_notice(&burst, seconds)));
    warn(&mut measurement, &tally, of, first);
    match of.limit {
        None => measurement.steady = tally.recorder.steady(&both, first..seconds),
        Some(limit) => {
            measurement.tables = limiter(&measurement, &tally, (of, limit), (&both, first..seconds))
        }
    }
    if !is_open_loop {
        let stall_ns_max = measurement.stall_ns_max;
        measurement.notices.extend(hidden_stalls(&tally, of.spec, stall_ns_max));
    }
    measurement
}

/// Stalls that the percentiles of a closed loop hide.
fn hidden_stalls(tally: &Tally, spec: &LoadSettings, stall_ns_max: Option<u64>) -> Vec<Notice> {
    let sides = SIDES.iter().zip(&tally.directions).enumerate().filter(|(at, _)| takes_part(spec, *at));
    let find = |(metrics, direction): (&Side, &Direction)| {
        hidden_stall(metrics.latency, &direction.latency, stall_ns_max)
    };
    sides.filter_map(|(_, side)| find(side)).collect()
}

fn burst_notice(burst: &Burst, seconds: usize) -> Notice {
    let Burst { operations, settled, seconds: length } = burst;
    match length {
        0 => NoticeKind::BurstBefore.with([*settled, *operations]),
        _ => NoticeKind::Burst.with([*settled, *operations, (seconds - length) as f64, seconds as f64]),
    }
}

/// The limiter that was met, if one was, in the whole seconds that no burst was a part of. `ended` are reads and writes together.
fn limiter(
    measurement: &Measurement,
    tally: &Tally,
    (of, limit): (&Circumstances<'_>, Limit),
    (ended, settled): (&Seconds, Range<usize>),
) -> BTreeMap<String, Table> {
    let mean_ns = ended.time_ns_from(settled.start) as f64 / ended.count_from(settled.start).max(1) as f64;
    let met = MetLimiter::during(&Observations {
        seconds: &ended.counts(settled.end)[settled.start..],
        steps: &tally.steps,
        rate: per_second(measurement.work, measurement.window_ns),
        in_flight: per_second(1, measurement.window_ns) * tally.in_flight_ns as f64 / 1e9,
        latency_us: Some(mean_ns / 1e3).filter(|_| of.spec.rate.is_none()),
        block_bytes: of.spec.block_size.0 as f64,
        limit,
    });
    met.map(|met| met.tables()).unwrap_or_default()
}

/// The figures read off the window; rates from its second `first` on.
fn readings(tally: &Tally, spec: &LoadSettings, window_ns: u64, first: usize) -> BTreeMap<String, Reading> {
    let rated_ns = window_ns.saturating_sub(first as u64 * 1_000_000_000);
    let mut readings = BTreeMap::new();
    let mut put = |metric: Metric, reading| {
        readings.insert(metric.name.to_owned(), reading);
    };
    let trend = |histogram: &Histogram| Reading::Trend(histogram.clone());
    for (at, metrics) in SIDES.iter().enumerate().filter(|(at, _)| takes_part(spec, *at)) {
        let direction: &Direction = &tally.directions[at];
        let completed = if first == 0 { direction.completed } else { direction.seconds.count_from(first) };
        let bytes = completed.saturating_mul(spec.block_size.0);
        let rate = |count| Reading::rate(count, rated_ns);
        put(metrics.iops, rate(completed));
        put(metrics.bandwidth, rate(bytes));
        put(metrics.latency, Reading::Trend(latency(direction, spec)));
        put(metrics.completion, trend(&direction.completion));
        if spec.rate.is_some() {
            put(metrics.service, trend(&direction.service));
        }
    }
    put(metrics::SUBMISSION_LATENCY, trend(&tally.submission));
    if window_ns > 0 {
        put(metrics::ACHIEVED_DEPTH, Reading::Gauge(tally.in_flight_ns as f64 / window_ns as f64));
    }
    if spec.verify {
        put(metrics::VERIFIED, Reading::Share { yes: tally.verified[0], no: tally.verified[1] });
    }
    readings
}

/// Times from the start. What found no place in the queue is in them with its wait, but not where an objective counts it as one that
/// exceeds every limit.
fn latency(direction: &Direction, spec: &LoadSettings) -> Histogram {
    let mut latency = direction.latency.clone();
    if !exceeds_every_limit(spec) {
        latency.merge(&direction.unstarted);
    }
    latency
}

/// Whether an objective counts what found no place in the queue as above every limit.
fn exceeds_every_limit(spec: &LoadSettings) -> bool {
    spec.capacity.is_some() && spec.latency().is_some()
}

/// The metrics of one direction.
struct Side {
    iops: Metric,
    bandwidth: Metric,
    latency: Metric,
    service: Metric,
    completion: Metric,
}

const SIDES: [Side; 2] = [
    Side {
        iops: metrics::READ_IOPS,
        bandwidth: metrics::READ_BW,
        latency: metrics::READ_LATENCY,
        service: metrics::READ_SERVICE,
        completion: metrics::READ_COMPLETION_LATENCY,
    },
    Side {
        iops: metrics::WRITE_IOPS,
        bandwidth: metrics::WRITE_BW,
        latency: metrics::WRITE_LATENCY,
        service: metrics::WRITE_SERVICE,
        completion: metrics::WRITE_COMPLETION_LATENCY,
    },
];

fn takes_part(spec: &LoadSettings, direction: usize) -> bool {
    if direction == 0 { spec.access.reads() } else { spec.access.writes() }
}

/// Rates in each whole second of the window, and the mean latency in each.
fn windows(tally: &Tally, spec: &LoadSettings, seconds: usize) -> BTreeMap<String, Vec<f64>> {
    let mut windows = BTreeMap::new();
    for (at, metrics) in SIDES.iter().enumerate().filter(|(at, _)| takes_part(spec, *at)) {
        let direction = &tally.directions[at].seconds;
        let iops = direction.counts(seconds);
        let bandwidth = iops.iter().map(|count| count * spec.block_size.0 as f64).collect();
        if let Some(latencies_us) = direction.means_us(seconds) {
            windows.insert(metrics.latency.name.to_owned(), latencies_us);
        }
        windows.insert(metrics.bandwidth.name.to_owned(), bandwidth);
        windows.insert(metrics.iops.name.to_owned(), iops);
    }
    windows
}

fn observed(
    of: &Circumstances<'_>,
    windows: &BTreeMap<String, Vec<f64>>,
    first: usize,
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let yes_no = |yes| if yes { "yes" } else { "no" };
    let mut observed = BTreeMap::new();
    let mut see = |property: &str, value: &str| {
        let values: &mut BTreeMap<String, u64> = observed.entry(property.to_owned()).or_default();
        values.insert(value.to_owned(), u64::from(of.spec.jobs));
    };
    see("direct", of.direct);
    see("engine", of.engine);
    see("size", &Bytes(of.bytes).to_string());
    for metrics in &SIDES {
        if let Some(steadiness) = steadiness(windows, metrics.iops, first) {
            see(&format!("{}_settled", metrics.iops.name), yes_no(steadiness.is_settled()));
        }
    }
    observed
}

/// How steady a rate was from second `first` of the window on.
fn steadiness(windows: &BTreeMap<String, Vec<f64>>, rate: Metric, first: usize) -> Option<Steadiness> {
    steady::judge(windows.get(rate.name)?.get(first..)?)
}

fn warn(measurement: &mut Measurement, tally: &Tally, of: &Circumstances<'_>, first: usize) {
    let mut note = |notice: Notice| measurement.notices.push(notice);
    for metrics in &SIDES {
        let steadiness = steadiness(&measurement.windows, metrics.iops, first);
        if let Some(Steadiness { range, slope }) = steadiness.filter(|found| !found.is_settled()) {
            note(NoticeKind::Unsettled.with([range, slope]).about([metrics.iops.name]));
        }
    }
    let unstarted: u64 = tally.directions.iter().map(|direction| direction.unstarted.count()).sum();
    if unstarted > 0 {
        let is_in_search = exceeds_every_limit(of.spec);
        let kind = if is_in_search { NoticeKind::UnstartedInSearch } else { NoticeKind::Unstarted };
        note(kind.with([unstarted as f64]));
    }
    if !tally.recorder.errors.is_empty() && measurement.work == 0 {
        note(NoticeKind::NothingTransferred.into());
    }
    let asked = f64::from(of.spec.depth) * f64::from(of.spec.jobs);
    let achieved = measurement.readings.get(metrics::ACHIEVED_DEPTH.name);
    if let (None, None, Some(Reading::Gauge(achieved))) = (of.spec.rate, of.spec.operations, achieved)
        && *achieved < asked * crate::evidence::DEPTH_SHARE
    {
        let notice = NoticeKind::DepthNotReached.with([*achieved, asked]);
        measurement.notices.push(notice);
    }
}

#[cfg(test)]
mod tests {
    use plumb_pace::Frame;

    use super::super::tally::Operation;
    use super::*;
    use crate::settings::Access;
    use plumb_model::NoticeKind;

    #[test]
    fn a_wait_without_a_place_is_a_time_unless_an_objective_counts_it_as_one_above_every_limit() {
        let mut tally = Tally::new(Frame::new(0, 0, 1000), true);
        tally.complete(&Operation::default(), 10, Some(0));
        tally.leave_unstarted(900, false);
        assert_eq!(tally.recorder.attempts.tried, 2);
        let searching = |access| LoadSettings {
            access,
            capacity: serde_json::from_value(serde_json::json!({ "objective": [] })).unwrap(),
            ..LoadSettings::default()
        };
        let times = |spec| latency(&tally.directions[0], &spec).count();
        assert_eq!(times(LoadSettings::default()), 2);
        assert_eq!(times(searching(Access::Read)), 1);
        assert_eq!(times(searching(Access::ReadWrite)), 2, "some times are those of writes");
    }

    #[test]
    fn a_stall_that_percentiles_hide_is_told() {
        const MS: u64 = 1_000_000;
        let frame = Frame::new(0, 0, 2000 * MS);
        let mut tally = Tally::new(frame, false);
        let mut complete = |start_ns: u64, end_ns: u64| {
            let operation = Operation { intended_ns: start_ns, start_ns, ..Operation::default() };
            tally.complete(&operation, end_ns, frame.second(end_ns));
        };
        (0..1000).for_each(|at| complete(at * MS, (at + 1) * MS));
        // In flight when the window closes.
        complete(1000 * MS, 3000 * MS);
        tally.recorder.gaps.close(frame.close_ns);
        let stall_ns_max = tally.recorder.gaps.longest_ns();
        assert_eq!(stall_ns_max, 1000 * MS);
        let found = hidden_stalls(&tally, &LoadSettings::default(), Some(stall_ns_max));
        let [Notice { kind: NoticeKind::HiddenStall, about, figures, .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((&about[..], figures[0].least), (&["read_latency".to_owned()][..], 1e9));
    }
}
