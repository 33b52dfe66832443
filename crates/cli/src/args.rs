//! The command line as types. Flags carry the names of the experiment file's keys, with the short forms that users
//! of ab, wrk and k6 expect.

mod audit;
mod command;
mod crypto;
mod error;
mod examples;
mod export;
mod gate;
pub mod history;
mod http;
mod import;
mod init;
pub mod keys;
mod migrate;
mod names;
mod network;
pub mod places;
pub mod shared;
mod storage;
pub mod tune;
mod ui;
pub mod volumes;

use std::path::PathBuf;

use self::tune::TuneCommand;
use self::volumes::VolumesArguments;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use plumb_codec::CodecSettings;
use plumb_codec::measure::Form;
use plumb_model::{Bytes, Percent, Span};

use self::places::{PlacesArguments, PlacesCommand};

pub use self::audit::AuditArguments;
pub use self::command::{CommandArguments, Parameter};
pub use self::crypto::CryptoArguments;
pub use self::error::ArgumentError;
pub use self::export::{ExportArguments, ExportFormat, HeaderArgument};
pub use self::gate::GateArguments;
pub use self::history::{HistoryArguments, RecordArguments};
pub use self::http::HttpArguments;
pub use self::import::{FORMAT_HELP, ImportArguments};
pub use self::init::InitArguments;
pub use self::migrate::{MigrateArguments, MigrateCommand};
pub use self::network::{NetworkArguments, NetworkCommand, NetworkFormat};
pub use self::storage::StorageArguments;
pub use self::ui::UiArguments;

/// Proves what one change does to an infrastructure data path.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 every judged claim holds, 1 a claim is refuted, 2 usage or experiment error,\n\
    3 undecided, 4 void or untrusted, 5 the harness, a tool or the peer of a measurement failed,\n\
    130 interrupted. Skipped claims have no effect.\n\
    For one measurement: 0 it counts, 1 a check failed, or more attempts failed than\n\
    --failures-max allows."
)]
pub struct Arguments {
    /// The action.
    #[command(subcommand)]
    pub command: Command,
}

/// The action.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment and judge its claims.
    #[command(after_help = examples::RUN)]
    Run(RunArguments),
    /// Validate an experiment and show its plan, without running it.
    #[command(after_help = examples::CHECK)]
    Check(CheckArguments),
    /// Write an experiment to start from; it runs unchanged.
    #[command(after_help = examples::INIT)]
    Init(InitArguments),
    /// List the built-in experiments.
    #[command(after_help = examples::LIST)]
    List(ListArguments),
    /// Render a run's report again from its directory.
    #[command(after_help = examples::REPORT)]
    Report(ReportArguments),
    /// Hold two runs against each other: what differs in their settings, builds and hosts, and in their effects.
    #[command(after_help = examples::COMPARE)]
    Compare(CompareArguments),
    /// Write runs in the formats of other programs, or send them to a collector of OpenTelemetry.
    #[command(after_help = examples::EXPORT)]
    Export(ExportArguments),
    /// Serve a page to look at runs, and to start and stop them.
    #[command(after_help = examples::UI)]
    Ui(UiArguments),
    /// Say what the numbers in a README, an issue or a paper support, and where they mislead.
    #[command(after_help = examples::AUDIT)]
    Audit(AuditArguments),
    /// Compare two builds on this machine: is one worse than the other by more than a margin?
    #[command(after_help = examples::GATE)]
    Gate(Box<GateArguments>),
    /// Keep runs, show how their values develop, and find what changed them.
    #[command(after_help = examples::HISTORY)]
    History(Box<HistoryArguments>),
    /// Measure a command, or compare two and more with the first until the ratio is known.
    #[command(name = "command", after_help = examples::COMMAND)]
    Programs(Box<CommandArguments>),
    /// Read what other tools wrote: one measurement, or a comparison of several.
    #[command(after_help = examples::IMPORT)]
    Import(Box<ImportArguments>),
    /// Measure one URL once, without a comparison.
    #[command(after_help = examples::HTTP)]
    Http(Box<HttpArguments>),
    /// Measure a file or a block device once, without a comparison.
    #[command(after_help = examples::STORAGE)]
    Storage(Box<StorageArguments>),
    /// Measure a network once, between here and a server.
    #[command(after_help = examples::NETWORK)]
    Network(Box<NetworkArguments>),
    /// Measure this host's crypto devices: signatures, key exchanges, AEAD and hashes.
    #[command(after_help = examples::CRYPTO)]
    Crypto(CryptoArguments),
    /// Measure the ratio, speed and CPU time of each codec.
    #[command(after_help = examples::CODEC)]
    Codec(Box<CodecArguments>),
    /// Move the memory of a guest once and measure it.
    #[command(after_help = examples::MIGRATE)]
    Migrate(Box<MigrateArguments>),
    /// Keep volumes under QoS policies, and serve them by NBD.
    #[command(after_help = examples::VOLUMES)]
    Volumes(Box<VolumesArguments>),
    /// Describe this machine, and show what would disturb a measurement on it.
    #[command(after_help = examples::HOST)]
    Host(HostArguments),
    /// Hosts on which an experiment's two sides run.
    #[command(subcommand, after_help = examples::PLACES)]
    Places(PlacesCommand),
    /// Tune this host, and undo the tunings.
    #[command(subcommand, after_help = examples::TUNE)]
    Tune(TuneCommand),
    /// Print a JSON Schema.
    #[command(after_help = examples::SCHEMA)]
    Schema(SchemaArguments),
    /// Print a completion script for a shell.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the version.
    Version,
    /// Write the manual pages into a directory, for packages.
    #[command(hide = true)]
    Man {
        /// The directory, which exists.
        directory: PathBuf,
    },
    /// Serve one side of a slot (started by `plumb run`).
    #[command(hide = true)]
    Agent(AgentArguments),
    /// Represent a runner on this host (started by `plumb run` over ssh).
    #[command(hide = true)]
    Keep(KeepArguments),
    /// Print parts of the answer to one HTTP request (started by a change's `verify`).
    #[command(hide = true)]
    Answer(AnswerArguments),
}

