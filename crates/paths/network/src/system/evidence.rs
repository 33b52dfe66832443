//! The evidence of a network: that each message went the way that was built for it, and that each setting was in effect.

use plumb_host::cpu::CpuSet;
use plumb_model::{Bytes, Evidence, Measurement, Reading, Statement, facts, statements};
use plumb_path::link::{self, LinkShape};
use plumb_path::{SeenWindow, Snapshot};

use super::apply::{features, wanted};
use super::half::{APART, HOSTS_FILTERS};
use super::layout::Role;
use super::merged_halves::{CLOSED, OPENED, joined};
use super::observe::{
    BURST, ENTRIES, NONE, SERVICES, SHORTCUTS, TUNNEL, UNLIKE_HOST, of_queues, of_rules, of_shape, packets_of,
};
use super::rules::{PASSED, TRACKED, UNTRACKED, WALKS};
use crate::metrics;
use crate::options::Fastpath;
use crate::settings::{NetworkSettings, SystemKind, SystemSettings};

statements! {
    TUNNELLED = "packets-carried": "packets through the tunnel", CARRIED_MIN, CARRIED;
    OVER_LINK = "packets-carried": "packets over the link between the nodes", CARRIED_MIN, CARRIED;
    THROUGH_PORTS = "packets-carried": "packets through the pods' ports", CARRIED_MIN, CARRIED;
    BETWEEN_HOSTS = "packets-carried": "packets between the hosts", CARRIED_MIN, CARRIED;
    OF_PODS = "packets-carried": "packets of the pods", CARRIED_MIN, CARRIED;
    SHORT_WAY = "packets-short-way": "packets that took the short way", "at least {least:.0}", "{packets:.0}";
    NONE_TRACKED = "connections-tracked": "connections that are tracked", "0", "{first} before, {last} after";
    SOME_TRACKED = "connections-tracked": "connections that are tracked", "more than 0", "{first} before, {last} after";
    ALL_TRACKED = "packets-tracked": "packets and connection tracking", "at least {least:.0} tracked", TRACKED_OR_NOT;
    ALL_UNTRACKED = "packets-tracked": "packets and connection tracking", "at least {least:.0} not tracked", TRACKED_OR_NOT;
    NONE_FILTERED = "packets-tracked": "packets and connection tracking", "next to none crosses the filters", TRACKED_OR_NOT;
    NEW_PAST_RULES = "service-rules": "new connections past all {of} service rules",
        "at least 1 since the network was built, and none that stopped at a rule", "{passed} of {walks}";
    PACKETS_PAST_RULES = "service-rules": "packets past all {of} service rules", "at least {least:.0}", "{passed:.0} of {walks:.0}";
    SETTING = "network-setting": "{of}", "{asked}", "{seen}";
}

const CARRIED_MIN: &str = "at least {least_packets:.0} packets with {least_bytes:.0} B";
const CARRIED: &str = "{packets:.0} packets with {bytes:.0} B";
const TRACKED_OR_NOT: &str =
    "{tracked:.0} tracked, {untracked:.0} not; entries: {first} before, {last} after";

/// The share of a window's packets that its counters may miss, as they are read a little later than it opens and closes.
const MISSED_MAX: f64 = 0.1;
/// The share of packets that may go another way than they should: those that set connections up.
const STRAY_MAX: f64 = 0.01;

/// The least traffic that a window must have put on the network.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Traffic {
    packets: f64,
    bytes: f64,
}

/// Proof of the whole network.
pub fn evidence(
    settings: &NetworkSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let spec = &settings.system;
    let before = &joined(seen.before, measurement, OPENED);
    let after = &joined(seen.after, measurement, CLOSED);
    let seen = Observation { spec, before, after, traffic: traffic(settings, measurement) };
    let mut evidence = seen.way();
    evidence.extend(seen.tracking());
    evidence.extend(seen.services());
    evidence.extend(seen.settings());
    evidence
}

/// Messages that are there and back are a packet each way; of what goes one way, segmentation makes fewer packets, so that
/// their bytes are compared.
fn traffic(settings: &NetworkSettings, measurement: &Measurement) -> Traffic {
    let mut traffic = Traffic { packets: 0.0, bytes: 0.0 };
    // Only what came back: distributions hold what was held up or lost, too.
    for test in settings.load.tests.iter().filter(|test| !test.is_bandwidth()) {
        let packets = 2.0 * measurement.observed_count("there_and_back", test.name()) as f64;
        traffic.packets += packets;
        traffic.bytes += packets * settings.load.size_of(*test).0 as f64;
    }
    for metric in [metrics::TCP_BW, metrics::UDP_BW] {
        if let Some(Reading::Rate { count, .. }) = measurement.readings.get(metric.name) {
            traffic.bytes += *count as f64;
            traffic.packets += 1.0;
        }
    }
    traffic
}

