//! Commands of the user's that change something, undo it and show it; and services that have to notice a change.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::normal_words;
use super::secrets::Secrets;
use crate::Error;
use crate::process::{Command, Exit, Finished, Keep, Signal, Written, run_measured, which};

/// The most that a command may print to show a value, in bytes.
const LONG_VALUE: usize = 4096;
/// How much of an error's last words is shown, in bytes.
const LAST_WORDS: usize = 400;
/// How often, and how long after another, a service is looked at that does not run right after its restart.
const SETTLE_GLANCES: u32 = 50;
const SETTLE_GLANCE: Duration = Duration::from_millis(100);
/// systemd makes this directory where it runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";
/// Where services are that `service` knows.
const INIT_SCRIPTS: &str = "/etc/init.d";

/// The effect of commands: its value is what `verify` prints.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shell {
    /// Makes the change.
    pub apply: String,
    /// Undoes it.
    pub revert: String,
    /// Prints the value.
    pub verify: String,
    /// How long each may take, in ms.
    pub timeout_ms: u64,
}

impl Shell {
    /// A command that shows something and changes nothing.
    #[must_use]
    pub fn look(verify: String, timeout_ms: u64) -> Self {
        Self { apply: String::new(), revert: String::new(), verify, timeout_ms }
    }

    /// The output of `verify`, as words with single blanks between them.
    pub(super) fn read_value(&self, secrets: &Secrets) -> Result<String, Error> {
        let Written { bytes, is_cut } = run(("verify", &self.verify), self.timeout_ms, secrets)?.stdout;
        if is_cut {
            let what = format!("read what `verify` (`{}`) prints", self.verify);
            let reason = format!("it prints more than {LONG_VALUE} bytes; have it print the value alone");
            return Err(Error::Command { what, reason });
        }
        Ok(normal_words(&secrets.hidden(&String::from_utf8_lossy(&bytes))))
    }

    /// Makes the change, or undoes it.
    pub(super) fn write(&self, is_change: bool, secrets: &Secrets) -> Result<(), Error> {
        let command =
            if is_change { ("apply", self.apply.as_str()) } else { ("revert", self.revert.as_str()) };
        run(command, self.timeout_ms, secrets).map(|_| ())
    }
}

/// Something that is done after a change, and once more after it was undone, so that it is noticed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A command, such as `nginx -s reload`.
    Reload {
        /// The command.
        command: String,
        /// How long it may take, in ms.
        timeout_ms: u64,
    },
    /// A service of the machine.
    Service {
        /// The name.
        name: String,
        /// Whether it restarts, and does not only read its configuration anew.
        is_restart: bool,
        /// Whether systemd runs it, and not a script of `/etc/init.d`.
        is_systemd: bool,
        /// How long it may take, in ms.
        timeout_ms: u64,
    },
}

/// The state of a service that runs.
pub const RUNNING: &str = "running";

impl Action {
    /// A service of this machine.
    ///
    /// # Errors
    /// When nothing here could restart or reload it.
    pub fn service(name: &str, is_restart: bool, timeout_ms: u64) -> Result<Self, Error> {
        let is_systemd = Path::new(SYSTEMD).exists();
        let has_script = Path::new(INIT_SCRIPTS).join(name).exists() && which("service").is_some();
        if !is_systemd && !has_script {
            return Err(Error::Command {
                what: format!("find the service {name}"),
                reason: format!(
                    "systemd does not run here, and there is no {INIT_SCRIPTS}/{name}; use `command` with the program's own way to reload"
                ),
            });
        }
        Ok(Self::Service { name: name.to_owned(), is_restart, is_systemd, timeout_ms })
    }

    /// Whether there is anything to read back.
    #[must_use]
    pub fn has_state(&self) -> bool {
        matches!(self, Self::Service { .. })
    }

