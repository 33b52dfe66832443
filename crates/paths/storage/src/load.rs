//! The storage load: one event loop per job, a closed loop by depth or an open loop by rate.
//!
//! No async runtime. Which blocks, what is written, how requests reach the kernel and when they are due are values that
//! the one loop in `job` works with.

mod buffers;
mod burst;
mod device;
mod engine;
mod error;
mod job;
mod ledger;
pub(crate) mod limiter;
mod offsets;
mod prepared;
mod report;
mod steady;
pub mod suite;
mod tally;
pub(crate) mod tool;

use std::path::PathBuf;

use plumb_host::cgroup::block::Membership;
use plumb_model::{Measurement, Notice, NoticeKind, Rate, SplitMix};
use plumb_pace::{Proportion, Schedule};
use plumb_path::drive::{Drive, LOOK_NS, Marks, Part};
use plumb_path::{CapacitySettings, Load, Mark, PathError, SettingsFault, Window, rate_per_s};

use self::buffers::Buffers;
use self::device::Device;
use self::engine::Handle;
pub(crate) use self::error::Error;
use self::job::{Job, JobParts};
use self::ledger::Ledger;
use self::offsets::Offsets;
use crate::pattern;
pub use crate::pattern::write_data;
pub use crate::settings::NULL;
use crate::settings::{Driver, EngineKind, Limit, LoadSettings, StorageTarget, Suite};

/// The kernel's own limit on one read or write lies a little below 2 GiB.
const BLOCK_MAX: u64 = 1 << 30;
/// Blocks in flight of all jobs together.
const BUFFERS_MAX: u64 = 16 << 30;

/// Checks what a load asks for, without a target.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(spec: &LoadSettings) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: &str| Err(SettingsFault::new(format!("load.{key}"), message));
    if spec.depth == 0 || spec.depth > 4096 {
        return fault("depth", "a job has 1 to 4096 reads and writes in flight");
    }
    if spec.jobs == 0 || spec.jobs > 1024 {
        return fault("jobs", "a load has 1 to 1024 jobs");
    }
    if spec.block_size.0 == 0 || spec.block_size.0 > BLOCK_MAX {
        return fault("block_size", "a block has 1 B to 1 GiB");
    }
    let in_flight = u64::from(spec.depth) * u64::from(spec.jobs) * spec.block_size.0;
    if in_flight > BUFFERS_MAX {
        return fault("depth", "more than 16 GiB would be in flight: block size times depth times jobs");
    }
    if spec.duration.0 == 0 {
        return fault("duration", "the window must be longer than 0");
    }
    if spec.operations == Some(0) {
        return fault("operations", "a load must do at least 1 read or write; leave it out for no limit");
    }
    if spec.rate.is_some_and(|rate| Schedule::constant(rate.0).is_none()) {
        return fault("rate", "a rate must be above 0; leave `rate` out for a closed loop");
    }
    if spec.capacity.is_some() {
        if spec.suite != Suite::None {
            return fault("suite", "a search for the capacity is of one load; leave the suite out");
        }
        if spec.verify {
            return fault("verify", "a trial has no time to read every block back; leave it out of a search");
        }
        let others = [("rate", spec.rate.is_some()), ("operations", spec.operations.is_some())];
        CapacitySettings::check_alone(spec.driver == Driver::Native, &others)?;
        spec.searches()?;
    }
    for (key, share) in [("read_share", spec.read_share), ("compressible", spec.compressible)] {
        if !(0.0..=1.0).contains(&share.0) {
            return fault(key, "a share is 0% to 100%");
        }
    }
    if spec.verify && (spec.block_size.0 as usize) < 2 * pattern::HEADER_BYTES {
        return fault("verify", "a block that is checked has at least 80 B");
    }
    Ok(())
}

/// Opens the target and finds an engine that works here.
///
/// # Errors
/// When a setting is wrong, or the target is not there or would lose data.
pub(crate) fn storage_load(spec: &LoadSettings, target: &StorageTarget) -> Result<StorageLoad, Error> {
    check(spec)?;
    plumb_host::limits::raise_open_files_limit();
    let device = Device::open(target, spec)?;
    let mut regions = device.regions(spec)?;
    if spec.verify && spec.access.writes() {
        regions = apart(&device, spec, &regions)?;
    }
    let mut notices = device.notices.clone();
    let engine = choose_engine(spec, &device.handle, &mut notices)?;
    let mut spec = spec.clone();
    if engine == EngineKind::Psync && spec.depth > 1 && matches!(device.handle, Handle::File(_)) {
        notices.push(NoticeKind::PsyncDepth.with([f64::from(spec.depth)]));
        spec.depth = 1;
    }
    if let Some(share) = device.never_written().filter(|share| spec.access.reads() && *share > 0.01) {
        notices.push(NoticeKind::NeverWritten.with([share]).about([&device.path]));
    } else if let Some((zeros, places)) =
        device.zeros().filter(|(zeros, places)| spec.access.reads() && 2 * zeros >= *places)
    {
        let figures = [zeros, places].map(|count| count as f64);
        notices.push(NoticeKind::Zeros.with(figures).about([&device.path]));
    }
    Ok(StorageLoad {
        spec,
        device,
        regions,
        engine,
        notices,
        group: target.group.clone(),
        limit: target.limit,
    })
}

