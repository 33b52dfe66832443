//! The evidence that a slot measured what it was asked to: messages of that size, over sockets as they were to be, all of
//! which arrived.

mod sends;

use std::collections::BTreeMap;

use plumb_model::{Evidence, Measurement, facts, statements};
use plumb_path::{SeenWindow, tool};

use crate::far::UNSHARED;
use crate::settings::{NetworkSettings, Test};
use crate::system;

statements! {
    ONE_CPU = "one-cpu": "{of} on one CPU", "both ends of each flow on the same CPU", "client {client}, server {server}";
    NO_COMMON_CPU = "one-cpu": "{of} on one CPU", "both ends of each flow on the same CPU, if they have one in common",
        "they have none in common, so every message wakes a CPU at each end";
    SOCKETS = "sockets": "{of}", "{asked}", "{seen}";
}

/// Proof, from counters before and after the window, that a slot did what was asked.
pub fn evidence(
    settings: &NetworkSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let mut evidence = match settings.load.driver.program() {
        Some(program) => tool::evidence(measurement, program, program).into_iter().collect(),
        None => of_load(settings, measurement),
    };
    evidence.extend(system::evidence(settings, seen, measurement));
    evidence
}

/// Evidence from both ends, of the messages and of their sockets.
#[must_use]
pub fn of_load(settings: &NetworkSettings, measurement: &Measurement) -> Vec<Evidence> {
    let load = &settings.load;
    let of = |tests: fn(Test) -> bool| load.tests.iter().copied().filter(move |test| tests(*test));
    let mut evidence = Vec::new();
    let ends = 2 * u64::from(load.flows);
    // A stream has no messages; there their bytes are compared.
    let sizes: Vec<String> = of(|test| !matches!(test, Test::TcpBw | Test::TcpCrr))
        .map(|test| format!("{}: {} B", test.name(), load.size_of(test).0))
        .collect();
    if !sizes.is_empty() {
        evidence.push(only(measurement, "message size received", "msg_size", &sizes));
    }
    let busy_poll_us = load.busy_poll.0 / 1000;
    if busy_poll_us > 0 {
        evidence.push(only(measurement, "SO_BUSY_POLL in us", "busy_poll_us", &[busy_poll_us.to_string()]));
    }
    let shared = of(|_| true).filter(|test| load.shares_cpus(*test));
    evidence.extend(shared.map(|test| one_cpu(test, measurement)));
    evidence.extend(sends::evidence(settings, measurement));
    let tcp: Vec<Test> = of(|test| !test.is_udp()).collect();
    if tcp.is_empty() {
        return evidence;
    }
    let words =
        |test: &Test| format!("{}: {}", test.name(), if load.nodelay_of(*test) { "on" } else { "off" });
    let expected: Vec<String> = tcp.iter().filter(|test| **test != Test::TcpCrr).map(words).collect();
    if !expected.is_empty() {
        let mut nodelay = only(measurement, "TCP_NODELAY", "nodelay", &expected);
        nodelay.holds &= expected.iter().all(|value| measurement.observed_count("nodelay", value) == ends);
        evidence.push(nodelay);
    }
    evidence.push(only(measurement, "MPTCP", "mptcp", &["off".to_owned()]));
    let as_sent: Vec<String> = tcp.iter().map(|test| format!("{}: as sent", test.name())).collect();
    evidence.push(only(measurement, "received", "received", &as_sent));
    evidence
}

/// Holds where the threads of both ends may run on the same single CPUs, as often as each other, or where the ends have no CPU in
/// common because they are on different hosts.
fn one_cpu(test: Test, measurement: &Measurement) -> Evidence {
    if measurement.observed.contains_key(UNSHARED) {
        return NO_COMMON_CPU.evidence(true, facts![of = test.name()]);
    }
    let of = |end: &str| -> BTreeMap<&str, u64> {
        let prefix = format!("{} {end}: ", test.name());
        let cpus = measurement.values_of("cpu");
        cpus.filter_map(|(value, count)| Some((value.strip_prefix(&prefix)?, count))).collect()
    };
    let (client, server) = (of("client"), of("server"));
    let words = |cpus: &BTreeMap<&str, u64>| {
        let words: Vec<String> = cpus.iter().map(|(cpu, count)| format!("{cpu} ({count})")).collect();
        if words.is_empty() { "anywhere".to_owned() } else { format!("on CPU {}", words.join(", ")) }
    };
    let holds = !client.is_empty() && client == server && client.keys().all(|cpu| cpu.parse::<u32>().is_ok());
    ONE_CPU.evidence(holds, facts![of = test.name(), client = words(&client), server = words(&server)])
}

/// Holds where nothing but the expected values was observed, and each of them.
fn only(measurement: &Measurement, what: &str, property: &str, expected: &[String]) -> Evidence {
    let nothing = BTreeMap::new();
    let observed = measurement.observed.get(property).unwrap_or(&nothing);
    let is_there = |value: &String| observed.contains_key(value);
    let is_expected = |value: &&String| property == "nodelay" && value.starts_with(Test::TcpCrr.name());
    let holds = expected.iter().all(is_there)
        && observed.keys().all(|value| expected.contains(value) || is_expected(&value));
    let words: Vec<String> = observed.iter().map(|(value, count)| format!("{value} ({count})")).collect();
    let seen = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    SOCKETS.evidence(holds, facts![of = what, asked = expected.join(", "), seen])
}

#[cfg(test)]
mod tests {
    use plumb_model::Span;

    use super::*;

    #[test]
    fn a_socket_that_does_not_poll_as_long_as_asked_breaks_the_evidence() {
        let mut settings = NetworkSettings::default();
        settings.load.tests = vec![Test::UdpLat];
        settings.load.busy_poll = Span(50_000);
        let broken = |polls: &[&str]| -> Vec<String> {
            let mut measurement = Measurement::default();
            let mut see = |property: &str, value: &str| {
                measurement.observed.entry(property.to_owned()).or_default().insert(value.to_owned(), 2);
            };
            see("msg_size", "udp_lat: 1 B");
            polls.iter().for_each(|polls| see("busy_poll_us", polls));
            let evidence = of_load(&settings, &measurement).into_iter();
            evidence.filter(|one| !one.holds).map(|one| one.what).collect()
        };
        assert_eq!(broken(&["50"]), [""; 0]);
        assert_eq!(broken(&["50", "0"]), ["SO_BUSY_POLL in us"]);
        assert_eq!(broken(&[]), ["SO_BUSY_POLL in us"]);
    }

    #[test]
    fn ends_that_have_no_cpu_in_common_need_not_share_one() {
        let mut measurement = Measurement::default();
        assert!(!one_cpu(Test::TcpLat, &measurement).holds);
        measurement.observed.insert(UNSHARED.to_owned(), [("yes".to_owned(), 1)].into());
        let evidence = one_cpu(Test::TcpLat, &measurement);
        assert!(evidence.holds);
        assert_eq!(evidence.observed, "they have none in common, so every message wakes a CPU at each end");
    }
}
