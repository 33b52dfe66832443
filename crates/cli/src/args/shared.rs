//! Arguments that several commands have.

use clap::Args;
use plumb_model::Percent;

/// Only `--json`.
#[derive(Debug, Args)]
pub struct JsonArguments {
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How one measurement is shown, and how much of it may fail.
#[derive(Debug, Clone, Copy, Args)]
pub struct MeasurementArguments {
    /// The largest share of failed attempts that still counts as a measurement; above it the exit code is 1.
    #[arg(long, default_value = "1%", value_name = "PERCENT")]
    pub failures_max: Percent,
    /// Print each measurement as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}
