//! The abilities and outputs of each tool, so that an experiment that asks for more is refused before it runs.

use plumb_model::Statistic;
use plumb_model::metric::CPU_LOAD;
use plumb_path::SettingsFault;
use plumb_path::tool::{self, Says};

use super::job_file::{JobFile, is_rate, refused_option};
use crate::metrics::METRICS;
use crate::settings::{Driver, LoadSettings, NULL, StorageSettings, Suite, SystemKind};

/// Refuses what the tool cannot do.
///
/// # Errors
/// The first such setting, with its key.
pub(crate) fn check(settings: &StorageSettings) -> Result<(), SettingsFault> {
    let load = &settings.load;
    let is = |driver: Driver| load.driver == driver;
    let of_tools = [
        ("load.options", !load.options.is_empty() && is(Driver::Native), "another driver"),
        ("load.job", load.job.is_some() && !is(Driver::Fio), "`driver: fio`"),
        ("load.script", load.script.is_some() && !is(Driver::Dbench), "`driver: dbench`"),
    ];
    if let Some((key, _, whose)) = of_tools.into_iter().find(|(_, is_set, _)| *is_set) {
        return Err(SettingsFault::new(key, format!("this is for {whose}; name the tool with `driver`")));
    }
    match load.driver {
        Driver::Native => Ok(()),
        Driver::Fio => check_fio(settings),
        Driver::Dbench => check_dbench(settings),
    }
}

/// Whether fio is told a rate: by the settings, the job file or an option.
pub(super) fn has_rate(load: &LoadSettings, job: Option<&JobFile>) -> bool {
    job.map_or(load.rate.is_some(), |job| job.has_rate) || load.options.iter().any(|option| is_rate(option))
}

