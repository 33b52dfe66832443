//! Lines between a runner and its agents that are nearly right: what is read is written as a line, and read back.

use std::collections::BTreeMap;

use plumb_fuzz::Target;
use plumb_model::{CpuCost, Histogram, Reading, Statistic};
use serde::de::DeserializeOwned;

use super::*;

fn requests() -> Vec<Request> {
    let place = Place { scratch: "/tmp/x".into(), cpus: 2, address: Some([10, 0, 0, 1].into()), number: 1 };
    let settings = serde_json::json!({ "a": 1.1, "b": [1, null, "x"], "c": { "d": u64::MAX } });
    let path = "null".to_owned();
    vec![
        Request::PrepareSystem { path: path.clone(), settings: settings.clone(), place: place.clone() },
        Request::PrepareLoad { path, settings: settings.clone(), target: settings, place },
        Request::Snapshot { at_ns: u64::MAX },
        Request::Hurry,
        Request::Measure { window: Window { seed: 7, index: 3, ..Window::at_once(1, 2, 0) } },
        Request::Stop,
    ]
}

fn measurement() -> Measurement {
    let mut histogram = Histogram::new();
    [1_000, 2_500, 70_000, 9_000_000].into_iter().for_each(|ns| histogram.record(ns));
    let readings = [
        ("rate", Reading::Rate { value: 1234.567, count: 9 }),
        ("time", Reading::Trend(histogram)),
        (
            "summary",
            Reading::Summary { count: Some(7), statistics_ns: BTreeMap::from([(Statistic::Avg, 0.1)]) },
        ),
        ("gauge", Reading::Gauge(-0.3)),
    ];
    Measurement {
        window_ns: 1_000_000_000,
        work: 9,
        readings: readings.map(|(name, reading)| (name.to_owned(), reading)).into(),
        windows: [("rate".to_owned(), vec![1.5, 2.5])].into(),
        notices: vec![plumb_model::Notice::text("it was slow")],
        ..Measurement::default()
    }
}

fn replies() -> Vec<Reply> {
    let snapshot = Snapshot {
        cpu: CpuCost { user_ns: 5, system_ns: 7, components: [("ingress".to_owned(), 12)].into() },
        counters: [("bytes".to_owned(), 1 << 60)].into(),
        states: [("state".to_owned(), "up".to_owned())].into(),
        workers: [("ingress-1".to_owned(), 7)].into(),
        worker_cpu_ns: [("4711".to_owned(), 9)].into(),
        ..Snapshot::default()
    };
    let cause = FailureCause::System;
    vec![
        Reply::Ready { target: serde_json::json!({ "port": 80 }) },
        Reply::Snapshot { at_ns: 5, snapshot: Box::new(snapshot) },
        Reply::Mark { mark: Mark::Opened, at_ns: 6 },
        Reply::Measured { measurement: Box::new(measurement()) },
        Reply::Stopped,
        Reply::Failed { reason: "it was gone".to_owned(), cause, is_usage: false },
    ]
}

/// Reads a line, and compares it with what it is written as. Returns the kind of the message, or the error.
fn read_back<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(line: &str) -> String {
    let message = match serde_json::from_str::<T>(line) {
        Ok(message) => message,
        Err(error) => return error.to_string().chars().filter(char::is_ascii_lowercase).take(60).collect(),
    };
    let written = serde_json::to_string(&message).unwrap();
    assert!(!written.contains('\n'), "it is one line");
    assert_eq!(serde_json::from_str::<T>(&written).unwrap(), message, "what is written is read back");
    written.chars().take(24).collect()
}

/// The line of a message, which is read back as the same message.
fn line<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(message: &T) -> String {
    let line = serde_json::to_string(message).unwrap();
    assert_eq!(serde_json::from_str::<T>(&line).unwrap(), *message, "what is written is read back");
    line
}

#[test]
fn fuzz_agent_lines() {
    let requests = requests().iter().map(line).collect::<Vec<_>>();
    let replies = replies().iter().map(line).collect::<Vec<_>>();
    Target::new("fuzz_agent_lines").seeds(requests).seeds(replies).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        [read_back::<Request>(&text), read_back::<Reply>(&text)]
    });
}
