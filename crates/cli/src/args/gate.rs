//! The arguments of `plumb gate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use plumb_model::{Percent, Span};

use super::Format;
use super::error::ArgumentError;

/// `plumb gate`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["command", "run", "base_command"]))]
pub struct GateArguments {
    /// The revision to compare with: a branch, a tag or a commit of the git repository here.
    #[arg(long, value_name = "REV", required_unless_present_any = ["base_command", "run"])]
    pub base: Option<String>,
    /// The revision to judge.
    #[arg(long, value_name = "REV", default_value = "HEAD", requires = "base")]
    pub head: String,
    /// Build each revision in its directory with this command of the shell.
    #[arg(long, value_name = "CMD", requires = "base")]
    pub build: Option<String>,
    /// Run this command in the directory of each revision, again and again, and compare how long it takes.
    #[arg(long, value_name = "CMD", conflicts_with_all = ["run", "base_command"])]
    pub command: Option<String>,
    /// An experiment with the baseline `base` and the variant `head`; `{base}` and `{head}` in it stand for the directories of the
    /// two builds.
    #[arg(long, value_name = "FILE", conflicts_with = "base_command")]
    pub run: Option<PathBuf>,
    /// The command of the base, where there is nothing to check out.
    #[arg(long, value_name = "CMD", requires = "head_command", conflicts_with = "base")]
    pub base_command: Option<String>,
    /// The command of the head.
    #[arg(long, value_name = "CMD", requires = "base_command")]
    pub head_command: Option<String>,
    /// Run the commands with `sh`, for pipes and variables; its start is then part of what is measured.
    #[arg(long)]
    pub shell: bool,
    /// How long to measure at most, builds not counted.
    #[arg(long, value_name = "TIME", default_value = "5 min", value_parser = budget)]
    pub budget: Span,
    /// By how much the head may be worse.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = margin)]
    pub worse_than: Percent,
    /// The share of CPU time that other processes may use; above it in half of a side's slots, times are not comparable. A file
    /// has its own `noise.others_max`.
    #[arg(long, default_value = "10%", value_name = "PERCENT", conflicts_with = "run")]
    pub others_max: Percent,
    /// The metric to compare, such as `wall_time.p95`; may be given more than once. Without it, the claims of the file, or the
    /// data path's first rate or trend.
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
    /// The run directory to write; `plumb-runs/gate-TIME` if absent.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The format of the result; `markdown` suits a comment on a pull request.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The seed of the random orders.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// No progress and no messages but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

pub(super) fn budget(text: &str) -> Result<Span, ArgumentError> {
    // Unlike in an experiment, where `m` could be metres or months to a reader, a budget of `5m` is clear.
    let minutes =
        text.trim().strip_suffix('m').filter(|number| number.ends_with(|last: char| last.is_ascii_digit()));
    let text = minutes.map_or_else(|| text.to_owned(), |number| format!("{number} min"));
    let span: Span = text.parse()?;
    if span.0 >= 1_000_000_000 { Ok(span) } else { Err(ArgumentError::Budget) }
}

pub(super) fn margin(text: &str) -> Result<Percent, ArgumentError> {
    let percent: Percent = text.parse()?;
    let is_margin = percent.0 > 0.0 && percent.0 < 1.0;
    if is_margin { Ok(percent) } else { Err(ArgumentError::Margin) }
}
