//! The checks that a performance engineer makes first on a machine, each with a verdict: fine, or what to do.
//!
//! The bounds are rules of thumb for small effects: at each of them a difference of a few percent between
//! two variants starts to drown. They judge a machine that is meant to be idle.

mod judged;
mod network;

use crate::facts::HostFacts;
use crate::noise::Noise;
use judged::judge;
use network::network;

pub use judged::Assessment;

const STEAL_SHARE_MAX: f64 = 0.01;
const OTHER_CPU_SHARE_MAX: f64 = 0.05;
const MEMORY_PRESSURE_MAX: f64 = 0.01;
const MEMORY_AVAILABLE_BYTES_MIN: u64 = 512 << 20;
const LOAD_PER_CPU_MAX: f64 = 0.25;
/// Twice that is half of a round trip through a local network.
const IDLE_LATENCY_US_MAX: u64 = 10;

/// Sources whose reading is a few instructions. From the others it is a system call or slower, and
/// a load generator reads the time for every request.
const FAST_CLOCKSOURCES: [&str; 6] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource", "timebase"];

/// Judges a machine, with what happened on it over an idle second or so, if that was watched.
#[must_use]
pub fn assessments(facts: &HostFacts, noise: Option<&Noise>) -> Vec<Assessment> {
    let mut list = Vec::new();
    list.extend(cpus(facts));
    list.extend(smt(facts));
    list.push(cpu_limit(facts));
    list.extend(numa(facts));
    list.push(governor(facts.governor.as_deref()));
    list.push(turbo(facts.turbo));
    list.push(idle_states(facts));
    list.extend(facts.clocksource.as_deref().map(clocksource));
    list.push(virtualisation(facts));
    list.extend(mitigations(facts));
    list.extend(network(facts));
    list.extend(load_average(facts));
    list.extend(memory(facts, noise));
    if let Some(noise) = noise {
        list.push(other_processes(noise));
        list.push(steal(noise));
        list.extend(noise.throttling.map(|throttling| throttled(throttling.stopped_ns)));
        list.extend(noise.overheated_count.map(overheated));
    }
    list
}

fn cpus(facts: &HostFacts) -> Option<Assessment> {
    let (count, sides) = (facts.cpus_usable.len(), &facts.sides);
    let value = if sides.shared {
        format!("{count} usable, shared by both sides")
    } else {
        format!("{count} usable: {} for the system, {} for the load", sides.system, sides.load)
    };
    let advice = "give it two CPUs or more: on one, the load takes the time that the system needs";
    (count > 0).then(|| judge("cpus", value, !sides.shared, advice))
}

/// Where hardware threads are on, the sides need a core each to be independent.
fn smt(facts: &HostFacts) -> Option<Assessment> {
    let (is_on, cores) = (facts.smt?, facts.cores.filter(|&cores| cores > 0)?);
    let threads_per_core = facts.cpus_online.len().div_ceil(cores);
    let value = if is_on { format!("on, {threads_per_core} threads a core") } else { "off".to_owned() };
    let advice =
        "use a machine with two cores or more: both sides are threads of one core and slow each other";
    Some(judge("smt", value, !is_on || cores > 1, advice))
}

fn cpu_limit(facts: &HostFacts) -> Assessment {
    let Some(limit) = facts.cpu_limit else { return judge("cpu limit", "none", true, "") };
    let advice = "raise or remove the limit of the control group: it stops the measurement for many milliseconds \
                  at a time";
    judge("cpu limit", format!("{limit} CPUs"), limit >= facts.cpus_usable.len() as f64, advice)
}

/// Both sides should be near the memory that they share.
fn numa(facts: &HostFacts) -> Option<Assessment> {
    let nodes = facts.numa_nodes?;
    let balancing =
        if facts.numa_balancing == Some(true) { ", the kernel moves memory between them" } else { "" };
    let advice = "keep both sides on one node (`numactl --cpunodebind 0 --membind 0 plumb …`), and memory where it is: \
                  `plumb tune apply numa-balancing`";
    let value = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes{balancing}") };
    Some(judge("numa", value, nodes == 1, advice))
}

