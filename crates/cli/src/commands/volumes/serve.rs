//! `plumb volumes serve`: volumes by NBD, and ONTAP's REST interface where it is asked for, until somebody says stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::PoisonError;
use std::thread::available_parallelism;
use std::time::Duration;

use plumb_host::Error;
use plumb_host::signals::Interrupts;
use plumb_host::time::sleep;
use plumb_ontap::ServedReport;
use plumb_ontap::server::{Identity, Server, ServerError};
use plumb_volumes::state::State;
use plumb_volumes::{Service, private};

use crate::args::volumes::ServeArguments;
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::output;

/// How often the state is followed: a change is in effect within a second several times over.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// How often the report is written, in turns of following.
const REPORT_EVERY: u32 = 2;
/// A running server's report, for `plumb volumes list`.
pub const REPORT_FILE: &str = "serving.json";
const THREADS_MAX: usize = 4;

/// Serves.
pub fn serve(directory: &Path, arguments: &ServeArguments) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let state = State::open(directory).map_err(Failure::harness)?;
    let threads = arguments.threads.map_or_else(
        || available_parallelism().map_or(1, std::num::NonZeroUsize::get).min(THREADS_MAX),
        usize::from,
    );
    let mut service = Service::start(state, &arguments.listen, threads).map_err(Failure::harness)?;
    let reported = ServedReport::default();
    let rest = rest(directory, arguments, &reported)?;
    if !arguments.quiet {
        let report = service.report();
        for volume in &report.volumes {
            output::message(&report.address.uri(&volume.name));
        }
        let volumes = plumb_report::plural(report.volumes.len(), "volume");
        output::message(&format!("serving {volumes} on {}", report.address));
    }
    if let Some(rest) = rest.as_ref().filter(|_| !arguments.quiet) {
        let certificate = rest.certificate().display();
        output::message(&format!("REST interface at https://{}, certificate {certificate}", rest.address()));
    }
    for warning in exposed(service.address().tcp(), rest.as_ref().map(Server::address)) {
        output::message(&warning);
    }
    run(directory, &mut service, &reported, &interrupts);
    // Without it, a list says that nobody serves.
    let _ = std::fs::remove_file(directory.join(REPORT_FILE));
    Ok(INTERRUPTED)
}

/// Warnings about servers that other hosts can reach.
fn exposed(nbd: Option<SocketAddr>, rest: Option<SocketAddr>) -> Vec<String> {
    let is_exposed = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
    let nbd = nbd.filter(is_exposed).map(|address| {
        format!(
            "warning: NBD has neither authentication nor encryption. Every host that reaches {address} can read and write all \
             volumes; restrict it with a firewall, or use `--listen 127.0.0.1:{}` and a tunnel",
            address.port()
        )
    });
    let rest = rest.filter(is_exposed).map(|address| {
        format!(
            "warning: other hosts can reach the REST interface at {address}. It asks for a password; anyone who has one can \
             change and delete every volume"
        )
    });
    nbd.into_iter().chain(rest).collect()
}

/// Follows the state until somebody says stop. Nothing that fails on the way, such as a full disk, is a reason to stop
/// serving; each fault is reported once.
fn run(directory: &Path, service: &mut Service, reported: &ServedReport, interrupts: &Interrupts) {
    let (mut follow_fault, mut report_fault) = (None, None);
    let mut turn = 0;
    while !interrupts.is_interrupted() {
        note(&mut follow_fault, service.follow().err().map(|error| error.to_string()));
        if turn % REPORT_EVERY == 0 {
            note(
                &mut report_fault,
                write_report(directory, service, reported).err().map(|error| error.to_string()),
            );
        }
        turn += 1;
        sleep(FOLLOW_EVERY);
    }
}

/// Reports a fault that is another than the last.
fn note(last: &mut Option<String>, fault: Option<String>) {
    if let Some(fault) = fault.as_ref().filter(|_| fault != *last) {
        output::message(&format!("warning: failed to {fault}"));
    }
    *last = fault;
}

/// Starts the REST interface where it is asked for.
fn rest(
    directory: &Path,
    arguments: &ServeArguments,
    reported: &ServedReport,
) -> Result<Option<Server>, Failure> {
    let Some(address) = arguments.rest else { return Ok(None) };
    let identity = match (&arguments.certificate, &arguments.key) {
        (Some(certificate), Some(key)) => {
            Identity::Files { certificate: certificate.clone(), key: key.clone() }
        }
        _ => Identity::SelfSigned,
    };
    let started = Server::start(directory, address, identity, reported.clone());
    started.map(Some).map_err(|error| match error {
        ServerError::Nobody | ServerError::Identity { .. } | ServerError::Unreadable(_) => {
            Failure::usage(format!("failed to {error}"))
        }
        error => Failure::harness(error),
    })
}

/// Whole or not at all: readers see one report or the next.
fn write_report(directory: &Path, service: &Service, reported: &ServedReport) -> Result<(), Error> {
    let path = directory.join(REPORT_FILE);
    let report = service.report();
    let text = serde_json::to_string(&report)
        .map_err(|cause| Error::Write { path: path.clone(), cause: cause.into() })?;
    *reported.write().unwrap_or_else(PoisonError::into_inner) = Some(report);
    let new = path.with_extension("new");
    let written = private::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|cause| Error::Write { path, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_other_hosts_reach_are_warned_about() {
        let warnings = |nbd: &str, rest: Option<&str>| {
            exposed(Some(nbd.parse().unwrap()), rest.map(|rest| rest.parse().unwrap())).len()
        };
        assert_eq!(warnings("127.0.0.1:10809", Some("[::1]:8443")), 0);
        assert_eq!(warnings("[::ffff:127.0.0.1]:10809", None), 0);
        assert_eq!(warnings("0.0.0.0:10809", None), 1);
        assert_eq!(warnings("127.0.0.1:10809", Some("192.0.2.7:8443")), 1);
        assert_eq!(warnings("[::]:10809", Some("0.0.0.0:8443")), 2);
    }
}
