//! Arguments that say on which hosts something runs.

use std::path::PathBuf;

use clap::Args;

/// Where an experiment's two sides are.
#[derive(Debug, Default, Args)]
pub struct PlacesArguments {
    /// The hosts of both sides, from a file of `kind: Places`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["system_on", "load_on"])]
    pub places: Option<PathBuf>,
    /// Build the system on this host: `ssh://user@host`, or a name that ssh knows.
    #[arg(long, value_name = "HOST")]
    pub system_on: Option<String>,
    /// Drive the load from these hosts, each its share.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    pub load_on: Vec<String>,
}

/// From where a single measurement's load comes.
#[derive(Debug, Default, Args)]
pub struct OnArguments {
    /// Measure from these hosts, each its share: `ssh://user@host`, or a name that ssh knows.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    pub on: Vec<String>,
}

/// `plumb places`.
#[derive(Debug, clap::Subcommand)]
pub enum PlacesCommand {
    /// Connect to the hosts, and say what each is and would lack.
    Check(PlacesCheckArguments),
}

/// `plumb places check`.
#[derive(Debug, Args)]
pub struct PlacesCheckArguments {
    /// A file of `kind: Places`.
    #[arg(required_unless_present_any = ["system_on", "load_on"], conflicts_with_all = ["system_on", "load_on"])]
    pub file: Option<PathBuf>,
    /// The host on which the system is built.
    #[arg(long, value_name = "HOST")]
    pub system_on: Option<String>,
    /// The hosts from which the load comes.
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    pub load_on: Vec<String>,
    /// Say what this experiment's variants would lack there.
    #[arg(long, value_name = "EXPERIMENT")]
    pub experiment: Option<String>,
    /// Print as JSON.
    #[arg(long)]
    pub json: bool,
}
