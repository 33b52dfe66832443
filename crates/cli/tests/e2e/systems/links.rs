//! Tests of links that delay and lose packets. They judge each slot and not the variant, which is void if a busy machine makes a link late.

mod http;
mod networks;

use std::path::Path;

use serde_json::Value;

use super::networks::{may, measured_or_refused};
use crate::common::{measured_slots, skip};

const OWN_LINK_EVIDENCE: &[&str] =
    &["Plumbline's own link", "packets that the link forwarded", "packets that the link lost"];

/// Why a busy machine ends a run whose baseline has a link: by this evidence, or because the counters were read long after the window.
const LATE: [&str; 3] = [
    "packets that the link forwarded late",
    "CPU time of the link's busier thread",
    "read the system's counters in time",
];

/// Why a test of Plumbline's own link does nothing, if so.
fn may_link() -> bool {
    let has_devices = Path::new("/dev/net/tun").exists();
    if !has_devices {
        skip("hardware: this machine has no /dev/net/tun");
    }
    has_devices && may()
}

/// Runs an experiment over links and gives its measured slots. A busy machine may make a link so late that the run ends.
fn slots_over_links(text: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    if let Err(refused) = measured_or_refused(directory.path(), text) {
        assert!(LATE.iter().any(|what| refused.contains(what)), "{refused}");
    }
    measured_slots(&directory.path().join("run"))
}

/// The slots of a variant with a link. In each, all evidence holds but that the link kept up, and there is some of each of `proven`.
fn proven<'v>(slots: &'v [Value], variant: &str, proven: &[&str]) -> Vec<&'v Value> {
    let slots: Vec<&Value> = slots.iter().filter(|slot| slot["variant"] == variant).collect();
    if slots.is_empty() {
        skip(&format!("hardware: this machine was too busy for a slot of {variant}"));
    }
    for slot in &slots {
        let broken = evidence(slot).find(|one| one["holds"] == false && !is_of_keeping_up(one));
        assert!(broken.is_none(), "{variant}: {broken:#?}");
        for what in proven {
            let has = evidence(slot).any(|one| one["what"] == *what);
            assert!(has, "{variant}: no evidence of {what} in {slot:#}");
        }
    }
    slots
}

fn evidence(slot: &Value) -> impl Iterator<Item = &Value> {
    slot["outcome"]["measured"]["evidence"].as_array().unwrap().iter()
}

/// Whether evidence says that a link kept up, which a busy machine may not let it.
fn is_of_keeping_up(evidence: &Value) -> bool {
    ["link-on-time", "link-cpu"].iter().any(|kind| evidence["kind"] == *kind)
}

/// What was read of a metric in a slot.
fn reading<'v>(slot: &'v Value, metric: &str) -> &'v Value {
    &slot["outcome"]["measured"]["measurement"]["readings"][metric]
}
