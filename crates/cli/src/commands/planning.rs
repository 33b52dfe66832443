//! From an experiment's name to a plan that is checked against this host.

use plumb_model::Plan;
use plumb_runner::file::{self, FileError, ReadOptions};
use plumb_runner::{Hosts, PlanError, Planned, prepare};

use crate::args::PlanArguments;
use crate::exit::{Failure, USAGE};
use crate::experiments::{self, Source};
use crate::{data_paths, output};

#[cfg(test)]
mod refusals;

/// Reads an experiment, connects to its hosts, and marks the variants that one of them cannot build.
pub fn on(
    experiment: &str,
    arguments: &PlanArguments,
    hosts: impl FnOnce() -> Result<Hosts, Failure>,
) -> Result<Planned, Failure> {
    let source = experiments::find(experiment)?;
    // What is wrong with the file is said before anything is made anywhere.
    read(&source, arguments)?;
    let hosts = hosts()?;
    prepare(&source.name, &source.bytes, &options(arguments), &data_paths::all(), hosts).map_err(unplanned)
}

/// The same of an experiment's text, on this host.
pub fn prepared(source: &Source, arguments: &PlanArguments) -> Result<Planned, Failure> {
    let (options, paths) = (options(arguments), data_paths::all());
    prepare(&source.name, &source.bytes, &options, &paths, Hosts::default()).map_err(unplanned)
}

/// Reads, checks, merges and expands an experiment, without a look at this host.
pub fn read(source: &Source, arguments: &PlanArguments) -> Result<Plan, Failure> {
    let read = file::read(&source.name, &source.bytes, &options(arguments), &data_paths::all());
    read.map(|experiment| experiment.plan).map_err(failure)
}

/// Checks an experiment before it is written to a file.
///
/// # Errors
/// Its mistakes, at least one. Leave out their places: the file does not exist yet.
pub fn could_run(source: &Source, arguments: &PlanArguments) -> Result<(), FileError> {
    file::read(&source.name, &source.bytes, &options(arguments), &data_paths::all()).map(drop)
}

fn options(arguments: &PlanArguments) -> ReadOptions {
    ReadOptions {
        seed: arguments.seed.unwrap_or_else(drawn_seed),
        quick: arguments.quick,
        only: arguments.only.clone(),
        blocks: arguments.blocks,
        others_max: arguments.others_max,
        may_repeat: arguments.may_repeat,
        ..ReadOptions::default()
    }
}

/// Why there is no plan.
pub fn unplanned(error: PlanError) -> Failure {
    match error {
        PlanError::File(error) => failure(error),
        PlanError::Hosts(reason) => Failure::harness(reason),
    }
}

/// What is wrong with a file, laid out.
pub fn failure(error: FileError) -> Failure {
    Failure::laid_out(USAGE, laid_out(error))
}

fn laid_out(error: FileError) -> String {
    if output::colour_on_stderr() { format!("{:?}", miette::Report::new(error)) } else { error.plain() }
}

/// A seed that is short enough to be typed again.
pub fn drawn_seed() -> u64 {
    plumb_host::time::monotonic_ns() % 1_000_000
}