/// The facts of a window.
struct Observation<'a> {
    spec: &'a SystemSettings,
    before: &'a Snapshot,
    after: &'a Snapshot,
    traffic: Traffic,
}

impl Observation<'_> {
    fn moved(&self, counter: &str) -> f64 {
        self.after.moved(self.before, counter).unwrap_or(0) as f64
    }

    /// That all packets went over the devices that make the network what it is.
    fn way(&self) -> Vec<Evidence> {
        let (statement, role) = match self.spec.kind {
            SystemKind::Vxlan => (TUNNELLED, Role::Tunnel),
            // What Open vSwitch says of its tunnel lags behind; the link carries nothing else.
            SystemKind::Ovs => (OVER_LINK, Role::Wire),
            SystemKind::Bridge => (THROUGH_PORTS, Role::Port),
            SystemKind::Veth => (BETWEEN_HOSTS, Role::End),
            SystemKind::Loopback | SystemKind::External => return Vec::new(),
        };
        if self.spec.kind == SystemKind::Bridge && self.spec.fastpath == Fastpath::Redirect {
            return vec![self.carried(OF_PODS, Role::End), self.short_way()];
        }
        let mut evidence = vec![self.carried(statement, role)];
        if self.spec.kind == SystemKind::Ovs {
            evidence.push(self.read_back(TUNNEL, self.spec.tunnel.name().to_owned()));
        }
        if self.spec.fastpath == Fastpath::Redirect {
            evidence.push(self.short_way());
        }
        evidence
    }

    fn carried(&self, statement: Statement, role: Role) -> Evidence {
        let (packets, bytes) = packets_of(role);
        let (packets, bytes) = (self.moved(packets), self.moved(bytes));
        let Traffic { packets: least_packets, bytes: least_bytes } = self.traffic;
        let enough = |moved: f64, min: f64| moved >= (1.0 - MISSED_MAX) * min && moved > 0.0;
        let holds = enough(packets, least_packets) && enough(bytes, least_bytes);
        statement.evidence(holds, facts![least_packets, least_bytes, packets, bytes])
    }

    fn short_way(&self) -> Evidence {
        let (packets, least) = (self.moved(SHORTCUTS), self.traffic.packets);
        SHORT_WAY.evidence(packets > 0.0 && packets >= (1.0 - MISSED_MAX) * least, facts![least, packets])
    }

    /// Whether packets cross the filters of hosts, of which nothing is known.
    fn has_filters_of_hosts(&self) -> bool {
        self.after.states.get(APART).is_some_and(|filters| filters.ends_with(HOSTS_FILTERS))
    }

    /// That connections were tracked, or were not.
    fn tracking(&self) -> Vec<Evidence> {
        if matches!(self.spec.kind, SystemKind::Loopback | SystemKind::External)
            || self.has_filters_of_hosts()
        {
            return Vec::new();
        }
        let entries = |snapshot: &Snapshot| snapshot.states.get(ENTRIES).cloned().unwrap_or_default();
        let (first, last) = (entries(self.before), entries(self.after));
        if !self.spec.conntrack.is_on() {
            return vec![NONE_TRACKED.evidence(first == "0" && last == "0", facts![first, last])];
        }
        if self.spec.kind == SystemKind::Ovs {
            let holds =
                [&first, &last].iter().all(|entries| entries.parse::<u64>().is_ok_and(|entries| entries > 0));
            return vec![SOME_TRACKED.evidence(holds, facts![first, last])];
        }
        let (tracked, untracked) = (self.moved(&of_rules(TRACKED)), self.moved(&of_rules(UNTRACKED)));
        let least = self.traffic.packets;
        let enough = |count: f64| count > 0.0 && count >= (1.0 - MISSED_MAX) * least;
        let few = |count: f64| count <= STRAY_MAX * least;
        let (statement, holds) = match self.spec.fastpath {
            Fastpath::Off => (ALL_TRACKED, enough(tracked) && few(untracked)),
            Fastpath::Notrack => (ALL_UNTRACKED, enough(untracked) && few(tracked)),
            Fastpath::Redirect => (NONE_FILTERED, few(tracked) && few(untracked)),
        };
        vec![statement.evidence(holds, facts![least, tracked, untracked, first, last])]
    }

    /// That packets, or new connections, walked past all service rules; of Open vSwitch, which looks them up instead of walking
    /// past them, that it has them.
    fn services(&self) -> Option<Evidence> {
        let rules = self.spec.service_rules;
        if rules == 0 || self.spec.fastpath != Fastpath::Off {
            return None;
        }
        if self.spec.kind == SystemKind::Ovs {
            return Some(self.read_back(SERVICES, rules.to_string()));
        }
        let now = |name: &str| self.after.counters.get(&of_rules(name)).copied().unwrap_or(0);
        if self.spec.conntrack.is_on() {
            let (walks, passed) = (now(WALKS), now(PASSED));
            let holds = walks > 0 && walks == passed;
            return Some(NEW_PAST_RULES.evidence(holds, facts![of = rules.to_string(), passed, walks]));
        }
        let (walks, passed) = (self.moved(&of_rules(WALKS)), self.moved(&of_rules(PASSED)));
        let least = self.traffic.packets;
        // The two are read one after the other while packets pass.
        let is_of_these = (walks - passed).abs() <= STRAY_MAX * walks;
        let holds = passed > 0.0 && passed >= (1.0 - MISSED_MAX) * least && is_of_these;
        Some(PACKETS_PAST_RULES.evidence(holds, facts![of = rules.to_string(), least, passed, walks]))
    }

    /// Every setting that is asked for, read back when the window opened and when it had closed.
    fn settings(&self) -> Vec<Evidence> {
        let spec = self.spec;
        if matches!(spec.kind, SystemKind::Loopback | SystemKind::External) {
            return Vec::new();
        }
        let mut asked = vec![("mtu", spec.mtu.to_string())];
        asked.extend(spec.queue_length.map(|length| ("queue_length", length.to_string())));
        asked.extend(spec.qdisc.clone().map(|kind| ("qdisc", kind)));
        let is_own = link::is_own(&spec.link, self.after);
        asked.extend(queue_of(&spec.link).filter(|_| !is_own).map(|kind| ("qdisc", kind.to_owned())));
        let features = features(&spec.offloads).into_iter();
        asked.extend(features.filter_map(|(it, asked)| Some((it.name(), asked?.name().to_owned()))));
        asked.extend(spec.rps.as_deref().map(|cpus| ("rps", queues_on(cpus, spec.queues, false))));
        asked.extend(spec.xps.as_deref().map(|cpus| ("xps", queues_on(cpus, spec.queues, true))));
        if !self.has_filters_of_hosts() {
            asked.push((UNLIKE_HOST, NONE.to_owned()));
        }
        let mut evidence: Vec<Evidence> =
            asked.into_iter().map(|(name, expected)| self.read_back(name, expected)).collect();
        if is_own {
            let least =
                [self.traffic.packets, self.traffic.bytes].map(|counted| (1.0 - MISSED_MAX) * counted);
            evidence.extend(link::link_evidence(&spec.link, (self.before, self.after), least.into()));
            return evidence;
        }
        let shape = of_shape(wanted(&spec.link)).into_iter();
        evidence.extend(shape.map(|(name, expected)| match name {
            BURST => self.burst(&expected),
            _ => self.read_back(name, expected),
        }));
        evidence
    }

    /// The kernel keeps a burst as the time that it takes, in ticks of 64 ns, so that it is a few bytes off.
    fn burst(&self, expected: &str) -> Evidence {
        const TICK_S: f64 = 65e-9;
        let rate = self.spec.link.rate.map_or(0.0, |rate| rate.0);
        let wanted = Bytes::parse(expected).map_or(0, |bytes| bytes.0);
        let mut evidence = self.read_back(BURST, expected.to_owned());
        let is_near = |snapshot: &Snapshot| {
            let read = snapshot.states.get(BURST).and_then(|text| Bytes::parse(text).ok());
            read.is_some_and(|read| read.0.abs_diff(wanted) as f64 <= 1.0 + TICK_S * rate)
        };
        evidence.holds = is_near(self.before) && is_near(self.after);
        evidence
    }

    fn read_back(&self, name: &str, asked: String) -> Evidence {
        let state = |snapshot: &Snapshot| snapshot.states.get(name).cloned().unwrap_or_default();
        let (first, last) = (state(self.before), state(self.after));
        let holds = first == asked && last == asked;
        let seen = if first == last { last } else { format!("{first} before, {last} after") };
        SETTING.evidence(holds, facts![of = name, asked, seen])
    }
}

