//! Code that the commands for a single measurement share: they print it, and fail where too much of it failed.

use plumb_model::{Evidence, Measurement, Metric, MetricInfo, Percent, Span};

use crate::exit::{Failure, HOLDS, INTERRUPTED, REFUTED};
use crate::output;

/// Prints one measurement as text or as JSON. Both begin with the failures, where there are more than allowed.
pub fn print(
    measurement: &Measurement,
    metrics: &[Metric],
    evidence: &[Evidence],
    failures_max: Percent,
    json: bool,
) -> Result<(), Failure> {
    let metrics: Vec<MetricInfo> = metrics.iter().map(MetricInfo::from).collect();
    let failures = plumb_report::too_many_failures(measurement, failures_max.0);
    if json {
        let mut measurement = measurement.clone();
        measurement.warnings.splice(0..0, failures);
        return output::result(&plumb_report::proven_measurement_json(&measurement, &metrics, evidence));
    }
    if let Some(failures) = failures {
        output::result(&format!("✗ {failures}\n"))?;
    }
    let style = plumb_report::TextStyle { colour: output::colour_on_stdout(), width: output::width(140) };
    output::painted(&plumb_report::proven_measurement_text(measurement, &metrics, evidence, &style))
}

/// Tells the user how long an interrupted measurement had lasted, and returns the exit code.
pub fn interrupted(measurement: &Measurement) -> u8 {
    match measurement.window_ns {
        0 => output::message("interrupted before anything was measured"),
        window_ns => output::message(&format!("interrupted after {:.1} s", Span(window_ns).seconds())),
    }
    INTERRUPTED
}

/// The exit code of a measurement that would otherwise end with `code`. Too many failures turn "holds" into "refuted", and
/// leave a worse code as it is.
pub fn code(measurement: &Measurement, failures_max: Percent, code: u8) -> u8 {
    let fails = plumb_report::too_many_failures(measurement, failures_max.0).is_some();
    if fails && code == HOLDS { REFUTED } else { code }
}
