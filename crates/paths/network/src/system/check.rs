//! Checks that no single setting of a network can make, and whether this host can build it.

use plumb_host::Error;
use plumb_host::cpu::CpuSet;
use plumb_path::Fault;

use super::layout::TUNNEL_BYTES;
use super::ovs::{self, NoOpenVSwitch};
use super::own_link::{self, NotOnOwnLink};
use super::{half, kernel};
use crate::options::{Fastpath, Switch};
use crate::settings::{SystemKind, SystemSettings};

/// The least MTU that IPv4 demands of every link.
const MTU_MIN: u32 = 576;
/// The largest MTU of a pair of devices.
const MTU_MAX: u32 = 65_535;
const SERVICE_RULES_MAX: u32 = 10_000;
const QUEUES_MAX: u32 = 64;

/// Checks a network's settings against each other.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(spec: &SystemSettings) -> Result<(), Fault> {
    let fault = |key: &str, message: String| Err(Fault::new(format!("system.{key}"), message));
    spec.run_by().check("system", spec.kind == SystemKind::External)?;
    if is_given(spec) {
        return of_what_exists(spec);
    }
    if spec.mtu < MTU_MIN + TUNNEL_BYTES || spec.mtu > MTU_MAX {
        return fault("mtu", format!("an MTU is {} to {MTU_MAX}", MTU_MIN + TUNNEL_BYTES));
    }
    if spec.queues == 0 || spec.queues > QUEUES_MAX {
        return fault("queues", format!("a device has 1 to {QUEUES_MAX} queues"));
    }
    if spec.service_rules > SERVICE_RULES_MAX {
        return fault("service_rules", format!("there are at most {SERVICE_RULES_MAX} rules"));
    }
    for (key, cpus) in [("rps", &spec.rps), ("xps", &spec.xps)] {
        if let Some(Err(error)) = cpus.as_deref().map(str::parse::<CpuSet>) {
            return fault(key, format!("failed to {error}"));
        }
    }
    if spec.xps.is_some() && spec.queues == 1 {
        return fault("xps", "a device with one queue has nothing to steer; give `queues` too".to_owned());
    }
    link(spec)?;
    paths(spec)
}

fn link(spec: &SystemSettings) -> Result<(), Fault> {
    let fault = |key: &str, message: &str| Err(Fault::new(format!("system.{key}"), message));
    let link = &spec.link;
    for (key, share) in [("link.loss", link.loss), ("link.reordering", link.reordering)] {
        if share.is_some_and(|share| !(0.0..=1.0).contains(&share.0)) {
            return fault(key, "a share is 0% to 100%");
        }
    }
    if link.rate.is_some_and(|rate| rate.0 < 1.0) {
        return fault("link.rate", "a rate must be above 0; leave it out for a link without one");
    }
    let delay_ns = link.delay.map_or(0, |delay| delay.0);
    if link.jitter.is_some_and(|jitter| jitter.0 > delay_ns) {
        return fault("link.jitter", "a delay can vary by no more than itself; give a longer `link.delay`");
    }
    if link.reordering.is_some() && delay_ns == 0 {
        return fault("link.reordering", "packets overtake those that are delayed; give `link.delay` too");
    }
    if link.seed.is_some() && !link.is_impaired() {
        return fault(
            "link.seed",
            "a rate draws nothing; a seed is for `delay`, `loss`, `jitter` and `reordering`",
        );
    }
    if link.burst.is_some() && (link.rate.is_none() || link.is_impaired()) {
        return fault(
            "link.burst",
            "a burst is part of a rate; give `link.rate` too, and neither a delay nor a loss",
        );
    }
    if spec.qdisc.is_some() && (link.rate.is_some() || link.is_impaired()) {
        return fault("qdisc", "a link with a rate, a delay or a loss has its own queue already");
    }
    Ok(())
}

