//! The runner's side of the protocol: an agent that answers requests, wherever it runs.
//!
//! An agent on this host is a child process, and one on another host is a child of the keeper there. Either
//! way its standard input is its lifeline: when that closes, the agent ends.

use std::time::Duration;

use plumb_host::time::monotonic_ns;
use plumb_model::FailureCause;
use plumb_path::Place;
use plumb_path::protocol::{Reply, Request};

use crate::clock::Patience;
use crate::link::{Link, Received};
use crate::process_log::ProcessLog;
use crate::slot_error::SlotError;

/// How often a wait checks for an interruption.
pub const GLANCE: Duration = Duration::from_millis(50);
/// How long an agent may take to stop its system or load, unless its data path needs longer.
const STOP_GRACE: Duration = Duration::from_millis(1000);

/// A running agent.
pub struct Agent {
    link: Box<dyn Link>,
    place: Place,
    log: ProcessLog,
    /// The name in messages: `load`, `system-b`, `load on client1`.
    name: String,
    is_released: bool,
    stop_grace: Duration,
}

impl Agent {
    /// Wraps an agent that was started.
    pub fn new(name: String, link: Box<dyn Link>, place: Place, log: ProcessLog) -> Self {
        Self { link, place, log, name, is_released: false, stop_grace: STOP_GRACE }
    }

    /// Gives the agent longer to stop its system or load.
    pub fn stops_within(mut self, grace: Duration) -> Self {
        self.stop_grace = self.stop_grace.max(grace);
        self
    }

    /// The resources that the agent may use.
    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<(), SlotError> {
        let mut line = serde_json::to_vec(request)
            .map_err(|error| SlotError::Harness(format!("write a request as JSON: {error}")))?;
        line.push(b'\n');
        self.log.begin_request();
        self.link.write(&line).map_err(|_| self.death())
    }

    /// Waits for the next reply.
    pub fn reply(&mut self, timeout: Duration, patience: Patience<'_>) -> Result<Reply, SlotError> {
        let end_ns = patience.end_ns(timeout);
        loop {
            patience.go_on()?;
            if let Some(reply) = self.reply_within(GLANCE)? {
                return Ok(reply);
            }
            if patience.is_over(end_ns) {
                return Err(self.silence(timeout));
            }
        }
    }

    /// Waits for the next reply, at most this long; `None` if none comes.
    pub fn reply_within(&mut self, wait: Duration) -> Result<Option<Reply>, SlotError> {
        match self.link.receive(wait) {
            Received::Line(line) => read_reply(&self.name, &line, &self.log).map(Some),
            Received::Nothing => Ok(None),
            Received::End => Err(self.death()),
        }
    }

    /// The error for an agent that did not answer in time.
    pub fn silence(&self, timeout: Duration) -> SlotError {
        let said = self.log.last_lines();
        SlotError::Failed(format!("get an answer from the agent {} within {timeout:?}{said}", self.name))
    }

    /// Sends a request and waits for its reply.
    pub fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
        patience: Patience<'_>,
    ) -> Result<Reply, SlotError> {
        self.send(request)?;
        self.reply(timeout, patience)
    }

    /// The error for an agent that no longer answers. A kill from outside says nothing about the variant. A
    /// kill by the kernel for want of memory may, because the variant may have taken that memory.
    fn death(&mut self) -> SlotError {
        let ended = self.link.ended(STOP_GRACE);
        self.hear_out();
        let said = self.log.last_lines();
        let Some(ended) = ended else {
            return SlotError::Failed(format!("go on: the agent {} closed its output{said}", self.name));
        };
        let reason = format!("go on: the agent {} {}{said}", self.name, ended.how);
        tracing::warn!(agent = self.name, how = ended.how, "an agent ended");
        if ended.is_from_outside { SlotError::Killed(reason) } else { SlotError::Failed(reason) }
    }

    /// Whether it has ended unasked.
    pub fn has_ended(&mut self) -> bool {
        self.link.ended(Duration::ZERO).is_some()
    }

    /// Stops the agent and everything below it, by force if it does not stop by itself.
    pub fn stop(self) {
        self.stop_telling(|_| ());
    }

    /// As [`Agent::stop`]. Tells how long stopping may take if it takes longer than usual.
    pub fn stop_telling(mut self, tell: impl FnOnce(Duration)) {
        self.release();
        let mut ended = self.link.ended(STOP_GRACE);
        let more = self.stop_grace.saturating_sub(STOP_GRACE);
        if ended.is_none() && !more.is_zero() {
            tell(self.stop_grace);
            ended = self.link.ended(more);
        }
        self.link.close();
        match ended {
            Some(_) => self.hear_out(),
            None => self.link.kill(),
        }
    }

    /// Waits for its last lines, which come before the end of its output. A process that it left behind may keep that open.
    fn hear_out(&mut self) {
        let end_ns = monotonic_ns().saturating_add(STOP_GRACE.as_nanos() as u64);
        while monotonic_ns() < end_ns && !matches!(self.link.receive(GLANCE), Received::End) {}
    }

    /// Asks it to stop without waiting, so that several agents stop at the same time. An agent without its
    /// lifeline has little time.
    pub fn release(&mut self) {
        if std::mem::replace(&mut self.is_released, true) {
            return;
        }
        let _ = self.send(&Request::Stop);
        if self.stop_grace <= STOP_GRACE {
            self.link.close();
        }
    }
}

