//! The arguments of `plumb storage`. Flags carry the names of the experiment file's keys; fio's names for the same are
//! understood too.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use plumb_model::{Bytes, Percent, Rate, Span};
use plumb_storage::settings::{Access, EngineKind};

use super::FailureArguments;

/// `plumb storage`.
#[derive(Debug, Args)]
pub struct StorageArguments {
    /// A file, a block device, nbd://HOST:PORT/NAME, or `null:` for the load's own costs. A file that does not exist is made with
    /// --size, and gone afterwards.
    pub target: String,
    /// Run dbench's nine jobs and print its summary; --duration and --warmup are those of each job (15 s and 2 s).
    #[arg(long, value_parser = ["dbench"], value_name = "NAME",
          conflicts_with_all = ["access", "read_share", "block_size", "depth", "jobs", "rate", "operations", "verify"])]
    pub suite: Option<String>,
    /// Which blocks, and whether they are read or written.
    #[arg(long, visible_alias = "rw", alias = "readwrite", default_value = "randread", value_name = "ACCESS",
          value_parser = accesses())]
    pub access: Access,
    /// Of rw and randrw: the share of reads.
    #[arg(long, alias = "rwmixread", default_value = "50%", value_name = "PERCENT")]
    pub read_share: Percent,
    /// The size of every read and write.
    #[arg(long, short = 'b', visible_alias = "bs", default_value = "4KiB", value_name = "SIZE")]
    pub block_size: Bytes,
    /// Reads and writes in flight, in each job.
    #[arg(long, short = 'c', visible_alias = "iodepth", default_value_t = 32, value_name = "N")]
    pub depth: u32,
    /// Jobs, each a thread with its own depth.
    #[arg(long, short = 't', visible_alias = "numjobs", default_value_t = 1, value_name = "N")]
    pub jobs: u32,
    /// How reads and writes are handed to the kernel; the next one stands in where it forbids one.
    #[arg(long, visible_alias = "ioengine", default_value = "io_uring", value_name = "ENGINE", value_parser = engines())]
    pub engine: EngineKind,
    /// Go through the page cache.
    #[arg(long)]
    pub buffered: bool,
    /// Where the region begins.
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    pub offset: Bytes,
    /// The length of the region in each job; up to the end if absent.
    #[arg(long, short = 's', value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// How much further in each job's region begins than that of the job before it.
    #[arg(long, default_value = "0B", value_name = "SIZE")]
    pub offset_increment: Bytes,
    /// A fixed rate of all jobs together such as `500 IOPS` (open loop, timed from the intended start).
    #[arg(long, short = 'R', value_name = "RATE")]
    pub rate: Option<Rate>,
    /// How long to measure, such as `30s`; 10 s unless --operations says how many.
    #[arg(long, short = 'd', visible_alias = "runtime", value_name = "TIME", value_parser = super::duration)]
    pub duration: Option<Span>,
    /// Unmeasured time before the window.
    #[arg(long, visible_alias = "ramp-time", value_name = "TIME", value_parser = super::duration)]
    pub warmup: Option<Span>,
    /// Stop after this many reads and writes.
    #[arg(long, short = 'n', value_name = "N")]
    pub operations: Option<u64>,
    /// The share of what is written that compresses away.
    #[arg(long, default_value = "0%", value_name = "PERCENT")]
    pub compressible: Percent,
    /// Write patterns and check all that is read, at the end every block that was written.
    #[arg(long)]
    pub verify: bool,
    /// Write although the target is mounted or holds data.
    #[arg(long)]
    pub destroy_data: bool,
    /// See [`FailureArguments`].
    #[command(flatten)]
    pub failures: FailureArguments,
    /// Print the measurement as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}

fn accesses() -> impl TypedValueParser<Value = Access> {
    let names = PossibleValuesParser::new(Access::ALL.map(Access::name));
    names.try_map(|name| Access::from_name(&name).ok_or("no such access"))
}

fn engines() -> impl TypedValueParser<Value = EngineKind> {
    let names = PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::name));
    names.try_map(|name| EngineKind::from_name(&name).ok_or("no such engine"))
}
