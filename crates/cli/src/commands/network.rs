//! `plumb network ADDRESS`: one measurement, no comparison: the everyday replacement for qperf and iperf3.

use std::net::SocketAddr;
use std::time::Duration;

use plumb_host::signals::Interrupts;
use plumb_model::{Bytes, Measurement, Span};
use plumb_network::load::Error;
use plumb_network::server::{Server, ServerOptions};
use plumb_network::settings::{LoadSettings, NetworkSettings, Target, Test};
use plumb_path::{RunBy, Window};

use super::single;
use super::surroundings::Surroundings;
use crate::args::{NetworkArguments, NetworkCommand, NetworkFormat};
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome, VOID};
use crate::live::{Course, Goal, LiveLine};
use crate::output;

mod qperf;

/// How often a server looks whether somebody wants it to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Measures and prints, or serves.
pub fn network(arguments: &NetworkArguments) -> Outcome {
    if let Some(NetworkCommand::Serve { listen, quiet }) = &arguments.command {
        return serve(*listen, *quiet);
    }
    let address = arguments.address.as_deref().unwrap_or_default();
    let target = plumb_network::system::parse_target(address).map_err(Failure::usage)?;
    let sizes: Vec<Option<Bytes>> = match arguments.msg_size.as_slice() {
        [] => vec![None],
        sizes => sizes.iter().copied().map(Some).collect(),
    };
    let specs: Vec<LoadSettings> = sizes.into_iter().map(|size| load_spec(arguments, size)).collect();
    for spec in &specs {
        plumb_network::load::validate(spec).map_err(|fault| match fault.key.as_str() {
            "load.tests" => Failure::usage(format!("TEST: {}", fault.message)),
            _ => Failure::flag(&fault),
        })?;
    }
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    plumb_host::limits::raise_open_files_limit();
    if !arguments.quiet {
        let tests: Vec<&str> = tests(arguments).into_iter().map(Test::name).collect();
        let flows = plumb_report::plural(arguments.flows as usize, "flow");
        let words = format!("{address} · {} · {flows}", tests.join(" "));
        output::message(&format!("plumb {} · {words}", env!("CARGO_PKG_VERSION")));
    }
    let mut code = HOLDS;
    for spec in &specs {
        code = code.max(one(arguments, spec, &target, &interrupts)?);
        if interrupts.is_interrupted() {
            return Ok(INTERRUPTED);
        }
    }
    Ok(code)
}

fn one(
    arguments: &NetworkArguments,
    spec: &LoadSettings,
    target: &Target,
    interrupts: &Interrupts,
) -> Result<u8, Failure> {
    let mut load = plumb_network::load::network_load(spec, target).map_err(failure)?;
    let live = LiveLine::new(arguments.quiet || arguments.json);
    let window = Window {
        warmup_ns: spec.warmup.0,
        window_ns: spec.duration.0,
        seed: plumb_host::time::monotonic_ns(),
        index: 0,
        attempt: 0,
    };
    let server = RunBy::default().find(Some((&target.address, target.port))).ok().flatten();
    let mut surroundings = Surroundings::of(server);
    let mut mark = |test: Test, mark| {
        surroundings.note(mark);
        let (job, goal) = (format!("{}: ", test.name()), Goal::Duration(spec.duration));
        let in_flight = in_flight(spec, test);
        live.progress(mark, Course { job: &job, goal, unit: "messages", in_flight });
    };
    let measured = load.measure_all(window, &mut mark, &|| interrupts.is_interrupted());
    live.clear();
    let Some(mut measurement) = measured.map_err(failure)? else {
        output::message("interrupted before anything was measured");
        return Ok(INTERRUPTED);
    };
    measurement.warnings.extend(surroundings.warnings());
    // An interrupted one may have had fewer tests than were asked for.
    let was_run = |test: &Test| measurement.observed_count("flows", test.name()) > 0;
    let spec = LoadSettings { tests: spec.tests.iter().copied().filter(was_run).collect(), ..spec.clone() };
    print(arguments, &spec, &measurement)?;
    if interrupts.is_interrupted() {
        output::message(&format!("interrupted after {:.1} s", Span(measurement.window_ns).seconds()));
    }
    Ok(single::code(&measurement, arguments.failures.failures_max, code(&spec, &measurement)))
}

/// In a closed loop each flow has one message there and back, whose time is half of that, or one connection.
fn in_flight(spec: &LoadSettings, test: Test) -> Option<f64> {
    let is_timed = spec.rate.is_none() && !test.is_bandwidth();
    let parts = if test.is_round_trip() { 2.0 } else { 1.0 };
    is_timed.then(|| f64::from(spec.flows) / parts)
}

fn print(
    arguments: &NetworkArguments,
    spec: &LoadSettings,
    measurement: &Measurement,
) -> Result<(), Failure> {
    let evidence = evidence(spec, measurement);
    let failures_max = arguments.failures.failures_max;
    if arguments.format == NetworkFormat::Qperf {
        if let Some(failures) = plumb_report::too_many_failures(measurement, failures_max.0) {
            output::message(&format!("✗ {failures}"));
        }
        return output::result(&qperf::text(spec, measurement, arguments.msg_size.len() > 1));
    }
    if !arguments.json {
        output::result(&format!("messages of {}\n", sizes(spec)))?;
    }
    let metrics = plumb_network::metrics::METRICS;
    single::print(measurement, metrics, &evidence, failures_max, arguments.json)
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

fn evidence(spec: &LoadSettings, measurement: &Measurement) -> Vec<plumb_model::Evidence> {
    let settings = NetworkSettings { load: spec.clone(), ..NetworkSettings::default() };
    plumb_network::evidence::of_load(&settings, measurement)
}

/// Nothing that got through is a failure to measure; what was not as it was asked for cannot be trusted.
fn code(spec: &LoadSettings, measurement: &Measurement) -> u8 {
    if measurement.work == 0 {
        FAILED
    } else if evidence(spec, measurement).iter().all(|evidence| evidence.holds) {
        HOLDS
    } else {
        VOID
    }
}

fn failure(error: Error) -> Failure {
    if error.is_usage() { Failure::usage(format!("failed to {error}")) } else { Failure::harness(error) }
}

fn tests(arguments: &NetworkArguments) -> Vec<Test> {
    if arguments.tests.is_empty() {
        vec![Test::TcpLat, Test::UdpLat, Test::TcpBw, Test::UdpBw]
    } else {
        arguments.tests.clone()
    }
}

fn load_spec(arguments: &NetworkArguments, msg_size: Option<Bytes>) -> LoadSettings {
    let tests = tests(arguments);
    LoadSettings {
        // Here the duration is that of each test, as it is with qperf.
        duration: Span(arguments.duration.0.saturating_mul(tests.len() as u64)),
        tests,
        msg_size,
        flows: arguments.flows,
        warmup: arguments.warmup,
        rate: arguments.rate,
        batch: arguments.batch,
        cpus: arguments.cpus,
        busy_poll: arguments.busy_poll,
        zero_copy: arguments.zero_copy,
        receive: arguments.receive,
        send_buffer: arguments.send_buffer,
        receive_buffer: arguments.receive_buffer,
        nodelay: arguments.nodelay,
    }
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
    use super::*;

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
