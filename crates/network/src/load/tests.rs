//! The load against a server in this process, on the loopback device.

use std::net::SocketAddr;

use plumb_model::{Bytes, Rate, Reading, Span};
use plumb_path::Settings;

use super::*;
use crate::options::Placement;
use crate::server::{Server, ServerOptions};
use crate::spec::NetworkSettings;
use crate::wire::control::Terms;
use crate::wire::placement::SharedCpus;

fn measure(spec: &LoadSpec) -> Measurement {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let address = server.address();
    let target = Target { address: address.ip().to_string(), port: address.port(), ..Target::default() };
    let window = Window { warmup_ns: 20_000_000, window_ns: spec.duration.0, seed: 1, index: 0, attempt: 0 };
    let mut marks = Vec::new();
    let mut load = network_load(spec, &target).unwrap();
    let measurement = load.measure_all(window, &mut |mark| marks.push(mark)).unwrap();
    assert_eq!((marks.first(), marks.last()), (Some(&Mark::Opened), Some(&Mark::Closed)));
    assert_eq!(measurement.errors.values().sum::<u64>(), 0, "{:?}", measurement.errors);
    let settings = NetworkSettings { load: spec.clone(), ..NetworkSettings::default() };
    for evidence in settings.evidence(&Default::default(), &Default::default(), &measurement) {
        assert!(evidence.holds, "{evidence:?}");
    }
    measurement
}

fn spec(tests: &[Test], msg_size: u64) -> LoadSpec {
    let duration = Span(60_000_000 * tests.len() as u64);
    LoadSpec { tests: tests.to_vec(), msg_size: Bytes(msg_size), duration, ..LoadSpec::default() }
}

fn count(measurement: &Measurement, metric: &str) -> u64 {
    match &measurement.readings[metric] {
        Reading::Rate { count, .. } => *count,
        Reading::Trend(histogram) => histogram.count(),
        Reading::Share { yes, no } => yes + no,
        other => panic!("{metric}: {other:?}"),
    }
}

#[test]
fn every_test_at_every_kind_of_size() {
    for size in [1, 7, 8, 16, 1000, 9000, 65_507] {
        let measurement = measure(&spec(&Test::ALL, size));
        for metric in ["tcp_lat", "udp_lat", "tcp_bw", "udp_bw", "udp_send_bw", "tcp_crr"] {
            assert!(count(&measurement, metric) > 0, "{metric} at {size} B: {measurement:?}");
        }
        assert_eq!(measurement.readings.contains_key("udp_reordered"), size >= 8);
        assert_eq!(measurement.readings.contains_key("udp_jitter"), size >= 16);
        assert!(measurement.work > 0 && measurement.cpu_user_ns + measurement.cpu_system_ns > 0);
    }
}

#[test]
fn several_flows_and_a_megabyte() {
    let tests = [Test::TcpLat, Test::TcpBw, Test::TcpCrr];
    let measurement = measure(&LoadSpec { flows: 3, ..spec(&tests, 1 << 20) });
    assert!(count(&measurement, "tcp_bw") > 0);
    assert_eq!(measurement.health.threads, 3);
}

#[test]
fn both_ends_of_a_round_trip_share_a_cpu_where_that_is_asked_for() {
    let tests = [Test::TcpLat, Test::UdpLat, Test::TcpBw];
    let measurement = measure(&LoadSpec { flows: 2, cpus: Placement::Shared, ..spec(&tests, 64) });
    let cpus: Vec<&str> = measurement.observed["cpu"].keys().map(String::as_str).collect();
    assert!(cpus.iter().all(|cpu| !cpu.starts_with("tcp_bw")), "{cpus:?}");
    for test in ["tcp_lat", "udp_lat"] {
        let of = |end: &str| -> Vec<&str> {
            cpus.iter().filter_map(|cpu| cpu.strip_prefix(&format!("{test} {end}: "))).collect()
        };
        assert!(!of("client").is_empty());
        assert_eq!(of("client"), of("server"));
    }
}

