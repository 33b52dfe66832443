//! The link to an agent on another host, and the lines to that host.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use plumb_path::protocol::Logged;

use super::connection::Input;
use crate::intake::Held;
use crate::link::{Ended, Link, Received};
use crate::process_log::ProcessLog;
use crate::wire::KeeperRequest;

/// Where the lines of an agent go.
pub(crate) struct Route {
    pub replies: Sender<FromAgent>,
    pub log: ProcessLog,
}

impl Route {
    /// Passes on a line of the agent.
    pub(crate) fn line(&self, line: &str, held: Held) {
        match Logged::log_line(line) {
            Some(line) => self.log.take(line),
            None => self.pass_on(FromAgent::Line { line: line.to_owned(), _held: held }),
        }
    }

    /// Passes on how the agent ended.
    pub(crate) fn end(&self, ended: Ended) {
        self.pass_on(FromAgent::Ended(ended));
    }

    fn pass_on(&self, what: FromAgent) {
        // An agent that was given up has no link any more.
        let _ = self.replies.send(what);
    }
}

/// A message from an agent to its link.
pub(crate) enum FromAgent {
    /// A line, which counts as waiting until the link takes it.
    Line {
        line: String,
        _held: Held,
    },
    Ended(Ended),
}

/// The writer of requests and agents' lines; `None` once the connection is closed.
pub(crate) type Writer = Arc<Mutex<Option<Input>>>;

/// Sends a request to a keeper.
pub(crate) fn say(writer: &Writer, ask: &KeeperRequest) -> io::Result<()> {
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    write(writer, &line)
}

fn write(writer: &Writer, line: &[u8]) -> io::Result<()> {
    match &mut *writer.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(input) => input.write_all(line).and_then(|()| input.flush()),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// An agent on another host.
pub(crate) struct RemoteLink {
    agent: u32,
    destination: String,
    writer: Writer,
    lines: Receiver<FromAgent>,
    ended: Option<Ended>,
}

impl RemoteLink {
    /// The agent with this number; `lines` delivers its lines from the other host.
    pub(crate) fn new(agent: u32, destination: String, writer: Writer, lines: Receiver<FromAgent>) -> Self {
        Self { agent, destination, writer, lines, ended: None }
    }

    /// How the agent ended, if the connection ended first.
    fn lost(&self) -> Ended {
        Ended {
            how: format!("cannot be reached any more: the connection to {} ended", self.destination),
            is_from_outside: true,
        }
    }
}

impl Link for RemoteLink {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut numbered = format!("{} ", self.agent).into_bytes();
        numbered.extend_from_slice(line);
        write(&self.writer, &numbered)
    }

    fn receive(&mut self, wait: Duration) -> Received {
        if self.ended.is_some() {
            return Received::End;
        }
        match self.lines.recv_timeout(wait) {
            Ok(FromAgent::Line { line, .. }) => Received::Line(line),
            Ok(FromAgent::Ended(ended)) => {
                self.ended = Some(ended);
                Received::End
            }
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => {
                self.ended = Some(self.lost());
                Received::End
            }
        }
    }

    fn close(&mut self) {
        // Without a connection, the input is closed already.
        let _ = say(&self.writer, &KeeperRequest::Close { agent: self.agent });
    }

    fn ended(&mut self, wait: Duration) -> Option<Ended> {
        let last_ns = monotonic_ns().saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        loop {
            let left = Duration::from_nanos(last_ns.saturating_sub(monotonic_ns()));
            match self.receive(left) {
                Received::End => return self.ended.clone(),
                Received::Nothing => return None,
                Received::Line(_) => {}
            }
        }
    }

    fn kill(&mut self) {
        let _ = say(&self.writer, &KeeperRequest::Kill { agent: self.agent });
    }
}

impl Drop for RemoteLink {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}
