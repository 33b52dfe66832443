//! The state of a network: the counters of its devices and rules, and the settings that are in effect.

use plumb_host::Error;
use plumb_host::cpu::CpuSet;
use plumb_host::network::Shape;
use plumb_model::{ByteRate, Bytes, Percent, Span};
use plumb_path::Snapshot;
use plumb_path::link::observe_link;

use super::apply::{features, is_pair, wanted};
use super::layout::{Device, Layout, Role};
use super::rules::TABLE;
use crate::options::Switch;
use crate::settings::SystemSettings;

/// Counters of devices, summed over those of one role: sent packets, sent bytes.
pub(super) fn packets_of(role: Role) -> (&'static str, &'static str) {
    match role {
        Role::End => ("ends: packets", "ends: bytes"),
        Role::Port => ("pods' ports: packets", "pods' ports: bytes"),
        Role::Bridge => ("bridges: packets", "bridges: bytes"),
        Role::Tunnel => ("tunnel: packets", "tunnel: bytes"),
        Role::Wire => ("link: packets", "link: bytes"),
    }
}

/// Packets that took the short way, summed over its programs.
pub(super) const SHORTCUTS: &str = "shortcut: packets";
/// The state that says how many connections are tracked.
pub(super) const ENTRIES: &str = "conntrack entries";

/// The state that says how many service rules Open vSwitch has on each node.
pub(super) const SERVICES: &str = "service rules";
/// The state that says how Open vSwitch wraps packets.
pub(super) const TUNNEL: &str = "tunnel type";

/// The state that says which settings of the host the network's namespaces do not have.
pub(super) const UNLIKE_HOST: &str = "settings unlike the host's";
pub(super) const NONE: &str = "none";

/// The state that says what a link lets through at once beyond its rate.
pub(super) const BURST: &str = "link burst";
/// The longest burst in time that the kernel can say: 2^32 ticks of 64 ns.
const BURST_S_MAX: f64 = 274.0;

/// The counter of a rule.
pub(super) fn of_rules(name: &str) -> String {
    format!("rules: {name}")
}

/// Adds what the layout counted so far and the settings that are in effect.
///
/// # Errors
/// When a device is gone, or the rules do not say.
pub(super) fn observe(layout: &Layout, spec: &SystemSettings, snapshot: &mut Snapshot) -> Result<(), Error> {
    counters(layout, snapshot)?;
    if let Some(link) = &layout.link {
        let ends = layout.link_ends.iter();
        let lost = ends.map(|(at, name)| Ok(layout.namespaces[*at].link(name)?.counters.lost_packets));
        observe_link(link, lost.sum::<Result<u64, Error>>()?, snapshot);
    }
    if spec.conntrack.is_on() || spec.service_rules > 0 {
        rule_counters(layout, snapshot)?;
    }
    states(layout, spec, snapshot)
}

/// Only what changes with every packet, and it first: reading it takes time in which packets pass.
fn counters(layout: &Layout, snapshot: &mut Snapshot) -> Result<(), Error> {
    let mut add = |name: &str, count: u64| *snapshot.counters.entry(name.to_owned()).or_default() += count;
    for device in &layout.devices {
        let counted = layout.namespace(device).link(&device.name)?.counters;
        let (packets, bytes) = packets_of(device.role);
        add(packets, counted.sent_packets);
        add(bytes, counted.sent_bytes);
    }
    for shortcut in &layout.shortcuts {
        add(SHORTCUTS, shortcut.packets()?);
    }
    Ok(())
}

fn rule_counters(layout: &Layout, snapshot: &mut Snapshot) -> Result<(), Error> {
    for &at in &layout.filtered {
        for counter in layout.namespaces[at].rule_counters(TABLE)? {
            *snapshot.counters.entry(of_rules(&counter.name)).or_default() += counter.packets;
        }
    }
    Ok(())
}

