//! Connection tracking and service rules on the way of packets, in nftables' words.
//!
//! With tracking, services are translated as kube-proxy and OVN do it: the first packet of a connection walks through the
//! rules, and all others follow what was decided for it. Without, every packet walks. None of the services is the server's
//! end, so each walk goes past all rules.

use std::fmt::Write;
use std::net::Ipv4Addr;

use super::layout::ENDS;
use crate::options::{Fastpath, TunnelType};
use crate::settings::SystemSettings;

/// The table that all of it stands in.
pub(super) const TABLE: &str = "plumb";
/// Packets of the ends that connection tracking saw.
pub(super) const TRACKED: &str = "tracked";
/// Packets of the ends that it left alone.
pub(super) const UNTRACKED: &str = "untracked";
/// Walks that began at the first service's rule.
pub(super) const WALKS: &str = "walks";
/// Walks that came out behind the last one.
pub(super) const PASSED: &str = "passed";

/// The hooks that packets of the ends cross in a namespace: what it forwards or receives, and what it sends itself.
const HOOKS: [&str; 2] = ["prerouting", "output"];

/// Services' rules in one transaction. A transaction is one message to the kernel, and a user without privilege has 200 KiB for
/// it, which is fewer than 500 rules.
const SERVICES_AT_ONCE: u32 = 100;

/// The rules of one namespace, as transactions of which each is loaded after the one before it; none where nothing is asked for.
pub(super) fn rules(spec: &SystemSettings, services: u32) -> Vec<String> {
    let is_tracked = spec.conntrack.is_on();
    if !is_tracked && services == 0 {
        return Vec::new();
    }
    let mut text = format!("table inet {TABLE} {{\n");
    for counter in [TRACKED, UNTRACKED, WALKS, PASSED] {
        line(&mut text, format_args!("counter {counter} {{ }}"));
    }
    if services > 0 {
        line(&mut text, format_args!("chain services {{ counter name {WALKS}\n}}"));
    }
    for hook in HOOKS {
        if is_tracked && spec.fastpath != Fastpath::Off {
            let [vxlan, geneve] = [TunnelType::Vxlan, TunnelType::Geneve].map(TunnelType::port);
            line(&mut text, format_args!("chain raw_{hook} {{ type filter hook {hook} priority raw;"));
            let tunnels = format_args!("udp dport {{ {vxlan}, {geneve} }} notrack");
            line(&mut text, format_args!("ip saddr {ENDS} notrack; {tunnels}\n}}"));
        }
        if is_tracked {
            line(&mut text, format_args!("chain seen_{hook} {{ type filter hook {hook} priority mangle;"));
            line(&mut text, format_args!("ip saddr {ENDS} ct state untracked counter name {UNTRACKED}"));
            line(&mut text, format_args!("ip saddr {ENDS} ct state != untracked counter name {TRACKED}\n}}"));
        }
        if services > 0 {
            let kind = if is_tracked { "nat" } else { "filter" };
            line(&mut text, format_args!("chain walk_{hook} {{ type {kind} hook {hook} priority -100;"));
            line(&mut text, format_args!("ip saddr {ENDS} jump services\n}}"));
        }
    }
    text.push_str("}\n");
    let parts = (0..services).step_by(SERVICES_AT_ONCE as usize);
    let parts = parts.map(|first| service_rules(is_tracked, first, services));
    std::iter::once(text).chain(parts).collect()
}

/// The rules of some services from `first` on, and behind those of the last what counts the walks that came so far.
fn service_rules(is_tracked: bool, first: u32, services: u32) -> String {
    let mut text = String::new();
    let end = services.min(first + SERVICES_AT_ONCE);
    let mut rule = |words: std::fmt::Arguments<'_>| {
        line(&mut text, format_args!("add rule inet {TABLE} services {words}"));
    };
    for service in first..end {
        let (address, endpoint) = (cluster_address(service), endpoint(service));
        if is_tracked {
            rule(format_args!("ip daddr {address} tcp dport 80 dnat ip to {endpoint}:8080"));
        } else {
            rule(format_args!("ip daddr {address} tcp dport 80 ip daddr set {endpoint} tcp dport set 8080"));
        }
    }
    if end == services {
        rule(format_args!("counter name {PASSED}"));
    }
    text
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{words}");
}

/// The address of a service, in the range that clusters have by default.
pub(super) fn cluster_address(service: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 96, 0, 1)) + service)
}

/// The pod behind a service.
pub(super) fn endpoint(service: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 245, 0, 1)) + service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Switch;

    fn spec(conntrack: Switch, fastpath: Fastpath) -> SystemSettings {
        SystemSettings { conntrack, fastpath, ..SystemSettings::default() }
    }

    #[test]
    fn nothing_asked_for_is_no_rule() {
        assert_eq!(rules(&spec(Switch::Off, Fastpath::Off), 0), [""; 0]);
    }

    #[test]
    fn services_are_translated_with_tracking_and_rewritten_without() {
        let tracked = rules(&spec(Switch::On, Fastpath::Off), 300).concat();
        assert_eq!(tracked.matches("dnat ip to").count(), 300);
        assert!(
            tracked.contains("ip daddr 10.96.1.44 tcp dport 80 dnat ip to 10.245.1.44:8080"),
            "{tracked}"
        );
        assert!(!tracked.contains("notrack;"));
        let plain = rules(&spec(Switch::Off, Fastpath::Off), 2).concat();
        assert_eq!(plain.matches("tcp dport set 8080").count(), 2);
        assert!(!plain.contains("ct state") && !plain.contains("type nat"), "{plain}");
    }

    #[test]
    fn many_services_are_several_transactions_and_the_last_counts_who_came_past_all() {
        for (services, transactions) in [(1, 2), (100, 2), (101, 3), (1000, 11)] {
            let texts = rules(&spec(Switch::On, Fastpath::Off), services);
            assert_eq!(texts.len(), transactions);
            assert_eq!(texts.concat().matches("dnat ip to").count(), services as usize);
            let (last, others) = texts.split_last().unwrap();
            assert!(last.ends_with("services counter name passed\n"), "{last}");
            assert!(others.iter().skip(1).all(|text| !text.contains("passed")));
        }
    }

    #[test]
    fn a_fast_path_leaves_the_ends_untracked() {
        let text = rules(&spec(Switch::On, Fastpath::Notrack), 0).concat();
        assert_eq!(text.matches("notrack;").count(), HOOKS.len());
    }
}
