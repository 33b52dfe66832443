//! What each tool can do and what it says, so that an experiment that asks for more is refused before it runs.

use plumb_model::Statistic;
use plumb_path::Fault;
use plumb_path::tool::{self, Says};

use super::super::device::NULL;
use super::job_file::JobFile;
use crate::metrics::METRICS;
use crate::settings::{Driver, StorageSettings};

/// Refuses what the tool cannot do.
///
/// # Errors
/// The first such setting, with its key.
pub(crate) fn check(settings: &StorageSettings) -> Result<(), Fault> {
    let load = &settings.load;
    let Some(program) = load.driver.program() else {
        let of_tools = [("load.options", !load.options.is_empty()), ("load.job", load.job.is_some())];
        return match of_tools.into_iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(Fault::new(
                key,
                "this is for another driver; name one with `driver`, such as `driver: fio`",
            )),
            None => Ok(()),
        };
    };
    let cannot = |key: &str, what: &str| Err(Fault::new(key, format!("{program} {what}")));
    if let Some(path) = &load.job {
        JobFile::read(path).map_err(|why| Fault::new("load.job", format!("failed to {why}")))?;
    }
    if settings.system.path.as_deref() == Some(NULL) {
        return cannot(
            "system.path",
            "needs a file, a device or an NBD export; `null:` is for the native driver",
        );
    }
    if load.operations.is_some() {
        return cannot("load.operations", "is run for a time here; use `duration`");
    }
    if load.verify {
        return cannot("load.verify", "does not check what it reads here; use the native driver");
    }
    let is_whole = |share: f64| (share * 100.0).fract().abs() < 1e-9;
    if !is_whole(load.read_share.0) {
        return cannot("load.read_share", "takes whole percents");
    }
    if !is_whole(load.compressible.0) {
        return cannot("load.compressible", "takes whole percents");
    }
    if let Some(rate) = load.rate {
        let each = rate.0 / f64::from(load.jobs);
        if each.fract() != 0.0 {
            return cannot(
                "load.rate",
                "takes a whole number of operations per second in each job; give a multiple of `jobs`",
            );
        }
    }
    Ok(())
}

/// What fio has of a time, whose distribution it prints whole.
const ALL: &[Statistic] = &[
    Statistic::Avg,
    Statistic::Min,
    Statistic::Med,
    Statistic::Max,
    Statistic::P90,
    Statistic::P95,
    Statistic::P99,
    Statistic::P999,
];

const FIO: Says = &[
    ("read_iops", &[]),
    ("write_iops", &[]),
    ("read_bw", &[]),
    ("write_bw", &[]),
    ("achieved_depth", &[]),
    ("read_latency", ALL),
    ("write_latency", ALL),
    ("read_completion_latency", ALL),
    ("write_completion_latency", ALL),
];

/// At a fixed rate, where fio does not know when a request was due.
const FIO_AT_RATE: Says = &[
    ("read_iops", &[]),
    ("write_iops", &[]),
    ("read_bw", &[]),
    ("write_bw", &[]),
    ("achieved_depth", &[]),
    ("read_service", ALL),
    ("write_service", ALL),
    ("read_completion_latency", ALL),
    ("write_completion_latency", ALL),
];

const FIO_WITHOUT_TIMES: Says =
    &[("read_iops", &[]), ("write_iops", &[]), ("read_bw", &[]), ("write_bw", &[])];

/// Why a load by this driver has no such value, and what would print it; `None` where it has one.
pub(crate) fn lacks(
    settings: &StorageSettings,
    metric: &str,
    statistic: Option<Statistic>,
) -> Option<String> {
    let load = &settings.load;
    let program = load.driver.program()?;
    // A file that cannot be read was refused before.
    let job = load.job.as_deref().and_then(|path| JobFile::read(path).ok());
    let without_times = job.as_ref().and_then(|job| job.without_times);
    let has_rate = job.map_or(load.rate.is_some(), |job| job.has_rate);
    let remedy;
    let says: (Says, &str) = match (load.driver, without_times) {
        (Driver::Native, _) => return None,
        (Driver::Fio, Some(key)) => {
            remedy = format!("its job file has `{key}`, without which fio takes the time of every operation");
            (FIO_WITHOUT_TIMES, &remedy)
        }
        (Driver::Fio, None) if has_rate => (
            FIO_AT_RATE,
            "at a fixed rate it takes the time from the submission on, which is `read_service` and `write_service`",
        ),
        (Driver::Fio, None) => (FIO, "no option of fio prints it; the native driver measures it"),
    };
    tool::lacks(program, METRICS, says, (metric, statistic))
}
