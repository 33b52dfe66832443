//! `plumb http URL`: one measurement without a comparison, the everyday replacement for ab, wrk and k6.

use plumb_host::signals::Interrupts;
use plumb_http::settings::{Announced, HttpSettings, LoadProtocol, LoadSettings};
use plumb_http::{HTTP, Target};
use plumb_model::{Measurement, Reading};
use plumb_path::Settings;

use super::single::{self, By};
use crate::args::{HttpArguments, keys};
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome, REFUTED};
use crate::live::{Goal, LiveTask};

/// Measures and prints.
pub fn http(arguments: &HttpArguments) -> Outcome {
    let mut settings = arguments.keys.settings()?;
    settings.check().map_err(|fault| keys::fault::<HttpSettings>(&fault))?;
    let window = single::window(&mut settings);
    let url = settings.system.ingress.url.clone().unwrap_or_default();
    single::headline(&arguments.shown, &format!("{url} · {}", connections(&settings.load)));
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let by = By::chosen_for(&settings, &arguments.places, None, &Target { url, ..Target::default() })?;
    let progress = (window, live_task(&settings.load));
    let Some(result) = single::measure(by, settings, progress, &interrupts, &arguments.shown)? else {
        return Ok(INTERRUPTED);
    };
    single::print(&result.measurement, HTTP.metrics, &result.evidence, &arguments.shown)?;
    single::ended(&result, &interrupts, &arguments.shown, code)
}

fn connections(spec: &LoadSettings) -> String {
    let connections = plumb_report::plural(spec.connections as usize, "connection");
    let streams = plumb_report::plural(spec.streams as usize, "stream");
    let announced: String =
        Announced::changed(spec).map(|one| format!(" · {} {}", one.name, one.bytes)).collect();
    match spec.protocol {
        LoadProtocol::H1 => connections,
        LoadProtocol::H2 => format!("{connections} of HTTP/2 · {streams} each{announced}"),
        LoadProtocol::H3 => format!("{connections} of HTTP/3 · {streams} each{announced}"),
        LoadProtocol::Auto => format!("{connections} of HTTP/2 · {streams} each{announced}, or of HTTP/1.1"),
    }
}

fn live_task(spec: &LoadSettings) -> LiveTask {
    LiveTask::of_one("requests", Goal::new(spec.duration, spec.requests), spec.in_flight())
}

/// Without any answer nothing was measured, which is an error. A failed check refutes what the user asked for.
fn code(measurement: &Measurement) -> Outcome {
    if measurement.work == 0 {
        return Ok(FAILED);
    }
    Ok(match measurement.readings.get("checks") {
        Some(Reading::Share { no, .. }) if *no > 0 => REFUTED,
        _ => HOLDS,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use insta::assert_snapshot;

    use super::*;
    use crate::args::{Arguments, Command};
    use crate::exit::USAGE;
    use crate::in_process;

    /// The message of a command line whose words are separated by `|`, and which is refused before anything is sent.
    fn refused(line: &str) -> String {
        let line = ["plumb", "http", "-q"].into_iter().chain(line.split('|'));
        let Command::Http(arguments) = Arguments::try_parse_from(line).unwrap().command else { panic!() };
        let failure = http(&arguments).unwrap_err();
        assert_eq!(failure.code, USAGE);
        failure.message
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_its_flag() {
        assert_snapshot!(refused("gopher://x/"), @"URL: failed to use `gopher://x/` as a URL such as `http://127.0.0.1:8080/path`: its scheme is not http or https");
        assert_snapshot!(refused("http://127.0.0.1:1/|--check|status = 200"), @"--check: `status = 200` is not a check: it compares with `==`, `!=`, `<`, `<=`, `>` or `>=`");
        assert_snapshot!(refused("http://127.0.0.1:1/|-d|5 parsec"), @"--duration: `parsec` is not a unit; known: s, ns, us, µs, ms, min, h");
        assert_snapshot!(refused("http://127.0.0.1:1/|--cipher|ROT13"), @"--cipher: `ROT13` is not a cipher suite; `openssl ciphers -stdname` lists the known ones");
        assert_snapshot!(refused("http://127.0.0.1:1/|-H|novalue"), @"--header: `novalue` has no colon; write `Name: value`");
    }

    #[test]
    fn a_name_without_an_address_is_a_server_that_cannot_be_reached() {
        let (code, message) =
            in_process::refused(&["http", "-q", "http://no-such-host.invalid/", "-d", "300ms"]);
        assert_eq!(code, FAILED, "{message}");
        assert!(message.starts_with("failed to resolve `no-such-host.invalid`: "), "{message}");
    }

    #[test]
    fn no_answer_is_a_failure_and_a_failed_check_refutes() {
        let measured = |work, no| {
            let checks = Reading::Share { yes: 1, no };
            let readings = [("checks".to_owned(), checks)].into();
            code(&Measurement { work, readings, ..Measurement::default() }).unwrap()
        };
        assert_eq!([measured(0, 0), measured(1, 1), measured(1, 0)], [FAILED, REFUTED, HOLDS]);
    }
}
