//! Failures at the door to the machine.
//!
//! Messages complete "failed to …". The cause is part of the message and is not a `source`, so that
//! it is shown exactly once however the error is printed.

use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::cpu_set::{CpuSet, NotCpuList};

/// A failure to do something to, or to learn something from, this machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program could not be started.
    #[error("start {program}{}: {cause}", pinned(.cpus.as_ref()))]
    Spawn {
        /// The program as it was asked for.
        program: String,
        /// The CPUs it was to be pinned to: one that does not exist makes the start fail.
        cpus: Option<CpuSet>,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A child process could not be waited for.
    #[error("wait for process {pid}: {cause}")]
    Wait {
        /// The child.
        pid: u32,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A signal could not be sent.
    #[error("send signal {signal} to process {pid}: {cause}")]
    Signal {
        /// The receiver.
        pid: u32,
        /// The signal's number.
        signal: i32,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A process did not end, although it was killed.
    #[error("end process {pid}: it is still there {after:?} after SIGKILL")]
    Unkillable {
        /// The process.
        pid: u32,
        /// How long it was waited for.
        after: Duration,
    },
    /// A process is gone.
    #[error("find process {pid}: it has ended")]
    NoProcess {
        /// The process.
        pid: u32,
    },
    /// No control group has that name, or none with anything in it.
    #[error("find a control group {path}: there is none with a process in it", path = path.display())]
    NoGroup {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The name of a host leads to no address.
    #[error("resolve `{host}`: {cause}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's error.
        cause: String,
    },
    /// A program that was asked a question did not end in time.
    #[error("get an answer from {program} within {timeout:?}")]
    NoAnswer {
        /// The program.
        program: String,
        /// How long it was given.
        timeout: Duration,
    },
    /// A program that was asked a question wrote more than anyone would read.
    #[error("read the answer of {program}: it wrote more than {bytes_max} bytes")]
    TooMuchOutput {
        /// The program.
        program: String,
        /// The bound on each of its two streams.
        bytes_max: usize,
    },
    /// Text that was to name CPUs does not.
    #[error(transparent)]
    CpuList(#[from] NotCpuList),
    /// A thread could not be pinned.
    #[error("pin to CPUs {cpus}: {cause}")]
    Pin {
        /// The CPUs asked for.
        cpus: CpuSet,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A file or directory could not be read.
    #[error("read {}: {cause}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A path leads to something that is not a file, such as a device or a directory.
    #[error("read {}: it is {}, not a file", path.display(), noun(*kind))]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of what it leads to.
        kind: FileType,
    },
    /// A file is larger than the limit for its purpose.
    #[error("read {}: it has more than {}", path.display(), size(*bytes_max))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// A kernel file could not be written.
    #[error("write {}: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A scratch directory could not be created.
    #[error("create a scratch directory in {}: {cause}", parent.display())]
    Scratch {
        /// Where it was to be.
        parent: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel refused something about a network.
    #[error("{what}: {cause}")]
    Network {
        /// The attempt, as it completes "failed to …".
        what: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A program that was to do something said no.
    #[error("{what}: {program} says: {words}")]
    Refused {
        /// The attempt, as it completes "failed to …".
        what: String,
        /// The program.
        program: &'static str,
        /// The first line of what it said.
        words: String,
    },
    /// A command of the user's failed, or a service did not do what it was to do.
    #[error("{what}: {reason}")]
    Command {
        /// The attempt, as it completes "failed to …".
        what: String,
        /// The result.
        reason: String,
    },
    /// The kernel refused something about a mount.
    #[error("{what}: {cause}")]
    Mount {
        /// The attempt, as it completes "failed to …".
        what: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel refused something that has neither a path nor a process.
    #[error("{what}: {cause}")]
    System {
        /// The attempt, as it completes "failed to …".
        what: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
}

impl Error {
    /// Whether what was to be read does not exist, such as a setting of an interface that was removed. Any other
    /// failure to read says nothing of the value.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        let Self::Read { cause, .. } = self else { return false };
        cause.kind() == io::ErrorKind::NotFound || cause.raw_os_error() == Some(libc::ENODEV)
    }
}

/// A kind of file with its article, for "it is …, not a file".
fn noun(kind: FileType) -> &'static str {
    let nouns = [
        (kind.is_dir(), "a directory"),
        (kind.is_char_device(), "a character device"),
        (kind.is_block_device(), "a block device"),
        (kind.is_socket(), "a socket"),
        (kind.is_symlink(), "a symbolic link"),
        (kind.is_fifo(), "a pipe"),
    ];
    nouns.into_iter().find(|(is_it, _)| *is_it).map_or("of an unknown kind", |(_, noun)| noun)
}

/// A size in the largest unit in which it is a whole number.
fn size(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        20.. => format!("{} MiB", bytes >> 20),
        10.. => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

fn pinned(cpus: Option<&CpuSet>) -> String {
    cpus.map_or_else(String::new, |cpus| format!(" pinned to CPUs {cpus}"))
}
