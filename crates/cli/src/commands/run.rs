//! `plumb run`: runs an experiment, shows its progress, judges it and writes its reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plumb_host::signals::Interrupts;
use plumb_judge::judge;
use plumb_model::{Judgement, Run, Verdict};
use plumb_places::{HostClock, Patience};
use plumb_runner::{Planned, RunError, Session};
use plumb_store::StoreError;

use crate::args::{BLOCKS_MAX, Format, RUNS, RunArguments};
use crate::commands::recording::{self, Provenance};
use crate::commands::report::{PAGE, print, write_all};
use crate::commands::{connecting, planning, ui::Beside, version::own_build};
use crate::data_paths;
use crate::exit::{self, Failure, Outcome};
use crate::output;
use crate::progress::Progress;

/// Runs or resumes.
pub fn run(arguments: &RunArguments) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    // A history that cannot be opened is reported before the run takes its time.
    let history = recording::open(&arguments.record)?;
    let beside = arguments.ui.then(|| Beside::start(&directory_of(arguments))).transpose()?;
    let (run, directory) = match &arguments.resume {
        Some(directory) => (resume(arguments, directory, &interrupts)?, directory.clone()),
        None => start(arguments, &interrupts)?,
    };
    if let Some(beside) = beside.filter(|_| run.ending == Some(plumb_model::Ending::Interrupted)) {
        beside.end();
    }
    let format = if arguments.json { Format::Json } else { Format::Text };
    let judgement = show(&run, &directory, format, arguments.full)?;
    if !arguments.quiet {
        point_at(&run, &judgement, &directory);
    }
    if let Some(history) = history {
        recording::record(history, &run, &directory, arguments.quiet)?;
    }
    Ok(exit::of_run(&run, &judgement))
}

/// Where the run is or will be, as far as that is known before its plan.
fn directory_of(arguments: &RunArguments) -> PathBuf {
    let named = arguments.resume.as_ref().or(arguments.output.as_ref());
    named.cloned().unwrap_or_else(|| default_directory(""))
}

/// Judges a run, writes its reports, and prints one.
pub fn show(run: &Run, directory: &Path, format: Format, full: bool) -> Result<Judgement, Failure> {
    let judgement = judge(&run.header.plan, &run.slots);
    // The files first: they are whole even where standard output is not.
    write_all(run, &judgement, directory)?;
    print(run, &judgement, format, full)?;
    Ok(judgement)
}

/// Tells the user where a run's report is, and how the run goes on where that would help.
pub fn point_at(run: &Run, judgement: &Judgement, directory: &Path) {
    output::message(&format!("report: {}", directory.join(PAGE).display()));
    advice(run, judgement, directory).iter().for_each(|line| output::message(line));
}

/// How a run goes on, where that would help.
fn advice(run: &Run, judgement: &Judgement, directory: &Path) -> Option<String> {
    let resume = format!("plumb run --resume {}", directory.display());
    if run.ending == Some(plumb_model::Ending::Interrupted) {
        return Some(format!("continue with: {resume}"));
    }
    let blocks = enough_blocks(run, judgement)?;
    Some(format!("decide more, probably, with: {resume} --blocks {blocks}"))
}

fn start(arguments: &RunArguments, interrupts: &Interrupts) -> Result<(Run, PathBuf), Failure> {
    let experiment = arguments.experiment.as_deref().unwrap_or_default();
    let planned = planning::on(experiment, &arguments.plan, || connecting::hosts(&arguments.places))?;
    let provenance = Provenance::for_record(&arguments.record, experiment);
    begin(planned, arguments.output.as_deref(), arguments.quiet, provenance, interrupts)
}

/// Runs a plan from its beginning, in the directory that is named or in a new one.
pub fn begin(
    planned: Planned,
    output: Option<&Path>,
    quiet: bool,
    provenance: Provenance,
    interrupts: &Interrupts,
) -> Result<(Run, PathBuf), Failure> {
    let mut progress = Progress::new(planned.plan(), quiet);
    let mut emit = |event: &plumb_model::Event| progress.show(event);
    let interrupted = || interrupts.is_interrupted();
    let build = own_build()?;
    let Provenance { source, labels } = provenance;
    let patience = Patience { clock: &HostClock, interrupted: &interrupted };
    begin_session(Session { source, labels, ..session(&build, &mut emit, patience)? }, planned, output)
}

