//! `plumb volumes serve`: volumes by NBD until somebody says stop.

use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

use plumb_host::signals::Interrupts;
use plumb_host::time::sleep;
use plumb_volumes::Service;
use plumb_volumes::state::State;

use super::arguments::ServeArguments;
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::output;

/// How often the state is followed: a change is in effect within a second several times over.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// How often the report is written, in turns of following.
const REPORT_EVERY: u32 = 2;
/// What a running server says of itself, for `plumb volumes list`.
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
    let mut service = Service::start(state, arguments.listen, threads).map_err(Failure::harness)?;
    if !arguments.quiet {
        let report = service.report();
        for volume in &report.volumes {
            output::message(&format!("nbd://{}/{}", report.address, volume.name));
        }
        output::message(&format!("serving {} volumes on {}", report.volumes.len(), report.address));
    }
    let mut said = None;
    let mut turn = 0;
    while !interrupts.is_interrupted() {
        if turn % REPORT_EVERY == 0 {
            write_report(directory, &service).map_err(Failure::harness)?;
        }
        turn += 1;
        sleep(FOLLOW_EVERY);
        // A fault of one volume is no reason to end the others; it is said once.
        let fault = service.follow().err().map(|error| error.to_string());
        if let Some(fault) = fault.as_ref().filter(|_| fault != said) {
            output::message(&format!("warning: failed to {fault}"));
        }
        said = fault;
    }
    // Without it, a list says that nobody serves.
    let _ = std::fs::remove_file(directory.join(REPORT_FILE));
    Ok(INTERRUPTED)
}

/// Whole or not at all: readers see one report or the next.
fn write_report(directory: &Path, service: &Service) -> Result<(), String> {
    let path = directory.join(REPORT_FILE);
    let fail = |cause: String| format!("write {}: {cause}", path.display());
    let text = serde_json::to_string(&service.report()).map_err(|cause| fail(cause.to_string()))?;
    let new = path.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    written.map_err(|cause| fail(cause.to_string()))
}
