//! The load against a server in this process, on the loopback device.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumb_model::{Bytes, Notice, NoticeKind, Rate, Reading, Span};
use plumb_path::{SeenWindow, Settings};

use super::*;
use crate::options::Placement;
use crate::placement::SharedCpus;
use crate::server::{Server, ServerOptions};
use crate::settings::{Driver, NetworkSettings};
use crate::wire::control::Terms;

fn measure(spec: &LoadSettings) -> Measurement {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let address = server.address();
    let target =
        NetworkTarget { address: address.ip().to_string(), port: address.port(), ..NetworkTarget::default() };
    let window = Window::at_once(20_000_000, spec.duration.0, 1);
    let mut marks = Vec::new();
    let mut load = network_load(spec, &target).unwrap();
    let measurement = load.measure(window, &mut |mark| marks.push(mark)).unwrap();
    // The moments of a single test are known before its window opens.
    let seen: Vec<&Mark> = marks.iter().skip_while(|mark| matches!(mark, Mark::Agreed { .. })).collect();
    assert_eq!((seen.first(), seen.last()), (Some(&&Mark::Opened), Some(&&Mark::Closed)));
    assert_eq!(measurement.errors.values().sum::<u64>(), 0, "{:?}", measurement.errors);
    let settings = NetworkSettings { load: spec.clone(), ..NetworkSettings::default() };
    for evidence in settings.evidence(SeenWindow {
        before: &Default::default(),
        after: &Default::default(),
        measurement: Some(&measurement),
    }) {
        assert!(evidence.holds, "{evidence:?}");
    }
    measurement
}

fn spec(tests: &[Test], msg_size: u64) -> LoadSettings {
    // Long enough for a thread to get a CPU on a busy machine.
    let duration = Span(250_000_000 * tests.len() as u64);
    LoadSettings {
        tests: tests.to_vec(),
        msg_size: Some(Bytes(msg_size)),
        duration,
        ..LoadSettings::default()
    }
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
            assert!(count(&measurement, metric) > 0, "{metric} at {size} B");
        }
        assert_eq!(measurement.readings.contains_key("udp_reordered"), size >= 8);
        assert_eq!(measurement.readings.contains_key("udp_jitter"), size >= 16);
        assert!(measurement.work > 0 && measurement.cpu_user_ns + measurement.cpu_system_ns > 0);
    }
}

#[test]
fn without_a_size_messages_are_as_large_as_qperf_s() {
    let measurement = measure(&LoadSettings { msg_size: None, ..spec(&Test::ALL, 9) });
    let sizes: Vec<&str> = measurement.observed["msg_size_sent"].keys().map(String::as_str).collect();
    let expected = ["tcp_bw: 65536 B", "tcp_crr: 1 B", "tcp_lat: 1 B", "udp_bw: 32768 B", "udp_lat: 1 B"];
    assert_eq!(sizes, expected);
}

#[test]
fn several_flows_and_a_megabyte() {
    let tests = [Test::TcpLat, Test::TcpBw, Test::TcpCrr];
    let measurement = measure(&LoadSettings { flows: 3, ..spec(&tests, 1 << 20) });
    assert!(count(&measurement, "tcp_bw") > 0);
    assert_eq!(measurement.health.threads, 3);
}

#[test]
fn both_ends_of_a_round_trip_share_a_cpu_where_that_is_asked_for() {
    let tests = [Test::TcpLat, Test::UdpLat, Test::TcpBw];
    let measurement = measure(&LoadSettings { flows: 2, cpus: Placement::Shared, ..spec(&tests, 64) });
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
    let load = LoadSettings { cpus: Placement::Shared, ..spec(&[Test::TcpLat], 1) };
    let settings = NetworkSettings { load, ..NetworkSettings::default() };
    let evidence = crate::evidence::of_load(&settings, &measurement);
    let placed = evidence.iter().find(|evidence| evidence.is_of_kind("one-cpu")).unwrap();
    assert!(!placed.holds, "{placed:?}");
    assert_eq!(placed.observed, "client anywhere, server anywhere");
}