fn paths(spec: &SystemSettings) -> Result<(), Fault> {
    let fault = |key: &str, message: &str| Err(Fault::new(format!("system.{key}"), message));
    if spec.fastpath == Fastpath::Notrack && spec.conntrack == Switch::Off {
        return fault(
            "fastpath",
            "without connection tracking `notrack` has nothing to bypass; set `conntrack: on` too",
        );
    }
    if spec.fastpath == Fastpath::Redirect && spec.kind == SystemKind::Veth {
        return fault("fastpath", "hosts have no bridge to bypass; `redirect` is for `bridge` and `vxlan`");
    }
    if spec.kind == SystemKind::Ovs {
        if spec.fastpath != Fastpath::Off {
            return fault(
                "fastpath",
                "Open vSwitch's userspace datapath bypasses the kernel's filters anyway",
            );
        }
        let offloads = &spec.offloads;
        if offloads.tx_checksum == Some(Switch::On) || offloads.tso == Some(Switch::On) {
            return fault(
                "offloads",
                "Open vSwitch's userspace datapath takes packets as they are: ends compute checksums and segment by \
                 themselves",
            );
        }
    }
    Ok(())
}

/// Networks that are not built here have no settings.
fn is_given(spec: &SystemSettings) -> bool {
    matches!(spec.kind, SystemKind::Loopback | SystemKind::External)
}

fn of_what_exists(spec: &SystemSettings) -> Result<(), Fault> {
    let SystemSettings { kind, address, service, namespace, pid, unit, cgroup, port, server, .. } =
        spec.clone();
    let (address, service, namespace) = match spec.kind {
        SystemKind::External => (address, service, namespace),
        _ => (address, None, None),
    };
    let given = SystemSettings {
        kind,
        address,
        service,
        namespace,
        pid,
        unit,
        cgroup,
        port,
        server,
        ..SystemSettings::default()
    };
    if *spec == given {
        return Ok(());
    }
    let kind = if spec.kind == SystemKind::Loopback { "loopback" } else { "external" };
    Err(Fault::new(
        "system",
        format!(
            "a network of kind {kind} is taken as it is; settings are for `veth`, `bridge`, `vxlan` and `ovs`"
        ),
    ))
}

