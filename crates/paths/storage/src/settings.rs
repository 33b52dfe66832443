//! The `system` and `load` of a `storage` experiment as types, under the names that users of fio know.

mod driver;
pub mod ontap;
mod volume;

use std::path::PathBuf;

use plumb_model::{Bytes, Percent, Rate, Span};
use plumb_path::{Capacity, CapacitySettings, RunBy, SettingsFault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::ontap::{Assignment, OntapSettings};
use crate::metrics;

pub use driver::{Driver, Suite};
pub use volume::{AdaptiveSettings, Allocation, FixedSettings, Layer, PolicySettings, VolumeSettings};

/// The settings of a `storage` experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StorageSettings {
    /// The storage that is read and written.
    pub system: SystemSettings,
    /// The load that reads and writes it.
    pub load: LoadSettings,
}

/// The kind of storage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SystemKind {
    /// A file that is made for the run, filled with data, and removed afterwards.
    #[default]
    File,
    /// A file, a block device or an NBD export that exists.
    External,
    /// A volume of an ONTAP array that exists, under a QoS policy that is made for the run.
    Ontap,
    /// A volume under a policy that is made for the run and served here.
    Volumes,
}

/// The storage that is read and written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSettings {
    /// The kind of storage.
    pub kind: SystemKind,
    /// `file`, `volumes`: a directory to make the file in, by default the run's scratch directory. `external` and
    /// `ontap`: the path of a file or block device, or `nbd://HOST:PORT/NAME`.
    pub path: Option<String>,
    /// `external`: the process that runs it on this host, with its children. Without `pid`, `unit`, `cgroup` and `port`, plumb takes the
    /// process that listens at the address in `path`.
    pub pid: Option<u32>,
    /// `external`: the systemd unit that runs it on this host.
    pub unit: Option<String>,
    /// `external`: the control group in which it runs on this host.
    pub cgroup: Option<PathBuf>,
    /// `external`: the TCP port on which it listens on this host, where that is another one than the load's.
    pub port: Option<u16>,
    /// `file`: how large it is.
    pub size: Bytes,
    /// `volumes`: the volume.
    pub volume: VolumeSettings,
    /// `ontap`: the array, the volume, and the policy.
    pub ontap: Option<OntapSettings>,
}

impl Default for SystemSettings {
    fn default() -> Self {
        Self {
            kind: SystemKind::default(),
            path: None,
            pid: None,
            unit: None,
            cgroup: None,
            port: None,
            size: Bytes(256 << 20),
            volume: VolumeSettings::default(),
            ontap: None,
        }
    }
}

impl SystemSettings {
    /// The processes of an external system, as far as the settings name them.
    #[must_use]
    pub fn run_by(&self) -> RunBy {
        RunBy { pid: self.pid, unit: self.unit.clone(), cgroup: self.cgroup.clone(), port: self.port }
    }
}

plumb_model::named! {
    /// Which blocks are taken, and what is done with them; fio's `readwrite`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Access: name {
        /// Sequential reads.
        Read = "read",
        /// Sequential writes.
        Write = "write",
        /// Random reads.
        #[default]
        RandRead = "randread",
        /// Random writes.
        RandWrite = "randwrite",
        /// Sequential reads and writes.
        ReadWrite = "rw",
        /// Random reads and writes.
        RandReadWrite = "randrw",
    }
}

impl Access {
    /// Whether blocks are taken in a random order.
    #[must_use]
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandReadWrite)
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }

    /// Whether it reads.
    #[must_use]
    pub fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::RandWrite)
    }
}

// Where the kernel refuses one, the next one in the order of their declaration stands in for it.
plumb_model::named! {
    /// How reads and writes are handed to the kernel; fio's `ioengine`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum EngineKind: name {
        /// io_uring with registered buffers and files.
        #[default]
        IoUring = "io_uring",
        /// Linux' native asynchronous I/O, `io_submit`.
        Libaio = "libaio",
        /// `pread` and `pwrite`, one at a time in each job.
        Psync = "psync",
    }
}

