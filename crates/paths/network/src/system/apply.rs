//! The settings of a network that do not concern its layout: offloads, queues, rates, filters.

use plumb_host::Error;
use plumb_host::namespace::Namespace;
use plumb_host::network::{Feature, Impairment, Shape, TokenBucket};
use plumb_path::link::LinkShape;

use super::layout::{Layout, Role};
use super::rules::rules;
use crate::options::{Offloads, Switch};
use crate::settings::SystemSettings;

/// The default burst of a rate: a few of the largest packets that a sender puts together.
const BURST_BYTES: u64 = 256 << 10;
/// How long packets wait for the rate before more of them are dropped.
const WAIT_S: f64 = 0.05;

/// Each offload with what is asked for it.
pub(super) fn features(offloads: &Offloads) -> [(Feature, Option<Switch>); 5] {
    [
        (Feature::TxChecksum, offloads.tx_checksum),
        (Feature::RxChecksum, offloads.rx_checksum),
        (Feature::Tso, offloads.tso),
        (Feature::Gso, offloads.gso),
        (Feature::Gro, offloads.gro),
    ]
}

/// Applies all settings, with `services` rules on the way.
///
/// # Errors
/// The first setting that the kernel or a device does not have.
pub(super) fn apply(layout: &Layout, spec: &SystemSettings, services: u32) -> Result<(), Error> {
    for device in layout.devices.iter().filter(|device| device.role != Role::Bridge) {
        for (feature, asked) in features(&spec.offloads) {
            if let Some(asked) = asked {
                layout.namespace(device).set_feature(&device.name, feature, asked.is_on())?;
            }
        }
    }
    queues(layout, spec)?;
    // Plumbline's own link has the shape from its beginning.
    for wire in layout.wires().into_iter().filter(|_| layout.link.is_none()) {
        shape(layout.namespace(wire), &wire.name, spec)?;
    }
    let rules = rules(spec, services);
    if !rules.is_empty() {
        let has_bridges = layout.with_role(Role::Bridge).next().is_some();
        for &at in &layout.filtered {
            if has_bridges {
                // Else what a bridge forwards would pass by the rules (br_netfilter).
                layout.namespaces[at].set("bridge/bridge-nf-call-iptables", "1")?;
            }
            rules.iter().try_for_each(|text| layout.namespaces[at].add_rules(text))?;
        }
    }
    Ok(())
}

/// How many queues each pair of devices has, and which CPUs work on them.
fn queues(layout: &Layout, spec: &SystemSettings) -> Result<(), Error> {
    let of_pairs = layout.devices.iter().filter(|device| is_pair(device.role));
    for device in of_pairs {
        let (namespace, queues) = (layout.namespace(device), spec.queues as usize);
        if let Some(cpus) = &spec.rps {
            namespace.set_receive_cpus(&device.name, queues, &cpus.parse()?)?;
        }
        if let Some(cpus) = &spec.xps {
            namespace.set_send_cpus(&device.name, queues, &cpus.parse()?)?;
        }
    }
    Ok(())
}

/// Whether a device of that role is one of a pair, which has queues.
pub(super) fn is_pair(role: Role) -> bool {
    matches!(role, Role::End | Role::Port | Role::Wire)
}

/// The shape that a link's queues should give it, if any.
pub(super) fn wanted(link: &LinkShape) -> Option<Shape> {
    let rate = link.rate.map(|rate| rate.0);
    if link.is_impaired() {
        return Some(Shape::Impairment(Impairment {
            delay_ns: link.delay.map_or(0, |delay| delay.0),
            loss: link.loss.map_or(0.0, |loss| loss.0),
            rate_bytes_per_s: rate.map(|rate| rate as u64),
        }));
    }
    let (rate, burst) = (rate?, link.burst.map_or(BURST_BYTES, |burst| burst.0));
    Some(Shape::Bucket(TokenBucket {
        rate_bytes_per_s: rate as u64,
        burst_bytes: u32::try_from(burst).unwrap_or(u32::MAX),
        limit_bytes: u32::try_from(burst.saturating_add((rate * WAIT_S) as u64)).unwrap_or(u32::MAX),
    }))
}

fn shape(namespace: &Namespace, device: &str, spec: &SystemSettings) -> Result<(), Error> {
    if let Some(kind) = &spec.qdisc {
        namespace.set_queue_kind(device, kind)?;
    }
    match wanted(&spec.link) {
        Some(Shape::Bucket(bucket)) => namespace.set_rate(device, bucket),
        Some(Shape::Impairment(impairment)) => namespace.set_impairment(device, impairment),
        None => Ok(()),
    }
}