fn governor(names: Option<&str>) -> Assessment {
    let Some(names) = names else {
        return judge("governor", "none: the kernel does not control the clock", true, "");
    };
    let advice = "fix the clock: `plumb tune apply governor`";
    judge("governor", names, names == "performance", advice)
}

fn turbo(is_on: Option<bool>) -> Assessment {
    let Some(is_on) = is_on else {
        return judge("turbo", "unknown: the kernel does not control it", true, "");
    };
    let advice = "turn it off for small effects, as the clock then depends on heat and on other cores: `plumb tune apply \
                  turbo-off`";
    judge("turbo", if is_on { "on" } else { "off" }, !is_on, advice)
}

/// A CPU that sleeps deeply answers late, and by how much depends on what happened before.
fn idle_states(facts: &HostFacts) -> Assessment {
    let deepest = facts.idle_states.iter().filter(|state| state.enabled).max_by_key(|state| state.latency_us);
    let Some(deepest) = deepest else {
        return judge("idle states", "only halt: the hypervisor or the firmware does the rest", true, "");
    };
    let value = format!("down to {}, {} µs to wake", deepest.name, deepest.latency_us);
    let advice = "latencies of a few µs need CPUs that sleep lightly: `plumb tune apply idle-states`";
    judge("idle states", value, deepest.latency_us <= IDLE_LATENCY_US_MAX, advice)
}

/// Protection costs time in every system call; a host without it compares with no host that has it.
fn mitigations(facts: &HostFacts) -> Option<Assessment> {
    let named = |beginning: &str| -> Vec<&str> {
        let begins = facts.mitigations.iter().filter(|weakness| weakness.state.starts_with(beginning));
        begins.map(|weakness| weakness.name.as_str()).collect()
    };
    let (on, open) = (named("Mitigation"), named("Vulnerable"));
    let mut parts = Vec::new();
    if !on.is_empty() {
        parts.push(format!("on for {}", on.join(", ")));
    }
    if !open.is_empty() {
        parts.push(format!("off or missing for {}", open.join(", ")));
    }
    let value = if parts.is_empty() { "none needed".to_owned() } else { parts.join("; ") };
    let advice =
        "figures may be better than those of a protected host: compare only with hosts in the same state";
    (!facts.mitigations.is_empty()).then(|| judge("mitigations", value, open.is_empty(), advice))
}

fn clocksource(name: &str) -> Assessment {
    let advice = "choose a fast one in /sys/devices/system/clocksource/clocksource0/current_clocksource: with this \
                  one every reading of the time is slow";
    judge("clocksource", name, FAST_CLOCKSOURCES.contains(&name), advice)
}

fn virtualisation(facts: &HostFacts) -> Assessment {
    let Some(hypervisor) = &facts.virtualisation else {
        return judge("virtualisation", "none", true, "");
    };
    let advice =
        "other guests share this machine: repeat on bare metal before you take a number for the hardware's";
    judge("virtualisation", hypervisor, false, advice)
}

fn load_average(facts: &HostFacts) -> Option<Assessment> {
    let [one_minute, five_minutes, fifteen_minutes] = facts.load_average?;
    let bound = LOAD_PER_CPU_MAX * facts.cpus_online.len() as f64;
    let advice = "stop what else runs here, or wait until it has ended";
    let value = format!("{one_minute:.2} {five_minutes:.2} {fifteen_minutes:.2}");
    Some(judge("load average", value, one_minute <= bound, advice))
}