/// The kernel's queue that makes a link slow or bad.
fn queue_of(link: &LinkShape) -> Option<&'static str> {
    if link.is_impaired() { Some("netem") } else { link.rate.map(|_| "tbf") }
}

/// The words for queues that all belong to these CPUs, or to one of them each in turn.
fn queues_on(cpus: &str, queues: u32, in_turn: bool) -> String {
    let cpus: CpuSet = cpus.parse().unwrap_or_default();
    let queues = queues as usize;
    let of_queue = |queue: usize| {
        if in_turn { cpus.iter().skip(queue).step_by(queues).collect() } else { cpus.clone() }
    };
    of_queues(&(0..queues).map(of_queue).collect::<Vec<CpuSet>>())
}

#[cfg(test)]
mod tests {
    use plumb_model::{ByteRate, Percent, Span};

    use super::*;
    use crate::options::Switch;

    /// A thousand messages there and back.
    fn measurement() -> Measurement {
        let there_and_back = [("tcp_lat".to_owned(), 1000)].into_iter().collect();
        let observed = [("there_and_back".to_owned(), there_and_back)].into_iter().collect();
        Measurement { observed, ..Measurement::default() }
    }

    fn settings(system: SystemSettings) -> NetworkSettings {
        NetworkSettings { system, ..NetworkSettings::default() }
    }