fn states(layout: &Layout, spec: &SystemSettings, snapshot: &mut Snapshot) -> Result<(), Error> {
    let mut state = |name: &str, value: String| snapshot.states.insert(name.to_owned(), value);
    let refused: Vec<&str> = layout.refused.iter().map(String::as_str).collect();
    state(UNLIKE_HOST, if refused.is_empty() { NONE.to_owned() } else { refused.join(", ") });
    let mut entries = 0_u64;
    for &at in &layout.filtered {
        let count = layout.namespaces[at].setting("netfilter/nf_conntrack_count")?;
        entries += count.and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    }
    state(ENTRIES, entries.to_string());
    let ends: Vec<&Device> = layout.with_role(Role::End).collect();
    let wires = layout.wires();
    state("mtu", common(&wires, |device| Ok(layout.namespace(device).link(&device.name)?.mtu.to_string()))?);
    state(
        "ends' mtu",
        common(&ends, |device| Ok(layout.namespace(device).link(&device.name)?.mtu.to_string()))?,
    );
    let queue_length =
        |device: &Device| Ok(layout.namespace(device).link(&device.name)?.queue_length.to_string());
    state("queue_length", common(&ends, queue_length)?);
    state("qdisc", common(&wires, |device| Ok(layout.namespace(device).link(&device.name)?.qdisc))?);
    let wanted = wanted(&spec.link).filter(|_| layout.link.is_none());
    let shape = |device: &Device| layout.namespace(device).shape(&device.name);
    for (name, _) in of_shape(wanted) {
        let read = |device: &Device| {
            let found = of_shape(shape(device)?).into_iter().find(|(it, _)| *it == name);
            Ok(found.map_or_else(|| "none".to_owned(), |(_, value)| value))
        };
        state(name, common(&wires, read)?);
    }
    let offloading: Vec<&Device> = layout.devices.iter().filter(|it| it.role != Role::Bridge).collect();
    for (feature, asked) in features(&spec.offloads) {
        if asked.is_some() {
            let read = |device: &Device| {
                let is_on = layout.namespace(device).feature(&device.name, feature)?;
                Ok(Switch::from_bool(is_on).name().to_owned())
            };
            state(feature.name(), common(&offloading, read)?);
        }
    }
    if spec.rps.is_some() || spec.xps.is_some() {
        let pairs: Vec<&Device> = layout.devices.iter().filter(|device| is_pair(device.role)).collect();
        let queues = spec.queues as usize;
        let cpus = |device: &Device| layout.namespace(device).queue_cpus(&device.name, queues);
        state("rps", common(&pairs, |device| Ok(of_queues(&cpus(device)?.0)))?);
        state("xps", common(&pairs, |device| Ok(of_queues(&cpus(device)?.1)))?);
    }
    Ok(())
}

/// The value that all devices have, or all values that there are.
fn common(devices: &[&Device], read: impl Fn(&Device) -> Result<String, Error>) -> Result<String, Error> {
    let mut values = devices.iter().map(|device| read(device)).collect::<Result<Vec<_>, _>>()?;
    values.sort();
    values.dedup();
    Ok(values.join(" and "))
}

/// The states of a link's queue, by name.
pub(super) fn of_shape(shape: Option<Shape>) -> Vec<(&'static str, String)> {
    let rate = |rate: u64| ("link rate", ByteRate(rate as f64).to_string());
    match shape {
        None => Vec::new(),
        Some(Shape::Bucket(bucket)) => {
            let mut states = vec![rate(bucket.rate_bytes_per_s)];
            if f64::from(bucket.burst_bytes) <= BURST_S_MAX * bucket.rate_bytes_per_s as f64 {
                states.push((BURST, Bytes(bucket.burst_bytes.into()).to_string()));
            }
            states
        }
        Some(Shape::Impairment(it)) => {
            let mut states = vec![
                ("link delay", Span(it.delay_ns).to_string()),
                ("link loss", Percent(it.loss).to_string()),
            ];
            states.extend(it.rate_bytes_per_s.map(rate));
            states
        }
    }
}

/// The CPUs of each queue, in words.
pub(super) fn of_queues(queues: &[CpuSet]) -> String {
    let words = queues.iter().map(|cpus| if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() });
    words.collect::<Vec<_>>().join("; ")
}
