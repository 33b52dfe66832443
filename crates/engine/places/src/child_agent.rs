//! Agents as child processes of this one.
//!
//! An agent has its own process group. Ctrl-C in the terminal then reaches only the runner, which decides in
//! what order things end.
//!
//! What an agent writes to its standard error goes to a file, so that it never waits for a reader. The file's last
//! lines join the agent's log when its output ends.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use plumb_host::Error;
use plumb_host::cpu::CpuSet;
use plumb_host::memory::out_of_memory_kills;
use plumb_host::process::{Child, Command, Exit, Stream, kill_tree};
use plumb_host::scratch::Scratch;
use plumb_model::LogLevel;
use plumb_path::Place;
use plumb_path::log::line_now;
use plumb_path::protocol::Logged;
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::intake::{Held, Intake, LINE_BYTES_MAX};
use crate::link::{Ended, Link, Received};
use crate::process_log::ProcessLog;

/// How much of the end of an agent's standard error joins its log, in bytes and in lines.
const STDERR_BYTES_MAX: u64 = 16 << 10;
const STDERR_LINES_MAX: usize = 40;

/// The command that starts agents.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The directory under which agents get their scratch directories.
    pub directory: PathBuf,
    /// Environment variables that agents get, beside those of every child.
    pub environment: Vec<String>,
}

/// The rights of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rights {
    /// All rights of this process, because the agent runs commands of the user.
    Whole,
    /// All rights of this process, but executing a file adds none.
    Kept,
    /// As `Kept`, without root's capabilities.
    Few,
}

/// An agent that is a child of this process.
pub struct ChildAgent {
    child: Child,
    input: Option<ChildStdin>,
    /// Removed when the agent is gone.
    _scratch: Scratch,
    /// How many processes the kernel had killed for want of memory when this one started.
    memory_kills: Option<u64>,
    intake: Intake,
}

impl ChildAgent {
    /// Starts an agent pinned to `cpus`. `name` becomes a part of its scratch directory's name. `deliver`
    /// receives each line of its output, then `None`, and returns whether it wants more.
    pub fn start(
        launch: &Launch,
        name: &str,
        cpus: &CpuSet,
        rights: Rights,
        intake: Intake,
        deliver: impl FnMut(Option<String>) -> bool + Send + 'static,
    ) -> Result<(Self, Place), HostError> {
        let failed = |cause| HostError::Start { what: format!("the agent {name}"), cause };
        let scratch = Scratch::create(&launch.directory, &format!("{name}-")).map_err(failed)?;
        let path = scratch.path().join("agent.log");
        let log = File::create(&path).map_err(|cause| failed(Error::Write { path: path.clone(), cause }))?;
        let stderr = File::open(&path).map_err(|cause| failed(Error::Read { path, cause }))?;
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
            .map_err(failed)?;
        let input = child.take_stdin();
        let output = child.take_stdout().expect("its standard output is piped");
        let lines = intake.lines(output, LINE_BYTES_MAX);
        std::thread::Builder::new()
            .name(format!("from {name}"))
            .spawn(move || pass_on(lines.chain(logged(stderr)), deliver))
            .map_err(|cause| failed(Error::System { what: "start a thread", cause }))?;
        let place = Place { scratch: scratch.path().to_owned(), cpus: cpus.len(), address: None, number: 0 };
        let memory_kills = out_of_memory_kills();
        Ok((Self { child, input, _scratch: scratch, memory_kills, intake }, place))
    }
}

fn pass_on(lines: impl Iterator<Item = String>, mut deliver: impl FnMut(Option<String>) -> bool) {
    for line in lines {
        if !deliver(Some(line)) {
            return;
        }
    }
    deliver(None);
}

/// The last lines of a standard error, as an agent logs a line. The file is read when the first one is wanted.
fn logged(mut stderr: File) -> impl Iterator<Item = String> {
    let read = move || {
        let bytes = stderr.metadata().map_or(0, |metadata| metadata.len());
        let mut text = Vec::new();
        // Without the file there are no lines.
        let _ = stderr.seek(SeekFrom::Start(bytes.saturating_sub(STDERR_BYTES_MAX)));
        let _ = stderr.take(STDERR_BYTES_MAX).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(STDERR_LINES_MAX);
        let logged = |line: &&str| {
            serde_json::to_string(&Logged { log: line_now(LogLevel::Warn, "stderr", line) }).ok()
        };
        lines[last..].iter().filter_map(logged).collect::<Vec<String>>()
    };
    std::iter::once_with(read).flatten()
}

