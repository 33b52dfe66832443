//! `plumb ui`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `plumb ui`.
#[derive(Debug, Args)]
pub struct UiArguments {
    /// Run directories, and folders that hold some; `plumb-runs` if absent.
    #[arg(value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// The history: a file, or `postgres://USER@HOST/DATABASE`. Without it, that of the variable PLUMB_DATABASE, or
    /// `~/.local/share/plumb/history.db`.
    #[arg(long, value_name = "DATABASE")]
    pub database: Option<String>,
    /// Listen on this address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = plumb_host::address::parse)]
    pub listen: SocketAddr,
    /// Listen on an address that other hosts reach, too. What the page sends is not encrypted.
    #[arg(long)]
    pub allow_remote: bool,
    /// End by itself once that process has ended and no browser follows a run.
    #[arg(long, value_name = "PID", hide = true)]
    pub beside: Option<u32>,
}