fn connect_to(address: SocketAddr) -> Control {
    let target =
        NetworkTarget { address: address.ip().to_string(), port: address.port(), ..NetworkTarget::default() };
    Control::connect(&target).unwrap()
}

fn sharing(shared_cpus: SharedCpus) -> Terms {
    let terms = prepare::terms(&spec(&[Test::TcpLat], 1), &NetworkTarget::default(), Test::TcpLat).unwrap();
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
fn a_connection_that_ends_before_its_message_is_whole_brought_none() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let mut control = connect_to(server.address());
    let token = control
        .begin(&prepare::terms(&spec(&[Test::TcpCrr], 100), &NetworkTarget::default(), Test::TcpCrr).unwrap())
        .unwrap();
    let hello = crate::wire::hello::Purpose::Once { token }.encode();
    let mut broken = TcpStream::connect(server.address()).unwrap();
    broken.write_all(&[&hello[..], &[7; 50]].concat()).unwrap();
    broken.shutdown(Shutdown::Write).unwrap();
    assert_eq!(broken.read(&mut [0; 100]).unwrap(), 0, "the server closes it without an answer");
    let mut whole = TcpStream::connect(server.address()).unwrap();
    whole.write_all(&[&hello[..], &[7; 100]].concat()).unwrap();
    whole.read_exact(&mut [0; 100]).unwrap();
    assert_eq!(whole.read(&mut [0; 1]).unwrap(), 0, "the server closes first");
    let totals = control.finish().unwrap();
    assert_eq!((totals.messages, totals.bytes), (1, 100), "{totals:?}");
}

#[test]
fn batches_of_datagrams_are_counted_one_by_one() {
    for batch in [2, 64, 200] {
        let measurement = measure(&LoadSettings { batch, ..spec(&[Test::UdpBw, Test::TcpBw], 64) });
        assert!(count(&measurement, "udp_bw") > 0);
        let Reading::Share { yes, no } = measurement.readings["udp_reordered"] else { panic!() };
        assert!(yes == 0 && no > 0, "{yes} of {no} at a batch of {batch}");
    }
}

#[test]
fn a_receiver_waits_as_it_is_told_to_and_says_so() {
    for receive in Receive::ALL {
        let duration = Span(800_000_000);
        let spec = LoadSettings { receive, duration, ..spec(&[Test::TcpBw, Test::UdpBw], 1000) };
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
        let measurement =
            measure(&LoadSettings { zero_copy: ZeroCopy::Sendfile, ..spec(&[Test::TcpBw], size) });
        assert!(count(&measurement, "tcp_bw") > 0);
    }
}

#[test]
fn a_fixed_rate_is_kept() {
    let rate = Some(Rate(500.0));
    let tests = [Test::TcpLat, Test::UdpLat, Test::TcpBw, Test::UdpBw, Test::TcpCrr];
    let measurement = measure(&LoadSettings { rate, duration: Span(1_000_000_000), ..spec(&tests, 100) });
    // A hundred in a fifth of a second for each, and what a starved thread makes up for. Without a rate it would be thousands.
    assert!(count(&measurement, "tcp_lat") <= 300);
    assert!(count(&measurement, "udp_bw") <= 300 * 100);
    assert!(count(&measurement, "tcp_lat_service") > 0);
}