impl ChildAgent {
    /// Sends a line, which must include its line break.
    pub fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.input {
            Some(input) => input.write_all(line).and_then(|()| input.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Closes its standard input, its lifeline.
    pub fn close(&mut self) {
        self.input = None;
    }

    /// Waits for its end; `None` if it still runs after `wait`. Kills an agent that sent too much.
    pub fn ended(&mut self, wait: Duration) -> Option<Ended> {
        if let Some(excess) = self.intake.excess() {
            self.kill();
            return Some(Ended { how: excess.to_string(), is_from_outside: false });
        }
        let exit: Exit = self.child.wait_timeout(wait).ok().flatten()?;
        let memory_is_short = out_of_memory_kills() != self.memory_kills;
        let how = if memory_is_short {
            format!("{exit}, after the kernel had begun to kill processes for want of memory")
        } else {
            exit.to_string()
        };
        Some(Ended { how, is_from_outside: exit.is_from_outside() && !memory_is_short })
    }

    /// Kills it and everything below it.
    pub fn kill(&mut self) {
        kill_tree(self.child.pid());
    }
}

impl Drop for ChildAgent {
    fn drop(&mut self) {
        self.input = None;
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            kill_tree(self.child.pid());
        }
    }
}

/// An agent of this host with the lines of its output.
pub struct ChildLink {
    agent: ChildAgent,
    lines: Receiver<(String, Held)>,
}

impl ChildLink {
    /// Starts an agent, see [`ChildAgent::start`]. The lines of its log go to `log`.
    pub fn start(
        launch: &Launch,
        name: &str,
        cpus: &CpuSet,
        rights: Rights,
        log: ProcessLog,
    ) -> Result<(Self, Place), HostError> {
        let (sender, lines) = channel();
        let intake = Intake::default();
        let bounds = intake.clone();
        let deliver = move |line: Option<String>| match line {
            Some(line) => match Logged::log_line(&line) {
                Some(line) => {
                    log.take(line);
                    true
                }
                None => bounds.hold(&line).is_some_and(|held| sender.send((line, held)).is_ok()),
            },
            None => false,
        };
        let (agent, place) = ChildAgent::start(launch, name, cpus, rights, intake, deliver)?;
        Ok((Self { agent, lines }, place))
    }
}

impl Link for ChildLink {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.agent.write(line)
    }

    fn receive(&mut self, wait: Duration) -> Received {
        match self.lines.recv_timeout(wait) {
            Ok((line, _)) => Received::Line(line),
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::End,
        }
    }

    fn close(&mut self) {
        self.agent.close();
    }

    fn ended(&mut self, wait: Duration) -> Option<Ended> {
        self.agent.ended(wait)
    }

    fn kill(&mut self) {
        self.agent.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_sends_an_endless_line_is_ended() {
        let temporary = Scratch::create(&std::env::temp_dir(), "plumb-endless-").unwrap();
        let launch = Launch {
            program: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), "echo first; tr '\\0' x < /dev/zero; sleep 600".to_owned()],
            directory: temporary.path().to_owned(),
            environment: Vec::new(),
        };
        let cpus = plumb_host::cpu::available_cpus().unwrap();
        let log = ProcessLog::here("load");
        let (mut link, _) = ChildLink::start(&launch, "load", &cpus, Rights::Kept, log).unwrap();
        let wait = Duration::from_secs(60);
        assert_eq!(link.receive(wait), Received::Line("first".to_owned()));
        assert_eq!(link.receive(wait), Received::End);
        let how = "sent a line of more than 16 MiB".to_owned();
        assert_eq!(link.ended(wait), Some(Ended { how, is_from_outside: false }));
        // By itself it would sleep for ten minutes.
        assert!(link.agent.child.wait_timeout(wait).unwrap().is_some());
    }
}
