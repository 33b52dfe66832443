//! A client of QMP, QEMU's machine protocol (docs/interop/qmp-spec.rst): one JSON object a line, commands in one direction, and replies and
//! events in the other.
//!
//! The only maintained library, `qapi`, compiles the schema of one version of QEMU into closed types, and rejects values that are newer than
//! that schema, such as a compression method. Here the abilities are read from the binary itself, so commands and replies stay JSON.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};

/// The limit for a line, longer than any that QEMU writes. Its schema has 300 KB.
const LINE_BYTES_MAX: usize = 16 << 20;

/// A failure between this client and QEMU. Each message completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum QmpError {
    #[error("ask QEMU to `{command}`: it did not answer within {} s", patience.as_secs())]
    Silent { command: String, patience: Duration },
    #[error("ask QEMU to `{command}`: it has closed the connection")]
    Closed { command: String },
    #[error("ask QEMU to `{command}`: it refuses: {reason}")]
    Refused { command: String, reason: String },
    #[error("ask QEMU to `{command}`: it said {line:?}, which is not QMP")]
    Garbage { command: String, line: String },
    #[error("ask QEMU to `{command}`: {cause}")]
    Broken { command: String, cause: String },
}

/// A message that QEMU sends without being asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// Such as `MIGRATION` or `STOP`.
    pub name: String,
    pub data: Value,
    /// The time by QEMU's wall clock, in µs.
    pub at_us: u64,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Qmp {
    input: File,
    output: File,
    unread: Vec<u8>,
    events: VecDeque<Event>,
    patience: Duration,
    commands: u64,
    /// The version in the greeting, such as `7.2.22`.
    pub version: String,
}

/// The result of one wait.
enum Wait {
    Line(Value),
    TimeUp,
}

impl Qmp {
    /// Reads the greeting, and leaves the mode in which only capabilities are negotiated. QEMU reads from `input`, and has `patience` for each
    /// answer.
    pub(super) fn open(input: File, output: File, patience: Duration) -> Result<Self, QmpError> {
        let (unread, events) = (Vec::new(), VecDeque::new());
        let mut qmp = Self { input, output, unread, events, patience, commands: 0, version: String::new() };
        let greet = "greet";
        match qmp.wait(greet, patience)? {
            Wait::TimeUp => return Err(QmpError::Silent { command: greet.to_owned(), patience }),
            Wait::Line(greeting) => {
                let version = &greeting["QMP"]["version"]["qemu"];
                if version.is_null() {
                    return Err(QmpError::Garbage { command: greet.to_owned(), line: greeting.to_string() });
                }
                let part = |name: &str| version[name].as_u64().unwrap_or_default();
                qmp.version = format!("{}.{}.{}", part("major"), part("minor"), part("micro"));
            }
        }
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Executes a command and returns its result. Events that arrive before it are kept.
    pub(super) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.commands += 1;
        let id = self.commands;
        let mut line = json!({ "execute": command, "arguments": arguments, "id": id }).to_string();
        line.push('\n');
        self.input.write_all(line.as_bytes()).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::BrokenPipe => QmpError::Closed { command: command.to_owned() },
            _ => QmpError::Broken { command: command.to_owned(), cause: cause.to_string() },
        })?;
        let deadline_ns = monotonic_ns().saturating_add(as_ns(self.patience));
        loop {
            let left = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
            let Wait::Line(mut answer) = self.wait(command, left)? else {
                return Err(QmpError::Silent { command: command.to_owned(), patience: self.patience });
            };
            if let Some(event) = event(&answer) {
                self.events.push_back(event);
            } else if let Some(reason) = answer["error"]["desc"].as_str() {
                return Err(QmpError::Refused { command: command.to_owned(), reason: reason.to_owned() });
            } else if answer["id"] == id && answer.get("return").is_some() {
                return Ok(answer["return"].take());
            } else {
                return Err(QmpError::Garbage { command: command.to_owned(), line: answer.to_string() });
            }
        }
    }

    /// The next event; `None` if there is none within `timeout`.
    pub(super) fn event(&mut self, timeout: Duration) -> Result<Option<Event>, QmpError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        let waiting = "tell what happens";
        match self.wait(waiting, timeout)? {
            Wait::TimeUp => Ok(None),
            Wait::Line(line) => match event(&line) {
                Some(event) => Ok(Some(event)),
                None => Err(QmpError::Garbage { command: waiting.to_owned(), line: line.to_string() }),
            },
        }
    }

    /// Forgets the events so far.
    pub(super) fn forget_events(&mut self) {
        self.events.clear();
    }

    fn wait(&mut self, command: &str, timeout: Duration) -> Result<Wait, QmpError> {
        let broken = |cause: std::io::Error| QmpError::Broken {
            command: command.to_owned(),
            cause: cause.to_string(),
        };
        let deadline_ns = monotonic_ns().saturating_add(as_ns(timeout));
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return parse(command, &line).map(Wait::Line);
            }
            if self.unread.len() > LINE_BYTES_MAX {
                let line = format!("{} bytes without an end of line", self.unread.len());
                return Err(QmpError::Garbage { command: command.to_owned(), line });
            }
            let left = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
            if !readable_within(&self.output, left).map_err(broken)? {
                return Ok(Wait::TimeUp);
            }
            let mut buffer = [0; 1 << 16];
            let count = self.output.read(&mut buffer).map_err(broken)?;
            if count == 0 {
                return Err(QmpError::Closed { command: command.to_owned() });
            }
            self.unread.extend_from_slice(&buffer[..count]);
        }
    }
}