/// Runs a plan by a session, in the directory that is named or in a new one.
pub fn begin_session(
    session: Session<'_>,
    planned: Planned,
    output: Option<&Path>,
) -> Result<(Run, PathBuf), Failure> {
    if let Some(reason) = planned.hopeless() {
        return Err(Failure::usage(reason));
    }
    raise_limits(&planned);
    let directory = match output {
        Some(directory) => directory.to_owned(),
        None => plumb_store::make_unique(&default_directory(&planned.plan().name))
            .map_err(|error| failure(error.into()))?,
    };
    let run = session.start(planned, &directory).map_err(|error| {
        if output.is_none() {
            // Of a run that did not begin nothing is in it; with anything in it, it stays.
            let _ = std::fs::remove_dir(&directory);
        }
        failure(error)
    })?;
    Ok((run, directory))
}

fn resume(arguments: &RunArguments, directory: &Path, interrupts: &Interrupts) -> Result<Run, Failure> {
    let planned = planned_again(directory, arguments.plan.blocks)?;
    raise_limits(&planned);
    let mut progress = Progress::new(planned.plan(), arguments.quiet);
    let mut emit = |event: &plumb_model::Event| progress.show(event);
    let interrupted = || interrupts.is_interrupted();
    let build = own_build()?;
    let patience = Patience { clock: &HostClock, interrupted: &interrupted };
    session(&build, &mut emit, patience)?.resume(planned, directory).map_err(failure)
}

/// The plan of the run in a directory, extended to this many blocks if given.
pub fn planned_again(directory: &Path, blocks: Option<u32>) -> Result<Planned, Failure> {
    let before = plumb_store::read_run(directory).map_err(|error| failure(error.into()))?;
    if before.header.plan.imported.is_some() {
        return Err(Failure::usage(format!(
            "failed to continue {}: its runs were imported; import them again together with the new ones",
            directory.display()
        )));
    }
    let hosts = connecting::again(before.header.places.as_ref())?;
    let planned = Planned::again(&before.header, &before.experiment_text, &data_paths::all(), hosts)
        .map_err(failure)?;
    match blocks {
        Some(blocks) => planned.extended(blocks).map_err(failure),
        None => Ok(planned),
    }
}

/// How many blocks in all would probably decide the claims that are still open, where more than the run may take would.
fn enough_blocks(run: &Run, judgement: &Judgement) -> Option<u32> {
    let undecided = judgement.claims.iter().filter(|claim| claim.verdict == Verdict::Undecided);
    let in_all = undecided.filter_map(|claim| {
        let done = run.slots.iter().filter(|slot| slot.cell == claim.cell).map(|slot| slot.block + 1).max();
        Some(done? + claim.blocks_needed?)
    });
    in_all.max().filter(|blocks| (run.header.plan.blocks.max + 1..=BLOCKS_MAX).contains(blocks))
}

/// Loads of thousands of connections need it. Commands of the user get the limits that the user has.
pub fn raise_limits(planned: &Planned) {
    if !planned.runs_commands() {
        plumb_host::limits::raise_open_files_limit();
    }
}

/// A session that starts this program's agents.
pub fn session<'a>(
    build: &'a str,
    emit: &'a mut dyn FnMut(&plumb_model::Event),
    patience: Patience<'a>,
) -> Result<Session<'a>, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::harness(format!("find this program, to start agents with it: {error}")))?;
    Ok(Session {
        agent_program: (program, vec!["agent".to_owned()]),
        program_version: env!("CARGO_PKG_VERSION"),
        build,
        source: None,
        labels: BTreeMap::new(),
        emit,
        patience,
    })
}

/// The exit code of a run that could not begin or go on.
pub fn failure(error: RunError) -> Failure {
    match error {
        RunError::Store(
            error @ (StoreError::Exists { .. }
            | StoreError::NoRun { .. }
            | StoreError::Locked { .. }
            | StoreError::Link { .. }
            | StoreError::NotAFile { .. }
            | StoreError::Edited { .. }),
        ) => Failure::usage(format!("failed to {error}")),
        error @ (RunError::Differs(_) | RunError::NotLonger { .. }) => {
            Failure::usage(format!("failed to {error}"))
        }
        other => Failure::harness(other),
    }
}

/// `plumb-runs/NAME-TIME`.
pub fn default_directory(name: &str) -> PathBuf {
    let now = plumb_host::time::wall_clock_rfc3339();
    Path::new(RUNS).join(plumb_store::run_name(name, &now))
}

#[cfg(test)]
mod tests;
