//! `plumb completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Prints the completion script.
pub fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "plumb", &mut script);
    output::result(&String::from_utf8_lossy(&script))?;
    Ok(HOLDS)
}