#[test]
fn ends_that_ran_elsewhere_are_no_evidence() {
    let measurement = measure(&spec(&[Test::TcpLat], 1));
    let load = LoadSpec { cpus: Placement::Shared, ..spec(&[Test::TcpLat], 1) };
    let settings = NetworkSettings { load, ..NetworkSettings::default() };
    let evidence = crate::settings::evidence(&settings, &measurement);
    let placed = evidence.iter().find(|evidence| evidence.what == "tcp_lat on one CPU").unwrap();
    assert!(!placed.holds, "{placed:?}");
    assert_eq!(placed.observed, "client anywhere, server anywhere");
}

fn connect_to(address: SocketAddr) -> Control {
    let target = Target { address: address.ip().to_string(), port: address.port(), ..Target::default() };
    Control::connect(&target).unwrap()
}

fn sharing(shared_cpus: SharedCpus) -> Terms {
    let terms = prepare::terms(&spec(&[Test::TcpLat], 1), Test::TcpLat).unwrap();
    Terms { shared_cpus: Some(shared_cpus), ..terms }
}

#[test]
fn a_server_on_another_host_shares_no_cpus() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let elsewhere = SharedCpus { boot: "of another host".to_owned(), ..SharedCpus::ours().unwrap() };
    let error = connect_to(server.address()).begin(&sharing(elsewhere)).unwrap_err();
    assert!(error.is_usage());
    let expected =
        "failed to share CPUs with the client, which is on another host; measure without `cpus: shared`";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_server_refuses_a_cpu_that_it_has_not() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let address = server.address();
    let mut control = connect_to(address);
    let nowhere = SharedCpus { cpus: vec![60_000], ..SharedCpus::ours().unwrap() };
    let token = control.begin(&sharing(nowhere)).unwrap();
    let socket = crate::wire::socket::connect(address, None, std::time::Duration::from_secs(1)).unwrap();
    let hello = crate::wire::hello::Purpose::Flow { token, flow: 0 };
    crate::wire::socket::send_all(&socket, &hello.encode()).unwrap();
    let error = control.join().unwrap_err();
    assert!(error.is_usage());
    assert!(error.to_string().contains("the server failed to pin to CPUs 60000"), "{error}");
}

#[test]
fn batches_of_datagrams_are_counted_one_by_one() {
    for batch in [2, 64, 200] {
        let measurement = measure(&LoadSpec { batch, ..spec(&[Test::UdpBw, Test::TcpBw], 64) });
        assert!(count(&measurement, "udp_bw") > 0);
        let Reading::Share { yes, no } = measurement.readings["udp_reordered"] else { panic!() };
        assert!(yes == 0 && no > 0, "{yes} of {no} at a batch of {batch}");
    }
}

#[test]
fn a_receiver_waits_as_it_is_told_to_and_says_so() {
    for receive in Receive::ALL {
        let spec = LoadSpec { receive, ..spec(&[Test::TcpBw, Test::UdpBw], 1000) };
        let measurement = measure(&spec);
        let ways = measurement.observed["receive"].keys();
        let ways: Vec<&str> = ways.map(|what| what.split([' ', ':']).nth(1).unwrap()).collect();
        assert!(ways.iter().all(|way| *way == receive.name()), "{ways:?}");
        for test in ["tcp_bw", "udp_bw"] {
            assert!(count(&measurement, test) > 0, "{test} by {}", receive.name());
            let calls = format!("{test} {}: receives", receive.name());
            assert!(measurement.observed_count("receive", &calls) > 0);
        }
    }
}

#[test]
fn without_a_copy_as_much_arrives_as_was_sent() {
    for size in [1, 4096, 100_000] {
        let measurement = measure(&LoadSpec { zero_copy: ZeroCopy::Sendfile, ..spec(&[Test::TcpBw], size) });
        assert!(count(&measurement, "tcp_bw") > 0);
    }
}

#[test]
fn a_fixed_rate_is_kept() {
    let rate = Some(Rate(500.0));
    let tests = [Test::TcpLat, Test::UdpLat, Test::TcpBw, Test::UdpBw, Test::TcpCrr];
    let measurement = measure(&LoadSpec { rate, duration: Span(1_000_000_000), ..spec(&tests, 100) });
    // A fifth of a second for each.
    assert!(count(&measurement, "tcp_lat") <= 101, "{measurement:?}");
    assert!(count(&measurement, "udp_bw") <= 101 * 100);
    assert!(count(&measurement, "tcp_lat_service") > 0);
}

