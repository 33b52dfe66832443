//! Why a request waited before it was sent, or while it was sent, and why an answer waited.
//!
//! The reasons are part of the model because the load that measures them and the report that shows them do not know each other.

use serde::{Deserialize, Serialize};

use crate::{Better, Metric, MetricKind, Unit};

crate::named! {
    /// A reason why a request waited.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Wait: name {
        /// No connection was free: each had as many requests as the load allows it, or was still being made.
        Connection = "connection",
        /// The server allowed no other request on its connections.
        Streams = "streams",
        /// The server's window for the connection.
        ConnectionWindow = "connection window",
        /// The server's window for the stream.
        StreamWindow = "stream window",
        /// The congestion window of a QUIC connection, which bytes in flight had filled.
        CongestionWindow = "congestion window",
        /// The pacer of a QUIC connection, which spreads its packets over the round trip.
        Pacing = "pacing",
        /// The kernel, which took no more bytes.
        Socket = "socket",
    }
}

impl Wait {
    /// Whether the wait exists only in QUIC. TCP's congestion window and pacing are in the kernel; such waits count as [`Wait::Socket`].
    #[must_use]
    pub const fn is_quic_only(self) -> bool {
        matches!(self, Self::CongestionWindow | Self::Pacing)
    }

    /// The distribution of these waits, with 0 for each request that did not wait for it.
    #[must_use]
    pub const fn metric(self) -> Metric {
        let (name, about) = match self {
            Self::Connection => (
                "http_req_stalled_connection",
                "from when a request was due to when it had a connection, where all had as many requests as the load allows them, or \
                 one had to be made",
            ),
            Self::Streams => (
                "http_req_stalled_streams",
                "waiting because the server allowed no other request on its connections (SETTINGS_MAX_CONCURRENT_STREAMS, or MAX_STREAMS of QUIC)",
            ),
            Self::ConnectionWindow => (
                "http_req_stalled_connection_window",
                "waiting for the server's flow-control window of the connection",
            ),
            Self::StreamWindow => (
                "http_req_stalled_stream_window",
                "waiting for the server's flow-control window of the stream",
            ),
            Self::CongestionWindow => (
                "http_req_stalled_congestion_window",
                "waiting, while the request was sent, for acknowledgements of bytes in flight, which had filled QUIC's congestion window",
            ),
            Self::Pacing => (
                "http_req_stalled_pacing",
                "waiting, while the request was sent, because QUIC's pacer spreads packets over the round trip",
            ),
            Self::Socket => {
                ("http_req_stalled_socket", "waiting for the kernel to take more bytes of the request")
            }
        };
        Metric { name, unit: Unit::Milliseconds, better: Better::Lower, kind: MetricKind::Trend, about }
    }

    /// The share of requests that waited for it. The load's own settings may be the cause, not the system, so neither direction is better.
    #[must_use]
    pub const fn share(self) -> Metric {
        let (name, about) = match self {
            Self::Connection => {
                ("http_req_stalled_connection_share", "requests that waited for a connection")
            }
            Self::Streams => {
                ("http_req_stalled_streams_share", "requests that waited for the server's limit of streams")
            }
            Self::ConnectionWindow => (
                "http_req_stalled_connection_window_share",
                "requests that waited for the server's flow-control window of the connection",
            ),
            Self::StreamWindow => (
                "http_req_stalled_stream_window_share",
                "requests that waited for the server's flow-control window of the stream",
            ),
            Self::CongestionWindow => (
                "http_req_stalled_congestion_window_share",
                "requests that waited for QUIC's congestion window",
            ),
            Self::Pacing => ("http_req_stalled_pacing_share", "requests that waited for QUIC's pacer"),
            Self::Socket => {
                ("http_req_stalled_socket_share", "requests that waited for the kernel to take more bytes")
            }
        };
        Metric { name, unit: Unit::Share, better: Better::Neither, kind: MetricKind::Share, about }
    }
}

crate::named! {
    /// A window of the load that the server used up, so that no more of an answer could be sent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum LoadWindow: name {
        /// The window of a connection.
        Connection = "connection window",
        /// The window of a stream.
        Stream = "stream window",
    }
}

impl LoadWindow {
    /// The distribution of the server's waits for this window, with a value for each time that it was used up.
    #[must_use]
    pub const fn metric(self) -> Metric {
        let (name, about) = match self {
            Self::Connection => (
                "http_res_stalled_connection_window",
                "from when the load read the last bytes that its window of a connection allowed to when the kernel took its \
                 WINDOW_UPDATE",
            ),
            Self::Stream => (
                "http_res_stalled_stream_window",
                "from when the load read the last bytes that its window of a stream allowed to when the kernel took its WINDOW_UPDATE",
            ),
        };
        Metric { name, unit: Unit::Milliseconds, better: Better::Lower, kind: MetricKind::Trend, about }
    }
}