    fn snapshot(counters: &[(&str, u64)], states: &[(&str, &str)]) -> Snapshot {
        Snapshot {
            counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            states: states.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..Snapshot::default()
        }
    }

    /// The statements that do not hold, by their words.
    fn broken(system: SystemSettings, after: &Snapshot) -> Vec<String> {
        let before = Snapshot { states: after.states.clone(), ..Snapshot::default() };
        let evidence = super::evidence(
            &settings(system),
            SeenWindow { before: &before, after, measurement: None },
            &measurement(),
        );
        evidence.into_iter().filter(|one| !one.holds).map(|one| one.what).collect()
    }

    const PLAIN: [(&str, &str); 3] = [(ENTRIES, "0"), ("mtu", "1500"), (UNLIKE_HOST, NONE)];

    #[test]
    fn messages_that_went_another_way_break_the_evidence() {
        let vxlan = SystemSettings { kind: SystemKind::Vxlan, ..SystemSettings::default() };
        let good = snapshot(&[("tunnel: packets", 2000), ("tunnel: bytes", 140_000)], &PLAIN);
        assert_eq!(broken(vxlan.clone(), &good), [""; 0]);
        let other = snapshot(&[("ends: packets", 2000), ("ends: bytes", 140_000)], &PLAIN);
        assert_eq!(broken(vxlan.clone(), &other), ["packets through the tunnel"]);
        let half = snapshot(&[("tunnel: packets", 1000), ("tunnel: bytes", 140_000)], &PLAIN);
        assert_eq!(broken(vxlan, &half), ["packets through the tunnel"]);
    }

    #[test]
    fn tracking_that_should_be_off_or_on_and_is_not_breaks_the_evidence() {
        let veth = SystemSettings { kind: SystemKind::Veth, ..SystemSettings::default() };
        let ends = [("ends: packets", 2000), ("ends: bytes", 140_000)];
        let tracked = snapshot(&ends, &[(ENTRIES, "2"), ("mtu", "1500"), (UNLIKE_HOST, NONE)]);
        assert_eq!(broken(veth.clone(), &tracked), ["connections that are tracked"]);
        let on = SystemSettings { conntrack: Switch::On, ..veth };
        assert_eq!(broken(on.clone(), &tracked), ["packets and connection tracking"]);
        let seen = snapshot(&[ends[0], ends[1], ("rules: tracked", 4000)], &PLAIN);
        assert_eq!(broken(on.clone(), &seen), [""; 0]);
        let past = SystemSettings { fastpath: Fastpath::Notrack, ..on };
        assert_eq!(broken(past, &seen), ["packets and connection tracking"]);
    }

