//! `plumb storage TARGET`: one measurement, no comparison: the everyday replacement for fio and dbench.

use plumb_host::signals::Interrupts;
use plumb_model::{Bytes, Measurement, Reading, Span};
use plumb_path::{Load, Window};
use plumb_storage::load::{Error, Prepared};
use plumb_storage::settings::{LoadSettings, Target};

use super::single;
use super::surroundings::Surroundings;
use crate::args::StorageArguments;
use crate::exit::{FAILED, Failure, HOLDS, Outcome, REFUTED};
use crate::live::{Course, Goal, LiveLine};
use crate::output;

mod dbench;

/// How long to measure when nothing is said.
const DEFAULT_DURATION: Span = Span(10_000_000_000);
/// How long to measure at most when a number of reads and writes is asked for.
const LONGEST: Span = Span(24 * 3_600_000_000_000);

/// Measures and prints.
pub fn storage(arguments: &StorageArguments) -> Outcome {
    let spec = load_spec(arguments);
    plumb_storage::load::validate(&spec).map_err(|fault| Failure::flag(&fault))?;
    if !arguments.quiet {
        output::message(&headline(arguments, &spec));
    }
    let prepared = plumb_storage::load::prepare(&spec, &target(arguments, &spec)).map_err(failure)?;
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let mut measurement = match arguments.suite {
        Some(_) => dbench::measure(&spec, &prepared, arguments, &interrupts)?,
        None => one(&spec, &prepared, arguments, &interrupts)?,
    };
    let is_interrupted = interrupts.is_interrupted();
    if is_interrupted && measurement.window_ns == 0 {
        return Ok(single::interrupted(&measurement));
    }
    measurement.warnings.splice(0..0, prepared.messages().iter().cloned());
    let failures_max = arguments.failures.failures_max;
    if arguments.suite.is_some() && !arguments.json {
        dbench::print(&measurement, failures_max)?;
    } else {
        let metrics = plumb_storage::metrics::METRICS;
        single::print(&measurement, metrics, &[], failures_max, arguments.json)?;
    }
    if is_interrupted {
        return Ok(single::interrupted(&measurement));
    }
    Ok(single::code(&measurement, failures_max, code(&measurement)?))
}

/// One measurement, whose window Ctrl-C closes.
fn one(
    spec: &LoadSettings,
    prepared: &Prepared,
    arguments: &StorageArguments,
    interrupts: &Interrupts,
) -> Result<Measurement, Failure> {
    let load = plumb_storage::load::storage_load(spec, prepared.target()).map_err(failure)?;
    let mut load = load.interruptible(interrupts.flag());
    let live = LiveLine::new(arguments.quiet || arguments.json);
    let mut surroundings = Surroundings::of(plumb_storage::system::service_at(&arguments.target));
    let measured = load.measure(window(spec), &mut |mark| {
        surroundings.note(mark);
        live.progress(mark, course("", spec));
    });
    live.clear();
    let mut measurement = measured.map_err(Failure::harness)?;
    measurement.warnings.extend(surroundings.warnings());
    Ok(measurement)
}

/// A target that does not exist is the user's to put right; a full disk, a refusing kernel or an NBD server is not.
fn failure(error: Error) -> Failure {
    match error {
        Error::Fill { .. } | Error::Engine { .. } | Error::Nbd { .. } => Failure::harness(error),
        _ => Failure::usage(format!("failed to {error}")),
    }
}

fn headline(arguments: &StorageArguments, spec: &LoadSettings) -> String {
    let what = match &arguments.suite {
        Some(suite) => format!("the nine jobs of {suite}"),
        None => format!(
            "{} · {} · depth {} · {} · {}",
            spec.access.name(),
            spec.block_size,
            spec.depth,
            plumb_report::plural(spec.jobs as usize, "job"),
            spec.engine.name()
        ),
    };
    format!("plumb {} · {} · {what}", env!("CARGO_PKG_VERSION"), arguments.target)
}

fn window(spec: &LoadSettings) -> Window {
    let seed = plumb_host::time::monotonic_ns();
    Window { warmup_ns: spec.warmup.0, window_ns: spec.duration.0, seed, index: 0, attempt: 0 }
}

fn course<'a>(job: &'a str, spec: &LoadSettings) -> Course<'a> {
    let goal = Goal::of(spec.duration, spec.operations);
    Course { job, goal, unit: "reads and writes", in_flight: spec.in_flight() }
}

/// A wrong pattern refutes what was asked. Reads and writes that failed count against `--failures-max`, unless all did.
fn code(measurement: &Measurement) -> Outcome {
    if let Some(Reading::Share { no, .. }) = measurement.readings.get("verified")
        && *no > 0
    {
        return Ok(REFUTED);
    }
    let most = measurement.errors.iter().max_by_key(|(_, count)| **count);
    match most.filter(|_| measurement.work == 0) {
        Some((what, _)) => Err(Failure::harness(format!("read or write anything: {what}"))),
        None => Ok(if measurement.work == 0 { FAILED } else { HOLDS }),
    }
}

/// A file that does not exist is made as large as the regions of all jobs need.
fn target(arguments: &StorageArguments, spec: &LoadSettings) -> Target {
    let further = spec.offset_increment.0.saturating_mul(u64::from(spec.jobs.saturating_sub(1)));
    let create = spec.size.map(|size| Bytes(spec.offset.0.saturating_add(further).saturating_add(size.0)));
    Target { create, ..Target::existing(arguments.target.clone()) }
}

fn load_spec(arguments: &StorageArguments) -> LoadSettings {
    let is_suite = arguments.suite.is_some();
    let duration = match (arguments.duration, arguments.operations) {
        (Some(duration), _) => duration,
        (None, Some(_)) => LONGEST,
        (None, None) if is_suite => dbench::DURATION,
        (None, None) => DEFAULT_DURATION,
    };
    LoadSettings {
        // The suite reads and writes, so that is what its target has to stand.
        access: if is_suite { plumb_storage::settings::Access::RandReadWrite } else { arguments.access },
        read_share: arguments.read_share,
        block_size: arguments.block_size,
        depth: arguments.depth,
        jobs: arguments.jobs,
        engine: arguments.engine,
        direct: !arguments.buffered,
        offset: arguments.offset,
        size: arguments.size,
        offset_increment: arguments.offset_increment,
        rate: arguments.rate,
        duration,
        warmup: arguments.warmup.unwrap_or(if is_suite { dbench::WARMUP } else { Span(0) }),
        operations: arguments.operations,
        compressible: arguments.compressible,
        verify: arguments.verify,
        destroy_data: arguments.destroy_data,
    }
}