#[test]
fn what_a_search_has_no_room_for_is_refused() {
    let searching = |tests: &[Test], objective: &str| LoadSettings {
        capacity: serde_json::from_value(serde_json::json!({ "objective": [objective] })).unwrap(),
        ..spec(tests, 1)
    };
    let bare = |test| searching(&[test], "p99 < 1 ms");
    let specs = [
        LoadSettings { rate: Some(Rate(9.0)), ..bare(Test::TcpLat) },
        LoadSettings { driver: Driver::Qperf, ..bare(Test::TcpLat) },
        bare(Test::TcpBw),
        searching(&[Test::TcpLat, Test::UdpLat], "p99 < 1 ms"),
        searching(&[Test::TcpCrr], "p98 < 1 ms"),
    ];
    let faults: Vec<String> = specs.iter().map(|spec| check(spec).unwrap_err().to_string()).collect();
    insta::assert_snapshot!(faults.join("\n"), @"
    load.rate: a search for the capacity sets the rate and the time of each trial; leave it out
    load.capacity: only the load of plumb itself searches; leave `driver` out
    load.tests: a search for the capacity is of one test: `tcp_lat`, `udp_lat` or `tcp_crr`
    load.tests: a search for the capacity is of one test: `tcp_lat`, `udp_lat` or `tcp_crr`
    load.capacity.objective[0]: no statistic is named `p98`; known: avg, min, med, max, p90, p95, p99, p99.9
    ");
    for (test, metric) in
        [(Test::TcpLat, "tcp_lat"), (Test::UdpLat, "udp_lat"), (Test::TcpCrr, "tcp_crr_latency")]
    {
        let objectives = bare(test).searches().unwrap().unwrap().objectives;
        assert_eq!((objectives[0].metric.as_str(), objectives[0].is_of_all), (metric, true));
    }
}

#[test]
fn a_window_that_has_a_rate_is_measured_at_it() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let address = server.address();
    let target =
        NetworkTarget { address: address.ip().to_string(), port: address.port(), ..NetworkTarget::default() };
    for test in [Test::TcpLat, Test::UdpLat, Test::TcpCrr] {
        let mut load = network_load(&spec(&[test], 1), &target).unwrap();
        for (rate_per_s, due) in [(500.0, 100), (250.0, 50)] {
            let window = Window { rate_per_s: Some(rate_per_s), ..Window::at_once(0, 200_000_000, 1) };
            let measurement = load.measure(window, &mut |_| ()).unwrap();
            assert_eq!(measurement.attempts.tried, due, "{test:?}");
        }
    }
}

/// Ends a closed loop, or an open one at this rate, in the first of two tests.
fn interrupt(rate: Option<Rate>) {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let address = server.address();
    let target =
        NetworkTarget { address: address.ip().to_string(), port: address.port(), ..NetworkTarget::default() };
    let tests = [Test::TcpLat, Test::TcpBw];
    let window_ns = 2 * 60_000_000_000;
    let window = Window::at_once(0, window_ns, 1);
    let mut load = network_load(&LoadSettings { rate, ..spec(&tests, 1) }, &target).unwrap();
    let mut mark = |mark| {
        if matches!(mark, Mark::Progress { .. }) {
            plumb_host::signals::ask_to_stop();
        }
    };
    let measurement = load.measure(window, &mut mark).unwrap();
    assert!((1..window_ns / 4).contains(&measurement.window_ns));
    assert!(measurement.readings.contains_key("tcp_lat") && !measurement.readings.contains_key("tcp_bw"));
    let due = rate.map_or(1, |rate| (rate.0 * measurement.window_ns as f64 / 1e9) as u64);
    assert!(times(&measurement, "tcp_lat").count() >= due.max(1));
    assert_eq!(load.measure(window, &mut |_| {}).unwrap(), Measurement::default());
}

#[test]
fn an_interruption_closes_the_window_and_keeps_what_was_measured() {
    interrupt(None);
}

#[test]
fn an_interruption_closes_the_window_of_an_open_loop() {
    interrupt(Some(Rate(100.0)));
}

#[test]
fn an_interruption_does_not_wait_for_a_message_that_is_due_later() {
    interrupt(Some(Rate(0.1)));
}