#[test]
fn what_cannot_be_is_said_with_its_key() {
    let fault = |spec: &LoadSpec| validate(spec).unwrap_err();
    let base = LoadSpec::default;
    assert_eq!(fault(&LoadSpec { tests: vec![], ..base() }).key, "load.tests");
    assert_eq!(fault(&LoadSpec { tests: vec![Test::TcpBw; 2], ..base() }).key, "load.tests");
    assert_eq!(fault(&LoadSpec { flows: 0, ..base() }).key, "load.flows");
    assert_eq!(fault(&LoadSpec { batch: 0, ..base() }).key, "load.batch");
    assert_eq!(fault(&LoadSpec { rate: Some(Rate(0.0)), ..base() }).key, "load.rate");
    assert_eq!(fault(&LoadSpec { busy_poll: Span(999), ..base() }).key, "load.busy_poll");
    assert_eq!(fault(&LoadSpec { receive: Receive::Poll, ..base() }).key, "load.receive");
    for (test, size, part) in [
        (Test::TcpBw, 0, "1 B to 1 MiB"),
        (Test::TcpBw, (1 << 20) + 1, "1 B to 1 MiB"),
        (Test::UdpBw, 65_508, "65507 B"),
    ] {
        let fault = fault(&spec(&[test], size));
        assert!(fault.key == "load.msg_size" && fault.message.contains(part), "{fault:?}");
    }
    assert_eq!(validate(&spec(&[Test::UdpBw], 65_507)), Ok(()));
}

#[test]
fn a_port_in_use_and_a_stranger_are_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = Server::start(&ServerOptions { address, netns: None }).unwrap_err().to_string();
    assert!(error.contains("the port is in use"), "{error}");
    let stranger = std::thread::spawn(move || {
        let (mut peer, _) = taken.accept().unwrap();
        std::io::Write::write_all(&mut peer, b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n").unwrap();
    });
    let target = Target { address: "127.0.0.1".to_owned(), port: address.port(), ..Target::default() };
    let error = network_load(&LoadSpec::default(), &target).unwrap_err();
    assert!(!error.is_usage() && error.to_string().contains("it said \"SSH-2.0-"), "{error}");
    stranger.join().unwrap();
}

/// Passes connections and datagrams on to a server, but only so many of every hundred datagrams.
fn lossy(server: std::net::SocketAddr, kept: u32) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let clients = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let there = std::net::TcpStream::connect(server).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (mut from, mut to) = (there, client);
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    let there = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    there.connect(server).unwrap();
    let (back, answers) = (clients.try_clone().unwrap(), there.try_clone().unwrap());
    let last = std::sync::Arc::new(std::sync::Mutex::new(None));
    let client = std::sync::Arc::clone(&last);
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        while let Ok(count) = answers.recv(&mut bytes) {
            let client: std::net::SocketAddr = client.lock().unwrap().unwrap();
            let _ = back.send_to(&bytes[..count], client);
        }
    });
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        for number in 0_u32.. {
            let (count, client) = clients.recv_from(&mut bytes).unwrap();
            *last.lock().unwrap() = Some(client);
            if number % 100 < kept {
                let _ = there.send(&bytes[..count]);
            }
        }
    });
    port
}

#[test]
fn a_lost_datagram_holds_nothing_up_and_is_counted() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    for size in [1, 100] {
        let port = lossy(server.address(), 97);
        let target = Target { address: "127.0.0.1".to_owned(), port, ..Target::default() };
        let spec = spec(&[Test::UdpLat, Test::UdpBw], size);
        let window = Window { warmup_ns: 0, window_ns: 1_600_000_000, seed: 1, index: 0, attempt: 0 };
        let mut load = network_load(&spec, &target).unwrap();
        let measurement = load.measure_all(window, &mut |_| {}).unwrap();
        let Reading::Share { yes, no } = measurement.readings["udp_lat_loss"] else { panic!() };
        assert!(yes > 0 && no > 100, "{yes} lost, {no} answered: {measurement:?}");
        let Reading::Share { yes, no } = measurement.readings["udp_loss"] else { panic!() };
        assert!(yes > 0 && no > 0, "{yes} lost, {no} arrived");
    }
}
