//! The arguments of `plumb audit`.

use std::path::PathBuf;

use clap::Args;

/// `plumb audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Texts with outputs of tools or tables in them, such as a README; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the experiment that would settle the question to this file.
    #[arg(long, value_name = "FILE")]
    pub experiment: Option<PathBuf>,
    /// Print the findings as one JSON object.
    #[arg(long)]
    pub json: bool,
}