/// The load that reads and writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The driver of the load: `native`, or a tool that is started for each slot and whose output is read.
    pub driver: Driver,
    /// Further options of that tool.
    pub options: Vec<String>,
    /// A job file for fio. It replaces every setting here but `duration`, `warmup`, `options` and `destroy_data`; the target and
    /// the times in it are replaced by the experiment's.
    pub job: Option<PathBuf>,
    /// The script of dbench, its `docker-entrypoint.sh`. It says itself what is read and written and for how long; it takes `size`,
    /// `offset_increment` and `direct`, and `duration` is how long it is expected to take.
    pub script: Option<PathBuf>,
    /// Several loads in place of the one that `access`, `read_share`, `block_size`, `depth`, `jobs` and `offset_increment` describe.
    pub suite: Suite,
    /// Which blocks, and whether they are read or written.
    pub access: Access,
    /// The share of reads in `rw` and `randrw`.
    pub read_share: Percent,
    /// The size of every read and write.
    pub block_size: Bytes,
    /// Reads and writes in flight, in each job.
    pub depth: u32,
    /// Jobs, each a thread with its own event loop and depth.
    pub jobs: u32,
    /// How to submit reads and writes to the kernel; if the kernel refuses one engine, the next one replaces it.
    pub engine: EngineKind,
    /// Whether to bypass the page cache.
    pub direct: bool,
    /// Where the region begins.
    pub offset: Bytes,
    /// The length of the region, in each job; up to the end if absent.
    pub size: Option<Bytes>,
    /// The distance between the beginnings of two consecutive jobs' regions.
    pub offset_increment: Bytes,
    /// A fixed rate of all jobs together such as `500 IOPS`, timed from the intended starts; a closed loop if absent.
    pub rate: Option<Rate>,
    /// Search for the highest rate that meets objectives, such as `{ objective: [p99 < 5 ms] }`. `depth` times `jobs` limits how many
    /// operations are under way at a time.
    pub capacity: Option<CapacitySettings>,
    /// How long to measure.
    pub duration: Span,
    /// Unmeasured time before the window; fio's `ramp_time`.
    pub warmup: Span,
    /// Stop after this many reads and writes.
    pub operations: Option<u64>,
    /// The share of the written data that compresses away.
    pub compressible: Percent,
    /// Write patterns that name their place and time. Check every read and, at the end, every block that was written.
    pub verify: bool,
    /// Write to a target even if it is mounted or holds data.
    pub destroy_data: bool,
}

impl LoadSettings {
    /// The metric with a time for every read and write; none where some are reads and some writes.
    #[must_use]
    pub fn latency(&self) -> Option<&'static str> {
        match (self.access.reads(), self.access.writes()) {
            (true, true) => None,
            (_, false) => Some(metrics::READ_LATENCY.name),
            (false, true) => Some(metrics::WRITE_LATENCY.name),
        }
    }

    /// The goal of the search.
    ///
    /// # Errors
    /// The first fault in `capacity`.
    pub fn searches(&self) -> Result<Option<Capacity>, SettingsFault> {
        self.capacity
            .as_ref()
            .map(|capacity| capacity.to_capacity(metrics::METRICS, self.latency().as_slice()))
            .transpose()
    }

    /// Whether each job keeps its depth in flight, without a schedule.
    #[must_use]
    pub fn is_closed_loop(&self) -> bool {
        self.rate.is_none() && self.capacity.is_none()
    }

    /// How many reads and writes are under way at a time in a closed loop, where each job has its depth in flight.
    #[must_use]
    pub fn in_flight(&self) -> Option<f64> {
        let is_one = self.job.is_none() && self.script.is_none() && self.suite == Suite::None;
        (self.is_closed_loop() && is_one).then(|| f64::from(self.jobs) * f64::from(self.depth))
    }
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            options: Vec::new(),
            job: None,
            script: None,
            suite: Suite::None,
            access: Access::default(),
            read_share: Percent(0.5),
            block_size: Bytes(4096),
            depth: 32,
            jobs: 1,
            engine: EngineKind::default(),
            direct: true,
            offset: Bytes(0),
            size: None,
            offset_increment: Bytes(0),
            rate: None,
            capacity: None,
            duration: Span(5_000_000_000),
            warmup: Span(500_000_000),
            operations: None,
            compressible: Percent(0.0),
            verify: false,
            destroy_data: false,
        }
    }
}

/// The address of the target that does nothing.
pub const NULL: &str = "null:";

/// The address at which the load reaches a system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StorageTarget {
    /// A path, `nbd://HOST:PORT/NAME`, or `null:`.
    pub address: String,
    /// The name in messages, if that is not its address.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether it was made for this measurement, so that nobody's data can be lost.
    pub is_ours: bool,
    /// Make a file of this size where there is none, and leave none behind.
    pub create: Option<Bytes>,
    /// Of a volume of an array: the policy that it has to be put under before each slot.
    #[serde(default)]
    pub assignment: Option<Assignment>,
    /// The control group in which the load has to be for the system's limits to hold.
    pub group: Option<PathBuf>,
    /// The limit of its policy, where that is known.
    pub limit: Option<Limit>,
}

/// The limits of a policy, per second; an absent one means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Operations.
    pub iops: Option<f64>,
    /// Bytes.
    pub bytes_per_s: Option<f64>,
}

impl StorageTarget {
    /// Something that exists.
    #[must_use]
    pub fn existing(address: impl Into<String>) -> Self {
        Self { address: address.into(), ..Self::default() }
    }

    /// Something that was made for this measurement.
    #[must_use]
    pub fn made(address: impl Into<String>) -> Self {
        Self { address: address.into(), is_ours: true, ..Self::default() }
    }
}
