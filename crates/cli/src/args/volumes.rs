//! The arguments of `plumb volumes`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use plumb_csi::identity::NodeName;
use plumb_model::quantity::{Dimension, Quantity, QuantityError};
use plumb_model::{ByteRate, Bytes, Rate};
use plumb_volumes::nbd::Address;
use plumb_volumes::policy::{Space, TB_BYTES};

use crate::args::ArgumentError;

/// `plumb volumes`.
#[derive(Debug, Args)]
pub struct VolumesArguments {
    /// Where volumes and policies are kept.
    #[arg(long, global = true, value_name = "DIR", default_value = "plumb-volumes")]
    pub state: PathBuf,
    /// The action.
    #[command(subcommand)]
    pub command: VolumesCommand,
}

/// Actions on volumes.
#[derive(Debug, Subcommand)]
pub enum VolumesCommand {
    /// Serve every volume over NBD, under its policy, until Ctrl-C. Changes by the other commands take effect while it runs.
    Serve(ServeArguments),
    /// Be a driver of the Container Storage Interface, with which Kubernetes makes volumes of these policies and mounts them. See
    /// docs/reference/csi.md.
    Csi(CsiArguments),
    /// List volumes, with the limits in effect while a server runs.
    List {
        /// Print as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make a volume.
    Create {
        /// The volume's name.
        name: String,
        /// The volume's size, such as `100GiB`. It takes space only as it is written to.
        #[arg(long)]
        size: Bytes,
        /// The policy that it is under.
        #[arg(long, value_name = "NAME")]
        policy: Option<String>,
    },
    /// Make a volume larger or smaller.
    Resize {
        /// The volume's name.
        name: String,
        /// The new size.
        #[arg(long)]
        size: Bytes,
    },
    /// Move a volume to another policy, or with `none` to no policy. Returns when a running server has put it into effect.
    Assign {
        /// The volume.
        name: String,
        /// The policy.
        policy: String,
    },
    /// Delete a volume and its data.
    Delete {
        /// The volume's name.
        name: String,
    },
    /// Make, change, list and delete policies.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Make and list SVMs, the names that volumes and policies of the REST interface belong to.
    #[command(subcommand)]
    Svm(SvmCommand),
    /// Manage the users of the REST interface.
    #[command(subcommand)]
    User(UserCommand),
    /// Run one of ONTAP's commands, such as `qos adaptive-policy-group create -policy-group a …`.
    Ontap {
        /// The command, as one word or several.
        #[arg(required = true, num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
}

/// Actions on SVMs.
#[derive(Debug, Subcommand)]
pub enum SvmCommand {
    /// Make an SVM.
    Create {
        /// The SVM's name.
        name: String,
        /// The SVM's UUID; a fresh one if absent.
        #[arg(long)]
        uuid: Option<String>,
    },
    /// List SVMs.
    List,
}

/// Users of the REST interface.
#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Let somebody use it, or give them another password: the first line of standard input, or of a file. Only a hash is kept.
    Set {
        /// The user.
        name: String,
        /// A file whose first line is the password.
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// List the users.
    List,
    /// Let somebody no longer use it.
    Delete {
        /// The user.
        name: String,
    },
}

/// `plumb volumes serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// The address to listen on, or a Unix socket as `unix:PATH`; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10809")]
    pub listen: Address,
    /// Serve ONTAP's REST interface, too, by HTTPS at this address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", value_parser = plumb_host::address::parse)]
    pub rest: Option<SocketAddr>,
    /// The interface's certificate chain in PEM. By default one is signed by itself and kept with the state.
    #[arg(long, value_name = "FILE", requires_all = ["rest", "key"])]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Event loops, each on a thread with its share of the connections; one for each CPU if absent, at most 4.
    #[arg(long, short = 't', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// No messages but errors.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `plumb volumes csi`.
#[derive(Debug, Args)]
pub struct CsiArguments {
    /// The Unix socket to listen on, as `unix:///csi/csi.sock` or `unix:/csi/csi.sock`.
    #[arg(long, value_name = "ADDRESS", value_parser = endpoint)]
    pub endpoint: PathBuf,
    /// The name of this node, which is the value of `plumbline.dev/node` in the volumes' topology.
    #[arg(long, value_name = "NAME", value_parser = NodeName::new)]
    pub node: NodeName,
    /// The services that this process has.
    #[arg(long, value_enum, default_value_t = CsiMode::All)]
    pub mode: CsiMode,
    /// No messages but errors and warnings.
    #[arg(long, short)]
    pub quiet: bool,
}

/// Which services a driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CsiMode {
    /// Controller and node.
    All,
    /// Only the controller, which makes, expands and deletes volumes.
    Controller,
    /// Only the node, which mounts them.
    Node,
}

/// Actions on policies.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Make a policy: fixed (limits) or adaptive (operations per size).
    Create(PolicyArguments),
    /// Say anew what a policy says, for all its volumes at once.
    Change(PolicyArguments),
    /// List policies.
    List {
        /// Print as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete a policy that no volume is under.
    Delete {
        /// The policy's name.
        name: String,
    },
}

/// A policy's definition.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("kind").required(true).multiple(true)
    .args(["max_iops", "max_bandwidth", "min_iops", "min_bandwidth", "peak_iops"])))]
