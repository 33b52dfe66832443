//! `plumb import`: what other tools wrote, as one measurement or as a run that is judged like any other.

mod files;
mod order;
mod planned;
#[cfg(test)]
mod tests;
mod together;

use plumb_model::{Measurement, Notice};
use plumb_report::Source;
use plumb_tools::{FORMATS, ToolRun};

use self::files::{Imported, found, read};
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
        for run in read(&found(file), arguments)? {
            if let Some(failure) = &run.tool_run.failure {
                output::result(&failed(&run, &failure.to_string(), arguments)?)?;
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
fn failed(run: &Imported, failure: &str, arguments: &ImportArguments) -> Result<String, Failure> {
    let source = source(run);
    if arguments.shown.json {
        let measurement = Measurement { notices: vec![Notice::text(failure)], ..Measurement::default() };
        return Ok(plumb_report::imported_measurement_json(&measurement, &[], &source));
    }
    Ok(format!("✗ {}: {failure}\n", source.file))
}

fn print(run: &Imported, arguments: &ImportArguments) -> Result<(), Failure> {
    let Imported { tool_run, .. } = run;
    let source = source(run);
    let openings = plumb_report::openings(&tool_run.measurement, arguments.shown.failures_max.0);
    if arguments.shown.json {
        let mut measurement = tool_run.measurement.clone();
        measurement.notices.splice(0..0, openings.into_iter().map(Notice::text));
        return output::result(&plumb_report::imported_measurement_json(
            &measurement,
            &tool_run.metrics,
            &source,
        ));
    }
    if !arguments.shown.quiet {
        output::message(&headline(tool_run, &source, &tool_run.measurement));
    }
    for opening in openings {
        output::result(&format!("✗ {opening}\n"))?;
    }
    let style = plumb_report::TextStyle { colour: output::colour_on_stdout(), width: output::width(140) };
    let text =
        plumb_report::imported_measurement_text(&tool_run.measurement, &tool_run.metrics, &source, &style);
    output::painted(&text)
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
