//! The side of the system: a command that runs beside the one that is measured, or nothing.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::tree_cpu_time;
use plumb_host::process::{Child, Signal, Stream, Written};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::{CpuCost, Span};
use plumb_path::{PathError, Place, Snapshot, System};
use serde_json::Value;

use crate::settings::CommandSettings;
use crate::shell::{self, TAIL_BYTES, ending, go_on, in_shell, last_words};

/// How often `ready` is tried.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// How long the `stop` command may take.
const STOP_TIMEOUT: Span = Span(8_000_000_000);
/// How long the system may take to end by itself after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long a system may take to stop, all in all.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// Starts the settings' system, if they have one, and waits until it is ready.
///
/// # Errors
/// When it does not start, ends, or is not ready in time; with the last words that it wrote.
pub(crate) fn command_system(
    settings: &CommandSettings,
    place: &Place,
) -> Result<Box<dyn System>, PathError> {
    let Some(start) = &settings.system.start else { return Ok(Box::new(NoSystem)) };
    let log = place.scratch.join("system.log");
    let open = || File::create(&log).and_then(|file| Ok([file.try_clone()?, file]));
    let [stdout, stderr] =
        open().map_err(|cause| PathError::load(format!("write {}: {cause}", log.display())))?;
    let command = in_shell(start, &settings.load)?.stdout(Stream::File(stdout)).stderr(Stream::File(stderr));
    let child = command.own_group().dies_with_parent(Signal::KILL).spawn()?;
    let mut started = Started { settings: settings.clone(), child, log };
    started.wait_until_ready()?;
    Ok(Box::new(started))
}

/// There is none.
struct NoSystem;

impl System for NoSystem {
    fn target(&self) -> Value {
        Value::Null
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        Ok(Snapshot::default())
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}

/// A system that was started. Dropping it kills it, with all that it started.
struct Started {
    settings: CommandSettings,
    child: Child,
    log: PathBuf,
}

impl Started {
    fn wait_until_ready(&mut self) -> Result<(), PathError> {
        let timeout = self.settings.system.timeout;
        let deadline_ns = monotonic_ns().saturating_add(timeout.0);
        let Some(ready) = self.settings.system.ready.clone() else {
            sleep(TRY_EVERY);
            return self.check_running("right after its start");
        };
        loop {
            self.check_running("before it was ready")?;
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            let tried = shell::run("ready", &ready, (&self.settings.load, Span(left_ns)), &mut go_on);
            let Err(failed) = tried else { return self.check_running("before it was ready") };
            if go_on().is_break() {
                return Err(PathError::new("wait for the system to be ready: it was interrupted"));
            }
            if monotonic_ns() >= deadline_ns {
                let words = last_words(&tail(&self.log));
                return Err(PathError::new(format!(
                    "wait {timeout} for the system to be ready: {failed}{words}"
                )));
            }
            sleep(TRY_EVERY);
        }
    }

    fn check_running(&mut self, when: &str) -> Result<(), PathError> {
        let Some(exit) = self.child.try_wait()? else { return Ok(()) };
        let start = self.settings.system.start.as_deref().unwrap_or_default();
        let how = ending(exit, false, Span(0));
        Err(PathError::new(format!(
            "keep the system `{start}` running: it ended with {how} {when}; it must stay in the foreground{}",
            last_words(&tail(&self.log))
        )))
    }
}

impl System for Started {
    fn target(&self) -> Value {
        Value::Null
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        self.check_running("during a slot")?;
        let time = tree_cpu_time(self.child.pid())?;
        let cpu = CpuCost { user_ns: time.user_ns, system_ns: time.system_ns, ..CpuCost::default() };
        Ok(Snapshot { cpu, ..Snapshot::default() })
    }

    fn stop(&mut self) -> Result<(), PathError> {
        let stopped = match &self.settings.system.stop {
            Some(stop) => shell::run("stop", stop, (&self.settings.load, STOP_TIMEOUT), &mut || {
                ControlFlow::Continue(())
            }),
            None => Ok(()),
        };
        // The command may have asked it to end and not waited for that.
        let has_ended = self.settings.system.stop.is_some() && self.child.wait_timeout(TERM_GRACE)?.is_some();
        if !has_ended {
            self.child.terminate(TERM_GRACE)?;
        }
        stopped
    }
}

/// The end of a file, empty where it cannot be read.
fn tail(file: &Path) -> Written {
    use std::io::{Read, Seek, SeekFrom};

    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES as u64)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Written { bytes: read().unwrap_or_default(), is_cut: false }
}

#[cfg(test)]
mod tests {
    use plumb_path::Settings;

    use super::*;

    fn settings(start: &str, ready: Option<&str>, stop: Option<&str>) -> CommandSettings {
        let mut settings = CommandSettings::default();
        settings.load.command = "true".to_owned();
        settings.system.start = Some(start.to_owned());
        settings.system.ready = ready.map(str::to_owned);
        settings.system.stop = stop.map(str::to_owned);
        settings
    }

    fn start(settings: &CommandSettings) -> Result<Box<dyn System>, PathError> {
        let scratch = tempfile::tempdir().unwrap();
        settings.system(&Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 })
    }

    fn is_running(pid: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    }

    #[test]
    fn a_system_is_started_counted_and_stopped() {
        let place = tempfile::tempdir().unwrap();
        let [pid, flag, stopped] = ["pid", "flag", "stopped"].map(|name| place.path().join(name));
        let begin =
            format!("echo $$ > {}; sleep 0.1; touch {}; while :; do :; done", pid.display(), flag.display());
        let ready = format!("test -e {}", flag.display());
        let stop = format!("touch {}", stopped.display());
        let mut system = start(&settings(&begin, Some(&ready), Some(&stop))).unwrap();
        assert!(flag.exists());
        let before = system.snapshot().unwrap();
        while system.snapshot().unwrap().cpu.total_ns() < before.cpu.total_ns() + 10_000_000 {}
        let pid = std::fs::read_to_string(pid).unwrap();
        assert!(is_running(&pid) && !stopped.exists());
        system.stop().unwrap();
        assert!(!is_running(&pid) && stopped.exists());
    }

    #[test]
    fn an_agent_that_is_to_stop_waits_for_no_system() {
        let place = tempfile::tempdir().unwrap();
        let tried = place.path().join("tried");
        let (seen, ready) = (tried.clone(), format!("touch {}; sleep 600", tried.display()));
        std::thread::spawn(move || {
            while !seen.exists() {
                sleep(TRY_EVERY);
            }
            plumb_host::signals::ask_to_stop();
        });
        let failed = start(&settings("sleep 600", Some(&ready), None)).err().unwrap().to_string();
        assert_eq!(failed, "wait for the system to be ready: it was interrupted");
    }

    #[test]
    fn a_system_that_ends_or_is_never_ready_says_what_it_wrote() {
        let failed = |settings: &CommandSettings| start(settings).err().unwrap().to_string();
        assert_eq!(
            failed(&settings("echo no port >&2; exit 1", Some("false"), None)).split(": ").last(),
            Some("no port")
        );
        let mut never = settings("echo waiting; sleep 600", Some("false"), None);
        never.system.timeout = Span(2_000_000_000);
        let message = failed(&never);
        assert!(message.starts_with("wait 2 s for the system to be ready: "), "{message}");
        assert!(message.ends_with("its last words: waiting"), "{message}");
    }
}
