//! The runner's side of the protocol: an agent as a child process that is asked and answers.
//!
//! The agent is in a separate process group, so that Ctrl-C in the terminal reaches the runner alone and the
//! runner decides in which order things end. Its standard input is its lifeline: when it closes, the agent ends.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use plumb_host::cpu::CpuSet;
use plumb_host::memory::out_of_memory_kills;
use plumb_host::process::{Child, Command, Exit, Stream, kill_tree};
use plumb_host::scratch::Scratch;
use plumb_host::time::monotonic_ns;
use plumb_model::FailureCause;
use plumb_path::Place;
use plumb_path::protocol::{Reply, Request};

use crate::error::SlotError;

/// How often a wait looks whether it was interrupted.
const GLANCE: Duration = Duration::from_millis(50);
/// How long an agent may take to stop what it started, unless its data path needs longer.
const STOP_GRACE: Duration = Duration::from_millis(1000);

/// How agents are started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Under which directory agents get their scratch directories.
    pub directory: PathBuf,
    /// Environment variables that agents get beside those that every child does.
    pub environment: Vec<String>,
}

/// What an agent may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// As much as this process: it runs commands of the user.
    Whole,
    /// As much, but it gains none by executing a file.
    Kept,
    /// As `Kept`, without root's capabilities.
    Few,
}

/// An agent that runs.
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<String>,
    scratch: Scratch,
    name: String,
    cpus: usize,
    stop_grace: Duration,
    /// Processes that the kernel had killed for want of memory when this one started.
    memory_kills: Option<u64>,
}

impl Agent {
    /// Starts an agent pinned to `cpus`.
    pub(crate) fn start(
        launch: &Launch,
        name: &str,
        cpus: &CpuSet,
        rights: Rights,
    ) -> Result<Self, SlotError> {
        let failed = |reason: String| SlotError::Harness(format!("start the agent {name}: {reason}"));
        let scratch = Scratch::create(&launch.directory, &format!("{name}-"))
            .map_err(|error| failed(error.to_string()))?;
        let log =
            File::create(scratch.path().join("agent.log")).map_err(|error| failed(error.to_string()))?;
        let command = Command::new(&launch.program);
        let command = if rights == Rights::Few { command.without_capabilities() } else { command };
        let mut child = command
            .args(&launch.arguments)
            .args((rights == Rights::Whole).then_some("--runs-commands"))
            .inherit(&launch.environment)
            .stdin(Stream::Piped)
            .stdout(Stream::Piped)
            .stderr(Stream::File(log))
            .pin(cpus.clone())
            .own_group()
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let input = child.take_stdin();
        let output = child.take_stdout().ok_or_else(|| failed("it has no standard output".to_owned()))?;
        let (sender, replies) = channel();
        std::thread::Builder::new()
            .name(format!("from {name}"))
            .spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self {
            child,
            input,
            replies,
            scratch,
            name: name.to_owned(),
            cpus: cpus.len(),
            stop_grace: STOP_GRACE,
            memory_kills: out_of_memory_kills(),
        })
    }

    /// Gives it longer to stop what it started.
    pub(crate) fn stops_within(mut self, grace: Duration) -> Self {
        self.stop_grace = self.stop_grace.max(grace);
        self
    }

    /// What the agent may use.
    pub(crate) fn place(&self) -> Place {
        Place { scratch: self.scratch.path().to_owned(), cpus: self.cpus }
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: &Request) -> Result<(), SlotError> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| SlotError::Harness(format!("write a request as JSON: {error}")))?;
        line.push(b'\n');
        let written = match &mut self.input {
            Some(input) => input.write_all(&line).and_then(|()| input.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|_| self.death())
    }

    /// Waits for the next reply.
    pub(crate) fn reply(
        &mut self,
        timeout: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Reply, SlotError> {
        let deadline_ns = monotonic_ns() + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2);
        loop {
            if interrupted() {
                return Err(SlotError::Interrupted);
            }
            match self.replies.recv_timeout(GLANCE) {
                Ok(line) => return read(&self.name, &line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.death()),
                Err(RecvTimeoutError::Timeout) if monotonic_ns() >= deadline_ns => {
                    return Err(SlotError::Failed(format!(
                        "get an answer from the agent {} within {timeout:?}",
                        self.name
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Reply, SlotError> {
        self.send(request)?;
        self.reply(timeout, interrupted)
    }

    /// What is known of an agent that no longer answers. A kill from outside says nothing about the variant. A kill by the
    /// kernel for want of memory may, because the variant may have taken that memory.
    fn death(&mut self) -> SlotError {
        let exit = self.child.wait_timeout(STOP_GRACE).ok().flatten();
        let memory_is_short = out_of_memory_kills() != self.memory_kills;
        let how = match exit {
            Some(exit) if memory_is_short => {
                format!("{exit}, after the kernel had begun to kill processes for want of memory")
            }
            Some(exit) => exit.to_string(),
            None => "closed its output".to_owned(),
        };
        let log = std::fs::read_to_string(self.scratch.path().join("agent.log")).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty());
        let words = last.map(|line| format!("; its last words: {line}")).unwrap_or_default();
        let reason = format!("go on: the agent {} {how}{words}", self.name);
        if exit.is_some_and(Exit::is_from_outside) && !memory_is_short {
            SlotError::Killed(reason)
        } else {
            SlotError::Failed(reason)
        }
    }

    /// Stops the agent and everything below it; quickly, and by force where it does not stop by itself.
    pub(crate) fn stop(mut self) {
        self.release();
        let ended = self.child.wait_timeout(self.stop_grace);
        self.input = None;
        if matches!(ended, Ok(Some(_))) {
            return;
        }
        kill_tree(self.child.pid());
    }

    /// Asks it to stop without waiting, so that several agents stop at the same time. Without its lifeline an agent has little time.
    pub(crate) fn release(&mut self) {
        if self.input.is_none() {
            return;
        }
        let _ = self.send(&Request::Stop);
        if self.stop_grace <= STOP_GRACE {
            self.input = None;
        }
    }
}

/// A line from the agent of that name.
fn read(name: &str, line: &str) -> Result<Reply, SlotError> {
    match serde_json::from_str(line) {
        Ok(Reply::Failed { reason, cause: FailureCause::System }) => Err(SlotError::Failed(reason)),
        Ok(Reply::Failed { reason, cause: FailureCause::Harness }) => Err(SlotError::Harness(reason)),
        Ok(reply) => Ok(reply),
        Err(error) => Err(SlotError::Harness(format!("understand the agent {name}: {error}"))),
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.input = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            kill_tree(self.child.pid());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_fails_by_itself_says_nothing_about_the_system() {
        let failed = |cause: &str| {
            read("load", &format!(r#"{{"reply":"failed","reason":"measure","cause":"{cause}"}}"#))
        };
        assert_eq!(failed("harness"), Err(SlotError::Harness("measure".to_owned())));
        assert_eq!(failed("system"), Err(SlotError::Failed("measure".to_owned())));
        assert!(matches!(read("load", "hello"), Err(SlotError::Harness(_))));
    }
}