#[test]
fn no_rate_of_progress_reaches_over_two_tests() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let address = server.address();
    let target =
        NetworkTarget { address: address.ip().to_string(), port: address.port(), ..NetworkTarget::default() };
    let tests = [Test::TcpLat, Test::UdpLat, Test::TcpCrr];
    // Each test is too short for a mark in its middle.
    let window = Window::at_once(10_000_000, 2_700_000_000, 1);
    let mut load = network_load(&spec(&tests, 1), &target).unwrap();
    let mut marks = Vec::new();
    load.measure(window, &mut |mark| marks.push(mark)).unwrap();
    let of = |mark: &Mark| match mark {
        Mark::Progress { work, .. } => *work,
        _ => 0,
    };
    assert_eq!(marks.len(), 6, "where each test opens and closes: {marks:?}");
    assert_eq!((marks[0], marks[5]), (Mark::Opened, Mark::Closed));
    let work: Vec<u64> = marks[1..5].iter().map(of).collect();
    assert!(work[0] > 0 && work.is_sorted() && work[1] < work[2], "{work:?}");
}

#[test]
fn what_cannot_be_is_said_with_its_key() {
    let fault = |spec: &LoadSettings| check(spec).unwrap_err();
    let base = LoadSettings::default;
    assert_eq!(fault(&LoadSettings { tests: vec![], ..base() }).key, "load.tests");
    assert_eq!(fault(&LoadSettings { tests: vec![Test::TcpBw; 2], ..base() }).key, "load.tests");
    assert_eq!(fault(&LoadSettings { flows: 0, ..base() }).key, "load.flows");
    assert_eq!(fault(&LoadSettings { batch: 0, ..base() }).key, "load.batch");
    assert_eq!(fault(&LoadSettings { rate: Some(Rate(0.0)), ..base() }).key, "load.rate");
    assert_eq!(fault(&LoadSettings { busy_poll: Span(999), ..base() }).key, "load.busy_poll");
    assert_eq!(fault(&LoadSettings { receive: Receive::Poll, ..base() }).key, "load.receive");
    for (test, size, part) in [
        (Test::TcpBw, 0, "1 B to 1 MiB"),
        (Test::TcpBw, (1 << 20) + 1, "1 B to 1 MiB"),
        (Test::UdpBw, 65_508, "65507 B"),
    ] {
        let fault = fault(&spec(&[test], size));
        assert!(fault.key == "load.msg_size" && fault.message.contains(part), "{fault:?}");
    }
    assert_eq!(check(&spec(&[Test::UdpBw], 65_507)), Ok(()));
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
    let target =
        NetworkTarget { address: "127.0.0.1".to_owned(), port: address.port(), ..NetworkTarget::default() };
    let error = network_load(&LoadSettings::default(), &target).unwrap_err();
    assert!(!error.is_usage() && error.to_string().contains("it said \"SSH-2.0-"), "{error}");
    stranger.join().unwrap();
}

#[test]
fn silent_peers_hold_nobody_up_and_have_no_threads() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let silent: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let address = server.address();
    let target =
        NetworkTarget { address: address.ip().to_string(), port: address.port(), ..NetworkTarget::default() };
    let mut load = network_load(&LoadSettings::default(), &target).unwrap();
    let window = Window::at_once(0, 2_000_000_000, 1);
    let measurement = load.measure(window, &mut |_| {}).unwrap();
    assert!(measurement.work > 0);
    let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    assert!(threads < silent.len(), "{threads} threads: silent connections must not have threads");
    // The oldest were told why they had to go.
    let mut said = Vec::new();
    let mut first = &silent[0];
    first.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("more than 64 connections of one address"), "{said}");
}

#[test]
fn a_client_that_is_to_stop_hardly_waits_for_a_silent_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(&crate::wire::hello::Purpose::Control.encode()).unwrap();
        peer
    });
    let mut control = connect_to(address);
    let _peer = silent.join().unwrap();
    plumb_host::signals::ask_to_stop();
    let error = control.finish().unwrap_err().to_string();
    assert!(error.contains("has said nothing for 500 ms in the middle of the beginning"), "{error}");
}