fn memory(facts: &HostFacts, noise: Option<&Noise>) -> Option<Assessment> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let (all_bytes, available_bytes) = (facts.memory_bytes?, facts.memory_available_bytes?);
    let is_waited_for =
        noise.and_then(|noise| noise.memory_pressure).is_some_and(|share| share > MEMORY_PRESSURE_MAX);
    let fine = available_bytes >= MEMORY_AVAILABLE_BYTES_MIN && !is_waited_for;
    let value = format!("{:.1} GiB, {:.1} GiB available", gib(all_bytes), gib(available_bytes));
    Some(judge(
        "memory",
        value,
        fine,
        "free some, or the kernel reclaims memory in the middle of a measurement",
    ))
}

fn other_processes(noise: &Noise) -> Assessment {
    let advice = "find them with `top` and stop them, or use a machine of your own";
    let value = format!("{} of all CPU time", percent(noise.other_cpu_share));
    judge("other processes", value, noise.other_cpu_share <= OTHER_CPU_SHARE_MAX, advice)
}

fn steal(noise: &Noise) -> Assessment {
    let advice = "move to a host or an instance type whose CPUs are not shared";
    judge(
        "steal",
        format!("{} of all CPU time", percent(noise.steal_share)),
        noise.steal_share <= STEAL_SHARE_MAX,
        advice,
    )
}

fn throttled(stopped_ns: u64) -> Assessment {
    let advice = "raise or remove the CPU limit of the control group";
    judge("throttled", format!("{:.1} ms", stopped_ns as f64 / 1e6), stopped_ns == 0, advice)
}

