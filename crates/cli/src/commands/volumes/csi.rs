//! `plumb volumes csi`: a driver of the Container Storage Interface, until somebody says stop.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plumb_csi::grpc::Server;
use plumb_csi::node::Node;
use plumb_csi::{CallError, Driver, Mode};
use plumb_host::signals::Interrupts;
use plumb_host::time::sleep;

use crate::args::volumes::{CsiArguments, CsiMode};
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::output;

/// How often what is staged is looked after, and in how many steps a request to stop is waited for meanwhile.
const LOOK_AFTER_EVERY: Duration = Duration::from_millis(500);
const STEPS: u32 = 10;

/// Serves the driver's calls, and looks after what they built.
pub fn csi(state: &Path, arguments: &CsiArguments) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let mode = match arguments.mode {
        CsiMode::All => Mode::All,
        CsiMode::Controller => Mode::Controller,
        CsiMode::Node => Mode::Node,
    };
    let driver = Driver::open(state, arguments.node.clone(), mode).map_err(failure)?;
    let driver = Arc::new(driver);
    // What an earlier driver left is in order before the first call comes.
    let mut said = BTreeSet::new();
    look_after(&driver, &mut said, arguments.quiet);
    let server = Server::start(Arc::clone(&driver), &arguments.endpoint).map_err(Failure::harness)?;
    if !arguments.quiet {
        output::message(&format!(
            "driver {} of the node {} listens on {}",
            plumb_csi::identity::DRIVER,
            arguments.node.as_str(),
            arguments.endpoint.display()
        ));
    }
    let pause = || {
        for _ in 0..STEPS {
            if !interrupts.is_interrupted() {
                sleep(LOOK_AFTER_EVERY / STEPS);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut said = BTreeSet::new();
            while !interrupts.is_interrupted() {
                let words = driver.node().and_then(Node::look_after_server);
                tell(words.into_iter().collect(), &mut said, arguments.quiet);
                pause();
            }
        });
        while !interrupts.is_interrupted() {
            look_after(&driver, &mut said, arguments.quiet);
            pause();
        }
    });
    drop(server);
    if let Some(node) = driver.node() {
        node.retire().map_err(failure)?;
    }
    Ok(INTERRUPTED)
}

fn look_after(driver: &Driver, said: &mut BTreeSet<String>, is_quiet: bool) {
    tell(driver.node().map(Node::look_after).unwrap_or_default().into_iter().collect(), said, is_quiet);
}

/// Reports what was done, and each fault once until it is over.
fn tell(now: BTreeSet<String>, said: &mut BTreeSet<String>, is_quiet: bool) {
    for text in now.difference(said) {
        if !is_quiet || text.starts_with("warning: ") {
            output::message(text);
        }
    }
    *said = now;
}

/// A precondition that the host lacks is for the user to mend, so it is a usage error.
fn failure(fault: CallError) -> Failure {
    match fault {
        CallError::Precondition(_) => Failure::usage(format!("failed to serve the driver: {fault}")),
        fault => Failure { code: crate::exit::FAILED, ..Failure::usage(fault.to_string()) },
    }
}
