//! Container networks over links that delay and lose packets, with the kernel's netem and without.

use serde_json::Value;

use super::super::networks::{Variant, experiment, has, variant};
use super::{OWN_LINK_EVIDENCE, evidence, is_of_keeping_up, may_link, proven, slots_over_links};
use crate::common::{run, stdout, write};

/// Links that delay and lose packets, which are Plumbline's own where the kernel has no netem, and always with a seed. Their load is low:
/// they wait for each answer.
const LINKS: &[Variant] = &[
    variant("kernel-or-own", "system: { link: { delay: 2 ms, loss: 1% } }", &[]),
    variant(
        "hosts",
        "system: { link: { rate: 1 Gbit/s, delay: 2 ms, jitter: 1 ms, loss: 1%, reordering: 1%, seed: 7 } }",
        OWN_LINK_EVIDENCE,
    ),
    variant("underlay", "system: { kind: bridge, link: { delay: 2 ms, seed: 7 } }", OWN_LINK_EVIDENCE),
    variant(
        "overlay",
        "system: { kind: vxlan, conntrack: on, fastpath: redirect, link: { delay: 2 ms, seed: 7 } }",
        OWN_LINK_EVIDENCE,
    ),
];

#[test]
fn links_delay_and_lose_packets_with_or_without_netem() {
    if !may_link() || !has("nft") {
        return;
    }
    let lines = LINKS.iter().map(|it| format!("    {}: {{ {} }}\n", it.name, it.settings));
    let more = "    queues: { system: { queues: 2, link: { delay: 2 ms, seed: 7 } } }\n    \
                flooded: { system: { link: { delay: 2 ms, seed: 7 } }, load: { tests: [udp_bw] } }\n";
    let text = experiment(&(lines.collect::<String>() + more));
    // Answers take milliseconds, and a batch of lost ones is none.
    let text = text.replace("[tcp_lat, udp_lat, tcp_bw, udp_bw]", "[tcp_lat]").replace("rate: 1000 /s, ", "");
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "experiment.yaml", &text);
    let checked = stdout(&run(&["check", file.to_str().unwrap()]));
    let own = checked.matches("plumb makes its link").count();
    let of_kernel = checked.matches("the kernel makes its link").count();
    let has_netem = plumb_host::network::has_netem().unwrap();
    assert_eq!((own, of_kernel), if has_netem { (4, 1) } else { (5, 0) }, "{checked}");
    assert!(checked.contains("do not have a second queue; leave out `system.queues`"), "{checked}");
    let slots = slots_over_links(&text);
    for variant in LINKS {
        proven(&slots, variant.name, variant.proven);
    }
    // The sender has no rate. Whether the link keeps up depends on the machine, and the evidence has to agree with its own figures.
    for flooded in slots.iter().filter(|slot| slot["variant"] == "flooded") {
        let told: Vec<_> = evidence(flooded).filter(|one| is_of_keeping_up(one)).collect();
        assert_eq!(told.len(), 2, "{flooded:#}");
        for one in told {
            assert_eq!(one["holds"], keeps_up(&one["figures"]), "{one:#}");
        }
    }
}

/// Whether a link with these figures kept up: those of packets that were late or dropped, or those of its CPU time.
fn keeps_up(figures: &Value) -> bool {
    let figure = |name: &str| figures[name].as_f64();
    match (figure("busy"), figure("busy_max")) {
        (Some(busy), Some(most)) => busy <= most,
        _ => figure("refused") == Some(0.0) && figure("late") <= figure("forwarded").map(|all| all * 0.01),
    }
}
