//! QEMU's storage daemon, which shows a volume as a file. It is an NBD client of the server, and provides a
//! FUSE file system with one file.
//!
//! Each volume has its own process, so that the end of one affects one volume. While the server does not
//! answer, the daemon holds requests back and resends them after it has reconnected. Source of options and
//! commands: QEMU's manual of qemu-storage-daemon(1) and its QMP reference
//! (<https://www.qemu.org/docs/master/interop/qemu-storage-daemon-qmp-ref.html>).

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::mounts;
use plumb_host::process::{Command, Detached, Stream, which};
use plumb_volumes::private;
use serde_json::{Value, json};

use super::processes::with_words;
use super::server::waits;
use crate::fault::{CallError, Lacking};
use crate::record::{failed, make_directory};

const PROGRAM: &str = "qemu-storage-daemon";
/// The part of the name that the kernel shows (`TASK_COMM_LEN` less one).
const PROGRAM_SHOWN: &str = "qemu-storage-da";
/// The longest line of the daemon. An answer rarely exceeds a kilobyte.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The longest path of a Unix socket (`sun_path` of unix(7), less the zero at its end).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// How long requests are held back while the server does not answer. After that they fail, which may stop the
/// file system.
const HOLD_BACK_S: u32 = 3600;
/// How long the daemon tries to reach the server when it starts.
const OPEN_S: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(20);
const GRACE: Duration = Duration::from_secs(10);
/// The block node that is exported as the file, whichever connection is below it.
const FILE_NODE: &str = "file";

/// The daemon of one volume, and the paths that it uses.
#[derive(Debug, Clone)]
pub struct StorageDaemon {
    directory: PathBuf,
}

