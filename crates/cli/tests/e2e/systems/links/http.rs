//! HTTP over a link that delays and loses packets, through the program: all programs and protocols, and that nothing is left.

use serde_json::Value;

use super::super::ingresses::installed;
use super::super::networks::nothing_is_left_after_kills;
use super::{OWN_LINK_EVIDENCE, evidence, may_link, proven, reading, slots_over_links};
use crate::common::{run, stdout, write};

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

/// The least and the average of the times of a slot's trend, in milliseconds. A trend has, for each time, by how much it exceeds the one
/// before, and how many there are of it.
fn least_and_average(slot: &Value, metric: &str) -> (f64, f64) {
    let trend =
        reading(slot, metric)["trend"].as_array().unwrap_or_else(|| panic!("no {metric} in {slot:#}"));
    let trend: Vec<f64> = trend.iter().map(|number| number.as_f64().unwrap()).collect();
    let (mut time, mut sum, mut count) = (0.0, 0.0, 0.0);
    for step in trend.chunks_exact(2) {
        time += step[0];
        sum += time * step[1];
        count += step[1];
    }
    (trend.first().copied().unwrap_or(0.0) / 1e6, if count == 0.0 { 0.0 } else { sum / count / 1e6 })
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
    let slots = slots_over_links(&text);
    for name in ["base", "fresh", "h3", "auto"].into_iter().chain(there.iter().map(|(_, name, _)| *name)) {
        for slot in proven(&slots, name, OWN_LINK_EVIDENCE) {
            assert!(reading(slot, "cpu_link")["gauge"].as_f64().unwrap() > 0.0, "{name}: {slot:#}");
            if name != "h2load" {
                let (least, _) = least_and_average(slot, "http_req_service");
                assert!(
                    least >= 10.0,
                    "{name}: a round trip takes the delay twice, and not {least} ms: {slot:#}"
                );
            }
            if name == "fresh" {
                assert!(least_and_average(slot, "http_req_connecting").0 >= 10.0, "{slot:#}");
            }
        }
    }
    for near in proven(&slots, "near", &[]) {
        assert!(evidence(near).all(|one| !one["kind"].as_str().unwrap().starts_with("link-")), "{near:#}");
        assert!(reading(near, "cpu_link").is_null(), "{near:#}");
    }
}

#[test]
fn segments_that_a_link_loses_are_sent_again() {
    if !may_link() {
        return;
    }
    // The link loses one in twenty of the load's segments, and TCP sends each again.
    let text = experiment("delay: 10 ms, loss: 5%", "    seeded: { system: { link: { seed: 7 } } }\n")
        .replace("rate: 50 /s", "rate: 150 /s");
    let slots = slots_over_links(&text);
    let retransmitted = |slot: &&Value| reading(slot, "segments_retransmitted")["count"].as_u64().unwrap();
    let base = proven(&slots, "base", OWN_LINK_EVIDENCE);
    assert!(base.is_empty() || base.iter().map(retransmitted).sum::<u64>() > 0, "{base:#?}");
    for seeded in proven(&slots, "seeded", OWN_LINK_EVIDENCE) {
        assert!(evidence(seeded).any(|one| one.to_string().contains("seed 7")), "{seeded:#}");
    }
}

#[test]
fn posts_over_a_lossy_link_wait_for_the_congestion_window() {
    if !may_link() {
        return;
    }
    // A body fits into the server's window of a stream, and all requests into that of a connection. With the losses, a connection sends less
    // in a round trip than one body.
    let load = format!(
        "connections: 3, streams: 3, protocol: h3, method: POST, body: {}, duration: 1500 ms, warmup: 2 s",
        "b".repeat(60_000)
    );
    let variants = "    newreno: { load: { congestion: newreno } }\n";
    let text = experiment("delay: 10 ms, loss: 1%, seed: 7", variants)
        .replace("key: ecdsa-p256", "key: ecdsa-p256, protocols: [h1, h3]")
        .replace("connections: 4, rate: 50 /s, duration: 1 s, warmup: 0 s", &load);
    let slots = slots_over_links(&text);
    for name in ["base", "newreno"] {
        proven(&slots, name, OWN_LINK_EVIDENCE).into_iter().for_each(assert_congestion_held_requests_back);
    }
}

/// Asserts that the requests of a slot waited for the congestion window, and for nothing else but a connection and pacing, which take long
/// where the load's thread has no CPU.
fn assert_congestion_held_requests_back(slot: &Value) {
    let waited = |reason: &str| least_and_average(slot, &format!("http_req_stalled_{reason}")).1;
    assert!(waited("congestion_window") > 0.0, "{slot:#}");
    for other in ["streams", "connection_window", "stream_window", "socket"] {
        assert_eq!(waited(other), 0.0, "{other}: {slot:#}");
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
    let slots = slots_over_links(&experiment("delay: 20 ms, seed: 7", &variant));
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_notsent_lowat").unwrap(), value);
    // The two ends of each variant have the settings of the host while they are made.
    for name in ["base", "changed"] {
        proven(&slots, name, &["settings of the host that the link's two ends lack"]);
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
