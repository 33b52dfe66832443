//! How this crate's tests say that they cannot run for want of a privilege.

use std::io::{self, Write};

/// Says that a test does nothing because this process may not `what`. An ordinary user lacks root, which `.ci/run` has; where root may
/// not either, the machine is what is missing.
pub(crate) fn skip(test: &str, what: &str) {
    let reason = if rustix::process::geteuid().is_root() {
        format!("hardware: this machine does not let root {what}")
    } else {
        format!("only root may {what}")
    };
    // Past the test runner, which swallows what tests print.
    let _ = writeln!(io::stderr(), "test skipped: {test}: {reason}");
}
