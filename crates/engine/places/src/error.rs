//! Failures of the hosts of a run. Messages complete "failed to …".
//!
//! A cause is part of its message, as in `plumb_host`.

use std::path::PathBuf;
use std::time::Duration;

use plumb_host::cpu::NotCpuList;
use plumb_path::PathError;
use plumb_tunings::TuningError;

use crate::array::AccountError;
use crate::connection_error::ConnectionError;
use crate::intake::Excess;

/// Why a host of a run cannot be used, or be changed as a variant asks.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// This machine failed.
    #[error(transparent)]
    Machine(#[from] plumb_host::Error),
    /// The CPUs of a place are not a list of CPUs.
    #[error(transparent)]
    Cpus(#[from] NotCpuList),
    /// The cluster failed.
    #[error(transparent)]
    Cluster(#[from] plumb_kubernetes::Error),
    /// The data path refused settings.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The account of the storage array is unknown.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// Something needs a cluster.
    #[error(
        "{what}: the places name no cluster; add `kubernetes: {{}}` to a places file, and give it with `--places`"
    )]
    NoCluster {
        /// The step that needs it, as it completes "failed to …".
        what: String,
    },
    /// A variant changes the pod of a side that is not in a pod.
    #[error("it sets options of a pod for a side that has no pod; `--places` gives it one")]
    NoPod,
    /// The address of the system's host is unknown.
    #[error("find the address by which loads reach {host}: give `address` in the places")]
    NoAddress {
        /// The system's host.
        host: String,
    },
    /// A program could not be started.
    #[error("start {what}: {cause}")]
    Start {
        /// The program.
        what: String,
        /// Why.
        cause: plumb_host::Error,
    },
    /// The connection could not be made, or has ended.
    #[error("{0}")]
    Connection(Box<ConnectionError>),
    /// A host was reached, and cannot be used.
    #[error("use {host}: {cause}")]
    Unfit {
        /// The host.
        host: String,
        /// Why.
        cause: Unfit,
    },
    /// A host's answer belongs to no request.
    #[error("understand {host}: it says {said}")]
    Odd {
        /// The host.
        host: String,
        /// The beginning of its answer.
        said: String,
    },
    /// A host sent too much.
    #[error("understand {host}: it {excess}")]
    Excess {
        /// The host.
        host: String,
        /// The limit that it exceeded.
        excess: Excess,
    },
    /// A host did not answer in time.
    #[error("get an answer from {host} within {timeout:?}")]
    Silent {
        /// The host.
        host: String,
        /// How long the runner waited.
        timeout: Duration,
    },
    /// A keeper failed to do what it was asked for.
    #[error("{0}")]
    Keeper(String),
    /// A keeper does not know the request.
    #[error("understand the runner: {0}")]
    Request(serde_json::Error),
    /// A node has no reader.
    #[error("read node {node}: failed to {cause}")]
    Reader {
        /// The node.
        node: String,
        /// Why.
        cause: Box<HostError>,
    },
    /// The tunings of the host failed.
    #[error(transparent)]
    Tunings(#[from] TuningError),
    /// Something else changed settings during the run; each is a sentence.
    #[error("restore this host fully, because something else changed it during the run: {}", .0.join("; "))]
    Overwritten(Vec<String>),
    /// Settings could not be restored.
    #[error(
        "restore the host's settings: {}; the journal is kept in {}: fix the cause, then run `plumb tune revert`",
        trouble.join("; "),
        journal.display()
    )]
    NotRestored {
        /// The settings and why, as sentences.
        trouble: Vec<String>,
        /// The directory of the journal.
        journal: PathBuf,
    },
    /// The host's settings at the ends of a window were not read.
    #[error("read the host's settings at both ends of the window")]
    Unseen,
    /// A keeper was asked for a treatment before the runner announced any.
    #[error("treat this host: the runner announced no treatments")]
    NoTreatments,
    /// A keeper was to end a treatment that had not begun.
    #[error("end a treatment: none was begun")]
    NoneBegun,
}

/// Why a host that was reached cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The build is for other machines.
    #[error(
        "it runs {system} on {machine}, and this build of plumb is for Linux on {}: run plumb from a host like it",
        std::env::consts::ARCH
    )]
    Machine {
        /// The name of its system.
        system: String,
        /// The machine.
        machine: String,
    },
    /// This program, which is copied there, could not be read.
    #[error("this program: {0}")]
    Program(std::io::Error),
    /// It had not answered when the run was to stop.
    #[error("it has not answered yet")]
    NoAnswerYet,
    /// The keeper's first line is not a greeting.
    #[error("its keeper does not say hello first")]
    NoHello,
    /// The keeper is of another build than the copy.
    #[error("the copy of plumb there is build {found}, not {wanted}: it was damaged")]
    Damaged {
        /// The keeper's build.
        found: String,
        /// This program's build.
        wanted: String,
    },
}
