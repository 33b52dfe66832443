//! fio: JSON of `--output-format=json` and `json+`, of fio 2 and 3.
//!
//! Sources: fio's `stat.c`, `stat.h` and `client.c`. Latencies are ns from fio 3 on and us before. Percentiles are the middles of
//! buckets, 64 in each power of two, so they are right to 1/128. The last bucket holds everything above 17.1 s.

use std::collections::BTreeMap;

use plumb_model::{Better, Histogram, Metric, MetricKind, Reading, Statistic, Unit};
use serde_json::Value;

use crate::figure::Unreadable;
use crate::json::{Documents, count, documents, items, positive, scalar, text};
use crate::metrics::{
    READ_BW, READ_COMPLETION_LATENCY, READ_IOPS, READ_LATENCY, WRITE_BW, WRITE_COMPLETION_LATENCY,
    WRITE_IOPS, WRITE_LATENCY,
};
use crate::tool_run::{BYTES_AND_RATE, NoReading, RATE_AND_COUNT, ToolRun, percentile, record};

/// By how much fio's counts and rates may disagree: it rounds a job's time to whole milliseconds, and jobs end a little late.
const RAMP: f64 = 0.05;
const DIRECTIONS: [&str; 4] = ["read", "write", "trim", "mixed"];

/// The middle of the last bucket of fio's histogram, in its own unit: whatever is there took longer, nobody knows how much.
const LAST_BUCKET: f64 = 17_112_760_320.0;

pub(crate) fn is(text: &str) -> bool {
    let found = documents(text).found;
    found.iter().any(|value| of_fio(value).is_some())
}

/// A report of fio, or the one inside kubestr's JSON.
fn of_fio(value: &Value) -> Option<&Value> {
    [Some(value), value.pointer("/Raw/result")]
        .into_iter()
        .flatten()
        .find(|it| it.get("fio version").is_some())
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let Documents { found, around, broken, .. } = documents(text);
    if let Some(broken) = broken {
        return Err(broken);
    }
    let whole: Vec<&Value> = found.iter().filter_map(of_fio).collect();
    let around: Vec<&str> = around.into_iter().filter(|line| line.contains(char::is_alphanumeric)).collect();
    if whole.is_empty() {
        return Err("it has no JSON object with `fio version`".into());
    }
    let mut runs = Vec::new();
    for reports in whole.chunk_by(|one, next| is_same_run(one, next)) {
        runs.extend(report(reports, &around)?);
    }
    Ok(runs)
}

/// Whether `next` is a later report of the same run, as `--status-interval` prints them: the jobs are the same, fio started at the same
/// time, and no job has done less.
fn is_same_run(one: &Value, next: &Value) -> bool {
    let (before, after) = (items(one, "/jobs"), items(next, "/jobs"));
    let is_same_job = |(one, next): (&Value, &Value)| {
        let is_same = |at: &str| one.pointer(at) == next.pointer(at);
        let has_grown =
            |at: &str| positive(one, at).unwrap_or_default() <= positive(next, at).unwrap_or_default();
        ["/jobname", "/groupid", "/job options"].into_iter().all(is_same)
            && (is_same("/job_start") || one.get("job_start").is_none())
            && DIRECTIONS.iter().all(|name| {
                has_grown(&format!("/{name}/total_ios")) && has_grown(&format!("/{name}/runtime"))
            })
    };
    let is_like = before.len() == after.len()
        && one.get("global options") == next.get("global options")
        && before.iter().zip(after).all(is_same_job);
    let began_s = |report: &Value| {
        let end_s = positive(report, "/timestamp_ms").map(|ms| ms / 1e3);
        let elapsed_s =
            items(report, "/jobs").iter().filter_map(|job| positive(job, "/elapsed")).fold(0.0, f64::max);
        Some(end_s.or_else(|| positive(report, "/timestamp"))? - elapsed_s)
    };
    // `elapsed` counts whole seconds, starting at 1.
    let is_near = began_s(one).zip(began_s(next)).is_none_or(|(one_s, next_s)| (one_s - next_s).abs() <= 2.0);
    is_like && is_near
}

/// The last report of a run.
fn report(whole: &[&Value], around: &[&str]) -> Result<Vec<ToolRun>, Unreadable<'static>> {
    let Some(last) = whole.last() else { return Ok(Vec::new()) };
    let jobs = jobs(last);
    let mut groups: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for job in &jobs.found {
        groups.entry(count(job, "/groupid").unwrap_or_default()).or_default().push(job);
    }
    if groups.is_empty() {
        return Err("it has no `jobs`".into());
    }
    let is_several = groups.len() > 1;
    let read = |group: &Vec<&Value>| {
        let mut run = Group { document: last, jobs: group, is_old: is_old(last) }.to_run();
        run.label = is_several.then(|| scalar(group[0], "/jobname")).flatten();
        if whole.len() > 1 {
            run.warn("the file has several reports of this fio run; only the last was read, which covers the whole run");
        }
        if !around.is_empty() {
            run.warn(format!(
                "fio printed more than JSON, which was left out: {}",
                shortened(&around.join("; "))
            ));
        }
        for warning in &jobs.warnings {
            run.warn(*warning);
        }
        run
    };
    Ok(groups.values().map(read).collect())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(160) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