#[test]
fn too_many_control_connections_and_flows_are_refused_with_a_reason() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let mut controls: Vec<Control> = (0..64).map(|_| connect_to(server.address())).collect();
    let terms = prepare::terms(&spec(&[Test::TcpLat], 1), &NetworkTarget::default(), Test::TcpLat).unwrap();
    let refused = connect_to(server.address()).begin(&terms).unwrap_err().to_string();
    let reason =
        "the server failed to take 1 more control connections from 127.0.0.1: it has 64, of at most 64";
    assert!(refused.contains(reason), "{refused}");
    let many = Terms { flows: 1024, ..terms };
    controls[0].begin(&many).unwrap();
    controls[1].begin(&many).unwrap();
    let refused = controls[2].begin(&many).unwrap_err().to_string();
    assert!(
        refused.contains("take 1024 more flows from 127.0.0.1: it has 2048, of at most 2048"),
        "{refused}"
    );
    // Abandoned flows leave their places to others.
    controls[0].begin(&Terms { flows: 1, ..many.clone() }).unwrap();
    controls[2].begin(&Terms { flows: 1000, ..many }).unwrap();
}

/// When the n-th datagram is passed on; never, for one that is lost.
type Delay = fn(u32) -> Option<Duration>;

const AT_ONCE: Delay = |_| Some(Duration::ZERO);

/// Passes connections and datagrams on to a server.
struct Between {
    port: u16,
    stall: Arc<Stall>,
}

/// A stall of the connections of flows.
#[derive(Default)]
struct Stall {
    /// While it is set, nothing comes back.
    is_on: AtomicBool,
    /// Something that would have come back was held.
    has_held: AtomicBool,
}

impl Between {
    fn start(server: SocketAddr, there: Delay, back: Delay) -> Self {
        // A port that is free for connections may be taken for datagrams.
        let (listener, clients) = std::iter::repeat_with(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let clients = UdpSocket::bind(listener.local_addr().unwrap()).ok()?;
            Some((listener, clients))
        })
        .take(100)
        .find_map(|bound| bound)
        .unwrap();
        let port = listener.local_addr().unwrap().port();
        let stall = Arc::new(Stall::default());
        let between = Self { port, stall: Arc::clone(&stall) };
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let server = TcpStream::connect(server).unwrap();
                pass(client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::default());
                // The first is to see whether the server is there, the second is for control.
                let is_flow = number >= 2;
                pass(server, client, if is_flow { Arc::clone(&stall) } else { Arc::default() });
            }
        });
        let to_server = UdpSocket::bind("127.0.0.1:0").unwrap();
        to_server.connect(server).unwrap();
        let from_server = to_server.try_clone().unwrap();
        let client = Arc::new(Mutex::new(None));
        let (last, to_client) = (Arc::clone(&client), clients.try_clone().unwrap());
        pass_datagrams(from_server, back, move |bytes, _| {
            let client: SocketAddr = last.lock().unwrap().unwrap();
            let _ = to_client.send_to(bytes, client);
        });
        pass_datagrams(clients, there, move |bytes, from| {
            *client.lock().unwrap() = Some(from);
            let _ = to_server.send(bytes);
        });
        between
    }

    fn target(&self) -> NetworkTarget {
        NetworkTarget { address: "127.0.0.1".to_owned(), port: self.port, ..NetworkTarget::default() }
    }

    fn measure(&self, spec: &LoadSettings, mark: &mut dyn FnMut(Mark)) -> Measurement {
        let window = Window::at_once(spec.warmup.0, spec.duration.0, 1);
        let mut load = network_load(spec, &self.target()).unwrap();
        load.measure(window, mark).unwrap()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, stall: Arc<Stall>) {
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            while stall.is_on.load(Ordering::Relaxed) {
                stall.has_held.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn pass_datagrams(from: UdpSocket, delay: Delay, to: impl Fn(&[u8], SocketAddr) + Send + Sync + 'static) {
    let to = Arc::new(to);
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        for number in 0.. {
            let Ok((count, peer)) = from.recv_from(&mut bytes) else { return };
            match delay(number) {
                None => {}
                Some(Duration::ZERO) => to(&bytes[..count], peer),
                Some(delay) => {
                    let (to, bytes) = (Arc::clone(&to), bytes[..count].to_vec());
                    std::thread::spawn(move || {
                        std::thread::sleep(delay);
                        to(&bytes, peer);
                    });
                }
            }
        }
    });
}

