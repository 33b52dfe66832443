//! `plumb network ADDRESS`: one measurement, no comparison: the everyday replacement for qperf and iperf3.

use std::net::SocketAddr;
use std::time::Duration;

use plumb_host::signals::Interrupts;
use plumb_model::{Bytes, Measurement, SlotResult, Span};
use plumb_network::NETWORK;
use plumb_network::server::{Server, ServerOptions};
use plumb_network::settings::{LoadSettings, NetworkSettings, NetworkTarget, Test};

use super::single::{self, By};
use crate::args::{NetworkArguments, NetworkCommand, NetworkFormat, keys};
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome};
use crate::live::{Job, LiveTask};
use crate::output;

mod qperf;

/// How often a server looks whether somebody wants it to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Measures and prints, or serves.
pub fn network(arguments: &NetworkArguments) -> Outcome {
    if let Some(NetworkCommand::Serve { listen, quiet }) = &arguments.command {
        return serve(*listen, *quiet);
    }
    let mut each = arguments.keys.every()?;
    for settings in &mut each {
        let load = &mut settings.load;
        // Only the load: a server at an address may be on this host, where both ends can share a CPU.
        plumb_network::load::check(load).map_err(|fault| keys::fault::<NetworkSettings>(&fault))?;
        // Here the duration is that of each test, as it is with qperf.
        load.duration = Span(load.duration.0.saturating_mul(load.tests.len() as u64));
    }
    let NetworkSettings { system, load } = &each[0];
    let address = system.address.as_deref().unwrap_or_default();
    let target = plumb_network::system::parse_target(address, plumb_network::settings::DEFAULT_PORT)
        .map_err(Failure::usage)?;
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    plumb_host::limits::raise_open_files_limit();
    let tests: Vec<&str> = load.tests.iter().map(|test| test.name()).collect();
    let flows = plumb_report::plural(load.flows as usize, "flow");
    single::headline(&arguments.shown, &format!("{address} · {} · {flows}", tests.join(" ")));
    let (mut code, with_size) = (HOLDS, each.len() > 1);
    for settings in each {
        code = code.max(one(arguments, settings, with_size, &target, &interrupts)?);
        if interrupts.is_interrupted() {
            return Ok(INTERRUPTED);
        }
    }
    Ok(code)
}

fn one(
    arguments: &NetworkArguments,
    mut settings: NetworkSettings,
    with_size: bool,
    target: &NetworkTarget,
    interrupts: &Interrupts,
) -> Outcome {
    let shown = &arguments.shown;
    let by = By::chosen_for(&settings, &arguments.places, None, target)?;
    let progress = (single::window(&mut settings), live_task(&settings.load));
    let Some(mut result) = single::measure(by, settings.clone(), progress, interrupts, shown)? else {
        return Ok(INTERRUPTED);
    };
    let SlotResult { measurement, evidence, .. } = &mut result;
    if interrupts.is_interrupted() {
        // It may have had fewer tests than were asked for, and the others prove nothing.
        settings.load.tests.retain(|test| measurement.observed_count("flows", test.name()) > 0);
        *evidence = plumb_network::evidence::of_load(&settings, measurement);
    }
    if arguments.format == NetworkFormat::Qperf {
        if let Some(failures) = plumb_report::too_many_failures(measurement, shown.failures_max.0) {
            output::message(&format!("✗ {failures}"));
        }
        output::result(&qperf::text(&settings.load, measurement, with_size))?;
    } else {
        if !shown.json {
            output::result(&format!("messages of {}\n", sizes(&settings.load)))?;
        }
        single::print(measurement, NETWORK.metrics, evidence, shown)?;
    }
    single::ended(&result, interrupts, shown, code)
}

fn live_task(spec: &LoadSettings) -> LiveTask {
    let jobs = spec.tests.iter().map(|test| Job { name: test.name(), in_flight: in_flight(spec, *test) });
    LiveTask::of_jobs("messages", jobs.collect(), spec.duration, spec.warmup)
}

/// In a closed loop each flow has one message there and back, whose time is half of that, or one connection.
fn in_flight(spec: &LoadSettings, test: Test) -> Option<f64> {
    let is_timed = spec.rate.is_none() && !test.is_bandwidth();
    let parts = if test.is_round_trip() { 2.0 } else { 1.0 };
    is_timed.then(|| f64::from(spec.flows) / parts)
}

/// The sizes of the messages, by test where they differ: `1 B (tcp_lat, udp_lat), 64 KiB (tcp_bw)`.
fn sizes(spec: &LoadSettings) -> String {
    let mut sizes: Vec<(Bytes, Vec<&str>)> = Vec::new();
    for test in &spec.tests {
        let size = spec.size_of(*test);
        match sizes.iter_mut().find(|(other, _)| *other == size) {
            Some((_, tests)) => tests.push(test.name()),
            None => sizes.push((size, vec![test.name()])),
        }
    }
    match sizes.as_slice() {
        [(size, _)] => size.to_string(),
        several => {
            let words: Vec<String> =
                several.iter().map(|(size, tests)| format!("{size} ({})", tests.join(", "))).collect();
            words.join(", ")
        }
    }
}

/// Nothing that got through is a failure to measure.
fn code(measurement: &Measurement) -> Outcome {
    Ok(if measurement.work == 0 { FAILED } else { HOLDS })
}