fn check_fio(settings: &StorageSettings) -> Result<(), SettingsFault> {
    let load = &settings.load;
    let cannot = |key: &str, what: &str| Err(SettingsFault::new(key, format!("fio {what}")));
    if let Some(path) = &load.job {
        JobFile::read_from(path).map_err(|why| SettingsFault::new("load.job", format!("failed to {why}")))?;
    }
    if let Some(why) = load.options.iter().find_map(|option| refused_option(option)) {
        return Err(SettingsFault::new("load.options", why));
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
    let is_whole = |share: f64| (share * 100.0 - (share * 100.0).round()).abs() < 1e-9;
    if !is_whole(load.read_share.0) {
        return cannot("load.read_share", "takes whole percents");
    }
    if !is_whole(load.compressible.0) {
        return cannot("load.compressible", "takes whole percents");
    }
    let Some(rate) = load.rate else { return Ok(()) };
    let each = rate.0 / f64::from(load.jobs);
    if each.fract() != 0.0 {
        return cannot(
            "load.rate",
            "takes a whole number of operations per second in each job; give a multiple of `jobs`",
        );
    }
    let reads = each * load.read_share.0;
    let is_mixed = load.access.reads() && load.access.writes();
    if is_mixed && ((reads - reads.round()).abs() > 1e-9 || reads.round() < 1.0 || each - reads.round() < 1.0)
    {
        return cannot(
            "load.rate",
            "takes a whole number of reads and one of writes per second in each job, by `read_share`",
        );
    }
    Ok(())
}

/// The script has a directory, and says itself what is done there.
fn check_dbench(settings: &StorageSettings) -> Result<(), SettingsFault> {
    let (system, load) = (&settings.system, &settings.load);
    let Some(script) = &load.script else {
        return Err(SettingsFault::new(
            "load.script",
            "dbench needs its script, the path of its `docker-entrypoint.sh`",
        ));
    };
    if let Err(error) = std::fs::File::open(script) {
        let why = format!("failed to read the script {}: {error}", script.display());
        return Err(SettingsFault::new("load.script", why));
    }
    if !matches!(system.kind, SystemKind::File | SystemKind::External) {
        let why = "dbench makes a file in a directory; use `file`, or `external` with the path of a mounted directory";
        return Err(SettingsFault::new("system.kind", why));
    }
    let run_by = [
        ("system.pid", system.pid.is_some()),
        ("system.unit", system.unit.is_some()),
        ("system.cgroup", system.cgroup.is_some()),
    ];
    if let Some((key, _)) = run_by.into_iter().find(|(_, is_set)| *is_set) {
        let why = "dbench does not say how many operations it did, so no CPU time can be divided among them; leave it out";
        return Err(SettingsFault::new(key, why));
    }
    if load.rate.is_some() {
        return Err(SettingsFault::new("load.rate", "dbench has no fixed rate; use `driver: fio`"));
    }
    Ok(())
}

/// The statistics that fio has of a time: all, since it prints the whole distribution.
const ALL: &[Statistic] = &Statistic::ALL;

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

const DBENCH: Says = &[
    ("read_iops", &[]),
    ("write_iops", &[]),
    ("read_bw", &[]),
    ("write_bw", &[]),
    ("read_seq", &[]),
    ("write_seq", &[]),
    ("rw_mix_read_iops", &[]),
    ("rw_mix_write_iops", &[]),
    ("read_latency", &[Statistic::Avg]),
    ("write_latency", &[Statistic::Avg]),
];

const SUITE: Says = &[
    ("read_iops", &[]),
    ("write_iops", &[]),
    ("read_bw", &[]),
    ("write_bw", &[]),
    ("read_seq", &[]),
    ("write_seq", &[]),
    ("rw_mix_read_iops", &[]),
    ("rw_mix_write_iops", &[]),
    ("read_latency", ALL),
    ("write_latency", ALL),
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
    if load.suite == Suite::Dbench {
        let says = (SUITE, "none of its jobs is for that; a load without `suite` measures it");
        return tool::lacks("dbench's suite", METRICS, says, (metric, statistic));
    }
    let program = load.driver.program()?;
    if load.driver == Driver::Dbench && metric == CPU_LOAD.name {
        return Some(format!(
            "{program} does not report {metric}: it does not count its operations; `driver: fio` does"
        ));
    }
    // A file that cannot be read was refused before.
    let job = load.job.as_deref().and_then(|path| JobFile::read_from(path).ok());
    let without_times = job.as_ref().and_then(|job| job.without_times);
    let has_rate = has_rate(load, job.as_ref());
    let remedy;
    let says: (Says, &str) = match (load.driver, without_times) {
        (Driver::Native, _) => return None,
        (Driver::Dbench, _) => (DBENCH, "its script prints no other; `driver: fio` has it of one load"),
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

#[cfg(test)]
mod tests {
    use plumb_model::{Percent, Rate};

    use super::*;
    use crate::settings::Access;

    #[test]
    fn fio_has_whole_rates_for_each_job_and_direction() {
        let fault = |rate: f64, read_share: f64, access: Access| {
            let rate = Some(Rate(rate));
            let load = LoadSettings {
                driver: Driver::Fio,
                rate,
                read_share: Percent(read_share),
                access,
                jobs: 2,
                ..LoadSettings::default()
            };
            check(&StorageSettings { load, ..StorageSettings::default() }).err().map(|fault| fault.key)
        };
        assert_eq!(fault(20.0, 0.7, Access::RandReadWrite), None);
        assert_eq!(fault(10.0, 0.5, Access::RandRead), None);
        // 2.5 reads a second in each job would become 3, and the whole more than was asked for.
        assert_eq!(fault(10.0, 0.5, Access::RandReadWrite).as_deref(), Some("load.rate"));
        assert_eq!(fault(20.0, 1.0, Access::RandReadWrite).as_deref(), Some("load.rate"));
        assert_eq!(fault(5.0, 0.5, Access::RandRead).as_deref(), Some("load.rate"));
    }
}
