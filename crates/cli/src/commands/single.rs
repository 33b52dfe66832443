//! Code that the commands for a single measurement share: they watch it, print it, and fail where too much of it failed.

#[cfg(test)]
mod tests;

use std::cell::RefCell;

use plumb_host::scratch::Scratch;
use plumb_host::signals::Interrupts;
use plumb_model::metric::{CAPACITY, OF_FOREIGN_SYSTEM};
use plumb_model::{
    Evidence, Measurement, Metric, MetricInfo, Noise, Notice, NoticeKind, Plan, PodSides, Search, SlotResult,
    Span, Trial,
};
use plumb_path::{Capacity, DataPath, Existing, Mark, PathSettings, Place, Settings, Window};
use plumb_places::{HostClock, Hosts, Launch, Patience, SlotError};
use plumb_report::MeasurementReport;
use plumb_runner::{AgentExecutor, Executor, InProcess, Searching, SlotOrder};
use plumb_tunings::Treatment;
use serde::Serialize;

use super::connecting;
use crate::args::keys::Flagged;
use crate::args::places::OnArguments;
use crate::args::shared::MeasurementArguments;
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome, REFUTED, VOID};
use crate::live::{LiveLine, LiveTask};
use crate::output;
use crate::progress::putting_back;

/// The window that settings ask for.
pub fn window(settings: &mut impl Settings) -> Window {
    let (warmup, seed) = (settings.timing().warmup.0, plumb_host::time::monotonic_ns());
    Window::at_once(warmup, settings.timing().each_window().0, seed)
}

/// The first line: what is about to be measured.
pub fn headline(shown: &MeasurementArguments, what: &str) {
    if !shown.quiet {
        output::message(&format!("plumb {} · {what}", env!("CARGO_PKG_VERSION")));
    }
}

/// The line of progress.
fn live_line(shown: &MeasurementArguments) -> LiveLine {
    LiveLine::new(shown.quiet || shown.json)
}

/// Prints one measurement as text or as JSON. Both begin with the failures, where there are more than allowed.
pub fn print(
    measurement: &Measurement,
    metrics: &[Metric],
    evidence: &[Evidence],
    shown: &MeasurementArguments,
) -> Result<(), Failure> {
    let searched = Capacity::METRICS.iter().filter(|_| measurement.search.is_some());
    let own = |metric: &&Metric| metrics.iter().any(|own| own.name == metric.name);
    let foreign = OF_FOREIGN_SYSTEM.iter().filter(|metric| !own(metric));
    let metrics = metrics.iter().chain(foreign).chain(searched);
    let metrics: Vec<MetricInfo> = metrics.map(MetricInfo::from).collect();
    let failures_max = shown.failures_max.0;
    show(&MeasurementReport { measurement, metrics: &metrics, evidence, source: None, failures_max }, shown)
}

/// Prints the report of one measurement as text or as JSON.
pub fn show(report: &MeasurementReport<'_>, shown: &MeasurementArguments) -> Result<(), Failure> {
    if shown.json {
        return output::result(&report.json());
    }
    output::painted(&report.text(&output::style(140)))
}

/// The processes that do a single measurement.
pub enum By {
    /// This process, against a system that exists.
    ThisProcess(Box<Existing>),
    /// Agents, as in a run.
    Agents(Box<Hosts>),
}

impl By {
    /// Agents on the hosts that the user named. The system is seen `from` one of them, or from here. Without hosts, this process, against
    /// the system that the settings name and loads find by `target`. A search is measured by agents also here, because they leave the
    /// system its part of the CPUs.
    pub fn chosen_for(
        settings: &impl Settings,
        places: &OnArguments,
        from: Option<&str>,
        target: &impl Serialize,
    ) -> Result<Self, Failure> {
        let facts = settings.facts();
        if !places.on.is_empty() {
            return connecting::loads(places, from).map(Box::new).map(Self::Agents);
        }
        if facts.load.capacity.is_some() {
            return Ok(Self::Agents(Box::default()));
        }
        let existing = facts.system.foreign.unwrap_or_default().at(target);
        existing.map(Box::new).map(Self::ThisProcess).map_err(Failure::harness)
    }
}

/// Receives the progress of a measurement, and how much is in flight if the load keeps that steady.
type Watched<'a> = &'a dyn Fn(Mark, Option<f64>);
/// Receives each trial of a search.
type Tried<'a> = &'a dyn Fn(&Capacity, &Trial);

