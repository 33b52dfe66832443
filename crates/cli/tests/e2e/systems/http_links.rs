//! HTTP over a link that delays and loses packets, through the program: all programs and protocols, and that nothing is left.

use serde_json::Value;

use super::ingresses::installed;
use super::networks::{
    OWN_LINK_EVIDENCE, link_is_proven, may_link, measured_over_links, measured_over_links_in,
    nothing_is_left_after_kills,
};
use crate::common::{measured_slots, run, stdout, write};

/// An experiment whose load waits for answers at a low rate, so that the link keeps up on a slow machine.
fn experiment(link: &str, variants: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: http\n  \
         system: {{ ingress: {{ tls: \"1.3\", key: ecdsa-p256 }}, link: {{ {link} }} }}\n  \
         load: {{ connections: 4, rate: 50 /s, duration: 1 s, warmup: 0 s, checks: [\"status == 200\", \"body length == 612 B\"] }}\n  \
         noise: {{ others_max: 100% }}\n  baseline: base\n  variants:\n    base: {{}}\n{variants}  \
         blocks: {{ min: 2, max: 2 }}\n  claims: []\n"
    )
}

fn named<'v>(found: &'v [Value], name: &str) -> &'v Value {
    found.iter().find(|variant| variant["name"] == name).unwrap()
}

/// The median over the slots of a metric, or of a statistic of it.
fn median(variant: &Value, metric: &str, statistic: &str) -> f64 {
    let pointer = format!("/metrics/{metric}/{statistic}median");
    variant.pointer(&pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {variant:#}"))
}

#[test]
fn every_protocol_and_program_is_measured_over_a_link_with_a_delay() {
    if !may_link() {
        return;
    }
    let programs = [
        ("haproxy", "haproxy", "system: { ingress: { kind: haproxy } }"),
        ("nginx", "nginx", "system: { ingress: { kind: nginx }, origin: { kind: nginx } }"),
        (
            "caddy",
            "caddy-h3",
            "system: { ingress: { kind: caddy, protocols: [h1, h3] } }, load: { protocol: h3 }",
        ),
        ("h2load", "h2load", "load: { driver: h2load, rate: null, checks: [] }"),
    ];
    let there: Vec<_> = programs.into_iter().filter(|(program, ..)| installed(program)).collect();
    let own = "    fresh: { load: { reuse: none } }\n    \
               h3: { system: { ingress: { protocols: [h1, h3] } }, load: { protocol: h3 } }\n    auto: { system: { ingress: { protocols: [h1, h2] } }, load: { protocol: auto } }\n    \
               near: { system: { link: { delay: null, seed: null } } }\n";
    let lines = there.iter().map(|(_, name, settings)| format!("    {name}: {{ {settings} }}\n"));
    let text = experiment("delay: 5 ms, seed: 7", &(own.to_owned() + &lines.collect::<String>()));
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "experiment.yaml", &text);
    let checked = stdout(&run(&["check", file.to_str().unwrap()]));
    assert_eq!(checked.matches("plumb makes its link").count(), 4 + there.len(), "{checked}");
    let Some(found) = measured_over_links(&text) else { return };
    for name in ["base", "fresh", "h3", "auto"].into_iter().chain(there.iter().map(|(_, name, _)| *name)) {
        let variant = named(&found, name);
        if !link_is_proven(variant, OWN_LINK_EVIDENCE) {
            continue;
        }
        assert!(median(variant, "cpu_link", "") > 0.0, "{name}: {variant:#}");
        if name != "h2load" {
            let least = median(variant, "http_req_service", "min/");
            assert!(
                least >= 10.0,
                "{name}: a round trip takes the delay twice, and not {least} ms: {variant:#}"
            );
        }
    }
    let fresh = named(&found, "fresh");
    if fresh["state"] == "measured" {
        assert!(median(fresh, "http_req_connecting", "min/") >= 10.0, "{fresh:#}");
    }
    let near = named(&found, "near");
    assert_eq!(near["state"], "measured", "{near:#}");
    let evidence = near["evidence"].as_array().unwrap();
    assert!(evidence.iter().all(|one| !one["kind"].as_str().unwrap().starts_with("link-")), "{near:#}");
    assert!(near["metrics"]["cpu_link"]["median"].is_null(), "{near:#}");
}

#[test]
fn segments_that_a_link_loses_are_sent_again() {
    if !may_link() {
        return;
    }
    // The link loses one in twenty of the load's segments, and TCP sends each again.
    let text = experiment("delay: 10 ms, loss: 5%", "    seeded: { system: { link: { seed: 7 } } }\n")
        .replace("rate: 50 /s", "rate: 150 /s");
    let Some(found) = measured_over_links(&text) else { return };
    let base = named(&found, "base");
    if link_is_proven(base, OWN_LINK_EVIDENCE) {
        assert!(median(base, "segments_retransmitted", "") > 0.0, "{base:#}");
    }
    let seeded = named(&found, "seeded");
    if link_is_proven(seeded, OWN_LINK_EVIDENCE) {
        assert!(seeded["evidence"].to_string().contains("seed 7"), "{seeded:#}");
    }
}

#[test]
fn posts_over_a_lossy_link_wait_for_the_congestion_window() {
    if !may_link() {
        return;
    }
    // The warm-up has the slow start. After it, a connection sends less in a round trip than its three requests have windows for.
    let load = format!(
        "connections: 3, streams: 3, protocol: h3, method: POST, body: {}, duration: 1500 ms, warmup: 2 s",
        "b".repeat(300_000)
    );
    let variants = "    newreno: { load: { congestion: newreno } }\n";
    let text = experiment("delay: 10 ms, loss: 1%, seed: 7", variants)
        .replace("key: ecdsa-p256", "key: ecdsa-p256, protocols: [h1, h3]")
        .replace("connections: 4, rate: 50 /s, duration: 1 s, warmup: 0 s", &load);
    let directory = tempfile::tempdir().unwrap();
    let Some(found) = measured_over_links_in(directory.path(), &text) else { return };
    let slots = measured_slots(&directory.path().join("run"));
    for name in ["base", "newreno"] {
        if link_is_proven(named(&found, name), OWN_LINK_EVIDENCE) {
            let of_variant: Vec<&Value> = slots.iter().filter(|slot| slot["variant"] == name).collect();
            assert!(!of_variant.is_empty(), "{name}");
            of_variant.into_iter().for_each(assert_congestion_held_requests_back);
        }
    }
}

/// Asserts that the requests of a slot waited for the congestion window at least as often as for anything else but a connection, and that
/// the server's limits kept none back.
fn assert_congestion_held_requests_back(slot: &Value) {
    let observed = &slot["outcome"]["measured"]["measurement"]["observed"];
    let count = |reason: &str| observed["stalled"][reason].as_u64().unwrap_or(0);
    let by_congestion = count("congestion window");
    assert!(by_congestion > 0, "{observed:#}");
    for other in ["pacing", "socket"] {
        assert!(count(other) <= by_congestion, "{other}: {observed:#}");
    }
    for limit in ["streams", "connection window", "stream window"] {
        assert_eq!(count(limit), 0, "{limit}: {observed:#}");
    }
}

#[test]
fn a_sysctl_of_a_variant_reaches_both_ends_of_its_link() {
    if !may_link() {
        return;
    }
    let name = "net.ipv4.tcp_notsent_lowat";
    let value = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_notsent_lowat").unwrap();
    let other = if value.trim() == "131072" { 65536 } else { 131_072 };
    let variant = format!("    changed: {{ changes: [{{ sysctl: {{ {name}: {other} }} }}] }}\n");
    let found = measured_over_links(&experiment("delay: 20 ms, seed: 7", &variant));
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_notsent_lowat").unwrap(), value);
    let Some(found) = found else { return };
    // The two ends of each variant have the settings of the host while they are made.
    for name in ["base", "changed"] {
        link_is_proven(named(&found, name), &["settings of the host that the link's two ends lack"]);
    }
}

#[test]
fn a_killed_run_over_a_link_leaves_no_namespace_device_or_process() {
    if !may_link() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut variants = "    lossy: { system: { link: { loss: 1% } } }\n".to_owned();
    if installed("nginx") {
        variants.push_str("    nginx: { system: { ingress: { kind: nginx, threads: 2 } } }\n");
    }
    let file = write(directory.path(), "experiment.yaml", experiment("delay: 1 ms", &variants));
    nothing_is_left_after_kills(&file, directory.path());
}
