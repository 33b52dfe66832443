//! dbench's nine jobs with its sizes and depths (logdna/dbench, docker-entrypoint.sh), as one measurement under dbench's
//! names.

use plumb_host::signals::was_asked_to_stop;
use plumb_host::time::monotonic_ns;
use plumb_model::{Bytes, Measurement, Merge, Metric, Notice, NoticeKind, Percent, Span};
use plumb_path::{Load, Mark, PathError, SettingsFault, Window};

use super::prepared::{Prepared, prepare};
use super::storage_load;
use crate::metrics::{
    READ_BW, READ_IOPS, READ_LATENCY, READ_SEQ, RW_MIX_READ_IOPS, RW_MIX_WRITE_IOPS, WRITE_BW, WRITE_IOPS,
    WRITE_LATENCY, WRITE_SEQ,
};
use crate::settings::{Access, Driver, EngineKind, LoadSettings, StorageTarget, Suite};

/// Reads and writes in flight where latency is measured.
pub const LATENCY_DEPTH: u32 = 4;
/// How much further in each of the sequential jobs' four parts begins, if there is room.
const OFFSET_INCREMENT: u64 = 500 << 20;
const SEQUENTIAL_BLOCK: u64 = 1 << 20;
const SEQUENTIAL_JOBS: u32 = 4;

/// One of the nine.
struct Job {
    name: &'static str,
    access: Access,
    block: u64,
    depth: u32,
    /// The readings taken from its measurement, and their names.
    takes: &'static [(Metric, Metric)],
}

const JOBS: [Job; 9] = [
    random("read IOPS", Access::RandRead, 4 << 10, 64, &[(READ_IOPS, READ_IOPS)]),
    random("write IOPS", Access::RandWrite, 4 << 10, 64, &[(WRITE_IOPS, WRITE_IOPS)]),
    random("read bandwidth", Access::RandRead, 128 << 10, 64, &[(READ_BW, READ_BW)]),
    random("write bandwidth", Access::RandWrite, 128 << 10, 64, &[(WRITE_BW, WRITE_BW)]),
    random("read latency", Access::RandRead, 4 << 10, LATENCY_DEPTH, &[(READ_LATENCY, READ_LATENCY)]),
    random("write latency", Access::RandWrite, 4 << 10, LATENCY_DEPTH, &[(WRITE_LATENCY, WRITE_LATENCY)]),
    random("sequential read", Access::Read, SEQUENTIAL_BLOCK, 16, &[(READ_BW, READ_SEQ)]),
    random("sequential write", Access::Write, SEQUENTIAL_BLOCK, 16, &[(WRITE_BW, WRITE_SEQ)]),
    random(
        "mixed",
        Access::RandReadWrite,
        4 << 10,
        64,
        &[(READ_IOPS, RW_MIX_READ_IOPS), (WRITE_IOPS, RW_MIX_WRITE_IOPS)],
    ),
];

const fn random(
    name: &'static str,
    access: Access,
    block: u64,
    depth: u32,
    takes: &'static [(Metric, Metric)],
) -> Job {
    Job { name, access, block, depth, takes }
}

/// The names of the nine, in their order.
pub fn names() -> impl Iterator<Item = &'static str> {
    JOBS.iter().map(|job| job.name)
}

/// The names of the metrics that they measure.
pub fn figures() -> impl Iterator<Item = &'static str> {
    JOBS.iter().flat_map(|job| job.takes).map(|(_, metric)| metric.name)
}

/// The settings under which the suite has the duration and the warm-up of `each` for every job.
#[must_use]
pub fn in_one_window(each: &LoadSettings) -> LoadSettings {
    let of_all = |span: Span| Span(span.0.saturating_mul(JOBS.len() as u64));
    let (duration, warmup) = (of_all(each.duration), of_all(each.warmup));
    LoadSettings { suite: Suite::Dbench, duration, warmup, ..each.clone() }
}

impl Job {
    fn spec(&self, base: &LoadSettings, room: u64) -> LoadSettings {
        let (jobs, offset_increment) = if self.block == SEQUENTIAL_BLOCK {
            let quarter = room / u64::from(SEQUENTIAL_JOBS) / SEQUENTIAL_BLOCK * SEQUENTIAL_BLOCK;
            (SEQUENTIAL_JOBS, OFFSET_INCREMENT.min(quarter))
        } else {
            (1, 0)
        };
        // Every sequential job goes on from its own beginning for as long as the one that begins last has room.
        let size = room.saturating_sub(offset_increment * u64::from(jobs - 1));
        LoadSettings {
            access: self.access,
            read_share: Percent(0.75),
            block_size: Bytes(self.block),
            depth: self.depth,
            jobs,
            offset_increment: Bytes(offset_increment),
            size: Some(Bytes(size)),
            rate: None,
            operations: None,
            verify: false,
            suite: Suite::None,
            ..base.clone()
        }
    }
}