/// Why this host cannot build a network.
#[derive(Debug, thiserror::Error)]
pub enum Unbuildable {
    /// The settings ask for rings.
    #[error("devices of virtual networks have no rings; a network card's are a tuning of the host")]
    NoRings,
    /// Open vSwitch is missing.
    #[error(transparent)]
    NoOpenVSwitch(#[from] NoOpenVSwitch),
    /// Plumbline's own link has no such setting.
    #[error(transparent)]
    NotOnOwnLink(#[from] NotOnOwnLink),
    /// The kernel or a program refuses.
    #[error("cannot {_0}{}", remedy(_0))]
    Refused(#[from] Error),
}

/// The remedy for a refusal, as the end of a message.
fn remedy(error: &Error) -> &'static str {
    let Error::Network { what, .. } = error else { return "" };
    if what.contains("network namespace") {
        "; it needs root, or a kernel that lets ordinary users make user namespaces"
    } else if what.contains("macvlan device") || what.contains("vxlan device") {
        "; between hosts it needs root, and a kernel that has such devices"
    } else if what.contains("tap device") {
        "; for Plumbline's own link it needs /dev/net/tun and root"
    } else if what.contains("hand rules to nft") {
        "; install nftables"
    } else {
        ""
    }
}

/// Whether this host can build it: seen by building it once.
///
/// # Errors
/// What is missing.
pub fn feasible(spec: &SystemSettings) -> Result<(), Unbuildable> {
    if is_given(spec) {
        return Ok(());
    }
    if spec.ring.is_some() {
        return Err(Unbuildable::NoRings);
    }
    if spec.kind == SystemKind::Ovs {
        ovs::installed()?;
    }
    if let Some(lacking) = own_link::lacking(spec)? {
        return Err(lacking.into());
    }
    Ok(kernel::attempt(spec)?)
}

/// Whether this host can build its half of it, where the other one is on another host.
///
/// # Errors
/// What is missing.
pub fn feasible_half(spec: &SystemSettings) -> Result<(), Unbuildable> {
    if is_given(spec) { Ok(()) } else { Ok(half::attempt(spec)?) }
}

#[cfg(test)]
mod tests {
    use plumb_model::{ByteRate, Bytes, Percent, Span};

    use super::*;
    use crate::options::{LinkShape, Offloads};

    #[test]
    fn settings_that_cannot_be_together_are_named() {
        let of = |kind: SystemKind| SystemSettings { kind, ..SystemSettings::default() };
        let cases = [
            ("", of(SystemKind::Loopback)),
            ("", of(SystemKind::Vxlan)),
            ("system", SystemSettings { mtu: 9000, ..of(SystemKind::Loopback) }),
            ("system.mtu", SystemSettings { mtu: 100, ..of(SystemKind::Vxlan) }),
            ("system.queues", SystemSettings { queues: 0, ..of(SystemKind::Veth) }),
            ("system.service_rules", SystemSettings { service_rules: 10_001, ..of(SystemKind::Veth) }),
            ("system.rps", SystemSettings { rps: Some("x".into()), ..of(SystemKind::Veth) }),
            ("system.xps", SystemSettings { xps: Some("0".into()), ..of(SystemKind::Veth) }),
            ("system.fastpath", SystemSettings { fastpath: Fastpath::Notrack, ..of(SystemKind::Vxlan) }),
            ("system.fastpath", SystemSettings { fastpath: Fastpath::Redirect, ..of(SystemKind::Veth) }),
            ("system.fastpath", SystemSettings { fastpath: Fastpath::Redirect, ..of(SystemKind::Ovs) }),
            (
                "system.offloads",
                SystemSettings {
                    offloads: Offloads { tso: Some(Switch::On), ..Offloads::default() },
                    ..of(SystemKind::Ovs)
                },
            ),
            (
                "system.qdisc",
                SystemSettings {
                    qdisc: Some("fq".into()),
                    link: LinkShape { delay: Some(Span(1)), ..LinkShape::default() },
                    ..of(SystemKind::Veth)
                },
            ),
        ];
        for (key, spec) in cases {
            let found = check(&spec).err().map_or(String::new(), |fault| fault.key);
            assert_eq!(found, key, "{spec:?}");
        }
    }

    #[test]
    fn settings_of_a_link_that_cannot_be_together_are_named() {
        let none = LinkShape::default();
        let delay = LinkShape { delay: Some(Span(1)), ..none.clone() };
        let cases = [
            ("", delay.clone()),
            ("system.link.loss", LinkShape { loss: Some(Percent(1.5)), ..none.clone() }),
            ("system.link.rate", LinkShape { rate: Some(ByteRate(0.0)), ..none.clone() }),
            ("system.link.burst", LinkShape { burst: Some(Bytes(1)), ..none.clone() }),
            ("system.link.jitter", LinkShape { jitter: Some(Span(2)), ..delay.clone() }),
            ("system.link.reordering", LinkShape { reordering: Some(Percent(1.1)), ..delay }),
            ("system.link.reordering", LinkShape { reordering: Some(Percent(0.1)), ..none.clone() }),
            ("system.link.seed", LinkShape { seed: Some(1), ..none }),
        ];
        for (key, link) in cases {
            let spec = SystemSettings { kind: SystemKind::Veth, link, ..SystemSettings::default() };
            let found = check(&spec).err().map_or(String::new(), |fault| fault.key);
            assert_eq!(found, key, "{spec:?}");
        }
    }

    #[test]
    fn rings_are_a_network_cards() {
        let spec = SystemSettings { kind: SystemKind::Veth, ring: Some(4096), ..SystemSettings::default() };
        assert!(feasible(&spec).unwrap_err().to_string().contains("have no rings"));
    }
}