/// Divides regions that are the same: a region that is checked must be written by one job alone.
fn apart(device: &Device, spec: &LoadSettings, regions: &[(u64, u64)]) -> Result<Vec<(u64, u64)>, Error> {
    let unfit = |message: &str| {
        Err(Error::Unfit { path: device.path.clone(), key: "verify", message: message.to_owned() })
    };
    let block = spec.block_size.0;
    let jobs = u64::from(spec.jobs);
    let divided: Vec<(u64, u64)> = match regions {
        [(begin, length), ..] if spec.offset_increment.0 == 0 => {
            let each = length / jobs / block * block;
            (0..jobs).map(|job| (begin + job * each, each)).collect()
        }
        _ => regions.to_vec(),
    };
    if divided.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        return unfit("the jobs' regions overlap; give a size of at most the offset increment");
    }
    let blocks = divided.iter().map(|(_, length)| length / block);
    if blocks.clone().any(|count| count < u64::from(spec.depth) * 2) {
        return unfit(
            "every job needs at least twice as many blocks as its depth; give more room or less depth",
        );
    }
    if blocks.clone().any(|count| count > ledger::BLOCKS_MAX) {
        return unfit("a job can check at most 2^28 blocks; give a smaller size or larger blocks");
    }
    Ok(divided)
}

/// The engine that was asked for, or the next one where the kernel refuses it.
fn choose_engine(
    spec: &LoadSettings,
    handle: &Handle,
    notices: &mut Vec<Notice>,
) -> Result<EngineKind, Error> {
    let probe = Buffers::new(1, 4096)
        .map_err(|cause| Error::Engine { what: "get memory for the blocks in flight", cause })?;
    let mut kinds = EngineKind::ALL.into_iter().skip_while(|kind| *kind != spec.engine);
    if !matches!(handle, Handle::File(_)) {
        return Ok(spec.engine);
    }
    loop {
        let Some(kind) = kinds.next() else { return Ok(EngineKind::Psync) };
        match engine::build(kind, handle, spec.depth, &probe) {
            Ok(_) => return Ok(kind),
            Err(error) if kind == EngineKind::Psync => return Err(error),
            Err(error) => {
                let about = [kind.name().to_owned(), error.to_string()];
                notices.push(Notice::from(NoticeKind::NoEngine).about(about));
            }
        }
    }
}

/// A load that is ready to measure.
#[derive(Debug)]
pub struct StorageLoad {
    spec: LoadSettings,
    device: Device,
    /// Of every job: where it begins, and how long it is.
    regions: Vec<(u64, u64)>,
    engine: EngineKind,
    notices: Vec<Notice>,
    group: Option<PathBuf>,
    limit: Option<Limit>,
}

impl Load for StorageLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        // Only for as long as it measures: a system that ends removes the group, which must be empty then.
        let _membership = self.group.as_deref().map(Membership::enter).transpose()?;
        let buffers = (0..self.spec.jobs).map(|_| self.buffers()).collect::<Result<Vec<_>, Error>>()?;
        let mut all = self.regions.iter().copied().zip(buffers);
        let rate_per_s = rate_per_s(window.rate_per_s, self.spec.rate);
        let spec = LoadSettings { rate: rate_per_s.map(Rate), ..self.spec.clone() };
        let drive = Drive {
            threads: self.spec.jobs,
            window,
            rate_per_s,
            units: self.spec.operations,
            look_ns: LOOK_NS,
        };
        let driven = drive.run(&mut Marks(mark), |part| {
            let (spec, handle, engine) = (self.spec.clone(), self.device.handle.clone(), self.engine);
            let own = all.next();
            move || match own {
                Some((region, buffers)) => {
                    Ok(Job::new(parts_of(&spec, &handle, engine, buffers, region, part)?))
                }
                None => Err(PathError::load("start a job: it has no region".to_owned())),
            }
        })?;
        let circumstances = report::Circumstances {
            spec: &spec,
            engine: match self.device.handle {
                Handle::Null => "null",
                Handle::Nbd(_) => "nbd",
                Handle::File(_) => self.engine.name(),
            },
            direct: self.device.direct.name(),
            bytes: self.device.bytes,
            limit: self.limit,
            notices: &self.notices,
        };
        Ok(report::measurement(&driven, &circumstances))
    }
}

