//! `plumb storage TARGET`: one measurement, no comparison: the everyday replacement for fio and dbench.

use plumb_host::signals::Interrupts;
use plumb_model::{Bytes, Measurement, Reading, Span};
use plumb_storage::STORAGE;
use plumb_storage::evidence::IO_DEPTH;
use plumb_storage::load::{NULL, suite};
use plumb_storage::settings::{
    LoadSettings, StorageSettings, StorageTarget, Suite, SystemKind, SystemSettings,
};

use super::single::{self, By};
use crate::args::{StorageArguments, keys};
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome, REFUTED};
use crate::live::{Goal, Job, LiveTask};

mod dbench;

/// Measures and prints.
pub fn storage(arguments: &StorageArguments) -> Outcome {
    let mut settings = arguments.keys.settings()?;
    let (address, spec) = (settings.system.path.clone().unwrap_or_default(), settings.load.clone());
    // The load alone is checked: an experiment refuses a depth that the engine does not have, and this command warns of it.
    plumb_storage::load::check(&spec).map_err(|fault| keys::fault::<StorageSettings>(&fault))?;
    single::headline(&arguments.shown, &format!("{address} · {}", what(arguments, &spec)));
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    if arguments.suite.is_some() {
        settings.load = suite::in_one_window(&spec);
    }
    if spec.capacity.is_some() && arguments.places.on.is_empty() {
        make(&mut settings);
    }
    let from = host_of(&address, &arguments.places.on)?;
    let by = By::chosen_for(&settings, &arguments.places, from, &target(&address, &spec))?;
    let progress = (single::window(&mut settings), live_task(&settings.load));
    let Some(mut result) = single::measure(by, settings, progress, &interrupts, &arguments.shown)? else {
        return Ok(INTERRUPTED);
    };
    // If the storage takes fewer at once, a warning says so, and the figures are still those of the storage.
    result.evidence.retain(|evidence| evidence.kind != IO_DEPTH);
    if arguments.suite.is_some() && !arguments.shown.json {
        dbench::print(&result.measurement, &result.evidence, arguments.shown.failures_max)?;
    } else {
        single::print(&result.measurement, STORAGE.metrics, &result.evidence, &arguments.shown)?;
    }
    single::ended(&result, &interrupts, &arguments.shown, code)
}

/// The host that has the target; `None` where every host reaches it.
fn host_of<'a>(address: &str, on: &'a [String]) -> Result<Option<&'a str>, Failure> {
    match on {
        _ if address.contains("://") => Ok(None),
        [] => Ok(None),
        [host] => Ok(Some(host)),
        _ => {
            let reason = "is on each of these hosts another one; name one host in --on, or a target as nbd://HOST:PORT/NAME";
            Err(Failure::usage(format!("`{address}` {reason}")))
        }
    }
}

/// The measured system, in the first line.
fn what(arguments: &StorageArguments, spec: &LoadSettings) -> String {
    match &arguments.suite {
        Some(suite) => format!("the nine jobs of {suite}"),
        None => format!(
            "{} · {} · depth {} · {} · {}",
            spec.access.name(),
            spec.block_size,
            spec.depth,
            plumb_report::plural(spec.jobs as usize, "job"),
            spec.engine.name()
        ),
    }
}

