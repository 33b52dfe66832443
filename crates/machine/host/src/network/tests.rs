//! Real devices in namespaces of the tests' own.

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use super::namespace::{Namespace, may_create};
use super::{Feature, Impairment, Link, Redirect, Shape, TokenBucket, Tunnel, has_netem};
use crate::cpu::CpuSet;

const A: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);

fn link(name: &str) -> Link<'_> {
    Link { name, mtu: 1500, queue_length: None, queues: 1 }
}

/// Says that a test cannot run here, past the test runner, which swallows what tests print.
fn skip(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "test skipped: network::tests::{test}: {reason}");
}

/// Two namespaces with a pair of devices between them, or why there are none.
fn pair(test: &str) -> Option<(Namespace, Namespace)> {
    if !may_create() {
        crate::unprivileged::skip(&format!("network::tests::{test}"), "make network namespaces");
        return None;
    }
    let (a, b) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    let near = Link { mtu: 1400, queue_length: Some(77), queues: 2, ..link("eth0") };
    a.add_veth(near, Link { queues: 2, ..link("eth0") }, &b).unwrap();
    for (namespace, address) in [(&a, A), (&b, B)] {
        namespace.add_address("eth0", address, 24).unwrap();
        namespace.set_up("eth0").unwrap();
    }
    Some((a, b))
}

