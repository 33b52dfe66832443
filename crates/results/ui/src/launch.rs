//! Runs that the page starts: separate processes in their own sessions, so that they outlive the page.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{Command, Detached, Stream};
use plumb_host::time::{monotonic_ns, sleep, wall_clock_rfc3339};
use plumb_store::Stamp;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::fault::RequestError;
use crate::site::Site;

/// The file with the run's output, which says why a run did not begin.
const LOG: &str = "started-by-page.log";
const LOG_BYTES_MAX: u64 = 16 << 10;
/// How long the page waits for the run's directory. The run continues in any case.
const PATIENCE_NS: u64 = 20_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The outcome of starting a run.
#[derive(Debug)]
pub enum Launched {
    /// It has begun, in this directory.
    Begun(PathBuf),
    /// It is still preparing.
    Preparing,
    /// It ended before it began, with this output.
    Refused(String),
}

/// The run to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// A file, or the name of a built-in experiment.
    pub experiment: PathBuf,
    /// A name for its directory.
    pub name: String,
    pub is_quick: bool,
    pub blocks: Option<u32>,
    pub only: Vec<String>,
}

impl Order {
    /// The arguments of `plumb`, without the directory.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned(), self.experiment.display().to_string()];
        arguments.extend(self.is_quick.then(|| "--quick".to_owned()));
        arguments.extend(self.blocks.map(|blocks| format!("--blocks={blocks}")));
        arguments.extend(self.only.iter().map(|variant| format!("--only={variant}")));
        arguments
    }
}

/// Starts a run, and waits until it has begun or ended.
///
/// # Errors
/// When the directory or the log cannot be created, or the process cannot be started.
pub fn launch(site: &Site, order: &Order) -> Result<Launched, RequestError> {
    let name = plumb_store::run_name(&plain(&order.name), &wall_clock_rfc3339());
    let directory = plumb_store::make_unique(&folder(site).join(name)).map_err(RequestError::broken)?;
    let log = directory.join(LOG);
    let file = log_file(&log).map_err(|error| {
        discard(&directory);
        RequestError::broken(format!("write {}: {error}", log.display()))
    })?;
    let command = Command::new(&site.settings.program)
        .args(order.arguments())
        .args(["--quiet", "--output"])
        .arg(&directory)
        .stderr(Stream::File(file));
    let process = command.spawn_detached().map_err(RequestError::broken)?;
    site.started(process);
    let until_ns = monotonic_ns() + PATIENCE_NS;
    while monotonic_ns() < until_ns {
        if Stamp::of_directory(&directory).has_run() {
            site.shelf.look_again();
            return Ok(Launched::Begun(directory));
        }
        if !process.is_running() {
            let said = text_of(&log);
            discard(&directory);
            return Ok(Launched::Refused(said));
        }
        sleep(LOOK_EVERY);
    }
    Ok(Launched::Preparing)
}

/// Creates the log with room for what a run says, so that it can say that the disk is full.
fn log_file(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, LOG_BYTES_MAX) {
        // This file system cannot reserve room.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(file),
        Err(error) => Err(error.into()),
    }
}

/// Removes the directory of a run that did not begin, in which there is at most a log.
fn discard(directory: &Path) {
    let _ = std::fs::remove_file(directory.join(LOG));
    let _ = std::fs::remove_dir(directory);
}

/// A name without characters that could lead to another folder.
fn plain(name: &str) -> String {
    let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    name.chars().take(60).map(plain).collect()
}

/// The folder for new runs: the first served folder, or the parent of the first served run.
fn folder(site: &Site) -> PathBuf {
    let roots = site.shelf.roots();
    let is_folder = |root: &&PathBuf| !Stamp::of_directory(root).has_run();
    let around = || roots.first().and_then(|root| root.parent()).unwrap_or(Path::new(".")).to_owned();
    roots.iter().find(is_folder).cloned().unwrap_or_else(around)
}

fn text_of(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A log that cannot be read counts as empty.
    let _ = File::open(path).and_then(|file| file.take(LOG_BYTES_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asks the process that writes a run to stop, as Ctrl-C does. The run names the process, which must also
/// have the run's lock open. A forged directory may name another process, but that process does not have the
/// lock open.
///
/// # Errors
/// When no such process exists, or it may not be signalled.
pub fn interrupt(path: &Path) -> Result<(), RequestError> {
    let gone = || RequestError::bad("Nothing writes this run: it has ended, or it was killed.");
    if !plumb_store::is_being_written(path) {
        return Err(gone());
    }
    let now = plumb_store::now(path).ok_or_else(|| {
        RequestError::bad(
            "The run does not say which process it is. Stop it where it was started, with Ctrl-C.",
        )
    })?;
    let process = Detached { pid: now.pid, started_ticks: now.started_ticks };
    let lock = plumb_store::lock_of(path);
    if !process.is_running() || !plumb_host::process::has_open(process.pid, &lock) {
        return Err(RequestError::forbidden(format!(
            "Process {}, which the run names, does not hold the run's lock, or belongs to another user or host. Nothing was done.",
            now.pid
        )));
    }
    process.interrupt().map_err(RequestError::broken)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_command() {
        let order = Order {
            experiment: "tls-cost".into(),
            name: "tls-cost".to_owned(),
            is_quick: true,
            blocks: Some(7),
            only: vec!["a".to_owned()],
        };
        assert_eq!(order.arguments(), ["run", "tls-cost", "--quick", "--blocks=7", "--only=a"]);
    }

    #[test]
    fn a_log_has_room_for_what_a_run_says() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join(LOG);
        let metadata = log_file(&log).unwrap().metadata().unwrap();
        // A file system without `fallocate` reserves nothing.
        assert!(metadata.len() == 0 && (metadata.blocks() == 0 || metadata.blocks() * 512 >= LOG_BYTES_MAX));
        discard(folder.path());
        assert!(!folder.path().exists());
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        assert_eq!(plain("../../etc/x y"), "------etc-x-y");
    }

    #[test]
    fn a_process_that_does_not_hold_the_lock_is_not_stopped() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(interrupt(folder.path()).unwrap_err().status, 400, "there is no run");
        // This test holds the lock, and the run names another process.
        let lock = File::create(plumb_store::lock_of(folder.path())).unwrap();
        lock.lock().unwrap();
        let sleeping = Command::new("sleep").arg("600").spawn_detached().unwrap();
        let now = serde_json::json!({
            "format": "plumbline.now/1", "pid": sleeping.pid, "started_ticks": sleeping.started_ticks, "cell": 0, "block": 0,
            "position": 0, "of": 2, "variant": "a", "phase": "between", "since_ms": 0, "left_at_most_s": 0.0, "left_probably_s": 0.0,
        });
        std::fs::write(folder.path().join("now.json"), now.to_string()).unwrap();
        assert_eq!(interrupt(folder.path()).unwrap_err().status, 403);
        assert!(sleeping.is_running());
        sleeping.end(Duration::ZERO).unwrap();
    }
}
