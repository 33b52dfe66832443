//! Network cards, their interrupts, and connection tracking, judged.

use super::judged::{Assessment, judge};
use crate::facts::{HostFacts, NetworkCard};

/// Above this share of the table new connections are soon refused.
const CONNTRACK_SHARE_MAX: f64 = 0.8;

/// How many queues' CPUs are named one by one.
const QUEUES_NAMED: usize = 8;

pub(super) fn network(facts: &HostFacts) -> Vec<Assessment> {
    let mut list: Vec<Assessment> =
        facts.network_cards.iter().map(|card| judge_card(card, facts.cpus_online.len())).collect();
    list.extend(interrupts(facts));
    list.push(conntrack(facts));
    list
}

fn judge_card(card: &NetworkCard, cpus: usize) -> Assessment {
    let rings = card.rings.map_or_else(String::new, |rings| {
        let [receive, receive_max] = [rings.receive, rings.receive_max];
        format!(", rings {receive} of {receive_max} and {} of {}", rings.transmit, rings.transmit_max)
    });
    let off: Vec<&str> =
        card.offloads.iter().filter(|(_, is_on)| !**is_on).map(|(name, _)| name.as_str()).collect();
    let offloads = match (card.offloads.is_empty(), off.is_empty()) {
        (true, _) => String::new(),
        (false, true) => ", offloads on".to_owned(),
        (false, false) => format!(", off: {}", off.join(" ")),
    };
    let driver = card.driver.as_deref().unwrap_or("unknown driver");
    let (receive, transmit) = (card.receive_queues, card.transmit_queues);
    let value = format!("{driver}, queues {receive} in and {transmit} out{rings}{offloads}");
    let advice = advice_on(card, &off, cpus);
    judge(&format!("network card {}", card.name), value, advice.is_empty(), advice.join("; "))
}

fn advice_on(card: &NetworkCard, off: &[&str], cpus: usize) -> Vec<String> {
    let mut advice = Vec::new();
    let is_short = |(length, max): (u32, u32)| length < max;
    let rings =
        card.rings.map(|rings| [(rings.receive, rings.receive_max), (rings.transmit, rings.transmit_max)]);
    if rings.is_some_and(|rings| rings.into_iter().any(is_short)) {
        advice.push(format!("longer rings lose less in bursts: `plumb tune apply rings={}`", card.name));
    }
    if !off.is_empty() {
        let switches: Vec<String> = off.iter().map(|name| format!("{} on", switch(name))).collect();
        let switches = switches.join(" ");
        advice.push(format!(
            "the CPU does work that the card may be able to do: try `ethtool -K {} {switches}`",
            card.name
        ));
    }
    if card.receive_queues == 1 && cpus > 1 {
        let one = "one queue brings all packets to one CPU: add queues with `ethtool -L`, or spread the packets with RPS";
        advice.push(one.to_owned());
    }
    advice
}

/// A feature as ethtool's `-K` has it.
fn switch(feature: &str) -> &str {
    match feature {
        "tx-checksum" => "tx",
        "rx-checksum" => "rx",
        other => other,
    }
}

/// Interrupts that may move from CPU to CPU move in the middle of a measurement.
fn interrupts(facts: &HostFacts) -> Option<Assessment> {
    let all: Vec<_> = facts.network_cards.iter().flat_map(|card| &card.interrupts).collect();
    if all.is_empty() {
        return None;
    }
    let named = all.iter().take(QUEUES_NAMED);
    let mut parts: Vec<String> =
        named.map(|interrupt| format!("{} on {}", interrupt.name, interrupt.cpus)).collect();
    if all.len() > QUEUES_NAMED {
        parts.push(format!("and {} more", all.len() - QUEUES_NAMED));
    }
    if facts.irqbalance {
        parts.push("irqbalance moves them".to_owned());
    }
    let is_pinned = all.iter().all(|interrupt| interrupt.cpus.parse::<usize>().is_ok());
    let advice = "pin each to one CPU: `plumb tune apply interrupt-affinity`, which also pauses irqbalance";
    let fine = facts.cpus_online.len() == 1 || (is_pinned && !facts.irqbalance);
    Some(judge("interrupts", parts.join(", "), fine, advice))
}

fn conntrack(facts: &HostFacts) -> Assessment {
    let Some(tracked) = facts.conntrack else {
        return judge("conntrack", "no connections are tracked", true, "");
    };
    let value = format!("{} of {} connections", tracked.count, tracked.count_max);
    if tracked.count as f64 > CONNTRACK_SHARE_MAX * tracked.count_max as f64 {
        let advice = "raise net.netfilter.nf_conntrack_max before connections are refused";
        return judge("conntrack", value, false, advice);
    }
    let advice = "the kernel looks up every packet: measure in network namespaces, as the data path `network` \
                  does, or exempt the load with `notrack` rules";
    judge("conntrack", value, tracked.count == 0, advice)
}
