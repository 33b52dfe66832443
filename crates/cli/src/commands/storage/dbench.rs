//! dbench's nine jobs, and what it prints of them.

use std::fmt::Write;

use plumb_model::{Evidence, Measurement, Percent, Reading, Statistic, Unit};
use plumb_storage::load::suite;

use crate::exit::Failure;
use crate::output;

/// Prints the summary. Evidence that does not hold and more failures than allowed come first.
pub fn print(measurement: &Measurement, evidence: &[Evidence], failures_max: Percent) -> Result<(), Failure> {
    for Evidence { what, expected, observed, .. } in evidence.iter().filter(|evidence| !evidence.holds) {
        output::result(&format!("✗ {what}: {expected}; {observed}\n"))?;
    }
    if let Some(failures) = plumb_report::too_many_failures(measurement, failures_max.0) {
        output::result(&format!("✗ {failures}\n"))?;
    }
    output::result(&summary(measurement))
}

/// A figure whose job was not run.
const UNKNOWN: &str = "-";

/// dbench's summary, then what it does not say.
fn summary(measurement: &Measurement) -> String {
    let shown = |name: &str, shape: &dyn Fn(&Reading) -> Option<String>| {
        measurement.readings.get(name).and_then(shape).unwrap_or_else(|| UNKNOWN.to_owned())
    };
    let rate = |reading: &Reading| match reading {
        Reading::Rate { value, .. } => Some(*value),
        _ => None,
    };
    let iops = |name: &str| {
        shown(name, &|reading| rate(reading).map(|value| short(value, 1000.0, &["", "k", "M", "G"])))
    };
    let bandwidth = |name: &str| {
        let units = ["KiB/s", "MiB/s", "GiB/s", "TiB/s"];
        shown(name, &|reading| rate(reading).map(|value| short(value / 1024.0, 1024.0, &units)))
    };
    let mean_us = |name: &str| {
        let mean = |reading: &Reading| reading.number(Some(Statistic::Avg), Unit::Microseconds);
        shown(name, &|reading| mean(reading).map(|mean| format!("{mean:.2}")))
    };
    let mut text = format!(
        "==================\n= Dbench Summary =\n==================\n\
         Random Read/Write IOPS: {}/{}. BW: {} / {}\n\
         Average Latency (usec) Read/Write: {}/{}\n\
         Sequential Read/Write: {} / {}\n\
         Mixed Random Read/Write IOPS: {}/{}\n",
        iops("read_iops"),
        iops("write_iops"),
        bandwidth("read_bw"),
        bandwidth("write_bw"),
        mean_us("read_latency"),
        mean_us("write_latency"),
        bandwidth("read_seq"),
        bandwidth("write_seq"),
        iops("rw_mix_read_iops"),
        iops("rw_mix_write_iops"),
    );
    let _ = writeln!(text, "\n{}", settled(measurement));
    let _ = writeln!(
        text,
        "Latencies are those at a depth of {0}: mean latency is {0} over the IOPS reached at that depth (Little's law), \
         so under a cap of IOPS they show the cap.",
        suite::LATENCY_DEPTH
    );
    for notice in &measurement.notices {
        let _ = writeln!(text, "! {}", plumb_report::notice(notice));
    }
    text
}

/// Which figures had settled by SNIA's rule.
fn settled(measurement: &Measurement) -> String {
    let known = |value: &'static str| {
        let of = measurement.observed.iter().filter(move |(_, values)| values.contains_key(value));
        of.filter_map(|(property, _)| property.strip_suffix("_settled"))
    };
    let (unsettled, settled): (Vec<&str>, Vec<&str>) = (known("no").collect(), known("yes").collect());
    if !unsettled.is_empty() {
        format!("Not settled by SNIA's rule: {}", unsettled.join(", "))
    } else if settled.is_empty() {
        "It is not known whether the figures had settled: SNIA's rule needs jobs of at least 5 s".to_owned()
    } else if suite::figures().all(|name| settled.contains(&name) || !measurement.readings.contains_key(name))
    {
        "Settled by SNIA's rule: all figures".to_owned()
    } else {
        format!("Settled by SNIA's rule, which needs jobs of at least 5 s: {}", settled.join(", "))
    }
}

/// A number as fio prints it: at most four digits, and a unit in which it has so few.
fn short(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    while value >= 9999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 && step == 1000.0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use plumb_model::{Histogram, Notice};

    use super::*;

    #[test]
    fn numbers_are_as_fio_prints_them() {
        let iops = |value| short(value, 1000.0, &["", "k", "M"]);
        assert_eq!(
            [495.0, 3433.4, 15_300.0, 109_400.0, 1_234_000.0].map(iops),
            ["495", "3433", "15.3k", "109k", "1234k"]
        );
        let bandwidth = |bytes: f64| short(bytes / 1024.0, 1024.0, &["KiB/s", "MiB/s", "GiB/s"]);
        assert_eq!(
            [31.44 * 1_048_576.0, 195.0 * 1_048_576.0, 500.0 * 1024.0].map(bandwidth),
            ["31.4MiB/s", "195MiB/s", "500KiB/s"]
        );
    }

    /// Every figure of the nine jobs, and which of them had settled.
    fn measured() -> Measurement {
        let rate = |per_s: f64| Reading::Rate { count: per_s as u64, value: per_s };
        let trend = |ns: u64| {
            let mut times = Histogram::default();
            times.record(ns);
            Reading::Trend(times)
        };
        let readings = [
            ("read_iops", rate(125_000.0)),
            ("write_iops", rate(3433.4)),
            ("read_bw", rate(1_048_576_000.0)),
            ("write_bw", rate(32_967_229.0)),
            ("read_latency", trend(128_000)),
            ("write_latency", trend(1_024_000)),
            ("read_seq", rate(2_097_152_000.0)),
            ("write_seq", rate(512_000.0)),
            ("rw_mix_read_iops", rate(8000.0)),
            ("rw_mix_write_iops", rate(2700.0)),
        ];
        Measurement {
            readings: readings.map(|(name, reading)| (name.to_owned(), reading)).into(),
            observed: [("read_iops_settled".to_owned(), [("yes".to_owned(), 1)].into())].into(),
            notices: vec![Notice::text("mixed: the load was the limit")],
            ..Measurement::default()
        }
    }

    #[test]
    fn the_summary_is_dbenchs_of_nine_jobs() {
        insta::assert_snapshot!(summary(&measured()), @"
        ==================
        = Dbench Summary =
        ==================
        Random Read/Write IOPS: 125k/3433. BW: 1000MiB/s / 31.4MiB/s
        Average Latency (usec) Read/Write: 128.03/1024.26
        Sequential Read/Write: 2000MiB/s / 500KiB/s
        Mixed Random Read/Write IOPS: 8000/2700

        Settled by SNIA's rule, which needs jobs of at least 5 s: read_iops
        Latencies are those at a depth of 4: mean latency is 4 over the IOPS reached at that depth (Little's law), so under a cap of IOPS they show the cap.
        ! mixed: the load was the limit
        ");
        let unknown = summary(&Measurement::default());
        assert!(unknown.contains("Random Read/Write IOPS: -/-. BW: - / -\n"), "{unknown}");
        assert!(unknown.contains("It is not known whether the figures had settled"), "{unknown}");
    }
}
