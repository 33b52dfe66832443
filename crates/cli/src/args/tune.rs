//! The arguments of `plumb tune`.

use clap::Subcommand;

use crate::args::shared::JsonArguments;

/// Actions on tunings.
#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// List every tuning: what it changes, needs and risks, and whether this machine can do it.
    List(JsonArguments),
    /// Show the tunings of `plumb tune apply` that are in effect.
    Status(JsonArguments),
    /// Apply tunings until `plumb tune revert` or the next boot: all of them or none.
    Apply {
        /// Names as `plumb tune list` has them, such as `governor` or `busy-read=100`.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Undo every tuning of `plumb tune apply`.
    Revert,
}
