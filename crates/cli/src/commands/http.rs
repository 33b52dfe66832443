//! `plumb http URL`: one measurement without a comparison, the everyday replacement for ab, wrk and k6.

use plumb_host::signals::Interrupts;
use plumb_http::Target;
use plumb_http::settings::{LoadSettings, Reuse, TlsVersion};
use plumb_model::{Measurement, Reading, Span};
use plumb_path::{Family, Window};

use super::single;
use super::surroundings::Surroundings;
use crate::args::HttpArguments;
use crate::exit::{FAILED, Failure, HOLDS, Outcome, REFUTED};
use crate::live::{Course, Goal, LiveLine};
use crate::output;

/// How long to measure without --duration.
const DEFAULT_DURATION: Span = Span(10_000_000_000);
/// How long to measure at most when --requests ends the measurement.
const LONGEST: Span = Span(24 * 3_600_000_000_000);

/// Measures and prints.
pub fn http(arguments: &HttpArguments) -> Outcome {
    let spec = load_spec(arguments)?;
    plumb_host::limits::raise_open_files_limit();
    plumb_http::load::validate(&spec).map_err(|fault| Failure::flag(&fault))?;
    let target = Target { url: arguments.url.clone(), ca_pem: None };
    if !arguments.quiet {
        output::message(&format!(
            "plumb {} · {} · {}",
            env!("CARGO_PKG_VERSION"),
            arguments.url,
            plumb_report::plural(arguments.connections as usize, "connection")
        ));
    }
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let mut load = plumb_http::load::interruptible(&spec, &target, interrupts.flag())
        .map_err(|error| Failure::usage(format!("failed to {error}")))?;
    let window = Window {
        warmup_ns: spec.warmup.0,
        window_ns: spec.duration.0,
        seed: plumb_host::time::monotonic_ns(),
        index: 0,
        attempt: 0,
    };
    let live = LiveLine::new(arguments.quiet || arguments.json);
    let goal = Goal::of(spec.duration, spec.requests);
    let course = Course { job: "", goal, unit: "requests", in_flight: spec.in_flight() };
    let mut surroundings = Surroundings::of(plumb_http::system::service_at(&arguments.url));
    let measured = load.measure(window, &mut |mark| {
        surroundings.note(mark);
        live.progress(mark, course);
    });
    live.clear();
    let mut measurement = measured.map_err(Failure::harness)?;
    if interrupts.is_interrupted() && measurement.window_ns == 0 {
        return Ok(single::interrupted(&measurement));
    }
    measurement.warnings.extend(surroundings.warnings());
    let failures_max = arguments.failures.failures_max;
    single::print(&measurement, plumb_http::Http::METRICS, &[], failures_max, arguments.json)?;
    if interrupts.is_interrupted() {
        return Ok(single::interrupted(&measurement));
    }
    Ok(single::code(&measurement, failures_max, code(&measurement)))
}

/// Without any answer nothing was measured, which is an error. A failed check refutes what the user asked for.
fn code(measurement: &Measurement) -> u8 {
    if measurement.work == 0 {
        return FAILED;
    }
    match measurement.readings.get("checks") {
        Some(Reading::Share { no, .. }) if *no > 0 => REFUTED,
        _ => HOLDS,
    }
}

fn load_spec(arguments: &HttpArguments) -> Result<LoadSettings, Failure> {
    let mut headers = std::collections::BTreeMap::new();
    for header in &arguments.headers {
        let (name, value) = header.split_once(':').ok_or_else(|| {
            Failure::usage(format!("--header: `{header}` has no colon; a header is `Name: value`"))
        })?;
        headers.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let duration = match (arguments.duration, arguments.requests) {
        (Some(duration), _) => duration,
        (None, Some(_)) => LONGEST,
        (None, None) => DEFAULT_DURATION,
    };
    Ok(LoadSettings {
        connections: arguments.connections,
        threads: arguments.threads,
        reuse: if arguments.reuse == "none" { Reuse::None } else { Reuse::KeepAlive },
        duration,
        warmup: arguments.warmup,
        requests: arguments.requests,
        rate: arguments.rate,
        tls: arguments.tls.as_deref().map(|tls| if tls == "1.2" { TlsVersion::V12 } else { TlsVersion::V13 }),
        cipher: arguments.cipher.clone(),
        group: arguments.group.clone(),
        resumption: arguments.resumption,
        sni: arguments.sni.clone(),
        alpn: arguments.alpn.clone(),
        client_certificate: arguments.client_certificate.clone(),
        ca: arguments.ca.clone(),
        insecure: arguments.insecure,
        method: arguments.method.clone(),
        path: None,
        host: arguments.host.clone(),
        headers,
        body: arguments.body.clone(),
        checks: arguments.checks.clone(),
        timeout: arguments.timeout,
    })
}