/// Measures one after the other; `window` is that of each job. Once this process is asked to stop, the window of the job
/// under way closes, no further job begins, and what was measured until then is returned.
///
/// # Errors
/// When one of them cannot be measured at all.
fn measure(
    base: &LoadSettings,
    prepared: &Prepared,
    window: Window,
    mark: &mut dyn FnMut(Mark),
) -> Result<Measurement, PathError> {
    let room = base.size.map_or(prepared.bytes().saturating_sub(base.offset.0), |size| size.0);
    let mut sum = Measurement::default();
    for (index, job) in (0_u64..).zip(&JOBS) {
        let mut load = storage_load(&job.spec(base, room), prepared.target())?;
        let job_window = Window { seed: window.seed.wrapping_add(index), ..window };
        let measured = load.measure(job_window, mark)?;
        let window_ns = measured.window_ns;
        // A job that was interrupted in its warm-up has measured nothing.
        if window_ns > 0 {
            add(&mut sum, job, measured);
        }
        if was_asked_to_stop() {
            sum.notices.insert(0, interruption(index, window_ns, window.window_ns));
            break;
        }
    }
    Ok(sum)
}

/// How far the suite came, where it was interrupted during job `index` or at its end.
fn interruption(index: u64, window_ns: u64, planned_ns: u64) -> Notice {
    let (is_whole, jobs) = (window_ns >= planned_ns, JOBS.len() as f64);
    if is_whole || window_ns == 0 {
        return NoticeKind::Interrupted.with([(index + u64::from(is_whole)) as f64, jobs]);
    }
    let figures = [index as f64, jobs, window_ns as f64, planned_ns as f64];
    NoticeKind::InterruptedWithin.with(figures).about([JOBS[index as usize].name])
}

fn add(sum: &mut Measurement, job: &Job, measured: Measurement) {
    sum.window_ns += measured.window_ns;
    sum.work += measured.work;
    sum.cpu_user_ns += measured.cpu_user_ns;
    sum.cpu_system_ns += measured.cpu_system_ns;
    sum.health = std::mem::take(&mut sum.health).or_worse(&measured.health);
    sum.attempts.add(&measured.attempts);
    sum.stall_ns_max = sum.stall_ns_max.max(measured.stall_ns_max);
    for (from, to) in job.takes {
        if let Some(reading) = measured.readings.get(from.name) {
            sum.readings.insert(to.name.to_owned(), reading.clone());
        }
        if let Some(windows) = measured.windows.get(from.name) {
            sum.windows.insert(to.name.to_owned(), windows.clone());
        }
        // Steadiness is looked at by operations, whatever is taken of them.
        let side = if from.name.starts_with("read") { READ_IOPS } else { WRITE_IOPS };
        if let Some(settled) = measured.observed.get(&format!("{}_settled", side.name)) {
            sum.observed.insert(format!("{}_settled", to.name), settled.clone());
        }
    }
    for property in ["direct", "engine", "size"] {
        if let Some(seen) = measured.observed.get(property) {
            sum.observed.entry(property.to_owned()).or_default().add(seen);
        }
    }
    sum.errors.add(&measured.errors);
    sum.notices.extend(measured.notices.into_iter().map(|notice| notice.attributed_to(job.name)));
}

/// Refuses what the nine jobs leave no room for.
///
/// # Errors
/// The first such setting, with its key.
pub(crate) fn check(load: &LoadSettings) -> Result<(), SettingsFault> {
    let set = [
        (
            "load.driver",
            load.driver != Driver::Native,
            "Plumbline's own generator does the suite; leave out the driver",
        ),
        ("load.rate", load.rate.is_some(), "the suite has no fixed rate"),
        ("load.operations", load.operations.is_some(), "the suite is run for a time; use `duration`"),
        ("load.verify", load.verify, "the suite does not check what it reads"),
        (
            "load.engine",
            load.engine == EngineKind::Psync,
            "the suite has up to 64 reads and writes in flight, and psync has one; use `io_uring`",
        ),
    ];
    match set.into_iter().find(|(_, is_set, _)| *is_set) {
        Some((key, _, why)) if load.suite != Suite::None => Err(SettingsFault::new(key, why)),
        _ => Ok(()),
    }
}