fn lost(measurement: &Measurement, metric: &str) -> (u64, u64) {
    let Reading::Share { yes, no } = measurement.readings[metric] else { panic!() };
    (yes, no)
}

fn times<'a>(measurement: &'a Measurement, metric: &str) -> &'a plumb_model::Histogram {
    let Reading::Trend(times) = &measurement.readings[metric] else { panic!() };
    times
}

#[test]
fn a_lost_datagram_holds_nothing_up_and_is_counted() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    for size in [1, 100] {
        let some: Delay = |number| (!(8..11).contains(&(number % 100))).then_some(Duration::ZERO);
        let between = Between::start(server.address(), some, AT_ONCE);
        let duration = Span(1_600_000_000);
        let spec = LoadSettings { duration, ..spec(&[Test::UdpLat, Test::UdpBw], size) };
        let measurement = between.measure(&spec, &mut |_| {});
        let (yes, no) = lost(&measurement, "udp_lat_loss");
        assert!(yes > 0 && no > 10, "{yes} lost, {no} answered");
        let times = times(&measurement, "udp_lat");
        let long: u64 = times.bins().filter(|bin| bin.0 >= 499_000_000).map(|bin| bin.1).sum();
        assert!(long >= yes, "a lost message counts with half of the second for which it was waited for");
        assert_eq!((times.count(), measurement.errors["udp_lat: no answer"] >= yes), (yes + no, true));
        let (yes, no) = lost(&measurement, "udp_loss");
        assert!(yes > 0 && no > 0, "{yes} lost, {no} arrived");
    }
}

#[test]
fn a_late_answer_is_late_and_not_lost() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    for (size, rate) in [(1, None), (1, Some(Rate(200.0))), (100, None)] {
        // After prompt answers, the load goes on long before 500 ms; it counts an answer as lost after a second.
        let late: Delay = |number| Some(Duration::from_millis(if number % 50 == 9 { 500 } else { 0 }));
        let between = Between::start(server.address(), AT_ONCE, late);
        let spec = LoadSettings { rate, duration: Span(2_000_000_000), ..spec(&[Test::UdpLat], size) };
        let measurement = between.measure(&spec, &mut |_| {});
        let (yes, no) = lost(&measurement, "udp_lat_loss");
        assert!(yes == 0 && no > 10, "{yes} of {no} were lost");
        let times = times(&measurement, "udp_lat");
        let long: u64 = times.bins().filter(|bin| bin.0 >= 249_000_000).map(|bin| bin.1).sum();
        assert!(long > 0 && times.count() >= no, "{no} answers, of which {long} took 500 ms and more");
        let is_told = |it: &Notice| it.kind == NoticeKind::LateAnswers;
        assert!(measurement.notices.iter().any(is_told), "{:?}", measurement.notices);
        assert_eq!(measurement.attempts.failed, 0);
    }
}

/// Stalls connections 300 ms after the window opened, until the test ends the stall or something was held for `length`.
fn stall(mark: Mark, stall: &Arc<Stall>, length: Option<Duration>) {
    if mark != Mark::Opened {
        return;
    }
    let stall = Arc::clone(stall);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        stall.is_on.store(true, Ordering::Relaxed);
        if let Some(length) = length {
            while !stall.has_held.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(length);
            stall.is_on.store(false, Ordering::Relaxed);
        }
    });
}

