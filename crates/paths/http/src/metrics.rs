//! The metrics of the `http` data path, under the names that users of k6 know.

use plumb_model::metric::{CPU_LOAD, CPU_SYSTEM};
use plumb_model::{Better, LoadWindow, Metric, MetricKind, Segments, Unit, Wait};

/// A distribution of times, of which less is better.
const fn trend(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::Milliseconds, better: Better::Lower, kind: MetricKind::Trend, about }
}

const fn count(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::Count, better: Better::Neither, kind: MetricKind::Count, about }
}

/// Answers per second.
pub const HTTP_REQS: Metric = Metric {
    name: "http_reqs",
    unit: Unit::PerSecond,
    better: Better::Higher,
    kind: MetricKind::Rate,
    about: "answers completed within the window, per second",
};

/// The time of a request.
pub const HTTP_REQ_DURATION: Metric = trend(
    "http_req_duration",
    "sending, waiting and receiving, without connecting and the TLS handshake; at a fixed rate, from when the request was due \
     to the end of its answer, including both",
);

/// The time of a request without the wait for its turn.
pub const HTTP_REQ_SERVICE: Metric = trend(
    "http_req_service",
    "sending, waiting and receiving, also at a fixed rate; without the wait for a free connection, connecting and TLS",
);

/// The wait for a connection.
pub const HTTP_REQ_BLOCKED: Metric = trend(
    "http_req_blocked",
    "waiting for a connection, including connecting and the TLS handshake; 0 on an open connection",
);

/// Connecting.
pub const HTTP_REQ_CONNECTING: Metric =
    trend("http_req_connecting", "making the TCP connection; 0 on an open connection");

/// The TLS handshake.
pub const HTTP_REQ_TLS_HANDSHAKING: Metric =
    trend("http_req_tls_handshaking", "the TLS handshake; 0 on an open connection");

/// Sending.
pub const HTTP_REQ_SENDING: Metric = trend("http_req_sending", "handing the request to the kernel");

/// Waiting.
pub const HTTP_REQ_WAITING: Metric = trend(
    "http_req_waiting",
    "from the last byte of the request to the first byte of the answer; without connecting and TLS",
);

/// Receiving.
pub const HTTP_REQ_RECEIVING: Metric =
    trend("http_req_receiving", "from the first to the last byte of the answer; 0 where they came together");

/// Requests that waited. The load's own connections may be the cause, not the system, so neither direction is better.
pub const HTTP_REQ_STALLED: Metric = Metric {
    name: "http_req_stalled",
    unit: Unit::Share,
    better: Better::Neither,
    kind: MetricKind::Share,
    about: "requests that waited before or while they were sent; each reason to wait has metrics",
};

/// All of a request.
pub const ITERATION_DURATION: Metric = trend(
    "iteration_duration",
    "all of a request: its wait for a connection, connecting, TLS, and all that follows",
);

/// Failed requests.
pub const HTTP_REQ_FAILED: Metric = Metric {
    name: "http_req_failed",
    unit: Unit::Share,
    better: Better::Lower,
    kind: MetricKind::Share,
    about: "requests with status 400 or above, or without an answer",
};

/// Passed checks.
pub const CHECKS: Metric = Metric {
    name: "checks",
    unit: Unit::Share,
    better: Better::Higher,
    kind: MetricKind::Share,
    about: "checks on answers that passed",
};

const fn data(name: &'static str, about: &'static str) -> Metric {
    Metric { name, unit: Unit::BytesPerSecond, better: Better::Neither, kind: MetricKind::Rate, about }
}

/// Bytes sent.
pub const DATA_SENT: Metric = data("data_sent", "bytes handed to sockets, TLS included, per second");

/// Bytes received.
pub const DATA_RECEIVED: Metric = data("data_received", "bytes taken from sockets, TLS included, per second");

/// Full handshakes.
pub const HANDSHAKES_FULL: Metric =
    count("handshakes_full", "full TLS handshakes completed within the window");

/// Resumed handshakes.
pub const HANDSHAKES_RESUMED: Metric =
    count("handshakes_resumed", "resumed TLS handshakes completed within the window");

/// Round trips of QUIC.
pub const QUIC_RTT: Metric = trend(
    "quic_rtt",
    "QUIC's smoothed round-trip time of each connection of HTTP/3, when the window closed or the connection ended in it",
);

/// Every metric of an HTTP experiment.
pub const METRICS: &[Metric] = &[
    HTTP_REQS,
    // The first of the times, because it alone leaves nothing out where every request makes a connection.
    ITERATION_DURATION,
    HTTP_REQ_DURATION,
    HTTP_REQ_SERVICE,
    HTTP_REQ_BLOCKED,
    HTTP_REQ_CONNECTING,
    HTTP_REQ_TLS_HANDSHAKING,
    HTTP_REQ_SENDING,
    HTTP_REQ_WAITING,
    HTTP_REQ_RECEIVING,
    HTTP_REQ_STALLED,
    Wait::Connection.metric(),
    Wait::Streams.metric(),
    Wait::ConnectionWindow.metric(),
    Wait::StreamWindow.metric(),
    Wait::CongestionWindow.metric(),
    Wait::Pacing.metric(),
    Wait::Socket.metric(),
    Wait::Connection.share(),
    Wait::Streams.share(),
    Wait::ConnectionWindow.share(),
    Wait::StreamWindow.share(),
    Wait::CongestionWindow.share(),
    Wait::Pacing.share(),
    Wait::Socket.share(),
    Segments::Retransmitted.metric(),
    Segments::OutOfOrder.metric(),
    QUIC_RTT,
    LoadWindow::Connection.metric(),
    LoadWindow::Stream.metric(),
    HTTP_REQ_FAILED,
    CHECKS,
    DATA_SENT,
    DATA_RECEIVED,
    HANDSHAKES_FULL,
    HANDSHAKES_RESUMED,
    CPU_SYSTEM,
    CPU_LOAD,
];