fn socket(namespace: &Namespace) -> UdpSocket {
    let socket = namespace.inside(|| UdpSocket::bind("0.0.0.0:9").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Sends one datagram and waits for it.
fn pass(from: &UdpSocket, to: &UdpSocket, address: Ipv4Addr) {
    from.send_to(b"x", (address, 9)).unwrap();
    assert_eq!(to.recv(&mut [0; 9]).unwrap(), 1);
}

#[test]
fn what_is_made_is_read_back_and_carries_packets() {
    let Some((a, b)) = pair("what_is_made_is_read_back_and_carries_packets") else { return };
    let made = a.link("eth0").unwrap();
    assert_eq!((made.mtu, made.queue_length, made.address.len()), (1400, 77, 6));
    a.set_mtu("eth0", 9000).unwrap();
    assert_eq!(a.link("eth0").unwrap().mtu, 9000);
    let (near, far) = (socket(&a), socket(&b));
    let before = b.link("eth0").unwrap().counters;
    pass(&near, &far, B);
    assert!(b.link("eth0").unwrap().counters.received_packets > before.received_packets);
    let error = a.link("eth9").unwrap_err().to_string();
    assert!(error.starts_with("find the device eth9: No such device"), "{error}");
}

#[test]
fn features_and_queues_are_set_and_read_back() {
    let Some((a, _b)) = pair("features_and_queues_are_set_and_read_back") else { return };
    for feature in [Feature::Tso, Feature::Gso, Feature::Gro, Feature::TxChecksum, Feature::RxChecksum] {
        for is_on in [false, true, false] {
            a.set_feature("eth0", feature, is_on).unwrap();
            assert_eq!(a.feature("eth0", feature).unwrap(), is_on, "{}", feature.name());
        }
    }
    let cpus: CpuSet = "0".parse().unwrap();
    a.set_receive_cpus("eth0", 2, &cpus).unwrap();
    let (receive, _) = a.queue_cpus("eth0", 2).unwrap();
    assert_eq!(receive, [cpus.clone(), cpus.clone()]);
    a.set_send_cpus("eth0", 2, &cpus).unwrap();
    let (_, send) = a.queue_cpus("eth0", 2).unwrap();
    assert_eq!(send[0], cpus, "{send:?}");
}

#[test]
fn a_rate_is_set_and_a_kind_that_the_kernel_lacks_is_named() {
    let Some((a, _b)) = pair("a_rate_is_set_and_a_kind_that_the_kernel_lacks_is_named") else { return };
    let bucket = TokenBucket { rate_bytes_per_s: 1_000_000, burst_bytes: 10_000, limit_bytes: 20_000 };
    match a.set_rate("eth0", bucket) {
        Ok(()) => assert_eq!(a.link("eth0").unwrap().qdisc, "tbf"),
        Err(error) => assert!(error.to_string().contains("has no tbf"), "{error}"),
    }
    let impairment = Impairment { delay_ns: 1_000_000, loss: 0.01, rate_bytes_per_s: Some(1_000_000) };
    match a.set_impairment("eth0", impairment) {
        Ok(()) => assert_eq!(a.link("eth0").unwrap().qdisc, "netem"),
        Err(error) => assert!(error.to_string().contains("has no netem"), "{error}"),
    }
    assert_eq!(has_netem().unwrap(), a.link("eth0").unwrap().qdisc == "netem");
    let error = a.set_queue_kind("eth0", "nonsense").unwrap_err().to_string();
    assert!(error.contains("this kernel has no nonsense"), "{error}");
}

#[test]
fn a_rate_is_read_back_as_it_was_set() {
    let test = "a_rate_is_read_back_as_it_was_set";
    let Some((a, _b)) = pair(test) else { return };
    assert_eq!(a.shape("eth0").unwrap(), None, "a queue that nobody shaped");
    for rate_bytes_per_s in [1_000_000, 125_000_000, 5_000_000_000] {
        let bucket = TokenBucket { rate_bytes_per_s, burst_bytes: 256 << 10, limit_bytes: 1 << 20 };
        if let Err(error) = a.set_rate("eth0", bucket) {
            assert!(error.to_string().contains("has no tbf"), "{error}");
            skip(test, &format!("hardware: {error}"));
            return;
        }
        let Some(Shape::Bucket(read)) = a.shape("eth0").unwrap() else { panic!("no bucket") };
        let tick_bytes = (rate_bytes_per_s * 65 / 1_000_000_000) as u32 + 1;
        assert!(bucket.burst_bytes.abs_diff(read.burst_bytes) <= tick_bytes, "{read:?}");
        assert_eq!(TokenBucket { burst_bytes: bucket.burst_bytes, ..read }, bucket);
    }
    a.set_queue_kind("eth0", "pfifo").unwrap();
    assert_eq!(a.shape("eth0").unwrap(), None);
    assert!(a.shape("eth9").is_err());
}

#[test]
fn rules_are_loaded_as_one_and_count() {
    if crate::process::which("nft").is_none() {
        skip("rules_are_loaded_as_one_and_count", "nft is not installed");
        return;
    }
    let Some((a, b)) = pair("rules_are_loaded_as_one_and_count") else { return };
    let refused = a.add_rules("table inet t { counter seen { } }\nnonsense").unwrap_err().to_string();
    assert!(refused.starts_with("add the rules: nft says: "), "{refused}");
    assert_eq!(a.rule_counters("t").unwrap_or_default(), [], "the table of a refused set is not there");
    a.add_rules(
        "table inet t {\n counter seen { }\n chain out { type filter hook output priority 0; udp dport 9 counter name seen; }\n}",
    )
    .unwrap();
    pass(&socket(&a), &socket(&b), B);
    assert_eq!((a.rule_count().unwrap(), b.rule_count().unwrap_or(0)), (1, 0));
    let counters = a.rule_counters("t").unwrap();
    assert_eq!((counters[0].name.as_str(), counters[0].packets), ("seen", 1));
}

#[test]
fn packets_take_the_short_way_past_a_bridge_and_through_a_tunnel() {
    let test = "packets_take_the_short_way_past_a_bridge_and_through_a_tunnel";
    let Some((left, right)) = pair(test) else { return };
    let pods = [Namespace::create().unwrap(), Namespace::create().unwrap()];
    let addresses = [Ipv4Addr::new(10, 2, 0, 1), Ipv4Addr::new(10, 2, 0, 2)];
    for (node, pod, (local, remote), address) in
        [(&left, &pods[0], (A, B), addresses[0]), (&right, &pods[1], (B, A), addresses[1])]
    {
        node.add_veth(link("pod"), link("eth0"), pod).unwrap();
        node.add_bridge(link("bridge")).unwrap();
        let tunnel = Tunnel { id: 7, local, remote: Some(remote), port: 4789 };
        node.add_vxlan(link("tunnel"), tunnel, node).unwrap();
        for device in ["pod", "tunnel"] {
            node.join(device, "bridge").unwrap();
            node.set_up(device).unwrap();
        }
        node.set_up("bridge").unwrap();
        pod.add_address("eth0", address, 24).unwrap();
        pod.set_up("eth0").unwrap();
    }
    let (near, far) = (socket(&pods[0]), socket(&pods[1]));
    pass(&near, &far, addresses[1]);
    let tunnelled = left.link("tunnel").unwrap().counters.sent_packets;
    assert!(tunnelled > 0);
    let out = left.redirect("pod", Redirect::SentBy("tunnel")).unwrap();
    let into = right.redirect("tunnel", Redirect::ReceivedByPeerOf("pod")).unwrap();
    for _ in 0..10 {
        pass(&near, &far, addresses[1]);
    }
    assert!(out.packets().unwrap() >= 10 && into.packets().unwrap() >= 10);
    assert!(left.link("tunnel").unwrap().counters.sent_packets >= tunnelled + 10);
    let tunnels = left.tunnels().unwrap();
    assert_eq!((tunnels.len(), tunnels[0].name.as_str(), tunnels[0].kind.as_str()), (1, "tunnel", "vxlan"));
    assert!(tunnels[0].counters.sent_packets >= tunnelled + 10);
}
