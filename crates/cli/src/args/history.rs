//! The arguments of `plumb history`, and those by which a run is recorded.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plumb_model::{Percent, Span};

use super::error::ArgumentError;
use super::gate::{budget, margin};
use super::shared::JsonArguments;

/// Where the history is.
#[derive(Debug, Clone, Default, Args)]
pub struct DatabaseArguments {
    /// The history: a file, or `postgres://USER@HOST/DATABASE`. Without it, that of the variable PLUMB_DATABASE, or
    /// `~/.local/share/plumb/history.db`.
    #[arg(long, global = true, value_name = "DATABASE")]
    pub database: Option<String>,
}

/// How a run is recorded.
#[derive(Debug, Default, Args)]
pub struct RecordArguments {
    /// Add the run to the history when it has ended, with the revision of the git work tree that the experiment is in.
    #[arg(long)]
    pub record: bool,
    /// A label of the recorded run, such as `ci=true`; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, requires = "record", conflicts_with = "resume")]
    pub label: Vec<(String, String)>,
    /// The history: a file, or `postgres://USER@HOST/DATABASE`. Without it, that of the variable PLUMB_DATABASE, or
    /// `~/.local/share/plumb/history.db`.
    #[arg(long, value_name = "DATABASE", requires = "record")]
    pub database: Option<String>,
}

/// `plumb history`.
#[derive(Debug, Args)]
pub struct HistoryArguments {
    /// The action.
    #[command(subcommand)]
    pub command: HistoryCommand,
    /// See [`DatabaseArguments`].
    #[command(flatten)]
    pub place: DatabaseArguments,
}

/// Actions on the history.
#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// Add runs that have ended. One that is there already changes nothing.
    Add {
        /// Run directories, or folders of them such as `plumb-runs`.
        #[arg(required = true, value_name = "DIR")]
        directories: Vec<PathBuf>,
    },
    /// List runs, the newest first.
    List(HistoryListArguments),
    /// Show one run and its values.
    Show {
        /// The beginning of its key, as `plumb history list` shows it.
        run: String,
        /// See [`JsonArguments`].
        #[command(flatten)]
        json: JsonArguments,
    },
    /// Remove runs from the history. Their directories stay.
    Remove {
        /// The beginnings of their keys.
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
    },
    /// Write the whole history as JSON lines.
    Export {
        /// A new file, or `-` for standard output.
        file: PathBuf,
    },
    /// Add everything that an export has.
    Import {
        /// The file, or `-` for standard input.
        file: PathBuf,
    },
    /// Show how values develop from run to run, and where their level shifts.
    Trend(TrendArguments),
    /// Acknowledge a shift, so that it is not reported again.
    Accept(AcceptArguments),
    /// Find the revision that made a level shift, by `plumb gate` between the revisions of the recorded runs around it.
    Bisect(Box<BisectArguments>),
}

impl HistoryCommand {
    /// Whether it reads the history and never changes it.
    #[must_use]
    pub fn reads(&self) -> bool {
        matches!(self, Self::List(_) | Self::Show { .. } | Self::Export { .. } | Self::Trend(_))
    }
}

/// `plumb history list`.
#[derive(Debug, Args)]
pub struct HistoryListArguments {
    /// Only of this experiment.
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,
    /// Only with this label; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Only with this text in the title, the directory, the branch, the revision or its subject.
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// At most this many; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub limit: u32,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which series of an experiment are meant.
#[derive(Debug, Clone, Default, Args)]
pub struct SeriesArguments {
    /// The experiment's name.
    pub experiment: String,
    /// Only of this variant.
    #[arg(long, value_name = "VARIANT")]
    pub variant: Option<String>,
    /// Only of this cell of the matrix, such as `load.connections=20`.
    #[arg(long, value_name = "CELL")]
    pub cell: Option<String>,
    /// Only values of hosts whose class has this text in it, and no ratios, which cross hosts.
    #[arg(long, value_name = "CLASS")]
    pub host: Option<String>,
}

/// `plumb history trend`.
#[derive(Debug, Args)]
pub struct TrendArguments {
    /// See [`SeriesArguments`].
    #[command(flatten)]
    pub series: SeriesArguments,
    /// This metric, as ratios and as values. Without it, the ratios of the metrics that the experiment's claims speak of.
    #[arg(long, value_name = "METRIC")]
    pub metric: Option<String>,
    /// Print the trends as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `plumb history accept`.
#[derive(Debug, Args)]
pub struct AcceptArguments {
    /// See [`SeriesArguments`].
    #[command(flatten)]
    pub series: SeriesArguments,
    /// The metric, such as `http_req_duration.p95`.
    #[arg(long, value_name = "METRIC")]
    pub metric: String,
    /// The first run of the new level; that of the last shift if absent.
    #[arg(long, value_name = "RUN")]
    pub at: Option<String>,
    /// Why, for those who look at the trend later.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub note: String,
    /// The author; the user who is logged in if absent.
    #[arg(long, value_name = "NAME")]
    pub author: Option<String>,
    /// Take the acceptance at this run back.
    #[arg(long, requires = "at", conflicts_with = "note")]
    pub undo: bool,
}

/// `plumb history bisect`.
#[derive(Debug, Args)]
pub struct BisectArguments {
    /// See [`SeriesArguments`].
    #[command(flatten)]
    pub series: SeriesArguments,
    /// The metric, such as `wall_time.p95`.
    #[arg(long, value_name = "METRIC")]
    pub metric: String,
    /// The first run of the new level; that of the last shift if absent.
    #[arg(long, value_name = "RUN")]
    pub at: Option<String>,
    /// Build each revision in its directory with this command of the shell.
    #[arg(long, value_name = "CMD")]
    pub build: Option<String>,
    /// Run this command in the directory of each revision. Without it or --run, the recorded run's own command where its experiment has
    /// `path: command`.
    #[arg(long, value_name = "CMD", conflicts_with = "run")]
    pub command: Option<String>,
    /// An experiment for `plumb gate --run`: the baseline `base`, the variant `head`, and `{base}` and `{head}` for the directories of
    /// the two builds.
    #[arg(long, value_name = "FILE")]
    pub run: Option<PathBuf>,
    /// Run the command with `sh`, for pipes and variables.
    #[arg(long)]
    pub shell: bool,
    /// How long to measure at most in all, builds not counted.
    #[arg(long, value_name = "TIME", default_value = "30 min", value_parser = budget)]
    pub budget: Span,
    /// By how much a revision must be worse to count as such; half of the shift if absent.
    #[arg(long, value_name = "PERCENT", value_parser = margin)]
    pub worse_than: Option<Percent>,
    /// The share of CPU time that other processes may use.
    #[arg(long, default_value = "10%", value_name = "PERCENT")]
    pub others_max: Percent,
    /// The folder of the gates' run directories; `plumb-runs/bisect-TIME` if absent.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// No progress and no messages but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// A label.
fn label(text: &str) -> Result<(String, String), ArgumentError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && text.len() <= 1000 && !text.contains(char::is_control) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(ArgumentError::Label),
    }
}
