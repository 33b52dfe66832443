//! Checks that no single setting of a network can make, and whether this host can build it.

use plumb_host::Error;
use plumb_host::cpu::CpuSet;
use plumb_path::{SettingsFault, link};

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
pub fn check(spec: &SystemSettings) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: String| Err(SettingsFault::new(format!("system.{key}"), message));
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
    check_link(spec)?;
    paths(spec)
}

fn check_link(spec: &SystemSettings) -> Result<(), SettingsFault> {
    let link = &spec.link;
    link.check()?;
    if spec.qdisc.is_some() && (link.rate.is_some() || link.is_impaired()) {
        let message = "a link with a rate, a delay or a loss has its own queue already";
        return Err(SettingsFault::new("system.qdisc", message));
    }
    Ok(())
}

fn paths(spec: &SystemSettings) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: &str| Err(SettingsFault::new(format!("system.{key}"), message));
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

fn of_what_exists(spec: &SystemSettings) -> Result<(), SettingsFault> {
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
    Err(SettingsFault::new(
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
    if what.contains("macvlan device") || what.contains("vxlan device") {
        "; between hosts it needs root, and a kernel that has such devices"
    } else if what.contains("hand rules to nft") {
        "; install nftables"
    } else {
        link::remedy(error)
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
    use plumb_model::Span;
    use plumb_path::link::LinkShape;

    use super::*;
    use crate::options::Offloads;

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
            (
                "system.link.seed",
                SystemSettings {
                    link: LinkShape { seed: Some(1), ..LinkShape::default() },
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
    fn rings_are_a_network_cards() {
        let spec = SystemSettings { kind: SystemKind::Veth, ring: Some(4096), ..SystemSettings::default() };
        assert!(feasible(&spec).unwrap_err().to_string().contains("have no rings"));
    }
}