impl Command {
    /// Whether it measures or tunes, so that what a killed plumb left changed on this host has to be put back first.
    #[must_use]
    pub fn measures(&self) -> bool {
        !matches!(
            self,
            Self::Check(_)
                | Self::Init(_)
                | Self::List(_)
                | Self::Report(_)
                | Self::Compare(_)
                | Self::Export(_)
                | Self::Ui(_)
                | Self::Import(_)
                | Self::Audit(_)
                | Self::History(_)
                | Self::Volumes(_)
                | Self::Host(_)
                | Self::Schema(_)
                | Self::Completions { .. }
                | Self::Version
                | Self::Man { .. }
                | Self::Agent(_)
                | Self::Places(_)
                | Self::Keep(_)
                | Self::Answer(_)
                | Self::Tune(TuneCommand::List(_) | TuneCommand::Status(_))
        )
    }
}

/// The folder of runs that no directory is named for.
pub const RUNS: &str = "plumb-runs";

/// No run takes more blocks in a cell.
pub const BLOCKS_MAX: u32 = 1000;

/// `plumb agent`.
#[derive(Debug, Args)]
pub struct AgentArguments {
    /// It runs commands of the user, which get this process's limits and rights as they are.
    #[arg(long)]
    pub runs_commands: bool,
}

/// `plumb keep`.
#[derive(Debug, Args)]
pub struct KeepArguments {
    /// A private directory, which exists.
    #[arg(required_unless_present = "build")]
    pub directory: Option<PathBuf>,
    /// Print what identifies this build, and nothing else.
    #[arg(long)]
    pub build: bool,
}

/// `plumb answer`.
#[derive(Debug, Args)]
pub struct AnswerArguments {
    /// The address.
    pub url: String,
    /// The parts to print: `status`, `length` or `header:NAME`.
    #[arg(long, value_delimiter = ',', required = true)]
    pub show: Vec<String>,
    /// Accept any certificate.
    #[arg(long)]
    pub insecure: bool,
}

/// `plumb host`.
#[derive(Debug, Args)]
pub struct HostArguments {
    /// Describe this host instead: `ssh://user@host`, or a name that ssh knows.
    #[arg(long, value_name = "HOST")]
    pub on: Option<String>,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How a plan is made from an experiment.
#[derive(Debug, Default, Args)]
pub struct PlanArguments {
    /// Run only the first cell, with slots of about a second; after six blocks, begin only blocks that end within 85 s.
    #[arg(long)]
    pub quick: bool,
    /// Exactly this many blocks in every cell, whatever the experiment says. With `--resume`: up to this many, for a run that
    /// ended undecided; its intervals become wider.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=i64::from(BLOCKS_MAX)))]
    pub blocks: Option<u32>,
    /// Only this variant beside the baseline; may be given more than once.
    #[arg(long, value_name = "VARIANT")]
    pub only: Vec<String>,
    /// The share of CPU time that other processes may use, in place of the experiment's `noise.others_max` (10%).
    #[arg(long, value_name = "PERCENT")]
    pub others_max: Option<Percent>,
    /// The seed of the random orders; a new one is drawn and printed if absent.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// See [`plumb_experiment::ReadOptions::may_repeat`].
    #[arg(skip)]
    pub may_repeat: bool,
}

/// `plumb run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// A file, or the name of a built-in experiment (see `plumb list`).
    #[arg(required_unless_present = "resume")]
    pub experiment: Option<String>,
    /// See [`PlanArguments`].
    #[command(flatten)]
    pub plan: PlanArguments,
    /// See [`PlacesArguments`].
    #[command(flatten)]
    pub places: PlacesArguments,
    /// The run directory to write; `plumb-runs/NAME-TIME` if absent.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Continue the run in this directory after its last whole slot; refused if the experiment, the build or the host changed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiment", "output", "quick", "only", "seed", "places", "system_on", "load_on"])]
    pub resume: Option<PathBuf>,
    /// See [`RecordArguments`].
    #[command(flatten)]
    pub record: RecordArguments,
    /// Serve a page beside the run on which it can be followed, and print its address; see `plumb ui`.
    #[arg(long)]
    pub ui: bool,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print the whole report: every metric, all evidence, CPU time by side.
    #[arg(long, conflicts_with = "json")]
    pub full: bool,
    /// No progress and no messages but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `plumb check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// A file, or the name of a built-in experiment.
    pub experiment: String,
    /// See [`PlanArguments`].
    #[command(flatten)]
    pub plan: PlanArguments,
    /// See [`PlacesArguments`].
    #[command(flatten)]
    pub places: PlacesArguments,
    /// Print the plan as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `plumb list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the text of one built-in experiment, as a start for your own.
    #[arg(long, value_name = "NAME")]
    pub show: Option<String>,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For the terminal.
    Text,
    /// For a README or an issue.
    Markdown,
    /// One self-contained page.
    Html,
    /// For programs: plumbline.run/1.
    Json,
    /// Claims as test cases.
    Junit,
}

