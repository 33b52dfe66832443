//! The command line as types. Flags carry the names of the experiment file's keys, with the short forms that users
//! of ab, wrk and k6 expect.

mod examples;
mod http;
mod init;
pub mod keys;
mod network;
mod storage;

use std::path::PathBuf;

use crate::commands::tune::arguments::TuneCommand;
use crate::commands::volumes::arguments::VolumesArguments;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use plumb_codec::CodecSettings;
use plumb_codec::measure::Form;
use plumb_crypto::measure::{Algorithm, Source};
use plumb_model::quantity::QuantityError;
use plumb_model::{ByteRate, Bytes, Percent, Span};
use serde_json::Value;

pub use self::http::HttpArguments;
pub use self::init::InitArguments;
pub use self::network::{NetworkArguments, NetworkCommand, NetworkFormat};
pub use self::storage::StorageArguments;

/// Proves what one change does to an infrastructure data path.
#[derive(Debug, Parser)]
#[command(name = "plumb", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 every claim that was judged holds, 1 a claim is refuted, 2 usage or experiment error,\n\
    3 undecided, 4 void or untrusted, 5 the harness, a tool it drives or the peer of a measurement failed,\n\
    130 interrupted. Skipped claims have no effect.\n\
    Of one measurement: 0 it counts, 1 more failed than --failures-max allows or a check did."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment and judge its claims.
    #[command(after_help = examples::RUN)]
    Run(RunArguments),
    /// Validate an experiment and show its plan, without running it.
    #[command(after_help = examples::CHECK)]
    Check(CheckArguments),
    /// Write an experiment to start from, which runs as it is.
    #[command(after_help = examples::INIT)]
    Init(InitArguments),
    /// List the built-in experiments.
    #[command(after_help = examples::LIST)]
    List(ListArguments),
    /// Render a run's report again from its directory.
    #[command(after_help = examples::REPORT)]
    Report(ReportArguments),
    /// Measure one URL once, without a comparison.
    #[command(after_help = examples::HTTP)]
    Http(Box<HttpArguments>),
    /// Measure a file or a block device once, without a comparison.
    #[command(after_help = examples::STORAGE)]
    Storage(Box<StorageArguments>),
    /// Measure a network once, between here and a server.
    #[command(after_help = examples::NETWORK)]
    Network(Box<NetworkArguments>),
    /// Measure what does encryption here: signatures, key exchanges, AEAD and hashes, by device.
    #[command(after_help = examples::CRYPTO)]
    Crypto(CryptoArguments),
    /// Measure what each codec makes of data, in the units of a migration and as a whole.
    #[command(after_help = examples::CODEC)]
    Codec(Box<CodecArguments>),
    /// Move the memory of a guest once and measure it.
    #[command(after_help = examples::MIGRATE)]
    Migrate(Box<MigrateArguments>),
    /// Keep volumes under QoS policies, and serve them by NBD.
    #[command(after_help = examples::VOLUMES)]
    Volumes(Box<VolumesArguments>),
    /// Show what this machine is, and what would disturb a measurement on it.
    #[command(after_help = examples::HOST)]
    Host(JsonArguments),
    /// Tune this host, and put it back as it was.
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
    /// Serve one side of a slot (started by `plumb run`).
    #[command(hide = true)]
    Agent,
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
                | Self::Volumes(_)
                | Self::Host(_)
                | Self::Schema(_)
                | Self::Completions { .. }
                | Self::Version
                | Self::Agent
                | Self::Tune(TuneCommand::List(_) | TuneCommand::Status(_))
        )
    }
}

/// How a plan is made from an experiment.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// Only the first cell, slots of about a second, and no block beyond the sixth that would not end within 85 s.
    #[arg(long)]
    pub quick: bool,
    /// Exactly this many blocks in every cell, whatever the experiment says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub blocks: Option<u32>,
    /// Only this variant beside the baseline; may be given more than once.
    #[arg(long, value_name = "VARIANT")]
    pub only: Vec<String>,
    /// The seed of the random orders; a new one is drawn and printed if absent.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
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
    /// The run directory to write; `plumb-runs/NAME-TIME` if absent.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Continue the run in this directory after its last whole slot; refused if the experiment, the build or the host changed.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["experiment", "output", "quick", "blocks", "only", "seed"])]
    pub resume: Option<PathBuf>,
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
    /// Print the text of one built-in experiment, to start an own file from.
    #[arg(long, value_name = "NAME")]
    pub show: Option<String>,
}

/// The forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For the terminal.
    Text,
    /// In the form of a README.
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
    /// The form.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// As text, print the whole report: every metric, all evidence, CPU time by side. The other forms always have it all.
    #[arg(long)]
    pub full: bool,
}

/// What to print a schema of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Experiment files.
    #[default]
    Experiment,
    /// `plumb run --json`.
    Run,
    /// `--json` of one measurement: `plumb http`, `storage`, `network`, `migrate`.
    Measurement,
    /// `plumb crypto --json`.
    Crypto,
    /// `plumb codec --json`.
    Codec,
    /// `plumb host --json`.
    Host,
}

