//! The metrics that tools have readings of, under the names and units of the data paths that measure the same.
//!
//! Data paths may later drive these tools, so this crate knows none of them. A test of `plumb import` holds each name, unit and
//! direction against the data path that has it.

use plumb_model::{Better, Metric, MetricKind, Unit};

const fn metric(
    name: &'static str,
    unit: Unit,
    better: Better,
    kind: MetricKind,
    about: &'static str,
) -> Metric {
    Metric { name, unit, better, kind, about }
}

const fn rate(name: &'static str, about: &'static str) -> Metric {
    metric(name, Unit::PerSecond, Better::Higher, MetricKind::Rate, about)
}

const fn bandwidth(name: &'static str, better: Better, about: &'static str) -> Metric {
    metric(name, Unit::BytesPerSecond, better, MetricKind::Rate, about)
}

const fn trend(name: &'static str, unit: Unit, about: &'static str) -> Metric {
    metric(name, unit, Better::Lower, MetricKind::Trend, about)
}

const fn share(name: &'static str, better: Better, about: &'static str) -> Metric {
    metric(name, Unit::Share, better, MetricKind::Share, about)
}

const fn gauge(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Metric {
    metric(name, unit, better, MetricKind::Gauge, about)
}

pub(crate) const HTTP_REQS: Metric = rate("http_reqs", "answers per second");
pub(crate) const ITERATION_DURATION: Metric =
    trend("iteration_duration", Unit::Milliseconds, "all of a request, connecting and TLS included");
pub(crate) const HTTP_REQ_DURATION: Metric =
    trend("http_req_duration", Unit::Milliseconds, "a request without connecting and the TLS handshake");
pub(crate) const HTTP_REQ_BLOCKED: Metric =
    trend("http_req_blocked", Unit::Milliseconds, "waiting for a connection, connecting and TLS included");
pub(crate) const HTTP_REQ_CONNECTING: Metric =
    trend("http_req_connecting", Unit::Milliseconds, "making the TCP connection");
pub(crate) const HTTP_REQ_TLS_HANDSHAKING: Metric =
    trend("http_req_tls_handshaking", Unit::Milliseconds, "the TLS handshake");
pub(crate) const HTTP_REQ_SENDING: Metric =
    trend("http_req_sending", Unit::Milliseconds, "sending the request");
pub(crate) const HTTP_REQ_WAITING: Metric = trend(
    "http_req_waiting",
    Unit::Milliseconds,
    "from the end of the request to the first byte of the answer",
);
pub(crate) const HTTP_REQ_RECEIVING: Metric =
    trend("http_req_receiving", Unit::Milliseconds, "receiving the answer");
pub(crate) const HTTP_REQ_FAILED: Metric =
    share("http_req_failed", Better::Lower, "requests with status 400 or above, or without an answer");
pub(crate) const CHECKS: Metric = share("checks", Better::Higher, "checks on answers that passed");
pub(crate) const DATA_SENT: Metric = bandwidth("data_sent", Better::Neither, "bytes sent per second");
pub(crate) const DATA_RECEIVED: Metric =
    bandwidth("data_received", Better::Neither, "bytes received per second");

pub(crate) const READ_IOPS: Metric = rate("read_iops", "reads per second");
pub(crate) const WRITE_IOPS: Metric = rate("write_iops", "writes per second");
pub(crate) const READ_BW: Metric = bandwidth("read_bw", Better::Higher, "bytes read per second");
pub(crate) const WRITE_BW: Metric = bandwidth("write_bw", Better::Higher, "bytes written per second");
pub(crate) const READ_LATENCY: Metric =
    trend("read_latency", Unit::Microseconds, "time of a read, its submission included (fio's lat)");
pub(crate) const WRITE_LATENCY: Metric =
    trend("write_latency", Unit::Microseconds, "time of a write, its submission included (fio's lat)");
pub(crate) const READ_COMPLETION_LATENCY: Metric = trend(
    "read_completion_latency",
    Unit::Microseconds,
    "time of a read from its submission on (fio's clat)",
);
pub(crate) const WRITE_COMPLETION_LATENCY: Metric = trend(
    "write_completion_latency",
    Unit::Microseconds,
    "time of a write from its submission on (fio's clat)",
);
pub(crate) const WALL_TIME: Metric =
    trend("wall_time", Unit::Milliseconds, "time of a run from its start to its end");
pub(crate) const USER_TIME: Metric = trend(
    "user_time",
    Unit::Milliseconds,
    "user CPU time of a run, with all descendants that were waited for",
);
pub(crate) const SYSTEM_TIME: Metric = trend(
    "system_time",
    Unit::Milliseconds,
    "system CPU time of a run, with all descendants that were waited for",
);
pub(crate) const MEMORY_MAX: Metric = gauge(
    "memory_max",
    Unit::Bytes,
    Better::Lower,
    "most memory that a process of a run held at a time, as the mean of the runs",
);

pub(crate) const READ_SEQ: Metric =
    bandwidth("read_seq", Better::Higher, "bytes read in order by four jobs, per second");
pub(crate) const WRITE_SEQ: Metric =
    bandwidth("write_seq", Better::Higher, "bytes written in order by four jobs, per second");
pub(crate) const RW_MIX_READ_IOPS: Metric =
    rate("rw_mix_read_iops", "reads per second, three for each write");
pub(crate) const RW_MIX_WRITE_IOPS: Metric =
    rate("rw_mix_write_iops", "writes per second, one for each three reads");

pub(crate) const TCP_LAT: Metric =
    trend("tcp_lat", Unit::Microseconds, "half of a message's round-trip time over TCP");
pub(crate) const UDP_LAT: Metric =
    trend("udp_lat", Unit::Microseconds, "half of a message's round-trip time over UDP");
pub(crate) const TCP_BW: Metric =
    bandwidth("tcp_bw", Better::Higher, "bytes that the receiver got over TCP, per second");
pub(crate) const UDP_BW: Metric =
    bandwidth("udp_bw", Better::Higher, "bytes that the receiver got over UDP, per second");
pub(crate) const UDP_SEND_BW: Metric =
    bandwidth("udp_send_bw", Better::Higher, "bytes that the sender sent over UDP, per second");
/// No data path has this one: a sender hands bytes to its kernel before anybody gets them.
pub(crate) const TCP_SEND_BW: Metric = bandwidth(
    "tcp_send_bw",
    Better::Higher,
    "bytes that the sender handed to its kernel over TCP, per second",
);
pub(crate) const UDP_LOSS: Metric =
    share("udp_loss", Better::Lower, "datagrams that were sent and did not arrive");
pub(crate) const UDP_JITTER: Metric = gauge(
    "udp_jitter",
    Unit::Microseconds,
    Better::Lower,
    "interarrival jitter by RFC 3550 at the end of the test",
);
pub(crate) const TCP_CRR: Metric = rate(
    "tcp_crr",
    "TCP connections that were opened, used for a message there and back, and closed, per second",
);
pub(crate) const TCP_CRR_LATENCY: Metric =
    trend("tcp_crr_latency", Unit::Microseconds, "from the start of a connection of tcp_crr until its end");
pub(crate) const TCP_RETRANSMITS: Metric = metric(
    "tcp_retransmits",
    Unit::Count,
    Better::Lower,
    MetricKind::Count,
    "segments that the sender sent again",
);
pub(crate) const TCP_RTT: Metric = gauge(
    "tcp_rtt",
    Unit::Microseconds,
    Better::Lower,
    "the kernel's smoothed round trip time, mean over time and flows",
);

pub(crate) const TOTAL_TIME: Metric =
    gauge("total_time", Unit::Milliseconds, Better::Lower, "from the start of a migration to its end");
pub(crate) const DOWNTIME: Metric = gauge(
    "downtime",
    Unit::Milliseconds,
    Better::Lower,
    "how long the guest stood still, as the source sees it",
);
pub(crate) const THROUGHPUT: Metric = bandwidth(
    "throughput",
    Better::Higher,
    "what QEMU counts as transferred per second, its mbps times 125,000",
);
pub(crate) const PAGES_PER_SECOND: Metric = rate("pages_per_second", "pages sent per second");
pub(crate) const WIRE_BYTES: Metric =
    gauge("wire_bytes", Unit::Bytes, Better::Lower, "what QEMU counts as transferred");
pub(crate) const ROUNDS: Metric = gauge("rounds", Unit::Count, Better::Lower, "rounds over dirty pages");
pub(crate) const CONVERGED: Metric = share("converged", Better::Higher, "migrations that completed");
/// No data path has this one.
pub(crate) const SETUP_TIME: Metric =
    gauge("setup_time", Unit::Milliseconds, Better::Lower, "from the start of a migration to its first byte");
