//! The metrics of the `crypto` data path.

use plumb_model::{Better, Metric, MetricKind, Unit};

/// Operations per second.
pub const OPS: Metric = Metric {
    name: "ops",
    unit: Unit::PerSecond,
    better: Better::Higher,
    kind: MetricKind::Rate,
    about: "operations done per second of elapsed time by one thread; an exchange is a fresh key and a derivation",
};

/// The time of an operation.
pub const OP_LATENCY: Metric = Metric {
    name: "op_latency",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    kind: MetricKind::Trend,
    about: "time from the start of an operation to its result, including the wait for others in flight; for blocks, \
            the mean of a burst",
};

/// CPU time per operation. This path has no `cpu_system`.
pub const CPU_LOAD: Metric = Metric {
    about: "CPU time per operation; the load's process does the operation itself, so there is no separate system",
    ..plumb_model::metric::CPU_LOAD
};

/// All of them.
pub const METRICS: &[Metric] = &[OPS, OP_LATENCY, CPU_LOAD];