/// `plumb schema`.
#[derive(Debug, Args)]
pub struct SchemaArguments {
    /// What the schema is of.
    #[arg(value_enum, default_value_t = SchemaOf::Experiment)]
    pub of: SchemaOf,
}

/// Only `--json`.
#[derive(Debug, Args)]
pub struct JsonArguments {
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How much may fail in one measurement.
#[derive(Debug, Clone, Copy, Args)]
pub struct FailureArguments {
    /// The largest share of failed attempts that still counts as a measurement; above it the exit code is 1.
    #[arg(long, default_value = "1%", value_name = "PERCENT")]
    pub failures_max: Percent,
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
    /// A file, or a directory of which all files are read, up to 1 GiB; the built-in content if absent.
    #[arg(value_name = "FILE|DIR")]
    pub data: Option<PathBuf>,
    /// Only these codecs, with commas between, each with its level after a colon if not the default: `zstd:1,zstd:3,lz4`. There
    /// are none, zlib, zstd, lz4, libdeflate, isal, qatzip, qpl, qpl-software.
    #[arg(long, value_name = "CODEC", value_delimiter = ',')]
    pub codecs: Vec<CodecSettings>,
    /// Only in these pieces; both if absent.
    #[arg(long, value_enum)]
    pub form: Option<CodecFormArgument>,
    /// How long codecs take turns; every one has at least one turn.
    #[arg(long, short = 'd', default_value = "10s", value_name = "TIME", value_parser = duration)]
    pub duration: Span,
    /// How much of the file or directory is read, or of the built-in content is made [default: 1 GiB or 64 MiB].
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Without a file: what the data is. There is one content so far, which resembles the Silesia corpus.
    #[arg(long, value_parser = ["builtin"], default_value = "builtin", conflicts_with = "data", hide_default_value = true)]
    pub content: String,
    /// Of the built-in content: the share of pages that are zero.
    #[arg(long, default_value = "0%", value_name = "PERCENT", conflicts_with = "data")]
    pub zero: Percent,
    /// Of the built-in content: the share of pages that do not compress.
    #[arg(long, default_value = "0%", value_name = "PERCENT", conflicts_with = "data")]
    pub incompressible: Percent,
    /// Of the built-in content: what it is made from; the same seed gives the same bytes.
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

/// `plumb crypto`.
#[derive(Debug, Args)]
pub struct CryptoArguments {
    /// Only these algorithms, with commas between; all if absent.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = algorithms())]
    pub algorithms: Vec<Algorithm>,
    /// Only these devices, with commas between; all if absent. `openssl-speed` is what the program `openssl` measures.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = sources())]
    pub devices: Vec<Source>,
    /// Operations in one pass of a device that does several, with commas between.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "8",
          value_parser = clap::value_parser!(u32).range(1..=8))]
    pub batch: Vec<u32>,
    /// Signatures or key exchanges at a time, with commas between.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,16",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub in_flight: Vec<u32>,
    /// Sizes of the blocks of AEAD and hashes, with commas between.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "16KiB")]
    pub block: Vec<Bytes>,
    /// How long to measure each row, all rounds together; `openssl speed` takes whole seconds.
    #[arg(long, short = 'd', default_value = "1s", value_name = "TIME", value_parser = duration)]
    pub duration: Span,
    /// In how many rounds devices take turns; an interval needs at least three.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Print the table as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}

/// A length of time, which may be a bare number of seconds.
fn duration(text: &str) -> Result<Span, QuantityError> {
    Span::parse(&keys::seconds(text))
}

/// Algorithms by name; clap suggests the nearest, and shells complete them.
fn algorithms() -> impl TypedValueParser<Value = Algorithm> {
    let names = PossibleValuesParser::new(Algorithm::ALL.map(Algorithm::name));
    names.try_map(|name| Algorithm::from_name(&name).ok_or("no such algorithm"))
}

/// Sources by name.
fn sources() -> impl TypedValueParser<Value = Source> {
    let names = PossibleValuesParser::new(Source::ALL.map(Source::name));
    names.try_map(|name| Source::from_name(&name).ok_or("no such device"))
}

/// `plumb migrate`. What is not given is as in an experiment file that does not say it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = false)]
pub struct MigrateArguments {
    /// Only serve, as the destination of `--to` on another host.
    #[command(subcommand)]
    pub command: Option<MigrateCommand>,
    /// Move to a destination that `plumb migrate serve` has started there.
    #[arg(long, value_name = "HOST:PORT")]
    pub to: Option<std::net::SocketAddr>,
    /// PEM file with the certificate that `plumb migrate --tls on serve` has printed there, for `--tls on`.
    #[arg(long, value_name = "FILE", requires = "to")]
    pub ca: Option<PathBuf>,
    /// What moves the memory.
    #[arg(long, value_parser = ["plumb", "qemu"], value_name = "KIND")]
    pub kind: Option<String>,
    /// The guest's memory, such as `1 GiB`.
    #[arg(long, short = 'm', value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// The share of it that is zero.
    #[arg(long, value_name = "PERCENT")]
    pub zero: Option<Percent>,
    /// The share of the rest that does not compress.
    #[arg(long, value_name = "PERCENT")]
    pub incompressible: Option<Percent>,
    /// A file that the rest is made of, in place of the built-in corpus.
    #[arg(long, value_name = "FILE", conflicts_with = "directory")]
    pub file: Option<PathBuf>,
    /// A directory whose files the rest is made of.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Connections, each with a thread on both sides.
    #[arg(long, short = 'c', value_name = "N")]
    pub channels: Option<u32>,
    /// What compresses it: none, zlib, zstd, lz4, libdeflate, isal, qatzip, qpl, qpl-software, and uadk with QEMU; another level
    /// after a colon, as `zstd:3`.
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<CodecSettings>,
    /// A cap over all channels together in bytes on the wire, such as `1 GB/s` or `10 Gbit/s`, or `none`.
    #[arg(long, value_name = "RATE")]
    pub cap: Option<plumb_migration::settings::Cap>,
    /// How long the guest may stand still for the switch-over.
    #[arg(long, value_name = "TIME")]
    pub downtime_limit: Option<Span>,
    /// Whether all connections are encrypted. A destination with `on` takes no others.
    #[arg(long, value_parser = ["on", "off"], value_name = "on|off")]
    pub tls: Option<String>,
    /// How much memory the guest writes to per second, such as `100 MB/s`.
    #[arg(long, value_name = "RATE")]
    pub dirty_rate: Option<ByteRate>,
    /// The order in which it writes.
    #[arg(long, value_parser = ["sequential", "uniform", "hot-set"], value_name = "PATTERN")]
    pub dirty_pattern: Option<String>,
    /// Whether pages of zeros are found and sent as a mark.
    #[arg(long, value_parser = ["detect", "send"], value_name = "HOW")]
    pub zero_pages: Option<String>,
    /// Whether the destination's memory is there before the migration begins; `on` if absent.
    #[arg(long, value_parser = ["on", "off"], value_name = "on|off")]
    pub prefault: Option<String>,
    /// Repeat migrations for this time.
    #[arg(long, short = 'd', value_name = "TIME", value_parser = duration)]
    pub duration: Option<Span>,
    /// Give up a migration that is not done after this many rounds.
    #[arg(long, value_name = "N")]
    pub max_rounds: Option<u32>,
    /// Give up a migration that is not done after this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub time_limit: Option<Span>,
    /// Also measure what plain streams between the same two processes move.
    #[arg(long)]
    pub stream_limit: bool,
    /// See [`FailureArguments`].
    #[command(flatten)]
    pub failures: FailureArguments,
    /// Print the measurement as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}

/// What else `plumb migrate` does.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Listen for migrations from other hosts, until Ctrl-C.
    ///
    /// Anyone who can reach the address can send memory to it. `--tls on` before `serve` requires encryption of every
    /// source.
    Serve {
        /// Where.
        #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT")]
        listen: std::net::SocketAddr,
    },
}

impl MigrateArguments {
    /// The keys of an experiment file that were given, with their values.
    pub fn keys(&self) -> Vec<(&'static str, Value)> {
        fn text(value: Option<&impl ToString>) -> Option<Value> {
            value.map(|value| Value::String(value.to_string()))
        }
        let number = |value: Option<u32>| value.map(Value::from);
        let keys = [
            ("system.kind", text(self.kind.as_ref())),
            ("system.memory", text(self.memory.as_ref())),
            ("system.content.zero", text(self.zero.as_ref())),
            ("system.content.incompressible", text(self.incompressible.as_ref())),
            ("system.content.file", text(self.file.as_ref().map(|path| path.display()).as_ref())),
            ("system.content.directory", text(self.directory.as_ref().map(|path| path.display()).as_ref())),
            ("system.channels", number(self.channels)),
            ("system.codec", self.codec.as_ref().and_then(|codec| serde_json::to_value(codec).ok())),
            ("system.cap", text(self.cap.as_ref())),
            ("system.downtime_limit", text(self.downtime_limit.as_ref())),
            ("system.tls", text(self.tls.as_ref())),
            ("system.dirty.rate", text(self.dirty_rate.as_ref())),
            ("system.dirty.pattern", text(self.dirty_pattern.as_ref())),
            ("system.zero_pages", text(self.zero_pages.as_ref())),
            ("system.prefault", self.prefault.as_ref().map(|prefault| Value::Bool(prefault == "on"))),
            ("load.duration", text(self.duration.as_ref())),
            ("load.max_rounds", number(self.max_rounds)),
            ("load.time_limit", text(self.time_limit.as_ref())),
            ("load.stream_limit", self.stream_limit.then_some(Value::Bool(true))),
        ];
        keys.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}
