//! Real links between namespaces of the tests' own.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use super::super::namespace::{Namespace, enter, may_create};
use super::super::{Feature, Link};
use super::{LinkCounts, LinkTerms, TunLink};
use crate::process::Command;
use crate::time::{monotonic_ns, sleep};

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const DEVICE: Link<'_> = Link { name: "eth0", mtu: 1500, queue_length: None, queues: 1 };
const TERMS: LinkTerms =
    LinkTerms { delay_ns: 0, jitter_ns: 0, loss: 0.0, reordering: 0.0, rate_bytes_per_s: None, seed: 1 };

/// Whether this process may make links.
fn may(test: &str) -> bool {
    let may = may_create() && std::path::Path::new("/dev/net/tun").exists();
    if !may {
        crate::unprivileged::skip(
            &format!("network::tun_link::tests::{test}"),
            "make network namespaces and taps",
        );
    }
    may
}

/// Two ends that know each other's hardware addresses.
fn linked(terms: LinkTerms) -> (TunLink, [Namespace; 2]) {
    let ends = [Namespace::create().unwrap(), Namespace::create().unwrap()];
    let link = TunLink::start([(&ends[0], DEVICE), (&ends[1], DEVICE)], terms).unwrap();
    for (end, address) in ends.iter().zip([NEAR, FAR]) {
        for which in ["all", "default"] {
            end.set(&format!("ipv6/conf/{which}/disable_ipv6"), "1").unwrap();
        }
        // Nothing but the test's own packets is counted: an address that is known stays known.
        end.set("ipv4/neigh/eth0/base_reachable_time_ms", "86400000").unwrap();
        end.add_address("eth0", address, 24).unwrap();
        end.set_up("eth0").unwrap();
    }
    (link, ends)
}

