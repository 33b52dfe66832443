//! `plumb version`.

use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Prints the version.
pub fn version() -> Outcome {
    output::result(&format!("plumb {}", env!("CARGO_PKG_VERSION")))?;
    Ok(HOLDS)
}
