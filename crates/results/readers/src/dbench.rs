//! dbench: the summary of its script, which runs fio nine times.
//!
//! Source: `docker-entrypoint.sh` of leeliu/dbench, and its forks. IOPS are at a depth of 64 and latency is at one of 4. The label
//! `(usec)` is fixed: the script takes the mean out of fio's line and drops the unit. It finds no mean below 10, which fio pads
//! with a blank, and it loses the `M` of millions.

use plumb_model::{Metric, Statistic};

use crate::figure::{Unreadable, printed};
use crate::metrics::{
    READ_BW, READ_IOPS, READ_LATENCY, READ_SEQ, RW_MIX_READ_IOPS, RW_MIX_WRITE_IOPS, WRITE_BW, WRITE_IOPS,
    WRITE_LATENCY, WRITE_SEQ,
};
use crate::text::{after, positive, scaled};
use crate::tool_run::ToolRun;

const LATENCY_DEPTH: f64 = 4.0;
const IOPS_DEPTH: f64 = 64.0;

pub(crate) fn is(text: &str) -> bool {
    text.contains("Random Read/Write IOPS:")
        && text.lines().any(|line| line.contains("Sequential Read/Write:"))
}

/// The beginnings of lines that a run prints once.
pub(crate) const ONCE: &[&str] = &[
    "= Dbench Summary",
    "Random Read/Write IOPS:",
    "Average Latency",
    "Sequential Read/Write:",
    "Mixed Random",
];

pub(crate) fn is_whole(text: &str) -> bool {
    let mixed = after(text, "Mixed Random Read/Write IOPS:").unwrap_or_default();
    matches!(pair(mixed, kilo), Ok([Some(_), Some(_)]))
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("dbench", "storage", "summaries");
    run.worked(None, None);
    let random = after(text, "Random Read/Write IOPS:").ok_or("it has no line `Random Read/Write IOPS:`")?;
    let (iops, bandwidths) = random.split_once("BW:").unwrap_or((random, ""));
    let iops = pair(iops.trim().trim_end_matches('.'), kilo)?;
    put(&mut run, [&READ_IOPS, &WRITE_IOPS], iops);
    put(&mut run, [&READ_BW, &WRITE_BW], pair(bandwidths, per_second)?);
    put(
        &mut run,
        [&READ_SEQ, &WRITE_SEQ],
        pair(after(text, "Sequential Read/Write:").unwrap_or_default(), per_second)?,
    );
    let mixed = after(text, "Mixed Random Read/Write IOPS:").unwrap_or_default();
    put(&mut run, [&RW_MIX_READ_IOPS, &RW_MIX_WRITE_IOPS], pair(mixed, kilo)?);
    if run.metrics.is_empty() {
        return Err("its line of IOPS has no number, as if the volume had not been written".into());
    }
    let latency = after(text, "Average Latency (usec) Read/Write:").unwrap_or_default();
    read_latency(&mut run, latency, iops)?;
    run.warn(
        "dbench's numbers have three digits; its IOPS are at a depth of 64 and its latency is at one of 4",
    );
    warn_of_millions(&mut run);
    Ok(vec![run])
}

type Pair = [Option<f64>; 2];

/// `a/b`, each read by itself; a unit such as `MiB/s` has a slash as well.
fn pair(text: &str, form: fn(&str) -> Option<f64>) -> Result<Pair, Unreadable<'_>> {
    let between = text.match_indices('/').map(|(at, _)| at).find(|at| !text[at + 1..].starts_with('s'));
    let (read, write) = between.map_or((text, ""), |at| (&text[..at], &text[at + 1..]));
    Ok([printed(Some(read), form)?, printed(Some(write), form)?])
}

fn kilo(text: &str) -> Option<f64> {
    scaled(text.trim_end_matches('.'), "", 1000.0)
}

fn per_second(text: &str) -> Option<f64> {
    scaled(text, "B/s", 1000.0)
}

fn put(run: &mut ToolRun, metrics: [&Metric; 2], values: Pair) {
    for (metric, value) in metrics.into_iter().zip(values) {
        run.rate(metric, value, None);
    }
}

/// A latency is read where only one unit agrees with the IOPS of the same direction.
fn read_latency<'t>(run: &mut ToolRun, text: &'t str, iops: Pair) -> Result<(), Unreadable<'t>> {
    if text.is_empty() {
        return Ok(());
    }
    let sides = [("read", &READ_LATENCY), ("write", &WRITE_LATENCY)];
    for (((name, metric), iops), number) in sides.into_iter().zip(iops).zip(pair(text, positive)?) {
        let Some(number) = number.filter(|number| *number > 0.0) else {
            run.warn(format!(
                "dbench has no {name} latency: its script finds no mean below 10 of whatever unit fio printed, and that is not 0"
            ));
            continue;
        };
        match iops.and_then(|iops| unit_ns(number, iops)) {
            Some((unit, unit_ns)) => {
                run.summary(metric, None, [(Statistic::Avg, Some(number * unit_ns))]);
                run.remedy(metric, "dbench has the mean alone; fio --output-format=json+ has all of it");
                run.warn(format!(
                    "dbench labels every latency usec, whatever fio printed; of the units, {unit} alone agrees with the {name} IOPS, so \
                     the latency was read in {unit}"
                ));
            }
            None => run.warn(format!(
                "dbench labels every latency usec, whatever fio printed; no unit agrees with the {name} IOPS, so the latency was \
                 left out"
            )),
        }
    }
    Ok(())
}

/// By Little's law, four operations in flight make 4/latency IOPS. At 64 in flight a device does not do fewer, and hardly more
/// than 64 times as many.
fn unit_ns(number: f64, iops: f64) -> Option<(&'static str, f64)> {
    let fits = |unit_ns: f64| {
        let at_depth_4 = LATENCY_DEPTH * 1e9 / (number * unit_ns);
        (iops / IOPS_DEPTH..=iops * 1.5).contains(&at_depth_4)
    };
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6)];
    let mut fitting = units.into_iter().filter(|(_, unit_ns)| fits(*unit_ns));
    fitting.next().filter(|_| fitting.next().is_none())
}

/// Bandwidth over IOPS is the block size, 4 KiB; a million IOPS that lost its `M` makes it a million times that.
fn warn_of_millions(run: &mut ToolRun) {
    let value = |run: &ToolRun, metric: &Metric| {
        run.measurement.readings.get(metric.name).and_then(|reading| reading.number(None, metric.unit))
    };
    for (iops, bandwidth) in [(READ_IOPS, READ_BW), (WRITE_IOPS, WRITE_BW)] {
        let both = value(run, &iops).zip(value(run, &bandwidth));
        if both.is_some_and(|(iops, bytes)| iops > 0.0 && iops < 1000.0 && bytes / iops > 64e6) {
            run.measurement.readings.remove(iops.name);
            run.metrics.retain(|metric| metric.name != iops.name);
            run.warn(format!(
                "dbench's script loses the M of millions: its {} cannot be that few at that bandwidth, and was left out",
                iops.name
            ));
        }
    }
}
