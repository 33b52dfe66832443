//! The line protocol between runner and agent: one JSON object a line, requests down, replies up.
//!
//! It is small enough to run over a network connection: prepare, snapshot, measure, stop. An agent answers
//! every request but `hurry` with exactly one final reply. Marks come before the final reply of a measure
//! request. Lines of the agent's log may come at any time, and answer nothing.

use plumb_model::{FailureCause, LogLine, Measurement};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::family::{Mark, Place, Snapshot, Window};

/// A request from a runner to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum Request {
    /// Build and start a system, and check that it answers.
    PrepareSystem {
        /// The data path's name.
        path: String,
        /// The data path's settings.
        settings: Value,
        /// The resources that the agent may use.
        place: Place,
    },
    /// Build a load against a started system; it replaces the previous load.
    PrepareLoad {
        /// The data path's name.
        path: String,
        /// The data path's settings.
        settings: Value,
        /// The target from the system's `ready` reply.
        target: Value,
        /// The resources that the agent may use.
        place: Place,
    },
    /// Report the system's counters at a moment.
    Snapshot {
        /// The moment, in ns of the agent's monotonic clock; a past moment means at once.
        at_ns: u64,
    },
    /// Take the pending snapshot at once, because the window closed early. This request has no reply.
    Hurry,
    /// Measure one window.
    Measure {
        /// The window.
        window: Window,
    },
    /// Stop everything that was started, and end.
    Stop,
}

/// An agent's reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// Prepared.
    Ready {
        /// For a system: data by which a load reaches it.
        target: Value,
    },
    /// The system's counters.
    Snapshot {
        /// When all counters had been read, in ns of the agent's monotonic clock.
        at_ns: u64,
        /// The counters.
        snapshot: Box<Snapshot>,
    },
    /// A moment in a measurement.
    Mark {
        /// Which.
        mark: Mark,
        /// When it was, in ns of the monotonic clock, which both sides of a host share.
        at_ns: u64,
    },
    /// The measurement is done.
    Measured {
        /// The measurement.
        measurement: Box<Measurement>,
    },
    /// Everything is stopped; the agent ends.
    Stopped,
    /// The request failed; the agent continues.
    Failed {
        /// Why.
        reason: String,
        /// The side that failed.
        cause: FailureCause,
        /// Whether the settings asked for what is not there or not allowed.
        #[serde(default)]
        is_usage: bool,
    },
}

/// A line of the agent's log. It is not a [`Reply`], so that a reader of the agent's output can put it aside at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logged {
    /// The line.
    pub log: LogLine,
}

impl Logged {
    /// The log line in a line of an agent's output; `None` if that is a reply.
    #[must_use]
    pub fn log_line(line: &str) -> Option<LogLine> {
        if !line.starts_with(r#"{"log":"#) {
            return None;
        }
        serde_json::from_str::<Self>(line).ok().map(|logged| logged.log.bounded())
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use plumb_model::LogLevel;

    use super::*;

    #[test]
    fn a_line_of_a_log_is_told_from_a_reply() {
        let log = crate::log::line_now(LogLevel::Warn, "plumb_path::agent", "careful");
        let line = serde_json::to_string(&Logged { log: log.clone() }).unwrap();
        assert_eq!(Logged::log_line(&line), Some(log));
        let long = line.replace("careful", &"x".repeat(100_000));
        let bytes = serde_json::to_string(&Logged::log_line(&long).unwrap()).unwrap().len();
        assert!(bytes <= plumb_model::LOG_LINE_BYTES_MAX, "whatever an agent sends, {bytes} bytes are kept");
        assert!(serde_json::from_str::<Reply>(&line).is_err());
        let reply = serde_json::to_string(&Reply::Stopped).unwrap();
        for other in [reply.as_str(), "", r#"{"log":"#, r#"{"log":7}"#] {
            assert_eq!(Logged::log_line(other), None, "{other}");
        }
    }

    #[test]
    fn a_request_is_one_line_and_is_read_back() {
        let request =
            Request::Measure { window: Window { seed: u64::MAX, index: 3, ..Window::at_once(1, 2, 0) } };
        let line = serde_json::to_string(&request).unwrap();
        assert_eq!(
            line,
            r#"{"request":"measure","window":{"warmup_ns":1,"window_ns":2,"seed":18446744073709551615,"index":3,"attempt":0,"start_ns":0,"gap_ns":0,"phase":0.0,"late_ns":0}}"#
        );
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
    }

    #[test]
    fn a_snapshot_with_threads_is_read_back() {
        let placement = plumb_host::cpu::Placement::of_processes(&[std::process::id()]);
        let snapshot = Snapshot { placement: Some(placement), ..Snapshot::default() };
        let reply = Reply::Snapshot { at_ns: 7, snapshot: Box::new(snapshot) };
        let line = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&line).unwrap(), reply);
    }

    #[test]
    fn a_foreign_line_is_refused() {
        for line in ["", "{}", "[]", r#"{"request":"fly"}"#, r#"{"reply":"ready"}"#] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }
}