struct Jobs<'v> {
    found: Vec<&'v Value>,
    warnings: Vec<&'static str>,
}

/// The jobs of one machine, or of all clients together: a sum over their list would count everything twice.
fn jobs(document: &Value) -> Jobs<'_> {
    let clients = items(document, "/client_stats");
    let all = clients.iter().find(|client| text(client, "/jobname") == Some("All clients"));
    match all {
        Some(all) => Jobs {
            found: vec![all],
            warnings: vec![
                "the report is of several fio clients; the entry `All clients` was read, which is their sum",
            ],
        },
        None if clients.is_empty() => {
            Jobs { found: items(document, "/jobs").iter().collect(), warnings: Vec::new() }
        }
        None => Jobs { found: clients.iter().collect(), warnings: Vec::new() },
    }
}

/// fio 2 has `lat` in us where fio 3 has `lat_ns`.
fn is_old(document: &Value) -> bool {
    let has_old = |job: &Value| DIRECTIONS.iter().any(|name| job.pointer(&format!("/{name}/lat")).is_some());
    items(document, "/jobs").iter().chain(items(document, "/client_stats")).any(has_old)
}

/// The jobs of a reporting group, which ran at the same time.
struct Group<'v> {
    document: &'v Value,
    jobs: &'v [&'v Value],
    is_old: bool,
}

/// A direction of a group, with the metrics for it.
struct Direction {
    name: &'static str,
    iops: Metric,
    bandwidth: Metric,
    latency: Metric,
    completion: Metric,
}

const READ: Direction = Direction {
    name: "read",
    iops: READ_IOPS,
    bandwidth: READ_BW,
    latency: READ_LATENCY,
    completion: READ_COMPLETION_LATENCY,
};

const WRITE: Direction = Direction {
    name: "write",
    iops: WRITE_IOPS,
    bandwidth: WRITE_BW,
    latency: WRITE_LATENCY,
    completion: WRITE_COMPLETION_LATENCY,
};

/// Directions that no data path has: trims, and both directions together under `unified_rw_reporting`.
const TRIM: Direction = Direction {
    name: "trim",
    iops: Metric { name: "trim_iops", about: "trims per second", ..READ_IOPS },
    bandwidth: Metric { name: "trim_bw", about: "bytes trimmed per second", ..READ_BW },
    latency: Metric { name: "trim_latency", about: "time of a trim (fio's lat)", ..READ_LATENCY },
    completion: Metric {
        name: "trim_completion_latency",
        about: "time of a trim from its submission on (fio's clat)",
        ..READ_LATENCY
    },
};

const MIXED: Direction = Direction {
    name: "mixed",
    iops: Metric { name: "mixed_iops", about: "reads, writes and trims per second", ..READ_IOPS },
    bandwidth: Metric { name: "mixed_bw", about: "bytes per second in all directions", ..READ_BW },
    latency: Metric { name: "mixed_latency", about: "time of an operation (fio's lat)", ..READ_LATENCY },
    completion: Metric {
        name: "mixed_completion_latency",
        about: "time of an operation from its submission on (fio's clat)",
        ..READ_LATENCY
    },
};