    pub(super) fn read_state(&self, secrets: &Secrets) -> Result<String, Error> {
        match self {
            Self::Reload { .. } => Ok(RUNNING.to_owned()),
            Self::Service { name, is_systemd, timeout_ms, .. } => {
                Ok(service_state(name, *is_systemd, *timeout_ms, secrets)?.0)
            }
        }
    }

    /// Does it, and looks whether it was done.
    pub(super) fn carry_out(&self, secrets: &Secrets) -> Result<(), Error> {
        let (name, is_restart, is_systemd, timeout_ms) = match self {
            Self::Reload { command, timeout_ms } => {
                return run(("reload", command), *timeout_ms, secrets).map(|_| ());
            }
            Self::Service { name, is_restart, is_systemd, timeout_ms } => {
                (name, *is_restart, *is_systemd, *timeout_ms)
            }
        };
        let before = service_state(name, is_systemd, timeout_ms, secrets)?;
        let verb = if is_restart { "restart" } else { "reload" };
        let manage = |verb: &str| {
            let line = match is_systemd {
                true => format!("systemctl {verb} {name}"),
                false => format!("service {name} {verb}"),
            };
            run((verb, &line), timeout_ms, secrets)
        };
        manage(verb)?;
        let mut after = settled(name, is_systemd, timeout_ms, secrets)?;
        if is_restart && after.0 != RUNNING {
            // The fresh server may have come too early for a port that the old one still held.
            manage("start")?;
            after = settled(name, is_systemd, timeout_ms, secrets)?;
        }
        let reason = match after {
            (state, _) if state != RUNNING => format!("it is {state} afterwards"),
            // systemd has a fresh name for each run of a unit.
            (_, run) if is_restart && is_systemd && run == before.1 => "it did not restart".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::Command { what: format!("{verb} the service {name}"), reason })
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reload { command, .. } => write!(formatter, "`{command}`"),
            Self::Service { name, is_restart: true, .. } => write!(formatter, "restart of {name}"),
            Self::Service { name, .. } => write!(formatter, "reload of {name}"),
        }
    }
}

/// Whether a service runs, and what systemd calls its present run.
fn service_state(
    name: &str,
    is_systemd: bool,
    timeout_ms: u64,
    secrets: &Secrets,
) -> Result<(String, String), Error> {
    if !is_systemd {
        let line = format!("service {name} status");
        let finished = finished(&line, timeout_ms, secrets)?;
        let state = if finished.exit.is_success() { RUNNING } else { "stopped" };
        return Ok((state.to_owned(), String::new()));
    }
    let line = format!("systemctl show --property=ActiveState,InvocationID {name}");
    let text = run(("status", &line), timeout_ms, secrets)?.stdout.bytes;
    let text = String::from_utf8_lossy(&text).into_owned();
    let field = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default().to_owned()
    };
    let state = match field("ActiveState").as_str() {
        "active" | "reloading" => RUNNING.to_owned(),
        other => other.to_owned(),
    };
    Ok((state, field("InvocationID")))
}

/// The state of a service that was just started: scripts return before a server has written its pid.
fn settled(
    name: &str,
    is_systemd: bool,
    timeout_ms: u64,
    secrets: &Secrets,
) -> Result<(String, String), Error> {
    let mut state = service_state(name, is_systemd, timeout_ms, secrets)?;
    for _ in 0..SETTLE_GLANCES {
        if state.0 == RUNNING {
            break;
        }
        crate::time::sleep(SETTLE_GLANCE);
        state = service_state(name, is_systemd, timeout_ms, secrets)?;
    }
    Ok(state)
}

/// Runs a command line of the user's to its end. The key is that of the experiment file.
fn run((key, line): (&str, &str), timeout_ms: u64, secrets: &Secrets) -> Result<Finished, Error> {
    let finished = finished(line, timeout_ms, secrets)?;
    let how = match finished.exit {
        _ if finished.is_overdue => {
            format!("no end within {timeout_ms} ms, so it was killed; `timeout` gives it longer")
        }
        Exit::Code(0) => return Ok(finished),
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
    };
    let last = secrets.hidden(&String::from_utf8_lossy(&finished.stderr.bytes));
    let last = normal_words(&last);
    let reason = if last.is_empty() { how } else { format!("{how}: {last}") };
    Err(Error::Command { what: format!("run `{key}` (`{line}`)"), reason })
}