fn parse(command: &str, line: &[u8]) -> Result<Value, QmpError> {
    let object = serde_json::from_slice::<Value>(line).ok().filter(Value::is_object);
    object.ok_or_else(|| {
        let line = String::from_utf8_lossy(line).trim().chars().take(200).collect();
        QmpError::Garbage { command: command.to_owned(), line }
    })
}

fn event(line: &Value) -> Option<Event> {
    let at = |unit: &str| line["timestamp"][unit].as_u64().unwrap_or_default();
    let name = line["event"].as_str()?.to_owned();
    let at_us = at("seconds").saturating_mul(1_000_000).saturating_add(at("microseconds"));
    Some(Event { name, data: line["data"].clone(), at_us })
}

fn readable_within(file: &File, timeout: Duration) -> std::io::Result<bool> {
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut polled, Timespec::try_from(timeout).ok().as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    const GREETING: &str = r#"{"QMP":{"version":{"qemu":{"micro":22,"minor":2,"major":7},"package":""},"capabilities":["oob"]}}"#;
    const SHORT: Duration = Duration::from_millis(50);

    /// A QEMU that says the given lines: the first by itself, each other one in answer to a line.
    fn scripted(lines: &'static [&'static str]) -> (File, std::thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let mut heard = Vec::new();
            let mut reader = BufReader::new(theirs.try_clone().unwrap());
            for line in lines {
                (&theirs).write_all(line.as_bytes()).unwrap();
                (&theirs).write_all(b"\n").unwrap();
                let mut request = String::new();
                reader.read_line(&mut request).unwrap();
                heard.push(request);
            }
            heard
        });
        (File::from(OwnedFd::from(ours)), qemu)
    }

    fn open(stream: &File, patience: Duration) -> Result<Qmp, QmpError> {
        Qmp::open(stream.try_clone().unwrap(), stream.try_clone().unwrap(), patience)
    }

    #[test]
    fn commands_are_numbered_and_events_in_between_are_kept() {
        let (stream, qemu) = scripted(&[
            GREETING,
            r#"{"return":{},"id":1}"#,
            "{\"event\":\"MIGRATION\",\"data\":{\"status\":\"setup\"},\"timestamp\":{\"seconds\":2,\"microseconds\":5}}\n{\"return\":{\"a\":1},\"id\":2}",
        ]);
        let mut qmp = open(&stream, Duration::from_secs(60)).unwrap();
        assert_eq!(qmp.version, "7.2.22");
        assert_eq!(qmp.execute("query-migrate", json!({})).unwrap(), json!({ "a": 1 }));
        let event = qmp.event(Duration::ZERO).unwrap().unwrap();
        assert_eq!((event.name.as_str(), event.at_us), ("MIGRATION", 2_000_005));
        assert_eq!(event.data["status"], "setup");
        assert_eq!(qmp.event(Duration::ZERO).unwrap(), None);
        drop((qmp, stream));
        let heard = qemu.join().unwrap();
        assert_eq!(heard[0], "{\"arguments\":{},\"execute\":\"qmp_capabilities\",\"id\":1}\n");
    }

    fn fails_with(lines: &'static [&'static str], command: &str) -> String {
        let (stream, qemu) = scripted(lines);
        let error = match open(&stream, Duration::from_secs(60)) {
            Ok(mut qmp) => qmp.execute(command, json!({})).unwrap_err(),
            Err(error) => error,
        };
        drop(stream);
        qemu.join().unwrap();
        error.to_string()
    }

    #[test]
    fn refusals_strange_lines_and_ends_are_named_with_the_command() {
        let refused = fails_with(
            &[
                GREETING,
                r#"{"return":{},"id":1}"#,
                r#"{"id":2,"error":{"class":"GenericError","desc":"no such thing"}}"#,
            ],
            "fly",
        );
        assert_eq!(refused, "ask QEMU to `fly`: it refuses: no such thing");
        let garbage = fails_with(&[GREETING, r#"{"return":{},"id":1}"#, "(qemu) hello"], "fly");
        assert_eq!(garbage, r#"ask QEMU to `fly`: it said "(qemu) hello", which is not QMP"#);
        let strange = fails_with(&[GREETING, r#"{"return":{},"id":1}"#, r#"{"return":{},"id":7}"#], "fly");
        assert_eq!(strange, r#"ask QEMU to `fly`: it said "{\"id\":7,\"return\":{}}", which is not QMP"#);
        assert_eq!(
            fails_with(&["SSH-2.0-x"], "fly"),
            r#"ask QEMU to `greet`: it said "SSH-2.0-x", which is not QMP"#
        );
    }

    #[test]
    fn a_qemu_that_is_silent_or_gone_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stream = File::from(OwnedFd::from(ours));
        let silent = open(&stream, SHORT).unwrap_err();
        assert_eq!(silent, QmpError::Silent { command: "greet".to_owned(), patience: SHORT });
        drop(theirs);
        let closed = open(&stream, SHORT).unwrap_err();
        assert_eq!(closed, QmpError::Closed { command: "greet".to_owned() });
    }
}
