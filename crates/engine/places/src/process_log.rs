//! The log of one process of the run, as its lines arrive at the runner.
//!
//! Each line goes on to the run's log, with its moment on the runner's clock. The last ones also stay here, so that
//! the error for a process that ended can quote them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plumb_model::{LogLevel, LogLine};
use plumb_path::log::Log;

use crate::clock_offset::ClockOffset;

/// How many lines stay here.
const LAST_MAX: usize = 16;
/// How many of them an error quotes, and how much of each, in characters.
const QUOTED_MAX: usize = 3;
const QUOTED_CHARACTERS_MAX: usize = 300;

/// The log of a process. Clones share its lines.
#[derive(Clone)]
pub struct ProcessLog(Arc<Inner>);

struct Inner {
    process: String,
    clock: SharedClock,
    last: Mutex<Last>,
}

/// The clock of a host, once it is known.
type SharedClock = Arc<Mutex<Option<ClockOffset>>>;

#[derive(Default)]
struct Last {
    lines: VecDeque<LogLine>,
    /// How many of them came since the last request.
    fresh: usize,
}

impl ProcessLog {
    /// The log of a process on this host.
    pub fn here(process: &str) -> Self {
        Self::with_clock(process, Arc::new(Mutex::new(Some(ClockOffset::default()))))
    }

    /// The log of a process on another host, whose clock is still unknown.
    pub fn elsewhere(process: &str) -> Self {
        Self::with_clock(process, SharedClock::default())
    }

    /// The log of another process on the same host.
    pub fn beside(&self, process: &str) -> Self {
        Self::with_clock(process, Arc::clone(&self.0.clock))
    }

    fn with_clock(process: &str, clock: SharedClock) -> Self {
        Self(Arc::new(Inner { process: process.to_owned(), clock, last: Mutex::default() }))
    }

    /// Sets the relation of the host's clock to this one's.
    pub(crate) fn set_clock(&self, clock: ClockOffset) {
        *self.0.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
    }

    /// Takes a line of the process.
    pub fn take(&self, line: LogLine) {
        let clock = *self.0.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let at_ns = clock.zip(line.at_ns).map(|(clock, at_ns)| clock.ours(at_ns));
        let line = LogLine { at_ns, ..line };
        let mut last = self.last();
        if last.lines.len() == LAST_MAX {
            last.lines.pop_front();
        }
        last.lines.push_back(line.clone());
        last.fresh = last.lines.len().min(last.fresh + 1);
        drop(last);
        if let Some(log) = Log::current() {
            log.add(&self.0.process, line);
        }
    }

    /// Notes that a request is about to be sent.
    pub(crate) fn begin_request(&self) {
        self.last().fresh = 0;
    }

    /// The last lines, as the end of an error about the process; empty if there are none. Those before the last
    /// request are left out if there are later ones, because errors with one cause should read alike.
    pub(crate) fn last_lines(&self) -> String {
        let last = self.last();
        let is_told = |line: &&LogLine| line.level <= LogLevel::Info;
        let fresh = quoted(last.lines.iter().rev().take(last.fresh).filter(is_told));
        if fresh.is_empty() { quoted(last.lines.iter().rev().filter(is_told)) } else { fresh }
    }

    /// The warnings and errors since the last request, as the end of an error with this reason, which they do not
    /// repeat; empty if there are none.
    pub(crate) fn complaints(&self, reason: &str) -> String {
        let last = self.last();
        let is_new = |line: &&LogLine| {
            line.level <= LogLevel::Warn
                && !reason.contains(&line.message)
                && line.fields.get("reason").is_none_or(|said| !reason.contains(said))
        };
        quoted(last.lines.iter().rev().take(last.fresh).filter(is_new))
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some lines, given from the last one back.
fn quoted<'l>(lines: impl Iterator<Item = &'l LogLine>) -> String {
    let mut quotes: Vec<String> = lines
        .take(QUOTED_MAX)
        .map(|line| line.to_string().chars().take(QUOTED_CHARACTERS_MAX).collect())
        .collect();
    quotes.reverse();
    match quotes.len() {
        0 => String::new(),
        1 => format!("; its last log line: {}", quotes[0]),
        _ => format!("; its last log lines: {}", quotes.join(" / ")),
    }
}

#[cfg(test)]
mod tests {
    use plumb_path::log::line_now;

    use super::*;

    fn line(level: LogLevel, message: &str) -> LogLine {
        LogLine { at_ns: Some(1000), ..line_now(level, "plumb_x", message) }
    }

    #[test]
    fn the_error_for_a_process_quotes_its_last_lines() {
        let log = ProcessLog::here("load");
        assert_eq!(log.last_lines(), "");
        log.take(line(LogLevel::Info, "preparing"));
        insta::assert_snapshot!(log.last_lines(), @"; its last log line: preparing");
        for number in 0..50 {
            log.take(line(LogLevel::Info, &format!("step {number}")));
        }
        log.take(line(LogLevel::Debug, "a detail"));
        log.take(line(LogLevel::Error, &"x".repeat(1000)));
        let quoted = log.last_lines();
        assert!(quoted.starts_with("; its last log lines: step 48 / step 49 / xxx"), "{quoted}");
        assert!(quoted.len() < 400, "{} bytes", quoted.len());
        log.begin_request();
        assert_eq!(log.last_lines(), quoted);
        log.take(line(LogLevel::Info, "measuring"));
        insta::assert_snapshot!(log.last_lines(), @"; its last log line: measuring");
    }

    #[test]
    fn a_failed_request_quotes_what_its_reason_does_not_say() {
        let log = ProcessLog::here("system-a");
        log.take(line(LogLevel::Warn, "of an earlier request"));
        log.begin_request();
        log.take(line(LogLevel::Info, "preparing"));
        log.take(line(LogLevel::Warn, "the port is in use"));
        let mut failed = line(LogLevel::Error, "the request failed");
        failed.fields.insert("reason".to_owned(), "start nginx".to_owned());
        log.take(failed);
        insta::assert_snapshot!(log.complaints("start nginx"), @"; its last log line: the port is in use");
        assert_eq!(log.complaints("start nginx: the port is in use"), "");
    }

    #[test]
    fn moments_of_another_host_are_translated_once_its_clock_is_known() {
        let keeper = ProcessLog::elsewhere("keeper host1");
        let agent = keeper.beside("load on host1");
        let at_ns = |log: &ProcessLog| {
            log.take(line(LogLevel::Info, "x"));
            log.last().lines.back().unwrap().at_ns
        };
        assert_eq!((at_ns(&keeper), at_ns(&agent)), (None, None));
        keeper.set_clock(ClockOffset { ahead_ns: 400, bound_ns: 1 });
        assert_eq!((at_ns(&keeper), at_ns(&agent)), (Some(600), Some(600)));
    }
}
