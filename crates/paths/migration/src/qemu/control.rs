//! Messages from the source's agent to the destination's agent, over a Unix socket in the latter's scratch directory. Each is one line with
//! a JSON object, and is answered by one line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::CpuTime;
use plumb_path::PathError;
use serde::{Deserialize, Serialize};

use super::memory::Digests;

/// The longest line. An answer has a hash of at most 45 bytes for each region of a guest's memory.
const LINE_BYTES_MAX: u64 = 16 << 20;
const SOCKET: &str = "control.sock";
/// The time limit for an answer, before which some GiB of memory may have to be hashed.
const PATIENCE: Duration = Duration::from_secs(50);

/// The destination's side, as the source's side needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    /// The directory with the socket.
    pub control: PathBuf,
    /// The address at which QEMU listens.
    pub address: IpAddr,
    /// The network namespace from which it can be reached; the source's own if absent.
    pub netns: Option<PathBuf>,
}

/// A request of the source's side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask")]
pub(super) enum Ask {
    /// A fresh destination that listens.
    Fresh,
    /// The source has heard that the migration is done, and asks for its cost and the content of memory.
    Finish {
        /// The key of the hashes.
        key: u64,
    },
    /// The migration failed. Asks for the destination's reason, and ends it.
    Abandon,
}

/// An answer of the destination's side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub(super) enum ControlReply {
    Listening {
        port: u16,
    },
    Finished {
        /// CPU time of the destination's process in the migration.
        cpu: CpuTime,
        digests: Digests,
    },
    Abandoned {
        /// The destination's own reason; `None` when it gives none.
        reason: Option<String>,
    },
    Failed {
        reason: String,
    },
}

/// Listens in `directory`, through its descriptor, because a whole path may be too long for a socket's address.
pub(super) fn listen(directory: &Path) -> Result<UnixListener, PathError> {
    let listen = || {
        let directory = File::open(directory)?;
        UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
    };
    listen().map_err(|cause| PathError::new(format!("listen in {}: {cause}", directory.display())))
}

/// Removes the socket of [`listen`].
pub(super) fn forget(directory: &Path) {
    // It goes with the directory.
    let _ = std::fs::remove_file(directory.join(SOCKET));
}

/// The source's end.
#[derive(Debug)]
pub(super) struct Link {
    reader: BufReader<UnixStream>,
}

impl Link {
    pub(super) fn connect(directory: &Path) -> Result<Self, PathError> {
        let connect = || {
            let directory = File::open(directory)?;
            let stream = UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok::<_, std::io::Error>(Self { reader: BufReader::new(stream) })
        };
        connect().map_err(|cause| {
            PathError::new(format!("reach the destination's agent in {}: {cause}", directory.display()))
        })
    }

    /// Sends a request and waits for the answer. A refusal is an error.
    pub(super) fn ask(&mut self, ask: &Ask) -> Result<ControlReply, PathError> {
        let failed = |cause: std::io::Error| PathError::new(format!("ask the destination's agent: {cause}"));
        write_line(self.reader.get_ref(), ask).map_err(failed)?;
        match read_line(&mut self.reader).map_err(failed)? {
            Some(ControlReply::Failed { reason }) => Err(PathError::new(reason)),
            Some(answer) => Ok(answer),
            None => Err(PathError::new("ask the destination's agent: it has ended")),
        }
    }
}

pub(super) fn write_line(mut stream: &UnixStream, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(std::io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// `None` at the end.
pub(super) fn read_line<T: for<'de> Deserialize<'de>>(
    reader: &mut impl BufRead,
) -> std::io::Result<Option<T>> {
    let mut line = String::new();
    // A longer line is cut, so it fails as JSON.
    if reader.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line).map(Some).map_err(std::io::Error::other)
}
