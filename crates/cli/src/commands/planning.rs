//! From an experiment's name to a plan that is checked against this host.

use plumb_experiment::{Experiment, FileError, ReadOptions};
use plumb_places::Hosts;
use plumb_runner::{Planned, prepare};

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
    // Mistakes in the file are reported before anything is made on a host.
    let experiment = read_source(&experiments::find(experiment)?, arguments)?;
    prepare(experiment, hosts()?).map_err(Failure::harness)
}

/// The same of an experiment's text, on this host.
pub fn prepared(source: &Source, arguments: &PlanArguments) -> Result<Planned, Failure> {
    prepare(read_source(source, arguments)?, Hosts::default()).map_err(Failure::harness)
}

/// Reads, checks, merges and expands an experiment, without a look at this host.
pub fn read_source(source: &Source, arguments: &PlanArguments) -> Result<Experiment, FileError> {
    let options = ReadOptions {
        seed: arguments.seed.unwrap_or_else(drawn_seed),
        quick: arguments.quick,
        only: arguments.only.clone(),
        blocks: arguments.blocks,
        others_max: arguments.others_max,
        may_repeat: arguments.may_repeat,
        ..ReadOptions::default()
    };
    plumb_experiment::read_experiment(&source.name, &source.bytes, &options, &data_paths::all())
}

impl From<FileError> for Failure {
    /// The mistakes in a file, laid out.
    fn from(error: FileError) -> Self {
        let plain = !output::colour_on_stderr();
        let message = if plain { error.plain() } else { format!("{:?}", miette::Report::new(error)) };
        Self::laid_out(USAGE, message)
    }
}

/// A seed that is short enough to be typed again.
pub fn drawn_seed() -> u64 {
    plumb_host::time::monotonic_ns() % 1_000_000
}