fn socket(namespace: &Namespace) -> UdpSocket {
    let socket = namespace.inside(|| UdpSocket::bind("0.0.0.0:9").unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Takes all datagrams that are there.
fn drain(socket: &UdpSocket) -> u64 {
    let mut count = 0;
    while socket.recv(&mut [0; 64]).is_ok() {
        count += 1;
    }
    count
}

/// Waits for something that a busy machine, too, does within a minute.
fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..600_000 {
        if condition() {
            return;
        }
        sleep(Duration::from_micros(100));
    }
    panic!("it did not happen within a minute");
}

/// The counts of the way there, once nothing is on its way.
fn counts_at_rest(link: &TunLink) -> LinkCounts {
    until(|| {
        link.counts().iter().all(|it| it.entered == it.forwarded + it.lost + it.crowded_out + it.refused)
    });
    link.counts()[0]
}

/// Sends until something arrived and nothing is on its way.
fn settle(link: &TunLink, near: &UdpSocket, far: &UdpSocket) {
    while drain(far) == 0 {
        near.send_to(b"x", (FAR, 9)).unwrap();
        sleep(Duration::from_millis(1));
    }
    counts_at_rest(link);
    drain(far);
}

#[test]
fn a_link_loses_exactly_what_it_counts_as_lost() {
    if !may("a_link_loses_exactly_what_it_counts_as_lost") {
        return;
    }
    const PACKETS: u64 = 100_000;
    const AT_A_TIME: u64 = 100;
    let (link, ends) = linked(LinkTerms { loss: 0.01, delay_ns: 100_000, seed: 42, ..TERMS });
    let (near, far) = (socket(&ends[0]), socket(&ends[1]));
    settle(&link, &near, &far);
    let before = link.counts()[0];
    let mut received = 0;
    for sent in (0..PACKETS).step_by(AT_A_TIME as usize) {
        for _ in 0..AT_A_TIME {
            near.send_to(b"x", (FAR, 9)).unwrap();
        }
        let done = |it: LinkCounts| it.forwarded + it.lost - before.forwarded - before.lost;
        until(|| done(link.counts()[0]) >= sent + AT_A_TIME);
        received += drain(&far);
    }
    let after = link.counts()[0];
    let (forwarded, lost) = (after.forwarded - before.forwarded, after.lost - before.lost);
    assert_eq!((received, after.entered - before.entered), (forwarded, PACKETS), "{after:?}");
    assert_eq!((forwarded + lost, after.refused, after.crowded_out), (PACKETS, 0, 0));
    assert!((lost as f64 / PACKETS as f64 - 0.01).abs() < 0.001, "{lost} of {PACKETS} were lost");
    assert!(after.cpu_ns > before.cpu_ns);
}

#[test]
fn every_packet_takes_at_least_the_delay_and_large_sends_are_split() {
    if !may("every_packet_takes_at_least_the_delay_and_large_sends_are_split") {
        return;
    }
    let delay_ns = 5_000_000;
    let (link, ends) = linked(LinkTerms { delay_ns, ..TERMS });
    let (near, far) = (socket(&ends[0]), socket(&ends[1]));
    settle(&link, &near, &far);
    for _ in 0..10 {
        let sent_ns = monotonic_ns();
        near.send_to(b"x", (FAR, 9)).unwrap();
        until(|| drain(&far) == 1);
        assert!(monotonic_ns() - sent_ns >= delay_ns);
    }
    for feature in [Feature::Tso, Feature::TxChecksum] {
        assert!(
            !ends[0].feature("eth0", feature).unwrap(),
            "{} would make frames that no wire has",
            feature.name()
        );
    }
    // Three fragments of a datagram are three packets.
    let before = counts_at_rest(&link);
    near.send_to(&[0; 4000], (FAR, 9)).unwrap();
    until(|| drain(&far) == 1);
    let after = counts_at_rest(&link);
    assert_eq!((after.forwarded - before.forwarded, after.too_soon), (3, 0));
    assert!(after.forwarded_bytes - before.forwarded_bytes > 4000, "{after:?}");
}

#[test]
fn some_packets_overtake_others_and_a_rate_drops_what_it_has_no_room_for() {
    if !may("some_packets_overtake_others_and_a_rate_drops_what_it_has_no_room_for") {
        return;
    }
    let terms = LinkTerms { reordering: 0.2, delay_ns: 1_000_000, rate_bytes_per_s: Some(100_000), ..TERMS };
    let (link, ends) = linked(terms);
    let (near, far) = (socket(&ends[0]), socket(&ends[1]));
    settle(&link, &near, &far);
    let before = link.counts()[0];
    // 43 B each take 0.43 ms at the rate, so that 50 ms have room for 117 of them.
    for _ in 0..1000 {
        near.send_to(b"x", (FAR, 9)).unwrap();
    }
    // The socket's buffer does not hold all of them.
    let mut received = 0;
    until(|| {
        received += drain(&far);
        let now = link.counts()[0];
        now.entered == before.entered + 1000 && now.entered == now.forwarded + now.crowded_out
    });
    let after = link.counts()[0];
    received += drain(&far);
    assert_eq!(received, after.forwarded - before.forwarded);
    assert!(after.reordered > before.reordered && after.crowded_out > 0, "{after:?}");
}

#[test]
fn a_link_whose_process_is_killed_leaves_no_device() {
    const TEST: &str = "network::tun_link::tests::a_link_whose_process_is_killed_leaves_no_device";
    const PATHS: &str = "PLUMB_TEST_LINK";
    if let Ok(paths) = std::env::var(PATHS) {
        let ends: Vec<Namespace> = paths.split(',').map(entered).collect();
        let _link = TunLink::start([(&ends[0], DEVICE), (&ends[1], DEVICE)], TERMS).unwrap();
        loop {
            sleep(Duration::from_secs(1));
        }
    }
    if !may("a_link_whose_process_is_killed_leaves_no_device") {
        return;
    }
    let ends = [Namespace::create().unwrap(), Namespace::create().unwrap()];
    let paths = ends.each_ref().map(|end| end.path().display().to_string()).join(",");
    let is_there = |end: &Namespace| end.link("eth0").is_ok();
    for _ in 0..20 {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program).args([TEST, "--exact"]).env(PATHS, &paths).spawn().unwrap();
        until(|| ends.iter().all(is_there));
        child.kill().unwrap();
        until(|| !ends.iter().any(is_there));
    }
}

/// A namespace of another process.
fn entered(path: &str) -> Namespace {
    let path = PathBuf::from(path);
    std::thread::spawn(move || {
        enter(&path).unwrap();
        Namespace::own().unwrap()
    })
    .join()
    .unwrap()
}
