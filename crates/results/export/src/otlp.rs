//! Runs in the form of OpenTelemetry: a trace of each run and metrics of its results, as JSON bodies of
//! OTLP/HTTP requests.
//!
//! Source: opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding": identifiers are hexadecimal, 64-bit
//! integers are strings, enumerations are numbers. Identifiers and times come from the run, so sending a run
//! twice sends identical data.

mod fields;
mod points;
mod spans;
mod times;

use plumb_model::{Judgement, Run, printable_json};
use serde_json::{Value, json};

use self::fields::{Attributes, text};
use crate::error::ExportError;

/// A collector accepts 20 MiB in one request by default. These numbers of spans and points stay far below
/// that.
const SPANS_MAX: usize = 1000;
const POINTS_MAX: usize = 5000;

/// The instrumentation scope of the spans and metrics.
const SCOPE: &str = "plumbline";

/// The traces of runs as bodies for `/v1/traces`: a span for the run, each of its cells, blocks and slots.
///
/// # Errors
/// When a recorded time is invalid.
pub fn traces(runs: &[&Run]) -> Result<Vec<String>, ExportError> {
    let mut bodies = Vec::new();
    for run in runs {
        let spans = spans::spans(run)?;
        bodies.extend(spans.chunks(SPANS_MAX).map(|spans| {
            let scoped =
                json!({ "scope": { "name": SCOPE, "version": run.header.program_version }, "spans": spans });
            let of_run = json!({ "resource": resource(run), "scopeSpans": [scoped] });
            body(&json!({ "resourceSpans": [of_run] }))
        }));
    }
    Ok(bodies)
}

/// The results of runs as bodies for `/v1/metrics`: gauges, timed at the end of the run.
///
/// # Errors
/// When a recorded time is invalid.
pub fn metrics(runs: &[(&Run, &Judgement)]) -> Result<Vec<String>, ExportError> {
    let mut bodies = Vec::new();
    for (run, judgement) in runs {
        let points = points::points(run, judgement)?;
        bodies.extend(points.chunks(POINTS_MAX).map(|points| {
            let metrics = points::metrics(points);
            let scoped =
                json!({ "scope": { "name": SCOPE, "version": run.header.program_version }, "metrics": metrics });
            let of_run = json!({ "resource": resource(run), "scopeMetrics": [scoped] });
            body(&json!({ "resourceMetrics": [of_run] }))
        }));
    }
    Ok(bodies)
}

/// One line of JSON. Terminal control characters are escaped, and a JSON parser restores them.
fn body(value: &Value) -> String {
    printable_json(&value.to_string()).into_owned()
}

/// The resource of all of a run's telemetry. It identifies no single run, so that the metrics of an
/// experiment's runs form one series.
fn resource(run: &Run) -> Value {
    let plan = &run.header.plan;
    let attributes: Attributes = vec![
        text("service.name", "plumb"),
        text("service.version", &run.header.program_version),
        text("plumb.experiment", &plan.name),
        text("plumb.path", &plan.path),
        text("plumb.baseline", plan.baseline_name()),
    ];
    json!({ "attributes": attributes })
}

#[cfg(test)]
mod tests;