pub struct PolicyArguments {
    /// The policy's name.
    pub name: String,
    /// Fixed: at most this many operations, such as `500 IOPS`.
    #[arg(long, value_name = "RATE", conflicts_with = "peak_iops")]
    pub max_iops: Option<Rate>,
    /// Fixed: at most this much data, such as `100MB/s`.
    #[arg(long, value_name = "RATE", conflicts_with = "peak_iops")]
    pub max_bandwidth: Option<ByteRate>,
    /// Fixed: at least this many operations. A preference, not a promise: where operations of several volumes wait in the server,
    /// those of a volume that is below its minimum go first.
    #[arg(long, value_name = "RATE", conflicts_with = "peak_iops")]
    pub min_iops: Option<Rate>,
    /// Fixed: at least this much data; a preference, too.
    #[arg(long, value_name = "RATE", conflicts_with = "peak_iops")]
    pub min_bandwidth: Option<ByteRate>,
    /// Fixed: one limit for all its volumes together.
    #[arg(long, conflicts_with = "peak_iops")]
    pub shared: bool,
    /// Adaptive: at most this many operations for a size, such as `50 IOPS/GB`.
    #[arg(long, value_name = "RATE", value_parser = per_tb)]
    pub peak_iops: Option<u64>,
    /// Adaptive: at least this many operations for a size.
    #[arg(long, value_name = "RATE", value_parser = per_tb, requires = "peak_iops", default_value = "0 IOPS/GB",
          hide_default_value = true)]
    pub expected_iops: u64,
    /// Adaptive: never less than this many operations, for small volumes.
    #[arg(
        long,
        value_name = "RATE",
        requires = "peak_iops",
        default_value = "0 IOPS",
        hide_default_value = true
    )]
    pub absolute_min_iops: Rate,
    /// Adaptive: the size that the peak is a proportion of. ONTAP's own default is `used-space`, under which an empty volume has
    /// 1 IOPS.
    #[arg(long, value_enum, requires = "peak_iops", default_value_t = SpaceArgument::AllocatedSpace)]
    pub peak_iops_allocation: SpaceArgument,
    /// Adaptive: the size that the expected operations are a proportion of.
    #[arg(long, value_enum, requires = "peak_iops", default_value_t = SpaceArgument::AllocatedSpace)]
    pub expected_iops_allocation: SpaceArgument,
    /// Adaptive: also limit bytes: the operations times this size; 4KiB to 128KiB.
    #[arg(long, value_name = "SIZE", requires = "peak_iops")]
    pub block_size: Option<Bytes>,
}

/// Of what a proportion is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SpaceArgument {
    /// The size that the volume was made with.
    AllocatedSpace,
    /// The data in the volume.
    UsedSpace,
}

impl From<SpaceArgument> for Space {
    fn from(space: SpaceArgument) -> Self {
        match space {
            SpaceArgument::AllocatedSpace => Self::AllocatedSpace,
            SpaceArgument::UsedSpace => Self::UsedSpace,
        }
    }
}

/// The path of a Unix socket, as the sidecars of Kubernetes take it.
fn endpoint(text: &str) -> Result<PathBuf, ArgumentError> {
    let path = text.strip_prefix("unix:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
    let path = path.filter(|path| !path.is_empty()).map(PathBuf::from);
    path.ok_or_else(|| ArgumentError::NotSocket(text.to_owned()))
}

/// Operations per 2^40 bytes, from `50 IOPS/GB` or `51200 IOPS/TiB`.
fn per_tb(text: &str) -> Result<u64, QuantityError> {
    let quantity = Quantity::parse_as(text, Dimension::EventRatePerData)?;
    Ok((quantity.value * TB_BYTES as f64).round() as u64)
}
