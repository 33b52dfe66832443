//! `plumb version`.

use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// Prints the version.
pub fn version() -> Outcome {
    output::result(&format!("plumb {}", env!("CARGO_PKG_VERSION")))?;
    Ok(HOLDS)
}

/// Identifies this build among others of its version.
pub fn own_build() -> Result<String, Failure> {
    plumb_host::own_build().map_err(Failure::harness)
}
