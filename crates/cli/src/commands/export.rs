//! `plumb export`: runs in the formats of other programs, written or sent.

mod collector;
mod environment;
#[cfg(test)]
mod tests;

use std::path::Path;

use plumb_export as formats;
use plumb_export::ExportError;
use plumb_judge::judge;
use plumb_model::{Judgement, Run};

use self::collector::{Collector, Sent};
use self::environment::Lookup;
use crate::args::{ExportArguments, ExportFormat};
use crate::commands::report::read_run;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// Writes runs in a format, or sends them to a collector.
pub fn export(arguments: &ExportArguments) -> Outcome {
    within(&|name| std::env::var(name).ok(), arguments)
}

/// The same in an environment whose variables `lookup` finds.
fn within(lookup: Lookup<'_>, arguments: &ExportArguments) -> Outcome {
    let runs = arguments.directories.iter().map(|it| read_run(it)).collect::<Result<Vec<Run>, _>>()?;
    match arguments.format {
        Some(format) => write(&runs, format, arguments.output.as_deref())?,
        None => send(&runs, arguments, lookup)?,
    }
    Ok(HOLDS)
}

fn write(runs: &[Run], format: ExportFormat, file: Option<&Path>) -> Result<(), Failure> {
    if format == ExportFormat::Parquet && file.is_none() && output::is_terminal() {
        let message = "Parquet is not for a terminal; name a file with `--output slots.parquet`, or redirect the output";
        return Err(Failure::usage(message));
    }
    let content = content(runs, format).map_err(failure)?;
    match file {
        Some(file) => std::fs::write(file, content)
            .map_err(|error| Failure::usage(format!("failed to write {}: {error}", file.display()))),
        None => output::bytes(&content),
    }
}

fn content(runs: &[Run], format: ExportFormat) -> Result<Vec<u8>, ExportError> {
    let slots_of: Vec<&Run> = runs.iter().collect();
    Ok(match format {
        ExportFormat::Csv => formats::slots_csv(&slots_of)?.into_bytes(),
        ExportFormat::Columns => formats::columns_csv(&slots_of)?.into_bytes(),
        ExportFormat::Parquet => formats::slots_parquet(&slots_of)?,
        ExportFormat::Prometheus => {
            let judgements = judgements(runs);
            formats::prometheus(&judged(runs, &judgements)).into_bytes()
        }
        ExportFormat::Otlp => {
            let judgements = judgements(runs);
            let mut lines = formats::traces(&slots_of)?;
            lines.extend(formats::metrics(&judged(runs, &judgements))?);
            (lines.join("\n") + "\n").into_bytes()
        }
    })
}

fn judgements(runs: &[Run]) -> Vec<Judgement> {
    runs.iter().map(|run| judge(&run.header.plan, &run.slots)).collect()
}

fn judged<'a>(runs: &'a [Run], judgements: &'a [Judgement]) -> Vec<(&'a Run, &'a Judgement)> {
    runs.iter().zip(judgements).collect()
}

/// Runs that do not go into one table are the user's to part; all else should not happen.
fn failure(error: ExportError) -> Failure {
    match error {
        ExportError::Units { .. } => Failure::usage(format!("failed to {error}")),
        other => Failure::harness(other),
    }
}

fn send(runs: &[Run], arguments: &ExportArguments, lookup: Lookup<'_>) -> Result<(), Failure> {
    let endpoint = arguments.to.clone().or_else(|| environment::endpoint(lookup)).ok_or_else(|| {
        Failure::usage(
            "there is nowhere to export to: name a format (`--format csv`), or a collector (`--to http://127.0.0.1:4318`, \
             OTEL_EXPORTER_OTLP_ENDPOINT)",
        )
    })?;
    let mut headers = environment::headers(lookup)?;
    let is_given = |name: &str| arguments.headers.iter().any(|it| it.name.eq_ignore_ascii_case(name));
    headers.retain(|header| !is_given(&header.name));
    headers.extend(arguments.headers.iter().cloned());
    let collector = Collector::new(&endpoint, headers)?;
    let judgements = judgements(runs);
    let traces = formats::traces(&runs.iter().collect::<Vec<_>>()).map_err(failure)?;
    let metrics = formats::metrics(&judged(runs, &judgements)).map_err(failure)?;
    let signals = [("traces", traces), ("metrics", metrics)];
    for (signal, bodies) in signals {
        for body in bodies {
            if let Sent::WithWarning(warning) = collector.post(signal, &body)? {
                output::message(&format!("warning: {endpoint} says of the {signal}: {warning}"));
            }
        }
    }
    let runs = plumb_report::plural(runs.len(), "run");
    output::message(&format!("sent {runs} to {}", collector.shown()));
    Ok(())
}