fn live_task(spec: &LoadSettings) -> LiveTask {
    let unit = "reads and writes";
    if spec.suite == Suite::None {
        return LiveTask::of_one(unit, Goal::new(spec.duration, spec.operations), spec.in_flight());
    }
    let jobs: Vec<Job> = suite::names().map(|name| Job { name, in_flight: None }).collect();
    let warmup = Span(spec.warmup.0 / jobs.len() as u64);
    LiveTask::of_jobs(unit, jobs, spec.duration, warmup)
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

/// Has agents make a file that does not exist, and remove it afterwards.
fn make(settings: &mut StorageSettings) {
    let StorageSettings { system, load } = settings;
    let Some(path) = system.path.as_deref().filter(|path| !path.contains("://") && *path != NULL) else {
        return;
    };
    if let (Some(size), Ok(false)) = (target(path, load).create, std::fs::exists(path)) {
        let directory =
            std::path::Path::new(path).parent().map(|parent| std::path::Path::new(".").join(parent));
        let directory = directory.map(|directory| directory.display().to_string());
        *system = SystemSettings { kind: SystemKind::File, path: directory, size, ..system.clone() };
    }
}

/// A file that does not exist is made as large as the regions of all jobs need.
fn target(address: &str, spec: &LoadSettings) -> StorageTarget {
    let further = spec.offset_increment.0.saturating_mul(u64::from(spec.jobs.saturating_sub(1)));
    let create = spec.size.map(|size| Bytes(spec.offset.0.saturating_add(further).saturating_add(size.0)));
    StorageTarget { create, ..StorageTarget::existing(address) }
}

#[cfg(test)]
mod tests {
    use crate::exit::VOID;
    use crate::in_process::{plumb, refusals, refused};

    #[test]
    fn a_suite_that_used_the_page_cache_is_void_as_text_and_as_json() {
        // A file system in memory has nothing but the page cache.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let run = |name: &str, more: &[&str]| {
            let file = directory.path().join(name);
            let each = ["-s", "8MiB", "-d", "20ms", "--warmup", "0s", "--suite", "dbench"];
            plumb(&[&["storage", file.to_str().unwrap(), "-q"], &each[..], more].concat())
        };
        let text = run("text", &[]);
        assert_eq!((text.code, run("json", &["--json"]).code), (VOID, VOID));
        assert!(text.out.starts_with("✗ "), "{}", text.out);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_one_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (full, missing) = (path("full"), path("missing"));
        let data = vec![7; 64 << 10];
        std::fs::write(&full, &data).unwrap();
        let here = directory.path().to_str().unwrap();
        let said = |target: &str, arguments: &str| {
            let line = format!("storage {target} -q {arguments}");
            refusals(&[&line.split_whitespace().collect::<Vec<_>>()]).replace(here, "…")
        };
        insta::assert_snapshot!(said(&missing, "-n 10"), @"2 failed to find …/missing: there is no such file; name one that exists, or say how large to make it with --size (`load.size`)");
        insta::assert_snapshot!(said(here, "-n 10"), @"2 failed to use … as storage: it is a directory; name a file or a block device");
        insta::assert_snapshot!(said("/dev/null", "-n 10"), @"2 failed to use /dev/null as storage: it is a character device; name a file or a block device");
        insta::assert_snapshot!(said(&full, "-n 10 --rw randwrite"), @"2 failed to write to …/full: it is not empty; its data would be lost (destroy-data allows it)");
        insta::assert_snapshot!(said(&full, "--suite dbench"), @"2 failed to write to …/full: it is not empty; its data would be lost (destroy-data allows it)");
        insta::assert_snapshot!(said(&full, "-n 10 --offset 60KiB --size 8KiB"), @"2 failed to use size on …/full: the region of job 0 ends at 69632 B, and it has only 65536 B");
        insta::assert_snapshot!(said(&full, "-n 10 -b 128KiB"), @"2 failed to use block_size on …/full: no block of 128 KiB fits into the 65536 B of job 0");
        insta::assert_snapshot!(said(&full, "-n 10 -c 0"), @"2 --depth: a job has 1 to 4096 reads and writes in flight");
        insta::assert_snapshot!(said(&full, "-n 10 -t 0"), @"2 --jobs: a load has 1 to 1024 jobs");
        insta::assert_snapshot!(said(&full, "-n 10 -b 0B"), @"2 --block-size: a block has 1 B to 1 GiB");
        insta::assert_snapshot!(said(&full, "-n 10 -b 64B --verify"), @"2 --verify: a block that is checked has at least 80 B");
        insta::assert_snapshot!(said(&full, "--objective p99<5ms --rw rw --destroy-data"), @"2 --objective: several times have a `p99` here; name one, such as `read_latency.p99`");
        insta::assert_snapshot!(said(&full, "--objective p99<5ms --suite dbench"), @"2 the argument '--objective <LIMIT>' cannot be used with '--suite <NAME>'");
        insta::assert_snapshot!(said("/nowhere/at/all", "-n 10 -s 1MiB"), @"2 failed to open /nowhere/at/all: No such file or directory (os error 2)");
        assert_eq!(std::fs::read(&full).unwrap(), data);
        // More than any file may have, so that no real disk has to be filled.
        let (code, message) =
            refused(&["storage", &missing, "-q", "-n", "10", "-s", "8000000TiB", "--rw", "randwrite"]);
        assert!(
            code == 5 && message.starts_with("failed to fill ") && !message.contains('\n'),
            "{code} {message}"
        );
        assert!(!std::fs::exists(&missing).unwrap());
    }
}
