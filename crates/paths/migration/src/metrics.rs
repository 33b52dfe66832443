//! The metrics of the `migration` data path, under the names and with the meanings that users of QEMU know
//! (qapi/migration.json, `MigrationStats` and `MigrationInfo`).

use plumb_model::metric::{CPU_LOAD, CPU_SYSTEM};
use plumb_model::{Better, Metric, MetricKind, Unit};

const fn gauge(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Metric {
    Metric { name, unit, better, kind: MetricKind::Gauge, about }
}

/// From the start of a migration until the destination runs.
pub const TOTAL_TIME: Metric = gauge(
    "total_time",
    Unit::Milliseconds,
    Better::Lower,
    "from the start of a migration, connecting included, until the destination runs; mean of the slot's migrations",
);

/// The time for which the guest was paused.
pub const DOWNTIME: Metric = gauge(
    "downtime",
    Unit::Milliseconds,
    Better::Lower,
    "from the stop of the guest until the source hears that the destination runs; mean of the slot's migrations",
);

/// Bytes on the wire per second.
pub const THROUGHPUT: Metric = Metric {
    name: "throughput",
    unit: Unit::BytesPerSecond,
    better: Better::Higher,
    kind: MetricKind::Rate,
    about: "bytes on the wire, by the sockets' own counters, per second of total time without setup (QEMU's mbps times 125,000)",
};

/// The most bytes on the wire in a second.
pub const THROUGHPUT_PEAK: Metric = gauge(
    "throughput_peak",
    Unit::BytesPerSecond,
    Better::Neither,
    "bytes on the wire in the busiest second of a migration, wherever it begins; only of migrations that last a second",
);

/// The share of the channels' time in which they waited for the cap.
pub const CAP_WAIT: Metric = gauge(
    "cap_wait",
    Unit::Share,
    Better::Neither,
    "share of the channels' time in which they waited for the bandwidth cap",
);

/// Pages of memory per second.
pub const PAGES_PER_SECOND: Metric = Metric {
    name: "pages_per_second",
    unit: Unit::PerSecond,
    better: Better::Higher,
    kind: MetricKind::Rate,
    about: "pages sent, those of zeros included, per second of total time without setup",
};

/// CPU use of the source.
pub const SEND_CPU: Metric =
    gauge("send_cpu", Unit::Share, Better::Lower, "CPU time of the source over total time; 100% is one core");

/// CPU use of the destination.
pub const RECV_CPU: Metric = gauge(
    "recv_cpu",
    Unit::Share,
    Better::Lower,
    "CPU time of the destination over total time; 100% is one core",
);

/// CPU time of the source per GiB of guest memory.
pub const SEND_CPU_PER_GIB: Metric = gauge(
    "send_cpu_per_gib",
    Unit::Milliseconds,
    Better::Lower,
    "CPU time of the source per GiB of guest memory",
);

/// CPU time of the destination per GiB of guest memory.
pub const RECV_CPU_PER_GIB: Metric = gauge(
    "recv_cpu_per_gib",
    Unit::Milliseconds,
    Better::Lower,
    "CPU time of the destination per GiB of guest memory",
);

/// Bytes on the wire.
pub const WIRE_BYTES: Metric = gauge(
    "wire_bytes",
    Unit::Bytes,
    Better::Lower,
    "bytes that one migration put on the wire, by the sockets' own counters (TCP_INFO)",
);

/// Bytes of pages over bytes of payload.
pub const COMPRESSION_RATIO: Metric = gauge(
    "compression_ratio",
    Unit::Count,
    Better::Higher,
    "bytes of the pages that were sent with their content over the bytes that they took on the wire",
);

/// Rounds over dirty pages.
pub const ROUNDS: Metric =
    gauge("rounds", Unit::Count, Better::Lower, "rounds over dirty pages, the first and the last included");

/// The time of a round.
pub const ROUND_TIME: Metric = Metric {
    name: "round_time",
    unit: Unit::Milliseconds,
    better: Better::Neither,
    kind: MetricKind::Trend,
    about: "time of one round over dirty pages",
};

/// Migrations that ended with the guest on the destination.
pub const CONVERGED: Metric = Metric {
    name: "converged",
    unit: Unit::Share,
    better: Better::Higher,
    kind: MetricKind::Share,
    about: "migrations that reached the downtime limit before the limit of rounds or time",
};

/// The rate at which the guest really wrote.
pub const DIRTY_RATE: Metric = gauge(
    "dirty_rate",
    Unit::BytesPerSecond,
    Better::Neither,
    "pages that the guest's writer touched per second while it was moved, as an amount of memory",
);

/// The throughput of the same processes without any protocol.
pub const STREAM_LIMIT: Metric = gauge(
    "stream_limit",
    Unit::BytesPerSecond,
    Better::Neither,
    "plain write and read of the same memory between the same two processes over as many connections, per \
     second; only if asked for",
);

/// Every metric of a migration experiment.
pub const METRICS: &[Metric] = &[
    TOTAL_TIME,
    DOWNTIME,
    THROUGHPUT,
    THROUGHPUT_PEAK,
    CAP_WAIT,
    PAGES_PER_SECOND,
    SEND_CPU,
    RECV_CPU,
    SEND_CPU_PER_GIB,
    RECV_CPU_PER_GIB,
    WIRE_BYTES,
    COMPRESSION_RATIO,
    ROUNDS,
    ROUND_TIME,
    CONVERGED,
    DIRTY_RATE,
    STREAM_LIMIT,
    CPU_SYSTEM,
    CPU_LOAD,
];
