//! `plumb command 'CMD' ['CMD' …]`: the everyday replacement for hyperfine. One command is measured. Two or more are compared
//! with the first by an experiment that is made up here, and is run as any other.

mod experiment;
#[cfg(test)]
mod tests;
mod text;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use plumb_command::{COMMAND, CommandSettings};
use plumb_host::signals::Interrupts;
use plumb_model::{MetricInfo, SlotResult, Span};
use plumb_path::{Settings, Sides};
use plumb_report::MeasurementReport;

use self::experiment::Contest;
use super::recording::Provenance;
use super::single::{self, By};
use super::{planning, run};
use crate::args::{CommandArguments, Format, Parameter, PlanArguments, keys};
use crate::exit::{self, Failure, HOLDS, INTERRUPTED, Outcome};
use crate::experiments::Source;
use crate::live::{Goal, LiveTask};
use crate::output;

/// How long one command is measured where nothing says how long.
const ALONE_NS: u64 = 3_000_000_000;

/// Measures one command, or compares several.
pub fn command(arguments: &CommandArguments) -> Outcome {
    let trees = arguments.keys.trees(&experiment::more_keys(arguments))?;
    let mut settings =
        trees.iter().map(keys::settings_of::<CommandSettings>).collect::<Result<Vec<_>, _>>()?;
    for one in &settings {
        one.check().map_err(|fault| keys::fault::<CommandSettings>(&fault))?;
    }
    let misspelt =
        arguments.parameter.iter().find(|it| settings.iter().all(|one| !one.has_place_for(&it.name)));
    if let Some(Parameter { name, .. }) = misspelt {
        return Err(Failure::usage(format!(
            "--parameter: no command has `{{{name}}}` in it, where the value would stand"
        )));
    }
    let is_alone = settings.len() == 1 && arguments.parameter.iter().all(|it| it.values.len() == 1);
    match settings.pop().filter(|_| is_alone) {
        Some(settings) => alone(arguments, settings),
        None => compared(arguments, &experiment::contest(arguments, &trees)?),
    }
}

/// Measures one command and prints what it took.
fn alone(arguments: &CommandArguments, mut settings: CommandSettings) -> Outcome {
    if let Some(flag) = only_for_several(arguments) {
        return Err(Failure::usage(format!("{flag}: it goes with two or more commands, which are compared")));
    }
    if !arguments.keys.has("load.duration") {
        settings.load.duration = Span(ALONE_NS);
    }
    settings.feasible(Sides::BOTH).map_err(Failure::usage)?;
    let command = settings.resolved().load.command;
    single::headline(&arguments.shown, &command);
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let window = single::window(&mut settings);
    let goal = Goal::new(settings.load.duration, settings.load.runs);
    let progress = (window, LiveTask::of_one(COMMAND.units, goal, settings.facts().load.in_flight));
    let by = By::Agents(Box::default());
    let measured = single::measure(by, settings.clone(), progress, &interrupts, &arguments.shown)?;
    let Some(result) = measured else { return Ok(INTERRUPTED) };
    print(arguments, &settings, &result)?;
    single::ended(&result, &interrupts, &arguments.shown, |_| Ok(HOLDS))
}

/// The first flag that one command alone has no use for.
fn only_for_several(arguments: &CommandArguments) -> Option<&'static str> {
    let given = [
        ("--name", !arguments.name.is_empty()),
        ("--blocks", arguments.blocks.is_some()),
        ("--seed", arguments.seed.is_some()),
        ("--output", arguments.output.is_some()),
        ("--export", arguments.export.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}

fn print(
    arguments: &CommandArguments,
    settings: &CommandSettings,
    result: &SlotResult,
) -> Result<(), Failure> {
    let measurement = &result.measurement;
    let mut metrics: Vec<MetricInfo> = COMMAND.metrics.iter().map(MetricInfo::from).collect();
    metrics.extend(settings.facts().load.metrics);
    let failures_max = arguments.shown.failures_max.0;
    let evidence = &result.evidence;
    let report = MeasurementReport { measurement, metrics: &metrics, evidence, source: None, failures_max };
    if arguments.shown.json {
        return output::result(&report.json());
    }
    let openings = report.openings().iter().map(|opening| format!("✗ {opening}\n")).collect::<String>();
    output::result(&(openings + &text::of_one(measurement, &metrics, evidence)))
}

/// Compares commands with the first one.
fn compared(arguments: &CommandArguments, contest: &Contest) -> Outcome {
    let plan = PlanArguments {
        blocks: arguments.blocks,
        seed: arguments.seed,
        may_repeat: true,
        ..PlanArguments::default()
    };
    let name = "the commands as an experiment".to_owned();
    let source = Source { name, bytes: contest.text.clone().into_bytes() };
    if let Some(file) = &arguments.export {
        planning::read_source(&source, &plan)?;
        return export(file, &contest.text);
    }
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let planned = planning::prepared(&source, &plan)?;
    let shown = &arguments.shown;
    let (run, directory) =
        run::begin(planned, arguments.output.as_deref(), shown.quiet, Provenance::default(), &interrupts)?;
    let format = if shown.json { Format::Json } else { Format::Text };
    let judgement = run::show(&run, &directory, format, false)?;
    if !shown.json {
        output::result(&format!("\n{}", text::sentences(&run.header.plan, &judgement, contest)))?;
    }
    if !shown.quiet {
        run::point_at(&run, &judgement, &directory);
    }
    Ok(exit::of_run(&run, &judgement))
}

/// Writes the experiment to a file that does not exist.
fn export(file: &Path, text: &str) -> Outcome {
    let name = file.display();
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Failure::usage(format!("--export: {name} exists and is not overwritten; name another file"))
        }
        _ => Failure::usage(format!("--export: failed to write {name}: {error}")),
    })?;
    output::message(&format!("wrote {name}; run it with: plumb run {name}"));
    Ok(HOLDS)
}
