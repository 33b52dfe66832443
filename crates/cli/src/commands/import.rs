//! `plumb import`: what other tools wrote, as one measurement or as a run that is judged like any other.

mod files;
mod order;
mod planned;
#[cfg(test)]
mod tests;
mod together;

use plumb_model::{Measurement, MetricInfo, Notice};
use plumb_readers::{FORMATS, ToolRun};
use plumb_report::{MeasurementReport, Source};

use self::files::{Imported, found, read_runs};
use super::single;
use crate::args::{FORMAT_HELP, ImportArguments};
use crate::exit::{Failure, HOLDS, Outcome, REFUTED};
use crate::output;

/// Prints files one by one, or makes a run of them.
pub fn import(arguments: &ImportArguments) -> Outcome {
    if arguments.format.as_deref() == Some(FORMAT_HELP) {
        let rows = FORMATS.iter().map(|format| format!("{:<20}{}\n", format.name, format.about));
        output::result(&rows.collect::<String>())?;
        return Ok(HOLDS);
    }
    if arguments.variants.is_empty() && arguments.files.is_empty() {
        return Err(Failure::usage("name a file to read".to_owned()));
    }
    if arguments.variants.is_empty() { alone(arguments) } else { together::import(arguments) }
}

fn alone(arguments: &ImportArguments) -> Outcome {
    let mut code = HOLDS;
    for file in &arguments.files {
        for run in read_runs(&found(file), arguments)? {
            if let Some(failure) = &run.tool_run.failure {
                failed(&run, &failure.to_string(), arguments)?;
                code = code.max(REFUTED);
                continue;
            }
            print(&run, arguments)?;
            code = code.max(single::code(&run.tool_run.measurement, &arguments.shown, HOLDS));
        }
    }
    Ok(code)
}

/// The result of a failed run.
fn failed(run: &Imported, failure: &str, arguments: &ImportArguments) -> Result<(), Failure> {
    let source = source(run);
    if !arguments.shown.json {
        return output::result(&format!("✗ {}: {failure}\n", source.file));
    }
    let measurement = Measurement { notices: vec![Notice::text(failure)], ..Measurement::default() };
    show(&measurement, &[], &source, arguments)
}

fn print(run: &Imported, arguments: &ImportArguments) -> Result<(), Failure> {
    let Imported { tool_run, .. } = run;
    let source = source(run);
    if !arguments.shown.json && !arguments.shown.quiet {
        output::message(&headline(tool_run, &source, &tool_run.measurement));
    }
    show(&tool_run.measurement, &tool_run.metrics, &source, arguments)
}

fn show(
    measurement: &Measurement,
    metrics: &[MetricInfo],
    source: &Source,
    arguments: &ImportArguments,
) -> Result<(), Failure> {
    let (source, failures_max) = (Some(source), arguments.shown.failures_max.0);
    let report = MeasurementReport { measurement, metrics, evidence: &[], source, failures_max };
    single::show(&report, &arguments.shown)
}

fn headline(run: &ToolRun, source: &Source, measurement: &Measurement) -> String {
    let label = run.label.as_ref().map(|label| format!(" · {label}")).unwrap_or_default();
    let metrics = plumb_report::plural(measurement.readings.len(), "metric");
    format!("plumb {} · {}{label} · {metrics} from {}", env!("CARGO_PKG_VERSION"), source.file, source.tool)
}

fn source(run: &Imported) -> Source {
    let tool_run = &run.tool_run;
    Source {
        file: run.name(),
        tool: tool_run.tool_words(),
        options: tool_run.options.clone(),
        started_at: tool_run.started_unix_s.map(plumb_host::time::rfc3339_of),
        units: tool_run.units.to_owned(),
    }
}
