//! `plumb keep`: represents a runner on this host, over standard input and output.

use std::io::{BufReader, stdin, stdout};

use crate::args::KeepArguments;
use crate::commands::tune::put_back_leftovers;
use crate::commands::version::own_build;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::{data_paths, output};

/// Serves until the runner is gone.
pub fn keep(arguments: &KeepArguments) -> Outcome {
    let Some(directory) = &arguments.directory else {
        output::result(&own_build()?)?;
        return Ok(HOLDS);
    };
    put_back_leftovers(false)?;
    plumb_host::limits::raise_open_files_limit();
    plumb_places::keep(&data_paths::all(), directory, BufReader::new(stdin()), stdout())
        .map(|()| HOLDS)
        .map_err(Failure::harness)
}
