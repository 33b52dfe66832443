//! The arguments of `plumb migrate`. Flags carry the names of the experiment file's keys.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Arg, Args, Subcommand};
use plumb_migration::settings::MigrationSettings;
use plumb_path::DataPath;

use super::keys::{Flagged, Keys, key, switch, time};
use super::shared::MeasurementArguments;

/// `plumb migrate`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = false)]
pub struct MigrateArguments {
    /// Only serve, as the destination of `--to` on another host.
    #[command(subcommand)]
    pub command: Option<MigrateCommand>,
    /// Move to a destination that `plumb migrate serve` has started there.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = plumb_host::address::parse)]
    pub to: Option<SocketAddr>,
    /// PEM file with the certificate that `plumb migrate --tls on serve` has printed there, for `--tls on`.
    #[arg(long, value_name = "FILE", requires = "to")]
    pub ca: Option<PathBuf>,
    /// The measurement's settings.
    #[command(flatten)]
    pub keys: Keys<MigrationSettings>,
    /// How it is shown.
    #[command(flatten)]
    pub shown: MeasurementArguments,
}

/// Other uses of `plumb migrate`.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Listen for migrations from other hosts, until Ctrl-C.
    ///
    /// Anyone who can reach the address can send memory to it. `--tls on` before `serve` requires encryption of every
    /// source.
    Serve {
        /// Where.
        #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT", value_parser = plumb_host::address::parse)]
        listen: SocketAddr,
    },
}

impl Flagged for MigrationSettings {
    const PATH: DataPath = plumb_migration::MIGRATION;

    fn flags() -> Vec<Arg> {
        vec![
            key("system.kind", "KIND"),
            key("system.memory", "SIZE").short('m'),
            key("system.content.zero", "PERCENT"),
            key("system.content.incompressible", "PERCENT"),
            key("system.content.file", "FILE").conflicts_with("system.content.directory"),
            key("system.content.directory", "DIR"),
            key("system.channels", "N").short('c'),
            key("system.codec", "CODEC"),
            key("system.cap", "RATE"),
            key("system.downtime_limit", "TIME"),
            key("system.tls", "on|off"),
            key("system.dirty.rate", "RATE").long("dirty-rate"),
            key("system.dirty.pattern", "PATTERN").long("dirty-pattern"),
            key("system.zero_pages", "HOW"),
            key("system.prefault", "on|off"),
            time("load.duration").short('d').help("Repeat migrations for this time"),
            key("load.max_rounds", "N"),
            time("load.time_limit"),
            switch("load.stream_limit")
                .help("Also measure what plain streams between the same two processes move"),
        ]
    }
}