/// It dies with this process: whatever it did not do or undo is found at the next start, and must not change afterwards.
fn finished(line: &str, timeout_ms: u64, secrets: &Secrets) -> Result<Finished, Error> {
    let (line, variables) = secrets.as_variables(line)?;
    let own = std::env::vars_os().map(|(name, _)| name);
    let shell = Command::new("sh").args(["-c", &line]).inherit(own).dies_with_parent(Signal::KILL);
    let shell = variables.into_iter().fold(shell, |shell, (name, value)| shell.env(name, value));
    let keep = (Keep::Head(LONG_VALUE), Keep::Tail(LAST_WORDS));
    run_measured(shell, keep, Duration::from_millis(timeout_ms), &mut |_| ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(apply: &str, revert: &str, verify: &str) -> Shell {
        let [apply, revert, verify] = [apply, revert, verify].map(str::to_owned);
        Shell { apply, revert, verify, timeout_ms: 5_000 }
    }

    #[test]
    fn a_value_is_what_verify_prints() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state").display().to_string();
        let it = shell(
            &format!("printf 'new  value\\n' > {file}"),
            &format!("rm -f {file}"),
            &format!("if test -e {file}; then cat {file}; else echo old; fi"),
        );
        let secrets = Secrets::default();
        assert_eq!(it.read_value(&secrets).unwrap(), "old");
        it.write(true, &secrets).unwrap();
        assert_eq!(it.read_value(&secrets).unwrap(), "new value");
        it.write(false, &secrets).unwrap();
        assert_eq!(it.read_value(&secrets).unwrap(), "old");
    }

    #[test]
    fn a_failure_says_which_command_and_its_last_words() {
        let secrets = Secrets::default();
        let message = |it: Shell| it.read_value(&secrets).unwrap_err().to_string();
        assert_eq!(
            message(shell("", "", "echo no such bridge >&2; exit 2")),
            "run `verify` (`echo no such bridge >&2; exit 2`): exit code 2: no such bridge"
        );
        let slow = Shell { timeout_ms: 20, ..shell("", "", "sleep 600") };
        assert!(message(slow).contains("no end within 20 ms"));
        assert!(message(shell("", "", "head -c 5000 /dev/zero")).contains("print the value alone"));
    }

    #[test]
    fn a_secret_reaches_the_command_and_no_message() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("key");
        std::fs::write(&key, "hunter2\n").unwrap();
        let reference = format!("${{file:{}}}", key.display());
        let secrets = Secrets::default();
        let it = shell("", "", &format!("test \"{reference}\" = hunter2 && echo \"it is {reference}\""));
        assert_eq!(it.read_value(&secrets).unwrap(), format!("it is {reference}"));
        let fails = shell(&format!("echo wrong {reference} >&2; exit 1"), "", "");
        let message = fails.write(true, &secrets).unwrap_err().to_string();
        assert!(message.contains("wrong ${file:") && !message.contains("hunter2"), "{message}");
        // Its arguments, which every user can read, do not have it.
        let looks = shell(
            "",
            "",
            &format!(": {reference}; tr '\\0' ' ' < /proc/$$/cmdline | grep -c [h]unter || true"),
        );
        assert_eq!(looks.read_value(&secrets).unwrap(), "0");
    }

    #[test]
    fn a_service_that_is_not_there_is_refused() {
        if Path::new(SYSTEMD).exists() {
            let it = Action::service("no-such-service", false, 5_000).unwrap();
            assert_ne!(it.read_state(&Secrets::default()).unwrap(), RUNNING);
        } else {
            let message = Action::service("no-such-service", false, 5_000).unwrap_err().to_string();
            assert!(message.contains("there is no /etc/init.d/no-such-service"), "{message}");
        }
    }
}