/// `plumb report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The run directory.
    pub directory: PathBuf,
    /// The format of the report.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Print the whole report as text: every metric, all evidence, CPU time by side. The other formats are always complete.
    #[arg(long)]
    pub full: bool,
}

/// `plumb compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The first run directory.
    pub first: PathBuf,
    /// The run directory to hold against it.
    pub second: PathBuf,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The format to print a schema of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Experiment files.
    #[default]
    Experiment,
    /// `plumb run --json`.
    Run,
    /// `plumb compare --json`.
    Compare,
    /// `plumb audit --json`.
    Audit,
    /// `--json` of one measurement: `plumb command`, `http`, `storage`, `network`, `migrate`.
    Measurement,
    /// `plumb crypto --json`.
    Crypto,
    /// `plumb codec --json`.
    Codec,
    /// `plumb host --json`.
    Host,
    /// `plumb history list --json`.
    History,
    /// `plumb history show --json`.
    HistoryRun,
    /// `plumb history trend --json`.
    Trend,
}

/// `plumb schema`.
#[derive(Debug, Args)]
pub struct SchemaArguments {
    /// The document that the schema describes.
    #[arg(value_enum, default_value_t = SchemaOf::Experiment)]
    pub of: SchemaOf,
}

/// In what pieces codecs get their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CodecFormArgument {
    /// Units of 128 pages of 4 KiB, as a migration sends them.
    Unit,
    /// All at once.
    Whole,
}

impl From<CodecFormArgument> for Form {
    fn from(form: CodecFormArgument) -> Self {
        match form {
            CodecFormArgument::Unit => Self::Unit,
            CodecFormArgument::Whole => Self::Whole,
        }
    }
}

/// `plumb codec`.
#[derive(Debug, Args)]
pub struct CodecArguments {
    /// A file, or a directory whose files are all read, up to 1 GiB; the built-in content if absent.
    #[arg(value_name = "FILE|DIR")]
    pub data: Option<PathBuf>,
    /// Only these codecs, separated by commas; a level follows a colon: `zstd:1,zstd:3,lz4`. The codecs are none, zlib, zstd,
    /// lz4, libdeflate, isal, qatzip, qpl and qpl-software.
    #[arg(long, value_name = "CODEC", value_delimiter = ',')]
    pub codecs: Vec<CodecSettings>,
    /// Compress only in these pieces; both if absent.
    #[arg(long, value_enum)]
    pub form: Option<CodecFormArgument>,
    /// How long the codecs take turns; each gets at least one turn.
    #[arg(long, short = 'd', default_value = "10s", value_name = "TIME")]
    pub duration: Span,
    /// How much data to read or to make [default: 1 GiB of files, 64 MiB of the built-in content].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// The data to compress without a file. `builtin`, the only one so far, resembles the Silesia corpus.
    #[arg(long, value_parser = ["builtin"], default_value = "builtin", conflicts_with = "data", hide_default_value = true)]
    pub content: String,
    /// The share of zero pages in the built-in content.
    #[arg(long, default_value = "0%", value_name = "PERCENT", conflicts_with = "data")]
    pub zero: Percent,
    /// The share of pages in the built-in content that do not compress.
    #[arg(long, default_value = "0%", value_name = "PERCENT", conflicts_with = "data")]
    pub incompressible: Percent,
    /// The seed of the built-in content; the same seed gives the same bytes.
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "data")]
    pub seed: u64,
    /// Write the built-in content to this file, too, for other programs to compress.
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub save: Option<PathBuf>,
    /// Print the table as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}