/// The error for a reply of another kind than requested.
pub fn unexpected(expected: &str, reply: &Reply) -> SlotError {
    let words = serde_json::to_string(reply).unwrap_or_default();
    SlotError::Harness(format!("understand an agent: expected `{expected}`, got {words:.200}"))
}

/// Parses a line from the named agent.
fn read_reply(name: &str, line: &str, log: &ProcessLog) -> Result<Reply, SlotError> {
    match serde_json::from_str(line) {
        Ok(Reply::Failed { reason, cause, is_usage }) => {
            let reason = format!("{reason}{}", log.complaints(&reason));
            Err(match cause {
                FailureCause::System if is_usage => SlotError::Usage(reason),
                FailureCause::System => SlotError::Failed(reason),
                FailureCause::Harness => SlotError::Harness(reason),
            })
        }
        Ok(reply) => Ok(reply),
        Err(error) => Err(SlotError::Harness(format!("understand the agent {name}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::clock::{Clock, SimulatedClock};
    use crate::scripted;

    /// The reply of an agent that takes so long to answer, for which a minute is waited, and how long that took.
    fn asked(takes: Duration, interrupted_after: Duration) -> (Result<Reply, SlotError>, Duration) {
        let clock = Rc::new(SimulatedClock::default());
        let mut agent = scripted::agent("load", &clock, &[(takes, Reply::Stopped)]);
        let now = || Duration::from_nanos(clock.monotonic_ns());
        let interrupted = || now() >= interrupted_after;
        let patience = Patience { clock: &*clock, interrupted: &interrupted };
        (agent.ask(&Request::Hurry, Duration::from_secs(60), patience), now())
    }

    #[test]
    fn an_agent_has_as_long_as_it_was_given_to_answer() {
        let (never, just, long) = (Duration::MAX, Duration::from_millis(59_990), Duration::from_secs(61));
        assert_eq!(asked(just, never), (Ok(Reply::Stopped), just));
        let silence = "get an answer from the agent load within 60s".to_owned();
        assert_eq!(asked(long, never), (Err(SlotError::Failed(silence)), Duration::from_secs(60)));
    }

    #[test]
    fn the_user_need_not_wait_for_an_agent() {
        let (asks, long) = (Duration::from_millis(1_020), Duration::from_secs(50));
        assert_eq!(asked(long, asks), (Err(SlotError::Interrupted), Duration::from_millis(1_050)));
    }

    #[test]
    fn a_load_that_fails_by_itself_says_nothing_about_the_system() {
        let log = ProcessLog::here("load");
        let failed = |cause: &str| {
            read_reply("load", &format!(r#"{{"reply":"failed","reason":"measure","cause":"{cause}"}}"#), &log)
        };
        let usage = r#"{"reply":"failed","reason":"read ca.pem","cause":"system","is_usage":true}"#;
        assert_eq!(read_reply("load", usage, &log), Err(SlotError::Usage("read ca.pem".to_owned())));
        assert_eq!(failed("harness"), Err(SlotError::Harness("measure".to_owned())));
        assert_eq!(failed("system"), Err(SlotError::Failed("measure".to_owned())));
        assert!(matches!(read_reply("load", "hello", &log), Err(SlotError::Harness(_))));
    }
}