/// Measures one slot, as a run does: one window, or a search for a capacity. `None` if it was interrupted before it had a result.
/// Noise above its limit is among the warnings.
fn slot(
    (path, settings): (DataPath, &PathSettings),
    by: By,
    window: Window,
    interrupts: &Interrupts,
    (watch, tried): (Watched<'_>, Tried<'_>),
) -> Result<Option<SlotResult>, Failure> {
    // A load in this process needs no files.
    let prefix = format!("plumb-{}-", path.name);
    let scratch = matches!(by, By::Agents(_)).then(|| Scratch::create(&std::env::temp_dir(), &prefix));
    let scratch = scratch.transpose().map_err(Failure::harness)?;
    let directory = scratch.as_ref().map_or_else(std::env::temp_dir, |scratch| scratch.path().to_owned());
    let interrupted = || interrupts.is_interrupted();
    let patience = Patience { clock: &HostClock, interrupted: &interrupted };
    let announce = |what| output::message(&putting_back(&what, true));
    let facts = settings.facts();
    let capacity = facts.load.capacity.clone();
    let mut executor: Box<dyn Executor + '_> = match by {
        By::ThisProcess(system) => {
            let place = Place { scratch: directory, cpus: 1, address: None, number: 0 };
            let executor = InProcess::new(place, patience).with_system(path.name, *system);
            Box::new(executor.watched_by(watch).seeing_host())
        }
        By::Agents(mut hosts) => {
            let found =
                |error| Failure::harness(format!("find this program, to start agents with it: {error}"));
            let program = std::env::current_exe().map_err(found)?;
            hosts.has_system = facts.system.exists;
            let arguments = vec!["agent".to_owned()];
            let launch = Launch { program, arguments, directory, environment: facts.environment() };
            let executor = AgentExecutor::new(path, launch, *hosts, patience);
            Box::new(executor.watched_by(watch).announcing(&announce))
        }
    };
    let pods = PodSides::default();
    let treatment = Treatment::default();
    let told = |trial: &Trial| capacity.iter().for_each(|capacity| tried(capacity, trial));
    let others_max = Plan::others_max();
    let searching =
        capacity.as_ref().map(|capacity| Searching { capacity, start: None, others_max, watch: &told });
    let order =
        SlotOrder { name: path.name, settings, treatment, pods: &pods, cooldown_ns: 0, window, searching };
    match executor.measure(order) {
        Ok(measured) if measured.result.measurement.window_ns == 0 && interrupted() => Ok(None),
        Ok(measured) => {
            let mut result = measured.result;
            result.measurement.judge_alone(result.system_cpu.total_ns());
            result.measurement.notices.extend(doubts(&result.noise));
            Ok(Some(result))
        }
        Err(SlotError::Interrupted) => Ok(None),
        Err(SlotError::Usage(reason)) => Err(Failure::usage(format!("failed to {reason}"))),
        Err(
            SlotError::Failed(reason)
            | SlotError::Harness(reason)
            | SlotError::Killed(reason)
            | SlotError::Gone(reason),
        ) => Err(Failure::harness(reason)),
    }
}

/// Measures, and shows the progress. `None` if it was interrupted before it had a result, which the user was told.
pub fn measure<F: Flagged>(
    by: By,
    settings: F,
    (window, progress): (Window, LiveTask),
    interrupts: &Interrupts,
    shown: &MeasurementArguments,
) -> Result<Option<SlotResult>, Failure> {
    let line = live_line(shown);
    let watch = |mark: Mark, _: Option<f64>| line.progress(mark, &progress);
    let colour = output::colour_on_stderr();
    let so_far: RefCell<Option<Search>> = RefCell::default();
    let tried = |capacity: &Capacity, trial: &Trial| {
        let new = || Search { objectives: capacity.objectives.clone(), trials: Vec::new() };
        so_far.borrow_mut().get_or_insert_with(new).trials.push(trial.clone());
        line.clear();
        if !shown.quiet {
            output::painted_message(&plumb_report::trial_line(&capacity.objectives, trial, colour));
        }
    };
    let settings = PathSettings::new(settings);
    let measured = slot((F::PATH, &settings), by, window, interrupts, (&watch, &tried));
    line.clear();
    let unfinished = so_far.into_inner().filter(|_| !matches!(measured, Ok(Some(_))));
    let so_far = unfinished.iter().flat_map(|search| plumb_report::search_so_far(search, output::width(140)));
    let so_far: Vec<String> = so_far.collect();
    so_far.iter().for_each(|line| output::message(line));
    if matches!(measured, Ok(None)) && so_far.is_empty() {
        output::message("interrupted before there was a result");
    }
    measured
}

/// The exit code of a slot. `judge` concludes from the measurement alone; without evidence that it measured what was asked, its verdict is
/// void.
pub fn ended(
    SlotResult { measurement, evidence, .. }: &SlotResult,
    interrupts: &Interrupts,
    shown: &MeasurementArguments,
    judge: impl FnOnce(&Measurement) -> Outcome,
) -> Outcome {
    if interrupts.is_interrupted() {
        let measured_s = Span(measurement.window_ns).seconds();
        output::message(&format!("interrupted after {measured_s:.1} s"));
        return Ok(INTERRUPTED);
    }
    Ok(match judge(measurement)? {
        HOLDS | REFUTED if has_no_capacity(measurement) => FAILED,
        HOLDS | REFUTED if evidence.iter().any(|evidence| !evidence.holds) => VOID,
        code => self::code(measurement, shown, code),
    })
}

/// A warning for each kind of noise above its limit, by the same limits as in a run.
fn doubts(noise: &Noise) -> Vec<Notice> {
    let found = [
        (noise.steal > Noise::STEAL_LIMIT).then(|| NoticeKind::Stolen.with([noise.steal])),
        (noise.others > Plan::others_max()).then(|| NoticeKind::Neighbours.with([noise.others])),
        (noise.throttled_ns > 0).then(|| NoticeKind::Throttled.into()),
    ];
    found.into_iter().flatten().collect()
}

/// Whether a search found no capacity.
fn has_no_capacity(measurement: &Measurement) -> bool {
    measurement.search.is_some() && !measurement.readings.contains_key(CAPACITY.name)
}

/// The exit code of a measurement that would otherwise end with `code`. Too many failures turn "holds" into "refuted", and
/// leave a worse code as it is.
pub fn code(measurement: &Measurement, shown: &MeasurementArguments, code: u8) -> u8 {
    let fails = plumb_report::too_many_failures(measurement, shown.failures_max.0).is_some();
    if fails && code == HOLDS { REFUTED } else { code }
}