impl StorageDaemon {
    /// The daemon of the volume with this directory.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The file that it exports.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.join("export")
    }

    /// Checks that its socket's path is short enough. Every other path of the driver is shorter.
    ///
    /// # Errors
    /// When the state directory's path is too long.
    pub fn check_path(&self) -> Result<(), CallError> {
        let path = self.control();
        let bytes = path.as_os_str().len();
        if bytes <= SOCKET_PATH_BYTES_MAX {
            return Ok(());
        }
        Err(CallError::Precondition(format!(
            "sockets such as {} have paths that are {} bytes too long; use a shorter `--state`",
            path.display(),
            bytes - SOCKET_PATH_BYTES_MAX
        )))
    }

    fn control(&self) -> PathBuf {
        self.directory.join("qmp.sock")
    }

    fn export(&self) -> String {
        format!("mountpoint={}", self.file().display())
    }

    /// Finds the daemon's program, and checks that this host can run it.
    ///
    /// # Errors
    /// When something is missing.
    pub fn can_run() -> Result<PathBuf, Lacking> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Lacking::Fuse);
        }
        which(PROGRAM).ok_or(Lacking::Program { program: PROGRAM, package: "qemu-system-common" })
    }

    /// Starts it, and returns when the file is there. No other daemon of this volume may run.
    ///
    /// # Errors
    /// When it does not start, or does not reach the server.
    pub fn start(&self, socket: &Path, export: &str, size_bytes: u64) -> Result<Detached, CallError> {
        let program = Self::can_run()?;
        make_directory(&self.directory).map_err(|cause| failed("make", &self.directory, &cause))?;
        let file = self.file();
        let made = private::options().write(true).create(true).truncate(false).open(&file);
        made.map_err(|cause| failed("make", &file, &cause))?;
        let log_path = self.directory.join("daemon.log");
        let log = private::options().append(true).create(true).open(&log_path);
        let log = log.map_err(|cause| failed("open", &log_path, &cause))?;
        let daemon = Command::new(program)
            .args(self.arguments(socket, export))
            .stderr(Stream::File(log))
            .spawn_detached()?;
        let is_there = || std::fs::metadata(&file).is_ok_and(|found| found.len() == size_bytes);
        let is_over = waits(PATIENCE, || !daemon.is_running() || is_there());
        if is_over && daemon.is_running() {
            // Otherwise QEMU 7.2 could receive another request into the buffer of a write that waits for the server, and store that
            // request's data in the write's place.
            mounts::one_at_a_time(&file)?;
            return Ok(daemon);
        }
        daemon.end(Duration::ZERO)?;
        Err(CallError::host(format!(
            "export the volume as a file with {PROGRAM}; {} says why",
            log_path.display()
        )))
    }

    fn arguments(&self, socket: &Path, export: &str) -> Vec<OsString> {
        let connection = connection(0, socket, export).to_string();
        let file = json!({ "driver": "raw", "node-name": FILE_NODE, "file": node(0) }).to_string();
        let shown = format!(
            "type=fuse,id=export,node-name={FILE_NODE},{},writable=on,allow-other=off",
            self.export()
        );
        let control = format!("socket,id=control,path={},server=on,wait=off", self.control().display());
        let words = ["--blockdev", &connection, "--blockdev", &file, "--export", &shown];
        let control = ["--chardev", &control, "--monitor", "chardev=control"];
        words.into_iter().chain(control).map(OsString::from).collect()
    }

    /// Makes the file follow the volume's new size. A connection keeps the size that it began with. The
    /// daemon therefore opens connection `number` and swaps it for the previous one, without a gap for
    /// readers and writers.
    ///
    /// # Errors
    /// When the daemon refuses, or the file does not grow.
    pub fn follow_size(
        &self,
        number: u32,
        socket: &Path,
        export: &str,
        size_bytes: u64,
    ) -> Result<(), CallError> {
        let exchange =
            json!({ "options": [{ "driver": "raw", "node-name": FILE_NODE, "file": node(number) }] });
        let path = self.control();
        let done = Control::connect(&path).and_then(|mut control| {
            control.call("blockdev-add", &connection(number, socket, export))?;
            control.call("blockdev-reopen", &exchange)?;
            control.call("blockdev-del", &json!({ "node-name": node(number - 1) }))
        });
        done.map_err(|cause| failed("have the daemon follow a size through", &path, &cause))?;
        let file = self.file();
        let has_grown = || std::fs::metadata(&file).is_ok_and(|found| found.len() == size_bytes);
        if waits(PATIENCE, has_grown) {
            return Ok(());
        }
        Err(CallError::host(format!("see {} with {size_bytes} bytes", file.display())))
    }

    /// Ends every daemon of this volume, including those without a record, and their file system. Unless
    /// `is_forced`, a daemon may first finish its last writes.
    ///
    /// # Errors
    /// When the kernel cannot end it.
    pub fn stop(&self, is_forced: bool) -> Result<(), CallError> {
        let grace = if is_forced { Duration::ZERO } else { GRACE };
        for daemon in with_words(PROGRAM_SHOWN, &self.export()) {
            daemon.end(grace)?;
        }
        // A daemon that was killed leaves its mount.
        mounts::unmount_all(&self.file(), true)?;
        Ok(())
    }
}

fn node(number: u32) -> String {
    format!("connection{number}")
}

fn connection(number: u32, socket: &Path, export: &str) -> Value {
    json!({
        "driver": "nbd",
        "node-name": node(number),
        "server": { "type": "unix", "path": socket.to_string_lossy() },
        "export": export,
        "reconnect-delay": HOLD_BACK_S,
        "open-timeout": OPEN_S,
        "discard": "unmap",
    })
}

/// A daemon's QMP socket: one JSON object a line, each command with one answer, and events in between.
struct Control {
    lines: BufReader<UnixStream>,
}

impl Control {
    fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut control = Self { lines: BufReader::new(stream) };
        let greeting = control.line()?;
        if greeting.get("QMP").is_none() {
            return Err(io::Error::other(format!("it greets with {greeting}")));
        }
        control.call("qmp_capabilities", &json!({}))?;
        Ok(control)
    }

    fn call(&mut self, command: &str, arguments: &Value) -> io::Result<()> {
        let call = json!({ "execute": command, "arguments": arguments });
        writeln!(self.lines.get_mut(), "{call}")?;
        loop {
            let answer = self.line()?;
            if let Some(error) = answer.get("error") {
                let words = error["desc"].as_str().unwrap_or("no reason given");
                return Err(io::Error::other(format!("{command}: {words}")));
            }
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }

    fn line(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        // A longer line is cut, so it fails as JSON.
        if (&mut self.lines).take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Err(io::Error::other("it closed the connection"));
        }
        serde_json::from_str(&line).map_err(io::Error::other)
    }
}