    #[test]
    fn rules_that_packets_do_not_walk_break_the_evidence() {
        let rules = SystemSettings { kind: SystemKind::Veth, service_rules: 10, ..SystemSettings::default() };
        let of = |walks: u64, passed: u64| {
            let counters = [
                ("ends: packets", 2000),
                ("ends: bytes", 140_000),
                ("rules: walks", walks),
                ("rules: passed", passed),
            ];
            broken(rules.clone(), &snapshot(&counters, &PLAIN))
        };
        assert_eq!(of(4000, 4000), [""; 0]);
        assert_eq!(of(4000, 0), ["packets past all 10 service rules"]);
        assert_eq!(of(0, 0), ["packets past all 10 service rules"]);
    }

    #[test]
    fn rules_that_open_vswitch_does_not_have_break_the_evidence() {
        let ovs = SystemSettings { kind: SystemKind::Ovs, service_rules: 10, ..SystemSettings::default() };
        let of = |rules: &str| {
            let counters = [("link: packets", 2000), ("link: bytes", 140_000)];
            let states = [&PLAIN[..], &[("tunnel type", "geneve"), ("service rules", rules)]].concat();
            broken(ovs.clone(), &snapshot(&counters, &states))
        };
        assert_eq!(of("10"), [""; 0]);
        assert_eq!(of("10 and 0"), ["service rules"]);
    }

    #[test]
    fn a_setting_that_is_not_in_effect_breaks_the_evidence() {
        let spec = SystemSettings {
            kind: SystemKind::Veth,
            mtu: 9000,
            queues: 2,
            xps: Some("0-1".to_owned()),
            rps: Some("1".to_owned()),
            ..SystemSettings::default()
        };
        let ends = [("ends: packets", 2000), ("ends: bytes", 140_000)];
        let states = [PLAIN[0], PLAIN[2], ("mtu", "9000"), ("rps", "1; 1"), ("xps", "0; 1")];
        assert_eq!(broken(spec.clone(), &snapshot(&ends, &states)), [""; 0]);
        assert_eq!(broken(spec, &snapshot(&ends, &PLAIN)), ["mtu", "rps", "xps"]);
        let unlike = [PLAIN[0], PLAIN[1], (UNLIKE_HOST, "net/ipv4/tcp_window_scaling")];
        let veth = SystemSettings { kind: SystemKind::Veth, ..SystemSettings::default() };
        assert_eq!(broken(veth, &snapshot(&ends, &unlike)), [UNLIKE_HOST]);
    }

    #[test]
    fn a_link_that_is_not_as_slow_or_as_bad_as_asked_breaks_the_evidence() {
        let ends = [("ends: packets", 2000), ("ends: bytes", 140_000)];
        let of = |link: &LinkShape, states: &[(&str, &str)]| {
            let spec =
                SystemSettings { kind: SystemKind::Veth, link: link.clone(), ..SystemSettings::default() };
            broken(spec, &snapshot(&ends, &[&PLAIN, states].concat()))
        };
        let rate = LinkShape { rate: Some(ByteRate(125e6)), ..LinkShape::default() };
        let tbf = |rate, burst| [("qdisc", "tbf"), ("link rate", rate), ("link burst", burst)];
        // A burst of 256 KiB takes 32,768 and a half ticks, and half a tick is 4 B.
        assert_eq!(of(&rate, &tbf("125 MB/s", "262140 B")), [""; 0]);
        assert_eq!(of(&rate, &tbf("125 MB/s", "262000 B")), ["link burst"]);
        assert_eq!(of(&rate, &tbf("12.5 MB/s and 125 MB/s", "none")), ["link rate", "link burst"]);
        let bad = LinkShape { delay: Some(Span(2_000_000)), loss: Some(Percent(0.01)), ..rate };
        let netem = |delay, loss, rate| {
            [("qdisc", "netem"), ("link delay", delay), ("link loss", loss), ("link rate", rate)]
        };
        assert_eq!(of(&bad, &netem("2 ms", "1%", "125 MB/s")), [""; 0]);
        assert_eq!(of(&bad, &netem("0 s", "1%", "125 MB/s")), ["link delay"]);
        assert_eq!(of(&bad, &netem("2 ms", "0%", "none")), ["link loss", "link rate"]);
        assert_eq!(of(&bad, &[("qdisc", "netem")]), ["link delay", "link loss", "link rate"]);
    }

    #[test]
    fn queues_take_turns_at_cpus_of_any_number() {
        assert_eq!(queues_on("0-3,130", 2, true), "0,2,130; 1,3");
        assert_eq!(queues_on("0,40", 2, false), "0,40; 0,40");
        assert_eq!(queues_on("5", 2, true), "5; none");
    }
}
