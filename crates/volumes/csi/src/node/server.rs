//! The server of the volumes, as a separate process.
//!
//! It is separate so that the driver can be killed or replaced while workloads use volumes: reads and writes
//! do not pass through the driver. It listens on a Unix socket in the state directory.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::own_program;
use plumb_host::process::{Command, Detached, Stream};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_volumes::private;
use plumb_volumes::state::State;
use serde_json::Value;

use crate::fault::CallError;
use crate::record::{failed, make_directory};

/// How long a server may take until it serves the database's state.
const PATIENCE_NS: u64 = 20_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long it may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug, Clone)]
pub struct VolumeServer {
    state: PathBuf,
    directory: PathBuf,
    socket: PathBuf,
}

impl VolumeServer {
    /// The server of a state directory, with the driver's directory in it.
    #[must_use]
    pub fn new(state: &Path, directory: &Path) -> Self {
        Self { state: state.to_owned(), directory: directory.to_owned(), socket: directory.join("nbd.sock") }
    }

    /// The socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether it answers.
    #[must_use]
    pub fn is_running(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Starts it if it does not run.
    ///
    /// # Errors
    /// When another server has the state, or it does not start.
    pub fn ensure(&self) -> Result<(), CallError> {
        if self.is_running() {
            return Ok(());
        }
        if State::is_served(&self.state) && !self.await_socket(GRACE) {
            return Err(CallError::Precondition(format!(
                "another server has {}; end it, or start it with `--listen unix:{}`",
                self.state.display(),
                self.socket.display()
            )));
        }
        if self.is_running() {
            return Ok(());
        }
        self.start()
    }

    fn start(&self) -> Result<(), CallError> {
        make_directory(&self.directory).map_err(|cause| failed("make", &self.directory, &cause))?;
        let log = self.directory.join("server.log");
        let opened = private::options().append(true).create(true).open(&log);
        let file = opened.map_err(|cause| failed("open", &log, &cause))?;
        let started = Command::new(own_program())
            .called("plumb")
            .args(["volumes", "serve", "--quiet", "--listen"])
            .arg(self.listen())
            .arg("--state")
            .arg(&self.state)
            .stderr(Stream::File(file))
            .spawn_detached()?;
        self.keep(started).map_err(|cause| failed("write", &self.kept(), &cause))?;
        if self.await_socket(Duration::from_nanos(PATIENCE_NS)) {
            return Ok(());
        }
        Err(CallError::host(format!("start the server of the volumes; {} says why", log.display())))
    }

    /// The file that records which process this driver or an earlier one started.
    fn kept(&self) -> PathBuf {
        self.directory.join("server.json")
    }

    fn keep(&self, started: Detached) -> std::io::Result<()> {
        std::fs::write(self.kept(), serde_json::to_vec(&started)?)
    }

    /// The process that this driver or an earlier one started, if it still runs.
    fn started(&self) -> Option<Detached> {
        let text = std::fs::read(self.kept()).ok()?;
        let started: Detached = serde_json::from_slice(&text).ok()?;
        started.is_running().then_some(started)
    }

    fn listen(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// The latest report on a volume, with the time of the report.
    fn report(&self, uuid: &str) -> Option<(u64, Value)> {
        let text = std::fs::read(self.state.join("serving.json")).ok()?;
        let report: Value = serde_json::from_slice(&text).ok()?;
        let volume = report["volumes"].as_array()?.iter().find(|volume| volume["uuid"] == uuid)?.clone();
        Some((report["followed_ns"].as_u64()?, volume))
    }

    /// Waits until no client uses a volume, if the server runs: the requests of a killed client may still be
    /// written.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn await_idle(&self, uuid: &str) -> Result<(), CallError> {
        let begun_ns = monotonic_ns();
        let is_idle = || {
            let report = self.report(uuid);
            report.is_some_and(|(at_ns, volume)| at_ns > begun_ns && volume["is_in_use"] == false)
        };
        if waits(Duration::from_nanos(PATIENCE_NS), || !self.is_running() || is_idle()) {
            return Ok(());
        }
        Err(CallError::Busy(format!("another client is connected to the volume {uuid}; end it first")))
    }

    /// Waits until it serves a volume at this size.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn await_volume(&self, uuid: &str, size_bytes: u64) -> Result<(), CallError> {
        let is_served = || self.report(uuid).is_some_and(|(_, volume)| volume["size_bytes"] == size_bytes);
        if waits(Duration::from_nanos(PATIENCE_NS), is_served) {
            return Ok(());
        }
        let log = self.directory.join("server.log");
        Err(CallError::host(format!("have the volume {uuid} served; {} may say why not", log.display())))
    }

    /// Ends it, unless another program started it.
    ///
    /// # Errors
    /// When the kernel cannot end it.
    pub fn stop(&self) -> Result<(), CallError> {
        let Some(server) = self.started() else { return Ok(()) };
        server.end(GRACE)?;
        for file in [self.kept(), self.socket.clone()] {
            match std::fs::remove_file(&file) {
                Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed("remove", &file, &cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn await_socket(&self, patience: Duration) -> bool {
        waits(patience, || self.is_running())
    }
}

/// Waits until a condition holds; false if that takes too long.
pub(super) fn waits(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let until_ns = monotonic_ns().saturating_add(patience_ns);
    while !is_so() {
        if monotonic_ns() > until_ns {
            return false;
        }
        sleep(LOOK_EVERY);
    }
    true
}
