//! dbench's nine jobs, and what it prints of them.

use std::fmt::Write;

use plumb_model::{Measurement, Reading, Span, Statistic, Unit};
use plumb_storage::load::Prepared;
use plumb_storage::load::suite;
use plumb_storage::spec::LoadSpec;

use super::{Surroundings, course, window};
use crate::args::StorageArguments;
use crate::exit::Failure;
use crate::live::LiveLine;
use crate::output;

/// How long dbench measures each job.
pub const DURATION: Span = Span(15_000_000_000);
/// What it does not measure before each.
pub const WARMUP: Span = Span(2_000_000_000);

/// Runs the jobs one after the other and prints the summary.
pub fn measure(
    spec: &LoadSpec,
    prepared: &Prepared,
    arguments: &StorageArguments,
) -> Result<Measurement, Failure> {
    let live = LiveLine::new(arguments.quiet || arguments.json);
    let mut surroundings = Surroundings::of(plumb_storage::system::service_at(&arguments.target));
    let measured = suite::measure(spec, prepared, window(spec), &mut |job, mark| {
        surroundings.note(mark);
        live.progress(mark, course(&format!("{job}: "), spec));
    });
    live.clear();
    let mut measurement = measured.map_err(Failure::harness)?;
    measurement.warnings.extend(surroundings.warnings());
    measurement.warnings.splice(0..0, prepared.messages().iter().cloned());
    if !arguments.json {
        let failures_max = arguments.failures.failures_max.0;
        if let Some(failures) = plumb_report::too_many_failures(&measurement, failures_max) {
            output::result(&format!("✗ {failures}\n"))?;
        }
        output::result(&summary(&measurement))?;
    }
    Ok(measurement)
}

/// dbench's summary, then what it does not say.
fn summary(measurement: &Measurement) -> String {
    let rate = |name: &str| match measurement.readings.get(name) {
        Some(Reading::Rate { value, .. }) => *value,
        _ => 0.0,
    };
    let iops = |name: &str| short(rate(name), 1000.0, &["", "k", "M", "G"]);
    let bandwidth = |name: &str| short(rate(name) / 1024.0, 1024.0, &["KiB/s", "MiB/s", "GiB/s", "TiB/s"]);
    let mean_us = |name: &str| {
        let reading = measurement.readings.get(name);
        reading.and_then(|it| it.number(Some(Statistic::Avg), Unit::Microseconds)).unwrap_or(0.0)
    };
    let mut text = format!(
        "==================\n= Dbench Summary =\n==================\n\
         Random Read/Write IOPS: {}/{}. BW: {} / {}\n\
         Average Latency (usec) Read/Write: {:.2}/{:.2}\n\
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
    for warning in &measurement.warnings {
        let _ = writeln!(text, "! {warning}");
    }
    text
}

/// Which figures had settled by SNIA's rule.
fn settled(measurement: &Measurement) -> String {
    let known = |value: &'static str| {
        let of = measurement.observed.iter().filter(move |(_, values)| values.contains_key(value));
        of.filter_map(|(property, _)| property.strip_suffix("_settled"))
    };
    let unsettled: Vec<&str> = known("no").collect();
    if !unsettled.is_empty() {
        format!("Not settled by SNIA's rule: {}", unsettled.join(", "))
    } else if known("yes").next().is_some() {
        "Settled by SNIA's rule: all figures".to_owned()
    } else {
        "Whether figures had settled is not known: SNIA's rule needs jobs of at least 5 s".to_owned()
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
}
