//! The arguments of `plumb init`: one form for each data path.

use std::path::PathBuf;

use clap::Args;

/// `plumb init`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["external", "nginx_config", "storage", "network", "migration", "crypto"]))]
pub struct InitArguments {
    /// Compare two HTTP servers that exist.
    #[arg(long, num_args = 2, value_names = ["URL_A", "URL_B"])]
    pub external: Option<Vec<String>>,
    /// Compare changes of this nginx configuration, with nginx started by `plumb` in front of an origin. What `plumb` sets
    /// itself becomes placeholders.
    #[arg(long, value_name = "FILE")]
    pub nginx_config: Option<PathBuf>,
    /// Compare two files, block devices or NBD exports that exist.
    #[arg(long, num_args = 2, value_names = ["TARGET_A", "TARGET_B"])]
    pub storage: Option<Vec<String>>,
    /// Compare the paths to two servers that `plumb network serve` has started.
    #[arg(long, num_args = 2, value_names = ["HOST_A", "HOST_B"])]
    pub network: Option<Vec<String>>,
    /// Compare two ways to move a guest's memory on this host.
    #[arg(long)]
    pub migration: bool,
    /// Compare two libraries for private-key operations on this host.
    #[arg(long)]
    pub crypto: bool,
    /// The file to write; it must not exist.
    #[arg(long, default_value = "experiment.yaml", value_name = "FILE")]
    pub file: PathBuf,
}