impl StorageLoad {
    fn buffers(&self) -> Result<Buffers, Error> {
        let spec = &self.spec;
        let blocks = spec.depth as usize * if spec.access.reads() && spec.access.writes() { 2 } else { 1 };
        let block = usize::try_from(spec.block_size.0).unwrap_or(usize::MAX);
        Buffers::new(blocks, block)
            .map_err(|cause| Error::Engine { what: "get memory for the blocks in flight", cause })
    }
}

/// Puts a job together, in its own thread, where its engine stays.
fn parts_of(
    spec: &LoadSettings,
    handle: &Handle,
    engine: EngineKind,
    buffers: Buffers,
    (begin, length): (u64, u64),
    part: Part,
) -> Result<JobParts, Error> {
    let mut random = SplitMix::new(part.seed);
    let random_seed = spec.access.is_random().then(|| random.draw());
    let block = spec.block_size.0;
    let offsets = Offsets::new(begin, length, block, random_seed).ok_or_else(|| {
        SettingsFault::new("load.block_size", format!("no block of {block} B fits into {length} B"))
    })?;
    let ledger =
        spec.verify.then(|| Ledger::new(begin, block, offsets.count(), !spec.access.writes(), random.draw()));
    Ok(JobParts {
        engine: engine::build(engine, handle, spec.depth, &buffers)?,
        buffers,
        offsets,
        ledger,
        access: spec.access,
        reads: Proportion::new(spec.read_share.0, part.seed),
        block: u32::try_from(block).unwrap_or(u32::MAX),
        depth: spec.depth,
        compressible: spec.compressible.0,
        part,
    })
}

#[cfg(test)]
mod tests {
    use plumb_model::{Bytes, Reading};

    use super::*;
    use crate::settings::Access;

    fn searching(objective: &str) -> LoadSettings {
        let capacity = serde_json::from_value(serde_json::json!({ "objective": [objective] })).unwrap();
        LoadSettings { capacity, size: Some(Bytes(1 << 20)), ..LoadSettings::default() }
    }

    #[test]
    fn what_a_search_has_no_room_for_is_refused() {
        let bare = || searching("p99 < 5 ms");
        let specs = [
            LoadSettings { rate: Some(Rate(9.0)), ..bare() },
            LoadSettings { operations: Some(9), ..bare() },
            LoadSettings { verify: true, ..bare() },
            LoadSettings { suite: Suite::Dbench, ..bare() },
            LoadSettings { driver: Driver::Fio, ..bare() },
            LoadSettings { access: Access::RandReadWrite, ..bare() },
        ];
        let faults: Vec<String> = specs.iter().map(|spec| check(spec).unwrap_err().to_string()).collect();
        insta::assert_snapshot!(faults.join("\n"), @"
        load.rate: a search for the capacity sets the rate and the time of each trial; leave it out
        load.operations: a search for the capacity sets the rate and the time of each trial; leave it out
        load.verify: a trial has no time to read every block back; leave it out of a search
        load.suite: a search for the capacity is of one load; leave the suite out
        load.capacity: only the load of plumb itself searches; leave `driver` out
        load.capacity.objective[0]: several times have a `p99` here; name one, such as `read_latency.p99`
        ");
        let mixed = LoadSettings { access: Access::RandReadWrite, ..searching("write_latency.p99 < 5 ms") };
        assert!(check(&bare()).is_ok() && check(&mixed).is_ok());
    }

    #[test]
    fn a_search_has_a_time_of_every_operation_only_where_all_are_reads_or_all_are_writes() {
        let is_of_all = |access, objective: &str| {
            let spec = LoadSettings { access, ..searching(objective) };
            spec.searches().unwrap().unwrap().objectives[0].is_of_all
        };
        assert!(is_of_all(Access::Read, "p99 < 5 ms"));
        assert!(is_of_all(Access::RandWrite, "write_latency.p99 < 5 ms"));
        assert!(!is_of_all(Access::RandWrite, "read_latency.p99 < 5 ms"));
        assert!(!is_of_all(Access::ReadWrite, "read_latency.p99 < 5 ms"));
    }

    #[test]
    fn a_window_that_has_a_rate_is_measured_at_it() {
        let mut load = storage_load(&searching("p99 < 5 ms"), &StorageTarget::existing(NULL)).unwrap();
        for (rate_per_s, due) in [(500.0, 100), (250.0, 50)] {
            let window = Window { rate_per_s: Some(rate_per_s), ..Window::at_once(0, 200_000_000, 1) };
            let measurement = load.measure(window, &mut |_| ()).unwrap();
            assert_eq!(measurement.attempts.tried, due);
            assert!(matches!(measurement.readings["read_service"], Reading::Trend(_)));
        }
    }
}