fn overheated(count: u64) -> Assessment {
    let value = if count == 0 { "no".to_owned() } else { format!("{count} times") };
    judge("overheated", value, count == 0, "cool the machine: its CPUs slow down by themselves")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Throttling;
    use crate::cpu::{CpuSet, Sides};
    use crate::facts::{CardInterrupt, Conntrack, IdleState, Mitigation, NetworkCard};
    use crate::settings::RingSizes;

    fn print(assessments: &[Assessment]) -> String {
        let line = |it: &Assessment| {
            let verdict = it.advice.as_deref().unwrap_or("fine");
            assert_eq!(it.fine, it.advice.is_none());
            format!("{}: {} -> {verdict}", it.name, it.value)
        };
        assessments.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    fn quiet() -> Noise {
        Noise {
            elapsed_ns: 1_000_000_000,
            busy_share: 0.01,
            steal_share: 0.0,
            irq_share: 0.0,
            softirq_share: 0.0,
            other_cpu_ns: 0,
            other_cpu_share: 0.004,
            taken_cpus: 0.008,
            cpu_pressure: Some(0.0),
            memory_pressure: Some(0.0),
            io_pressure: Some(0.0),
            throttling: Some(Throttling::default()),
            context_switches_per_s: 100.0,
            runnable_count: 1,
            frequency_khz: None,
            overheated_count: Some(0),
        }
    }

    fn good() -> HostFacts {
        let cpus: CpuSet = "0-3".parse().unwrap();
        let sides = Sides { system: "0-1".parse().unwrap(), load: "2-3".parse().unwrap(), shared: false };
        HostFacts {
            cpus_online: cpus.clone(),
            cpus_usable: cpus,
            sides,
            cores: Some(4),
            smt: Some(false),
            memory_bytes: Some(8 << 30),
            memory_available_bytes: Some(7 << 30),
            clocksource: Some("tsc".to_owned()),
            governor: Some("performance".to_owned()),
            turbo: Some(false),
            load_average: Some([0.1, 0.2, 0.3]),
            numa_nodes: Some(1),
            idle_states: vec![idle_state("POLL", 0, true), idle_state("C1", 2, true)],
            mitigations: vec![weakness("meltdown", "Mitigation: PTI"), weakness("l1tf", "Not affected")],
            network_cards: vec![card(4096, "2")],
            ..HostFacts::default()
        }
    }

    fn idle_state(name: &str, latency_us: u64, enabled: bool) -> IdleState {
        IdleState { name: name.to_owned(), latency_us, enabled }
    }

    fn weakness(name: &str, state: &str) -> Mitigation {
        Mitigation { name: name.to_owned(), state: state.to_owned() }
    }

    /// A card with rings of that length, whose interrupts go to these CPUs.
    fn card(length: u32, cpus: &str) -> NetworkCard {
        let interrupt =
            |number, name: &str| CardInterrupt { number, name: name.to_owned(), cpus: cpus.to_owned() };
        let is_long = length == 4096;
        NetworkCard {
            name: "eth0".to_owned(),
            driver: Some("ixgbe".to_owned()),
            receive_queues: if is_long { 4 } else { 1 },
            transmit_queues: 4,
            rings: Some(RingSizes { receive: length, receive_max: 4096, transmit: 4096, transmit_max: 4096 }),
            offloads: [
                ("tso".to_owned(), is_long),
                ("rx-checksum".to_owned(), is_long),
                ("gro".to_owned(), true),
            ]
            .into(),
            interrupts: vec![interrupt(40, "eth0-TxRx-0"), interrupt(41, "eth0-TxRx-1")],
        }
    }

    #[test]
    fn a_good_machine_is_fine() {
        insta::assert_snapshot!(print(&assessments(&good(), Some(&quiet()))), @r"
        cpus: 4 usable: 0-1 for the system, 2-3 for the load -> fine
        smt: off -> fine
        cpu limit: none -> fine
        numa: one node -> fine
        governor: performance -> fine
        turbo: off -> fine
        idle states: down to C1, 2 µs to wake -> fine
        clocksource: tsc -> fine
        virtualisation: none -> fine
        mitigations: on for meltdown -> fine
        network card eth0: ixgbe, queues 4 in and 4 out, rings 4096 of 4096 and 4096 of 4096, offloads on -> fine
        interrupts: eth0-TxRx-0 on 2, eth0-TxRx-1 on 2 -> fine
        conntrack: no connections are tracked -> fine
        load average: 0.10 0.20 0.30 -> fine
        memory: 8.0 GiB, 7.0 GiB available -> fine
        other processes: 0.4% of all CPU time -> fine
        steal: 0.0% of all CPU time -> fine
        throttled: 0.0 ms -> fine
        overheated: no -> fine
        ");
    }

    #[test]
    fn a_bad_machine_gets_advice_for_everything() {
        let facts = HostFacts {
            cpus_usable: "1".parse().unwrap(),
            sides: Sides { shared: true, ..Sides::default() },
            cpus_online: "0-1".parse().unwrap(),
            cores: Some(1),
            smt: Some(true),
            memory_available_bytes: Some(100 << 20),
            virtualisation: Some("KVM".to_owned()),
            clocksource: Some("hpet".to_owned()),
            governor: Some("performance, powersave".to_owned()),
            turbo: Some(true),
            cpu_limit: Some(0.5),
            load_average: Some([1.5, 0.2, 0.3]),
            numa_nodes: Some(2),
            numa_balancing: Some(true),
            idle_states: vec![
                idle_state("POLL", 0, true),
                idle_state("C6", 133, true),
                idle_state("C9", 900, false),
            ],
            mitigations: vec![
                weakness("meltdown", "Mitigation: PTI"),
                weakness("mds", "Vulnerable: no microcode"),
            ],
            network_cards: vec![
                card(255, "0-1"),
                NetworkCard { name: "eth1".to_owned(), ..NetworkCard::default() },
            ],
            irqbalance: true,
            conntrack: Some(Conntrack { count: 900, count_max: 1000 }),
            ..good()
        };
        let noise = Noise {
            steal_share: 0.031,
            other_cpu_share: 0.25,
            throttling: Some(Throttling { periods_count: 3, stopped_ns: 12_300_000 }),
            overheated_count: Some(2),
            ..quiet()
        };
        insta::assert_snapshot!(print(&assessments(&facts, Some(&noise))), @r"
        cpus: 1 usable, shared by both sides -> give it two CPUs or more: on one, the load takes the time that the system needs
        smt: on, 2 threads a core -> use a machine with two cores or more: both sides are threads of one core and slow each other
        cpu limit: 0.5 CPUs -> raise or remove the limit of the control group: it stops the measurement for many milliseconds at a time
        numa: 2 nodes, the kernel moves memory between them -> keep both sides on one node (`numactl --cpunodebind 0 --membind 0 plumb …`), and memory where it is: `plumb tune apply numa-balancing`
        governor: performance, powersave -> fix the clock: `plumb tune apply governor`
        turbo: on -> turn it off for small effects, as the clock then depends on heat and on other cores: `plumb tune apply turbo-off`
        idle states: down to C6, 133 µs to wake -> latencies of a few µs need CPUs that sleep lightly: `plumb tune apply idle-states`
        clocksource: hpet -> choose a fast one in /sys/devices/system/clocksource/clocksource0/current_clocksource: with this one every reading of the time is slow
        virtualisation: KVM -> other guests share this machine: repeat on bare metal before you take a number for the hardware's
        mitigations: on for meltdown; off or missing for mds -> figures may be better than those of a protected host: compare only with hosts in the same state
        network card eth0: ixgbe, queues 1 in and 4 out, rings 255 of 4096 and 4096 of 4096, off: rx-checksum tso -> longer rings lose less in bursts: `plumb tune apply rings=eth0`; the CPU does work that the card may be able to do: try `ethtool -K eth0 rx on tso on`; one queue brings all packets to one CPU: add queues with `ethtool -L`, or spread the packets with RPS
        network card eth1: unknown driver, queues 0 in and 0 out -> fine
        interrupts: eth0-TxRx-0 on 0-1, eth0-TxRx-1 on 0-1, irqbalance moves them -> pin each to one CPU: `plumb tune apply interrupt-affinity`, which also pauses irqbalance
        conntrack: 900 of 1000 connections -> raise net.netfilter.nf_conntrack_max before connections are refused
        load average: 1.50 0.20 0.30 -> stop what else runs here, or wait until it has ended
        memory: 8.0 GiB, 0.1 GiB available -> free some, or the kernel reclaims memory in the middle of a measurement
        other processes: 25.0% of all CPU time -> find them with `top` and stop them, or use a machine of your own
        steal: 3.1% of all CPU time -> move to a host or an instance type whose CPUs are not shared
        throttled: 12.3 ms -> raise or remove the CPU limit of the control group
        overheated: 2 times -> cool the machine: its CPUs slow down by themselves
        ");
    }

    #[test]
    fn what_is_unknown_is_not_judged() {
        insta::assert_snapshot!(print(&assessments(&HostFacts::default(), None)), @r"
        cpu limit: none -> fine
        governor: none: the kernel does not control the clock -> fine
        turbo: unknown: the kernel does not control it -> fine
        idle states: only halt: the hypervisor or the firmware does the rest -> fine
        virtualisation: none -> fine
        conntrack: no connections are tracked -> fine
        ");
    }

    #[test]
    fn waiting_for_memory_is_not_fine_however_much_there_is() {
        let noise = Noise { memory_pressure: Some(0.02), ..quiet() };
        let judged = assessments(&good(), Some(&noise));
        assert!(!judged.iter().find(|it| it.name == "memory").unwrap().fine);
    }

    #[test]
    fn a_limit_at_or_above_the_usable_cpus_is_fine() {
        for (limit, fine) in [(3.9, false), (4.0, true), (8.0, true)] {
            let judged = assessments(&HostFacts { cpu_limit: Some(limit), ..good() }, None);
            assert_eq!(judged.iter().find(|it| it.name == "cpu limit").unwrap().fine, fine);
        }
    }
}