impl Group<'_> {
    fn to_run(&self) -> ToolRun {
        let mut run = ToolRun::new("fio", "storage", "reads and writes");
        let version = scalar(self.document, "/fio version");
        run.version = version.map(|version| version.trim_start_matches("fio-").to_owned());
        self.read_options(&mut run);
        let mut work = 0_u64;
        for direction in [READ, WRITE, TRIM] {
            work = work.saturating_add(self.read_direction(&mut run, &direction));
        }
        // `unified_rw_reporting=both` repeats everything here.
        let mixed = self.read_direction(&mut run, &MIXED);
        let work = if work > 0 { work } else { mixed };
        if work == 0 {
            let reason = match self.first_error() {
                Some(error) => format!("its job did nothing and ended with error {error}"),
                None => "its jobs read and wrote nothing".to_owned(),
            };
            return ToolRun::without("fio", "storage", NoReading::Failed(reason));
        }
        self.read_sync(&mut run);
        let seconds = self.runtime_ms() / 1e3;
        run.worked(Some(seconds), Some(work));
        let end_s = positive(self.document, "/timestamp_ms")
            .map(|ms| ms / 1e3)
            .or_else(|| positive(self.document, "/timestamp"));
        run.started_unix_s = end_s.map(|end_s| end_s - seconds);
        self.read_errors(&mut run, work);
        self.warn_of_rate(&mut run);
        run
    }

    /// A name says nothing of what was measured, and logs are only written.
    fn read_options(&self, run: &mut ToolRun) {
        let global = self.document.get("global options");
        let own = self.jobs.first().and_then(|job| job.get("job options"));
        for options in [global, own].into_iter().flatten().filter_map(Value::as_object) {
            for (name, value) in options {
                let is_plain = name != "name" && name != "description" && !name.ends_with("_log");
                if let Some(value) = scalar(value, "").filter(|_| is_plain) {
                    run.option(name, value);
                }
            }
        }
        if self.jobs.len() > 1 {
            run.option("jobs in the group", self.jobs.len().to_string());
        }
    }

    fn sum(&self, at: &str) -> u64 {
        self.jobs.iter().filter_map(|job| count(job, at)).fold(0, u64::saturating_add)
    }

    /// The operations of a direction; early versions of fio give only their rate and time.
    fn operations(&self, name: &str) -> u64 {
        let of = |job: &&Value| {
            count(job, &format!("/{name}/total_ios")).or_else(|| {
                let of = |key: &str| positive(job, &format!("/{name}/{key}"));
                Some((of("iops")? * of("runtime")? / 1e3).round() as u64)
            })
        };
        self.jobs.iter().filter_map(of).fold(0, u64::saturating_add)
    }

    /// The longest runtime of any direction, in ms.
    fn runtime_ms(&self) -> f64 {
        let of =
            |job: &&Value| DIRECTIONS.map(|name| positive(job, &format!("/{name}/runtime")).unwrap_or(0.0));
        self.jobs.iter().flat_map(of).fold(0.0, f64::max)
    }

    /// Returns how many operations were done.
    fn read_direction(&self, run: &mut ToolRun, direction: &Direction) -> u64 {
        let name = direction.name;
        let ios = self.operations(name);
        if ios == 0 {
            return 0;
        }
        let bytes = self.sum(&format!("/{name}/io_bytes")).saturating_mul(if self.is_old { 1024 } else { 1 });
        let [iops, bytes_per_s] = match self.jobs {
            [job] => {
                let old_bw = || positive(job, &format!("/{name}/bw")).map(|kib| kib * 1024.0);
                [
                    positive(job, &format!("/{name}/iops")),
                    positive(job, &format!("/{name}/bw_bytes")).or_else(old_bw),
                ]
            }
            // Jobs that ended early did not run for the whole time: the sum of their rates is not that of the group.
            _ => {
                let at = format!("/{name}/runtime");
                let runtime_ms = self.jobs.iter().filter_map(|job| positive(job, &at)).fold(0.0, f64::max);
                let per_s = |count: u64| (runtime_ms > 0.0).then(|| count as f64 * 1e3 / runtime_ms);
                [per_s(ios), per_s(bytes)]
            }
        };
        run.rate(&direction.iops, iops, Some(ios));
        run.rate(&direction.bandwidth, bytes_per_s, Some(bytes));
        if let [job] = self.jobs {
            let runtime_s =
                positive(job, &format!("/{name}/runtime")).map(|ms| ms / 1e3).filter(|s| *s > 0.0);
            let over_time = |count: u64| Some(count as f64 / runtime_s?);
            run.sum(RATE_AND_COUNT, iops, over_time(ios), RAMP);
            run.sum(BYTES_AND_RATE, bytes_per_s, over_time(bytes), RAMP);
        }
        self.read_latency(run, &direction.latency, name, "lat");
        self.read_latency(run, &direction.completion, name, "clat");
        let has_any =
            [&direction.latency, &direction.completion].iter().any(|it| run.metric(it.name).is_some());
        if !has_any && self.jobs.len() == 1 {
            run.warn(format!(
                "fio has no latency of {name}: gtod_reduce, disable_lat or disable_clat was on, and zeros stand for no value"
            ));
        }
        ios
    }

    fn read_latency(&self, run: &mut ToolRun, metric: &Metric, direction: &str, kind: &str) {
        let (suffix, unit_ns) = if self.is_old { ("", 1e3) } else { ("_ns", 1.0) };
        let at = format!("/{direction}/{kind}{suffix}");
        let found: Vec<&Value> = self.jobs.iter().filter_map(|job| job.pointer(&at)).collect();
        let bins: Vec<(u64, u64)> = found.iter().flat_map(|latency| bins(latency)).collect();
        if !bins.is_empty() {
            let mut histogram = Histogram::new();
            bins.iter()
                .for_each(|(ns, count)| record(&mut histogram, ns.saturating_mul(unit_ns as u64), *count));
            let above: u64 = bins
                .iter()
                .filter(|(ns, _)| *ns as f64 >= LAST_BUCKET)
                .map(|(_, count)| *count)
                .fold(0, u64::saturating_add);
            if above > 0 {
                run.warn(overflow_words(direction));
            }
            run.trend(metric, histogram);
            return;
        }
        let [latency] = found.as_slice() else {
            if found.len() > 1 {
                run.warn(format!(
                    "each job has its own {kind} of {direction}, and statistics cannot be merged; run fio with \
                     --group_reporting, or --output-format=json+"
                ));
            }
            return;
        };
        // Zeros for everything are fio's way to say that it did not measure.
        let Some(mean) = positive(latency, "/mean").filter(|mean| *mean > 0.0) else { return };
        let mut statistics = vec![
            (Statistic::Avg, Some(mean * unit_ns)),
            (Statistic::Min, positive(latency, "/min").map(|min| min * unit_ns)),
            (Statistic::Max, positive(latency, "/max").map(|max| max * unit_ns)),
        ];
        for (percent, value) in latency.get("percentile").and_then(Value::as_object).into_iter().flatten() {
            let statistic = percent.parse().ok().and_then(percentile);
            let value_ns = positive(value, "").map(|value| value * unit_ns).filter(|ns| *ns > 0.0);
            match (statistic, value_ns) {
                (_, Some(ns)) if ns >= LAST_BUCKET * unit_ns => run.warn(overflow_words(direction)),
                (Some(statistic), Some(_)) if statistic != Statistic::Min && statistic != Statistic::Max => {
                    statistics.push((statistic, value_ns));
                }
                _ => {}
            }
        }
        run.summary(metric, count(latency, "/N"), statistics);
        run.remedy(
            metric,
            if kind == "lat" {
                "fio --lat_percentiles=1 --percentile_list=50:90:95:99:99.9 prints it, and --output-format=json+ all of them"
            } else {
                "fio --clat_percentiles=1 --percentile_list=50:90:95:99:99.9 prints it, and --output-format=json+ all of them"
            },
        );
    }

    /// fio times an fsync in `sync`, of which it has `lat_ns` alone.
    fn read_sync(&self, run: &mut ToolRun) {
        let [job] = self.jobs else { return };
        let known = |at: &str| positive(job, at).filter(|ns| *ns > 0.0);
        if let Some(mean) = known("/sync/lat_ns/mean") {
            let about = "time of an fsync (fio's lat of sync)";
            let metric =
                ToolRun::own("sync_latency", Unit::Microseconds, Better::Lower, MetricKind::Trend, about);
            let statistics_ns = [
                (Statistic::Avg, Some(mean)),
                (Statistic::Min, known("/sync/lat_ns/min")),
                (Statistic::Max, known("/sync/lat_ns/max")),
                (Statistic::P99, known("/sync/lat_ns/percentile/99.000000")),
            ];
            let statistics_ns =
                statistics_ns.into_iter().filter_map(|(name, ns)| Some((name, ns?))).collect();
            run.add_own_reading(
                metric,
                Reading::Summary { count: count(job, "/sync/total_ios"), statistics_ns },
            );
        }
    }

    fn first_error(&self) -> Option<u64> {
        self.jobs.iter().filter_map(|job| count(job, "/error")).find(|error| *error != 0)
    }

    fn read_errors(&self, run: &mut ToolRun, work: u64) {
        let errors = self.sum("/total_err");
        run.error("I/O error", errors);
        run.measurement.attempts.tried = work.saturating_add(errors);
        run.measurement.attempts.failed = errors;
        if let Some(error) = self.first_error() {
            run.warn(format!(
                "a job of fio ended with error {error}, so it may not have run for the whole time"
            ));
        }
    }

    fn warn_of_rate(&self, run: &mut ToolRun) {
        if ["rate_iops", "rate"].iter().any(|name| run.options.contains_key(*name)) {
            run.warn(
                "fio ran at a fixed rate and times an operation from its real submission, so a stall hides what was due \
                 meanwhile",
            );
        }
    }
}

fn overflow_words(direction: &str) -> String {
    format!(
        "some {direction} took longer than fio's histogram reaches (17.1 s): 17,113 ms stands for any such time, so percentiles \
         there are left out or too low"
    )
}

/// `"bins": { "1234": 7 }`, of json+ alone.
fn bins(latency: &Value) -> impl Iterator<Item = (u64, u64)> {
    let found = latency.get("bins").and_then(Value::as_object).into_iter().flatten();
    found.filter_map(|(value, often)| {
        Some((value.parse().ok()?, count(often, "").filter(|count| *count > 0)?))
    })
}
