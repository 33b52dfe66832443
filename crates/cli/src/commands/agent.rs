//! `plumb agent`: serves one side of a slot over standard input and output.

use std::io::{BufReader, stdin, stdout};

use crate::args::AgentArguments;
use crate::data_paths;
use crate::exit::{Failure, HOLDS, Outcome};

/// Serves until standard input ends.
pub fn agent(arguments: &AgentArguments) -> Outcome {
    if !arguments.runs_commands {
        plumb_host::limits::raise_open_files_limit();
        // Before there are threads. An ordinary user's plumb may itself have rights by its file, which its agents keep.
        plumb_host::process::forgo_new_privileges().map_err(Failure::harness)?;
    }
    plumb_path::agent::serve(&data_paths::all(), BufReader::new(stdin()), stdout())
        .map(|()| HOLDS)
        .map_err(|error| Failure::harness(format!("answer the runner: {error}")))
}
