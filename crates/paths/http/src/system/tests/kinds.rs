//! Behaviour that all kinds of ingress share.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Barrier;

use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::X509;
use plumb_host::namespace::{Namespace, may_create};
use plumb_host::network::Link;
use plumb_ingress::text;
use plumb_model::{Bytes, Measurement};
use rustls::{HandshakeKind, ProtocolVersion};

use super::*;
use crate::settings::{LoadSettings, Offload, OriginKind};

/// Starts each kind that the host has, and asks it something.
fn with_each_kind(test: &str, tls: &[TlsVersion], ask: impl Fn(&mut Started)) {
    for kind in PROGRAMS {
        for &version in tls {
            let spec = spec(kind, version);
            if is_feasible(&format!("kinds::{test}"), &spec) {
                ask(&mut Started::new(&spec));
            }
        }
    }
}

const ALL: [TlsVersion; 3] = [TlsVersion::None, TlsVersion::V12, TlsVersion::V13];
const ONE: [TlsVersion; 1] = [TlsVersion::V13];

#[test]
fn requests_of_every_form_are_answered() {
    with_each_kind("requests_of_every_form_are_answered", &ALL, |started| {
        let mut client = started.client();
        let body = text(612);
        let good = |answer: client::Answer| {
            assert_eq!((answer.status, answer.body == body), (200, true), "{}", answer.head)
        };
        good(client.get("/"));
        good(client.get("/some/path?query"));
        client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = client.answer_to_head();
        assert_eq!(head.status, 200);
        assert!(head.head.to_ascii_lowercase().contains("content-length: 612\r\n"), "{}", head.head);
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello");
        good(client.answer());
        client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        client.send("6;x=y\r\n world\r\n0\r\n\r\n");
        good(client.answer());
        // Two at once, the second of which ends the connection.
        client.send(
            "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        good(client.answer());
        good(client.answer());
        assert!(client.is_ended());
        let mut old = started.client();
        old.send("GET / HTTP/1.0\r\n\r\n");
        good(old.answer());
        assert!(old.is_ended());
    });
}

#[test]
fn the_version_is_the_one_that_was_asked_for() {
    with_each_kind("the_version_is_the_one_that_was_asked_for", &ALL, |started| {
        let mut client = started.client();
        client.get("/");
        let expected = match started.snapshot().states["tls"].as_str() {
            "none" => None,
            "1.2" => Some(ProtocolVersion::TLSv1_2),
            "1.3" => Some(ProtocolVersion::TLSv1_3),
            other => panic!("{other}"),
        };
        assert_eq!(client.version(), expected);
        let is_tls = started.target.url.starts_with("https://localhost:");
        assert_eq!((is_tls, started.target.ca_pem.is_some()), (expected.is_some(), expected.is_some()));
    });
}

#[test]
fn large_bodies_pass_whole_in_both_directions() {
    for kind in PROGRAMS {
        // Go's proxy may stop reading a large answer whose request had a body.
        let bodies: &[(usize, usize)] = match kind {
            IngressKind::Caddy => &[(3_000_000, 612), (0, 5_000_000)],
            _ => &[(3_000_000, 5_000_000)],
        };
        for tls in [TlsVersion::None, TlsVersion::V13] {
            for origin in [OriginKind::Embedded, OriginKind::Nginx] {
                for &(sent, received) in bodies {
                    let mut spec = spec(kind, tls);
                    spec.origin.kind = origin;
                    bodies_pass_whole(spec, sent, received);
                }
            }
        }
    }
}

fn bodies_pass_whole(mut spec: SystemSettings, sent: usize, received: usize) {
    spec.origin.body = Bytes(received as u64);
    if !is_feasible("kinds::large_bodies_pass_whole_in_both_directions", &spec) {
        return;
    }
    let started = Started::new(&spec);
    let mut client = started.client();
    // The runner shows this if the test fails.
    eprintln!("{:?}, {:?} to {:?}: {sent} B", spec.ingress.kind, spec.ingress.tls, spec.origin.kind);
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {sent}\r\n\r\n"));
    client.send(text(sent));
    let answer = client.answer();
    assert_eq!((answer.status, answer.body.len()), (200, received));
    assert!(answer.body == text(received));
}

#[test]
fn a_hundred_clients_are_served_at_a_time() {
    with_each_kind(
        "a_hundred_clients_are_served_at_a_time",
        &[TlsVersion::None, TlsVersion::V13],
        |started| {
            let before = started.snapshot();
            let mut clients: Vec<Client> = (0..100).map(|_| started.client()).collect();
            for round in 0..3 {
                for client in &mut clients {
                    client.send(format!("GET /{round} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
                }
                for client in &mut clients {
                    assert_eq!(client.answer().status, 200);
                }
            }
            let after = started.snapshot();
            // Caddy counts none.
            if before.counters.contains_key("requests") {
                assert_eq!(after.moved(&before, "requests"), Some(300), "{after:?}");
            }
        },
    );
}

#[test]
fn sessions_are_resumed_where_there_are_tickets_and_only_there() {
    for kind in PROGRAMS {
        for tls in [TlsVersion::V12, TlsVersion::V13] {
            for tickets in [true, false] {
                let mut spec = spec(kind, tls);
                spec.ingress.tickets = tickets;
                if !is_feasible("kinds::sessions_are_resumed_where_there_are_tickets_and_only_there", &spec) {
                    continue;
                }
                let mut started = Started::new(&spec);
                let before = started.snapshot();
                let trust = Trust::in_target(&started.target);
                let handshakes: Vec<_> = (0..4)
                    .map(|_| {
                        let mut client = started.client_with(&trust);
                        client.get("/");
                        client.handshake().unwrap()
                    })
                    .collect();
                let later = if tickets { HandshakeKind::Resumed } else { HandshakeKind::Full };
                assert_eq!(
                    handshakes,
                    [HandshakeKind::Full, later, later, later],
                    "{kind:?} {tls:?} {tickets}"
                );
                let after = started.snapshot();
                let moved = |counter| after.moved(&before, counter);
                if matches!(kind, IngressKind::Embedded | IngressKind::Haproxy) {
                    let expected = if tickets { (Some(1), Some(3)) } else { (Some(4), Some(0)) };
                    assert_eq!(
                        (moved("handshakes_full"), moved("handshakes_resumed")),
                        expected,
                        "{kind:?} {tls:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_kind_of_key_is_used() {
    for kind in PROGRAMS {
        for key in [KeyKind::Rsa2048, KeyKind::EcdsaP256] {
            for tls in [TlsVersion::V12, TlsVersion::V13] {
                let mut spec = spec(kind, tls);
                spec.ingress.key = key;
                if is_feasible("kinds::every_kind_of_key_is_used", &spec) {
                    let mut started = Started::new(&spec);
                    assert_eq!(started.client().get("/").status, 200);
                    assert_eq!(started.snapshot().states["key"], key.name());
                }
            }
        }
    }
}

#[test]
fn a_key_of_4096_bits_is_made_once_in_a_scratch_directory() {
    let mut spec = spec(IngressKind::Embedded, TlsVersion::V12);
    spec.ingress.key = KeyKind::Rsa4096;
    let scratch = tempfile::tempdir().unwrap();
    let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 };
    let key_file = scratch.path().join("certificates/rsa-4096/key.pem");
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut system = Running::start(&spec, &place).unwrap();
        keys.push(std::fs::read_to_string(&key_file).unwrap());
        system.stop().unwrap();
    }
    assert_eq!(keys[0], keys[1]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&key_file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

/// Starts a system of each kind and version of TLS at an address, and has `drive` measure it.
fn at_an_address(test: &str, address: IpAddr, drive: impl Fn(&Target) -> Measurement) {
    for (kind, tls) in PROGRAMS.into_iter().flat_map(|kind| ALL.map(|tls| (kind, tls))) {
        let spec = spec(kind, tls);
        if !is_feasible(&format!("kinds::{test}"), &spec) {
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: Some(address), number: 0 };
        let mut system = Running::start(&spec, &place).unwrap();
        let target: Target = serde_json::from_value(system.target()).unwrap();
        let url = crate::url::Url::parse(&target.url).unwrap();
        assert_eq!(url.host, address.to_string());
        let measured = drive(&target);
        assert_eq!((measured.work, measured.errors.len()), (50, 0), "{kind:?}: {:?}", measured.errors);
        assert!(std::net::TcpStream::connect(("127.0.0.1", url.port)).is_err(), "{kind:?}");
        system.stop().unwrap();
    }
}

/// A load of some requests, which trusts the system's certificate for its address alone.
fn drive(target: &Target) -> Measurement {
    let spec = LoadSettings { requests: Some(50), ..LoadSettings::default() };
    let mut load = crate::load::http_load(&spec, target).unwrap();
    let (warmup_ns, window_ns) = (0, 60_000_000_000);
    let window = plumb_path::Window::at_once(warmup_ns, window_ns, 1);
    load.measure(window, &mut |_| ()).unwrap()
}

/// Whether namespaces can be made, else the test says why it is skipped.
fn may_have_networks(test: &str) -> bool {
    if may_create() {
        return true;
    }
    let reason = if rustix::process::geteuid().is_root() {
        "hardware: this machine does not let root make network namespaces"
    } else {
        "only root may make network namespaces"
    };
    writeln!(std::io::stderr(), "test skipped: system::tests::kinds::{test}: {reason}").unwrap();
    false
}

#[test]
fn every_kind_listens_where_other_hosts_reach_it_and_nowhere_else() {
    let test = "every_kind_listens_where_other_hosts_reach_it_and_nowhere_else";
    if !may_have_networks(test) {
        return;
    }
    // On the host's own network another test may listen on the same port of another address.
    let alone = Namespace::create().unwrap();
    let at = |address: IpAddr| alone.inside(|| at_an_address(test, address, drive)).unwrap();
    at([127, 0, 0, 2].into());
    match alone.inside(|| std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0))).unwrap() {
        Ok(_) => at(Ipv6Addr::LOCALHOST.into()),
        Err(error) => {
            writeln!(
                std::io::stderr(),
                "test skipped: system::tests::kinds::{test}: hardware: no IPv6: {error}"
            )
            .unwrap();
        }
    }
}

#[test]
fn a_load_in_another_network_reaches_every_kind() {
    const SYSTEM: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    const LOAD: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    let test = "a_load_in_another_network_reaches_every_kind";
    if !may_have_networks(test) {
        return;
    }
    let (system, load) = (Namespace::create().unwrap(), Namespace::create().unwrap());
    let link = Link { name: "eth0", mtu: 1500, queue_length: None, queues: 1 };
    system.add_veth(link, link, &load).unwrap();
    for (namespace, address) in [(&system, SYSTEM), (&load, LOAD)] {
        namespace.add_address("eth0", address, 24).unwrap();
        namespace.set_up("eth0").unwrap();
    }
    // Programs end with the thread that started them.
    let measure = || at_an_address(test, SYSTEM.into(), |target| load.inside(|| drive(target)).unwrap());
    system.inside(measure).unwrap();
}

#[test]
fn several_threads_serve_and_their_cpu_time_is_told_apart() {
    for kind in PROGRAMS {
        let mut spec = spec(kind, TlsVersion::V12);
        spec.ingress.threads = 2;
        if !is_feasible("kinds::several_threads_serve_and_their_cpu_time_is_told_apart", &spec) {
            continue;
        }
        let mut started = Started::new(&spec);
        let before = started.snapshot();
        for _ in 0..50 {
            assert_eq!(started.client().get("/").status, 200);
        }
        let after = started.snapshot();
        // Threads of other tests, which have the same names, come and go in this process.
        for component in ["ingress", "origin"] {
            assert!(after.cpu.components[component] > 0, "{kind:?} {component}");
        }
        assert!(after.cpu.total_ns() > before.cpu.total_ns());
        if matches!(kind, IngressKind::Embedded | IngressKind::Haproxy) {
            assert_eq!(after.states["threads"], "2");
        }
        assert!(!after.states["program"].is_empty());
    }
}

#[test]
fn offloaded_handshakes_are_signed_by_the_workers_alone() {
    for (tls, key) in [(TlsVersion::V12, KeyKind::Rsa2048), (TlsVersion::V13, KeyKind::EcdsaP256)] {
        let mut spec = spec(IngressKind::Embedded, tls);
        (spec.ingress.key, spec.ingress.offload, spec.ingress.workers) = (key, Offload::Threads, Some(2));
        let mut started = Started::new(&spec);
        let before = started.snapshot();
        let start = Barrier::new(50);
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    let mut client = started.client();
                    start.wait();
                    assert_eq!(client.get("/").status, 200);
                    assert_eq!(client.get("/").status, 200);
                });
            }
        });
        let after = started.snapshot();
        let moved = |counter| after.moved(&before, counter).unwrap();
        assert_eq!((moved("key_operations_device"), moved("key_operations_inline")), (50, 0));
        assert_eq!((moved("handshakes_full"), moved("requests")), (50, 100));
        assert_eq!(after.states["workers"], "2");
        let in_flight_max: u64 = after.states["key_operations_in_flight_max"].parse().unwrap();
        assert!((1..=50).contains(&in_flight_max), "{in_flight_max}");
    }
}

#[test]
fn without_offload_every_full_handshake_is_signed_in_the_loop() {
    let mut started = Started::new(&spec(IngressKind::Embedded, TlsVersion::V13));
    let before = started.snapshot();
    for _ in 0..3 {
        started.client().get("/");
    }
    let after = started.snapshot();
    let moved = |counter| after.moved(&before, counter).unwrap();
    assert_eq!((moved("key_operations_device"), moved("key_operations_inline")), (0, 3));
}

#[test]
fn the_embedded_ingress_writes_an_answer_at_once() {
    for tls in ALL {
        let mut spec = spec(IngressKind::Embedded, tls);
        spec.origin.body = Bytes(612);
        let started = Started::new(&spec);
        let mut client = started.client();
        // What comes before it belongs to the handshake.
        client.get("/");
        let before = client.segments();
        for _ in 0..20 {
            assert_eq!(client.get("/").body.len(), 612);
        }
        assert_eq!(client.segments() - before, 20, "{tls:?}");
    }
}

#[test]
fn connections_to_the_origin_are_kept() {
    with_each_kind("connections_to_the_origin_are_kept", &ONE, |started| {
        for _ in 0..20 {
            assert_eq!(started.client().get("/").status, 200);
        }
        if let Some(connects) = started.snapshot().counters.get("upstream_connects") {
            assert_eq!(*connects, 1);
        }
    });
}

#[test]
fn programs_speak_the_ciphers_that_rustls_does_not_have() {
    for kind in [IngressKind::Haproxy, IngressKind::Nginx] {
        let spec = spec(kind, TlsVersion::V12);
        if !is_feasible("kinds::programs_speak_the_ciphers_that_rustls_does_not_have", &spec) {
            continue;
        }
        let started = Started::new(&spec);
        let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
        let authority = X509::from_pem(started.target.ca_pem.as_deref().unwrap().as_bytes()).unwrap();
        connector.cert_store_mut().add_cert(authority).unwrap();
        connector.set_cipher_list("ECDHE-ECDSA-AES128-SHA256").unwrap();
        let tcp = started.client().tcp().peer_addr().and_then(std::net::TcpStream::connect).unwrap();
        let stream = connector.build().connect("localhost", tcp).unwrap();
        assert_eq!(stream.ssl().current_cipher().unwrap().name(), "ECDHE-ECDSA-AES128-SHA256");
    }
}