/// Serves until it is interrupted.
fn serve(address: SocketAddr, quiet: bool) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    plumb_host::limits::raise_open_files_limit();
    let server = Server::start(&ServerOptions { address, netns: None }).map_err(Failure::harness)?;
    if !quiet {
        output::message(&format!("listening on {}, TCP and UDP", server.address()));
        if !address.ip().to_canonical().is_loopback() {
            output::message(
                "warning: there is no password; anyone who can reach this address can load the network and this host's CPUs. \
                 With --listen, choose an address on a network that you trust",
            );
        }
    }
    while !interrupts.is_interrupted() {
        for line in server.news().iter().filter(|_| !quiet) {
            output::message(line);
        }
        plumb_host::time::sleep(LOOK_EVERY);
    }
    Ok(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use clap::Parser;
    use insta::assert_snapshot;
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

    use super::*;
    use crate::args::{Arguments, Command};
    use crate::exit::USAGE;

    /// The exit code and the message of `plumb network LINE`, which fails.
    fn fails(line: &str) -> (u8, String) {
        let line = ["plumb", "network"].into_iter().chain(line.split(' ')).chain(["-q"]);
        let Command::Network(arguments) = Arguments::try_parse_from(line).unwrap().command else { panic!() };
        let Failure { code, message, .. } = network(&arguments).unwrap_err();
        (code, message)
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_sent() {
        let refused = |line: &str| {
            let (code, message) = fails(line);
            assert_eq!(code, USAGE);
            message
        };
        assert_snapshot!(refused("127.0.0.1:9 udp_bw -m 64K"), @"--msg-size: udp_bw sends each message as one datagram, of at most 65507 B (64 KiB less the headers of IP and UDP), not of 65536 B");
        assert_snapshot!(refused("127.0.0.1:9 tcp_bw -m 2M"), @"--msg-size: a message has 1 B to 1 MiB, not 2097152 B");
        assert_snapshot!(refused("127.0.0.1:9 tcp_bw tcp_bw"), @"TEST: each test runs once; remove the duplicate");
        assert_snapshot!(refused("127.0.0.1:9 --objective p99<1ms"), @"TEST: a search for the capacity is of one test: `tcp_lat`, `udp_lat` or `tcp_crr`");
        assert_snapshot!(refused("127.0.0.1:99999"), @"`99999` in `127.0.0.1:99999` is not a port; it is a number from 1 to 65535");
        let (code, message) = fails("no-such-host.invalid");
        let begin = "failed to resolve `no-such-host.invalid`: ";
        assert!(code == FAILED && message.starts_with(begin), "{message}");
    }

    /// A socket with a port of loopback, at which nothing listens yet.
    fn bound() -> (rustix::fd::OwnedFd, SocketAddr) {
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&bound, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
        (bound, address)
    }

    /// The message about an address without its port, which differs in each run.
    fn said_of(address: SocketAddr) -> String {
        let (code, message) = fails(&address.to_string());
        assert_eq!(code, FAILED);
        message.replace(&address.to_string(), "ADDRESS")
    }

    #[test]
    fn an_address_at_which_no_server_answers_is_said_with_what_to_do() {
        let (socket, address) = bound();
        assert_snapshot!(said_of(address), @"failed to connect to ADDRESS: nothing listens there; start `plumb network serve` at that end, or name its port");
        // The kernel drops new connections while nobody accepts and the queue is full.
        listen(&socket, 0).unwrap();
        let _queued = TcpStream::connect(address).unwrap();
        assert_snapshot!(said_of(address), @"failed to connect to ADDRESS: no answer; the address is wrong, the host is down, or something on the way drops packets");
    }

    #[test]
    fn a_stranger_is_quoted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stranger = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(b"220 mail.example ESMTP\r\n").unwrap();
            // Until the client has read it and left.
            let _ = peer.read_to_end(&mut Vec::new());
        });
        assert_snapshot!(said_of(address), @r#"failed to talk to ADDRESS: it is not a plumb server, it said "220 mail.example ESMTP\r\n""#);
        stranger.join().unwrap();
    }

    #[test]
    fn a_port_in_use_is_said_with_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (code, message) = fails(&format!("serve --listen {address}"));
        assert_eq!(code, FAILED);
        assert_snapshot!(message.replace(&address.to_string(), "ADDRESS"), @"failed to listen on ADDRESS: the port is in use; end the program that has it, or choose another port");
    }

    #[test]
    fn sizes_are_named_by_test_where_they_differ() {
        let of = |tests: &[Test], msg_size| {
            sizes(&LoadSettings { tests: tests.to_vec(), msg_size, ..LoadSettings::default() })
        };
        assert_eq!(of(&[Test::TcpLat, Test::TcpBw], None), "1 B (tcp_lat), 64 KiB (tcp_bw)");
        assert_eq!(of(&[Test::TcpLat, Test::UdpLat], None), "1 B");
        assert_eq!(of(&[Test::TcpLat, Test::TcpBw], Some(Bytes(1024))), "1 KiB");
    }

    #[test]
    fn the_time_of_each_message_follows_from_the_rate_in_a_closed_loop_of_answers() {
        let spec = LoadSettings { flows: 3, ..LoadSettings::default() };
        let all = Test::ALL.map(|test| (test.name(), in_flight(&spec, test)));
        let expected = [
            ("tcp_lat", Some(1.5)),
            ("udp_lat", Some(1.5)),
            ("tcp_bw", None),
            ("udp_bw", None),
            ("tcp_crr", Some(3.0)),
        ];
        assert_eq!(all, expected);
        let open = LoadSettings { rate: Some(plumb_model::Rate(100.0)), ..spec };
        assert_eq!(Test::ALL.map(|test| in_flight(&open, test)), [None; 5]);
    }
}
