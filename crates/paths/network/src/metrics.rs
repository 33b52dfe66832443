//! The metrics of the `network` data path, under the names that users of qperf know.

use plumb_model::metric::{CPU_LOAD, CPU_SYSTEM};
use plumb_model::{Better, Metric, MetricKind, Unit};

const fn trend(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::Microseconds, better: Better::Lower, kind: MetricKind::Trend, about }
}

const fn bandwidth(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::BytesPerSecond, better: Better::Higher, kind: MetricKind::Rate, about }
}

const fn share(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::Share, better: Better::Lower, kind: MetricKind::Share, about }
}

const fn gauge(name: &'static str, unit: Unit, better: Better, about: &'static str) -> Metric {
    Metric { name, unit, better, kind: MetricKind::Gauge, about }
}

/// Half a round trip over TCP.
pub const TCP_LAT: Metric = trend(
    "tcp_lat",
    "half of a message's round-trip time over TCP; at a fixed rate, plus all of the time that it \
     waited to be sent",
);

/// The same from the real start.
pub const TCP_LAT_SERVICE: Metric =
    trend("tcp_lat_service", "as tcp_lat, at a fixed rate, from when the message was really sent");

/// Half a round trip over UDP.
pub const UDP_LAT: Metric = trend(
    "udp_lat",
    "half of a message's round-trip time over UDP, or of the time until it counts as lost; at a fixed rate, \
     plus all of the time that it waited to be sent",
);

/// The same from the real start.
pub const UDP_LAT_SERVICE: Metric =
    trend("udp_lat_service", "as udp_lat, at a fixed rate, from when the message was really sent");

/// Answers that never came.
pub const UDP_LAT_LOSS: Metric = share(
    "udp_lat_loss",
    "messages of udp_lat without an answer within 1 s, or within 16 round trips where these take longer (4 s at most)",
);

/// The bytes that a receiver gets over TCP.
pub const TCP_BW: Metric =
    bandwidth("tcp_bw", "bytes that the receiver got over TCP, per second of the receiver's time");

/// The bytes that a receiver gets over UDP.
pub const UDP_BW: Metric =
    bandwidth("udp_bw", "bytes that the receiver got over UDP, per second of the receiver's time");

/// The bytes that a sender sends over UDP.
pub const UDP_SEND_BW: Metric =
    bandwidth("udp_send_bw", "bytes that the sender sent over UDP, per second of the sender's time");

/// Datagrams that were lost.
pub const UDP_LOSS: Metric =
    share("udp_loss", "datagrams of udp_bw that were sent, warm-up included, and did not arrive");

/// Datagrams out of order.
pub const UDP_REORDERED: Metric = share(
    "udp_reordered",
    "datagrams of udp_bw that arrived after one that was sent later; from 8 B on, where they carry a number",
);

/// Interarrival jitter.
pub const UDP_JITTER: Metric = gauge(
    "udp_jitter",
    Unit::Microseconds,
    Better::Lower,
    "interarrival jitter of udp_bw by RFC 3550 at the end of the test; from 16 B on, of every eighth datagram unless at a \
     fixed rate",
);

/// Connections per second.
pub const TCP_CRR: Metric = Metric {
    name: "tcp_crr",
    unit: Unit::PerSecond,
    better: Better::Higher,
    kind: MetricKind::Rate,
    about: "TCP connections that were opened, used for a message there and back, and closed, per second",
};

/// The time of such a connection.
pub const TCP_CRR_LATENCY: Metric = trend(
    "tcp_crr_latency",
    "from the start of a connection of tcp_crr until its end was seen, or until it failed",
);

/// Segments that were sent again.
pub const TCP_RETRANSMITS: Metric = Metric {
    name: "tcp_retransmits",
    unit: Unit::Count,
    better: Better::Lower,
    kind: MetricKind::Count,
    about: "segments that this end sent again in tcp_lat and tcp_bw, warm-up included (TCP_INFO)",
};

/// The kernel's round trip time.
pub const TCP_RTT: Metric = gauge(
    "tcp_rtt",
    Unit::Microseconds,
    Better::Lower,
    "the kernel's smoothed round trip time at the end, mean over the flows (TCP_INFO)",
);

/// The congestion window.
pub const TCP_CWND: Metric = gauge(
    "tcp_cwnd",
    Unit::Count,
    Better::Neither,
    "this end's congestion window at the end in segments, mean over the flows (TCP_INFO)",
);

/// CPU time for data at the client's end.
pub const CPU_LOAD_PER_GB: Metric = gauge(
    "cpu_load_per_gb",
    Unit::Milliseconds,
    Better::Lower,
    "CPU time of the sending process per GB that arrived, of bandwidth tests",
);

/// CPU time for data at the server's end.
pub const CPU_SYSTEM_PER_GB: Metric = gauge(
    "cpu_system_per_gb",
    Unit::Milliseconds,
    Better::Lower,
    "CPU time of the receiving process per GB that arrived, of bandwidth tests",
);

/// Softirq time at the client's end.
pub const SOFTIRQ_LOAD: Metric = gauge(
    "softirq_load",
    Unit::Microseconds,
    Better::Lower,
    "softirq time per message of the whole host at the client's end; it may be part of CPU time that is counted elsewhere",
);

/// Softirq time at the server's end.
pub const SOFTIRQ_SYSTEM: Metric = gauge(
    "softirq_system",
    Unit::Microseconds,
    Better::Lower,
    "softirq time per message of the whole host at the server's end; the same as softirq_load where that is one host",
);

/// Every metric of a network experiment.
pub const METRICS: &[Metric] = &[
    TCP_LAT,
    TCP_LAT_SERVICE,
    UDP_LAT,
    UDP_LAT_SERVICE,
    UDP_LAT_LOSS,
    TCP_BW,
    UDP_BW,
    UDP_SEND_BW,
    UDP_LOSS,
    UDP_REORDERED,
    UDP_JITTER,
    TCP_CRR,
    TCP_CRR_LATENCY,
    TCP_RETRANSMITS,
    TCP_RTT,
    TCP_CWND,
    CPU_LOAD_PER_GB,
    CPU_SYSTEM_PER_GB,
    SOFTIRQ_LOAD,
    SOFTIRQ_SYSTEM,
    CPU_SYSTEM,
    CPU_LOAD,
];
