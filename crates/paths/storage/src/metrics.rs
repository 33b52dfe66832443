//! The metrics of the `storage` data path, under the names that users of dbench and fio know.

use plumb_model::metric::{CPU_LOAD, CPU_SYSTEM};
use plumb_model::{Better, Metric, MetricKind, Unit};

const fn iops(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::PerSecond, better: Better::Higher, kind: MetricKind::Rate, about }
}

const fn bandwidth(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::BytesPerSecond, better: Better::Higher, kind: MetricKind::Rate, about }
}

const fn trend(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::Microseconds, better: Better::Lower, kind: MetricKind::Trend, about }
}

/// Reads per second.
pub const READ_IOPS: Metric = iops("read_iops", "reads completed within the window, per second");

/// Writes per second.
pub const WRITE_IOPS: Metric = iops("write_iops", "writes completed within the window, per second");

/// Bytes read per second.
pub const READ_BW: Metric = bandwidth("read_bw", "bytes read within the window, per second");

/// Bytes written per second.
pub const WRITE_BW: Metric = bandwidth("write_bw", "bytes written within the window, per second");

/// The time of a read.
pub const READ_LATENCY: Metric = trend(
    "read_latency",
    "time of a read, from before it is handed over (at a fixed rate: from when it was due) until its completion is seen",
);

/// The time of a write.
pub const WRITE_LATENCY: Metric = trend(
    "write_latency",
    "time of a write, from before it is handed over (at a fixed rate: from when it was due) until its completion is seen",
);

/// The time of a read without the wait for its turn.
pub const READ_SERVICE: Metric =
    trend("read_service", "time of a read at a fixed rate, without the wait for a free place in the queue");

/// The time of a write without the wait for its turn.
pub const WRITE_SERVICE: Metric =
    trend("write_service", "time of a write at a fixed rate, without the wait for a free place in the queue");

/// Handing over.
pub const SUBMISSION_LATENCY: Metric = trend(
    "submission_latency",
    "time to hand a batch over to the kernel, counted once for each read and write in it (fio's slat), of every 16th batch",
);

/// From the hand-over to the completion.
pub const READ_COMPLETION_LATENCY: Metric = trend(
    "read_completion_latency",
    "time of a read, from the end of its batch's hand-over until its completion is seen (fio's clat), of every 16th batch",
);

/// From the hand-over to the completion.
pub const WRITE_COMPLETION_LATENCY: Metric = trend(
    "write_completion_latency",
    "time of a write, from the end of its batch's hand-over until its completion is seen (fio's clat), of every 16th batch",
);

/// Reads and writes in flight.
pub const ACHIEVED_DEPTH: Metric = Metric {
    name: "achieved_depth",
    unit: Unit::Count,
    better: Better::Neither,
    kind: MetricKind::Gauge,
    about: "reads and writes in flight, all jobs together, mean over the window",
};

/// Bytes read per second, in order.
pub const READ_SEQ: Metric =
    bandwidth("read_seq", "bytes read in order by four jobs, per second, of dbench's suite");

/// Bytes written per second, in order.
pub const WRITE_SEQ: Metric =
    bandwidth("write_seq", "bytes written in order by four jobs, per second, of dbench's suite");

/// Reads per second beside writes.
pub const RW_MIX_READ_IOPS: Metric =
    iops("rw_mix_read_iops", "reads per second, three of them for each write, of dbench's suite");

/// Writes per second beside reads.
pub const RW_MIX_WRITE_IOPS: Metric =
    iops("rw_mix_write_iops", "writes per second, one for each three reads, of dbench's suite");

/// Blocks whose pattern was right.
pub const VERIFIED: Metric = Metric {
    name: "verified",
    unit: Unit::Share,
    better: Better::Higher,
    kind: MetricKind::Share,
    about: "blocks read back whose pattern was right",
};

/// Every metric of a storage experiment.
pub const METRICS: &[Metric] = &[
    READ_IOPS,
    WRITE_IOPS,
    READ_BW,
    WRITE_BW,
    READ_LATENCY,
    WRITE_LATENCY,
    READ_SERVICE,
    WRITE_SERVICE,
    SUBMISSION_LATENCY,
    READ_COMPLETION_LATENCY,
    WRITE_COMPLETION_LATENCY,
    READ_SEQ,
    WRITE_SEQ,
    RW_MIX_READ_IOPS,
    RW_MIX_WRITE_IOPS,
    ACHIEVED_DEPTH,
    VERIFIED,
    CPU_SYSTEM,
    CPU_LOAD,
];
