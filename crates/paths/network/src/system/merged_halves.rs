//! Merges the counters of the halves of a network on different hosts: evidence is of the whole way.
//!
//! A load's measurement brings along what its half counted, as something observed, so that several loads' are added up.

use std::collections::BTreeMap;

use plumb_model::Measurement;
use plumb_path::Snapshot;

use super::observe::ENTRIES;

/// Where a measurement has what loads' halves had counted when the window opened, and when it closed.
pub(super) const OPENED: &str = "network of the load's host, opened";
pub(super) const CLOSED: &str = "network of the load's host, closed";
/// Before the names of states there.
const STATE: &str = "network of the load's host: ";

/// Adds what was seen of a half to the measurement. A count that is not one of packets, such as that of tracked connections, stands
/// beside them: all are added up over several loads.
pub(crate) fn note(measurement: &mut Measurement, opened: Snapshot, closed: Snapshot) {
    for (when, snapshot) in [(OPENED, opened), (CLOSED, closed)] {
        let mut counts = snapshot.counters;
        for (name, value) in snapshot.states {
            match value.parse() {
                Ok(count) if name == ENTRIES => {
                    counts.insert(name, count);
                }
                _ if when == CLOSED => {
                    measurement.observed.insert(format!("{STATE}{name}"), [(value, 1)].into());
                }
                _ => {}
            }
        }
        measurement.observed.insert(when.to_owned(), counts);
    }
}

/// The counters of the system's half and of the loads' halves at one end of a window, and the states of all.
pub(super) fn joined(system: &Snapshot, measurement: &Measurement, when: &str) -> Snapshot {
    let mut all = system.clone();
    let nothing = BTreeMap::new();
    for (name, count) in measurement.observed.get(when).unwrap_or(&nothing) {
        if let Some(state) = all.states.get_mut(name) {
            let entries = state.parse::<u64>().unwrap_or(0);
            *state = entries.saturating_add(*count).to_string();
        } else {
            *all.counters.entry(name.clone()).or_default() += count;
        }
    }
    for (name, values) in &measurement.observed {
        let Some(state) = name.strip_prefix(STATE).and_then(|name| all.states.get_mut(name)) else {
            continue;
        };
        for value in values.keys().filter(|value| *value != state).collect::<Vec<_>>() {
            state.push_str(" and ");
            state.push_str(value);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(packets: u64, entries: &str, mtu: &str) -> Snapshot {
        let states = [(ENTRIES, entries), ("mtu", mtu)];
        Snapshot {
            counters: [("tunnel: packets".to_owned(), packets)].into(),
            states: states.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn evidence_is_of_both_halves() {
        let mut measurement = Measurement::default();
        note(&mut measurement, snapshot(10, "1", "1500"), snapshot(70, "2", "1500"));
        let both = |mtu, when| joined(&snapshot(100, "5", mtu), &measurement, when);
        assert_eq!(both("1500", OPENED), snapshot(110, "6", "1500"));
        assert_eq!(both("1500", CLOSED), snapshot(170, "7", "1500"));
        assert_eq!(both("9000", CLOSED).states["mtu"], "9000 and 1500");
        let none = Measurement::default();
        assert_eq!(joined(&snapshot(1, "0", "1500"), &none, OPENED), snapshot(1, "0", "1500"));
    }
}