/// The nine jobs as the load of an experiment: one window, in which each has its turn. The warm-ups of all but the first are in the
/// window, as the counters of the system are.
#[derive(Debug)]
pub(crate) struct SuiteLoad {
    settings: LoadSettings,
    prepared: Prepared,
}

impl SuiteLoad {
    /// The suite against a target.
    ///
    /// # Errors
    /// When the target is not there, or would lose data.
    pub(crate) fn new(settings: &LoadSettings, target: &StorageTarget) -> Result<Self, PathError> {
        // Some of the jobs write, so the target has to stand that.
        let settings = LoadSettings { access: Access::RandReadWrite, ..settings.clone() };
        let prepared = prepare(&settings, target)?;
        Ok(Self { settings, prepared })
    }
}

impl Load for SuiteLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let jobs = JOBS.len() as u64;
        let each = Window {
            warmup_ns: window.warmup_ns / jobs,
            window_ns: (window.window_ns / jobs).max(1),
            ..window
        };
        let mut progress = Progress::default();
        let pass = &mut |moment: Mark| progress.pass(moment, mark);
        let mut measured = measure(&self.settings, &self.prepared, each, pass)?;
        if progress.closed_jobs < JOBS.len() {
            mark(Mark::Closed);
        }
        if measured.window_ns > 0 {
            measured.window_ns = progress.closed_ns.saturating_sub(progress.opened_ns);
        }
        measured.notices.splice(0..0, self.prepared.notices().iter().cloned());
        Ok(measured)
    }
}

/// How far the nine jobs are, as one window.
#[derive(Debug, Default)]
struct Progress {
    opened_ns: u64,
    closed_ns: u64,
    closed_jobs: usize,
    /// Work of the jobs that have ended, and of the one under way.
    work: (u64, u64),
}

impl Progress {
    fn pass(&mut self, moment: Mark, mark: &mut dyn FnMut(Mark)) {
        let now_ns = monotonic_ns();
        match moment {
            // Only the first job's moments are known in advance.
            Mark::Agreed { .. } => {}
            Mark::Opened if self.opened_ns == 0 => {
                self.opened_ns = now_ns;
                mark(Mark::Opened);
            }
            Mark::Opened => {}
            Mark::Progress { work, .. } => {
                self.work.1 = work;
                let elapsed_ns = now_ns.saturating_sub(self.opened_ns);
                mark(Mark::Progress { work: self.work.0 + work, elapsed_ns });
            }
            Mark::Closed => {
                self.work = (self.work.0 + self.work.1, 0);
                self.closed_jobs += 1;
                self.closed_ns = now_ns;
                if self.closed_jobs == JOBS.len() {
                    mark(Mark::Closed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_windows_are_one_to_the_system() {
        let mut progress = Progress::default();
        let mut told = Vec::new();
        for _ in &JOBS {
            let moments = [
                Mark::Agreed { open_ns: 1, close_ns: 2 },
                Mark::Opened,
                Mark::Progress { work: 5, elapsed_ns: 1 },
                Mark::Closed,
            ];
            moments.into_iter().for_each(|moment| progress.pass(moment, &mut |mark| told.push(mark)));
        }
        let (first, last) = (told.first().copied(), told.last().copied());
        assert_eq!((told.len(), first, last), (JOBS.len() + 2, Some(Mark::Opened), Some(Mark::Closed)));
        assert!(matches!(told[JOBS.len()], Mark::Progress { work: 45, .. }), "{told:?}");
    }

    #[test]
    fn the_suite_says_what_it_has_no_room_for() {
        let suite = LoadSettings { suite: Suite::Dbench, ..LoadSettings::default() };
        assert_eq!(check(&suite), Ok(()));
        let key = |load: LoadSettings| check(&load).map_err(|fault| fault.key);
        assert_eq!(key(LoadSettings { verify: true, ..suite.clone() }), Err("load.verify".to_owned()));
        let psync = LoadSettings { engine: EngineKind::Psync, ..suite };
        assert_eq!(key(psync.clone()), Err("load.engine".to_owned()));
        assert_eq!(key(LoadSettings { suite: Suite::None, ..psync }), Ok(()));
    }

    #[test]
    fn an_interruption_tells_which_jobs_had_finished() {
        let second = 1_000_000_000;
        let between = |finished| NoticeKind::Interrupted.with([finished, 9.0]);
        assert_eq!(interruption(4, 0, 15 * second), between(4.0));
        assert_eq!(interruption(4, 15 * second, 15 * second), between(5.0));
        let within = NoticeKind::InterruptedWithin.with([4.0, 9.0, 3e9, 15e9]);
        assert_eq!(interruption(4, 3 * second, 15 * second), within.about(["read latency"]));
    }
}