#[test]
fn a_stall_that_percentiles_of_a_closed_loop_do_not_show_is_told() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    // `tcp_lat` is half of a round trip.
    for (test, metric, rate, least_ms) in [
        (Test::TcpLat, "tcp_lat", None, 200),
        (Test::TcpCrr, "tcp_crr_latency", None, 400),
        (Test::TcpLat, "tcp_lat", Some(Rate(1000.0)), 200),
    ] {
        let between = Between::start(server.address(), AT_ONCE, AT_ONCE);
        let duration = Span(3_000_000_000);
        let spec = LoadSettings { rate, duration, ..spec(&[test], 1) };
        let length = Some(Duration::from_millis(400));
        let measurement = between.measure(&spec, &mut |mark| stall(mark, &between.stall, length));
        let longest_ns = times(&measurement, metric).bins().last().unwrap().0;
        assert!(longest_ns >= least_ms * 1_000_000, "{longest_ns}");
        // At a fixed rate, a load without CPU time may read earlier answers during the stall.
        let stall_ns = measurement.stall_ns_max.unwrap();
        assert!(rate.is_some() || stall_ns >= 400_000_000, "{stall_ns}");
        let told = measurement.notices.iter().filter(|it| it.kind == NoticeKind::HiddenStall);
        let told: Vec<&Notice> = told.collect();
        let is_shown = rate.is_some();
        assert_eq!(told.len(), usize::from(!is_shown), "{test:?} at {rate:?}: {:?}", measurement.notices);
        assert!(told.iter().all(|it| it.about == [metric]), "{told:?}");
    }
}

#[test]
fn what_a_stall_holds_until_the_end_counts_with_its_wait() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    let (open, closed) = (Some(Rate(1000.0)), None);
    for (test, metric, rate) in [
        (Test::TcpLat, "tcp_lat", open),
        (Test::TcpLat, "tcp_lat", closed),
        (Test::TcpCrr, "tcp_crr_latency", open),
        (Test::TcpCrr, "tcp_crr_latency", closed),
    ] {
        let between = Between::start(server.address(), AT_ONCE, AT_ONCE);
        let duration = Span(1_000_000_000);
        let spec = LoadSettings { rate, duration, ..spec(&[test], 1) };
        let measurement = between.measure(&spec, &mut |mark| stall(mark, &between.stall, None));
        between.stall.is_on.store(false, Ordering::Relaxed);
        let settings = NetworkSettings { load: spec, ..NetworkSettings::default() };
        let evidence = crate::evidence::of_load(&settings, &measurement);
        assert!(evidence.iter().all(|one| one.holds), "{evidence:?}");
        let times = times(&measurement, metric);
        if rate.is_some() {
            assert_eq!(times.count(), 1000, "everything that was due in the window");
            let long: u64 = times.bins().filter(|bin| bin.0 >= 200_000_000).map(|bin| bin.1).sum();
            assert!(long >= 100, "{long}");
            let warned = measurement.notices.iter().any(|it| it.kind == NoticeKind::MessagesUnanswered);
            assert!(warned, "{:?}", measurement.notices);
        }
        let largest = times.bins().last().unwrap().0;
        assert!(largest >= 100_000_000, "{largest}");
        assert!(measurement.stall_ns_max.unwrap() >= 200_000_000, "{:?}", measurement.stall_ns_max);
        assert_eq!((measurement.attempts.tried, measurement.attempts.failed), (times.count(), 0));
    }
}

#[test]
fn a_hello_that_is_sent_again_over_a_long_way_is_no_message() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    for (size, batch) in [(64, 8), (29, 1), (29, 8)] {
        let slow: Delay = |_| Some(Duration::from_millis(250));
        let between = Between::start(server.address(), AT_ONCE, slow);
        let spec = LoadSettings { batch, ..spec(&[Test::UdpBw], size) };
        let measurement = between.measure(&spec, &mut |_| {});
        let (yes, no) = lost(&measurement, "udp_reordered");
        assert!(yes == 0 && no > 0, "{yes} of {no} reordered at a batch of {batch}");
        let sizes: Vec<&String> = measurement.observed["msg_size"].keys().collect();
        assert_eq!(sizes, [&format!("udp_bw: {size} B")]);
    }
}
