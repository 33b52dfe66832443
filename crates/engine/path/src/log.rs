//! The log of this process, and of the processes whose lines reach it.
//!
//! Crates write it with `tracing`'s macros. Lines are held until somebody takes them: an agent or a keeper sends
//! them to the runner, and the runner writes them to the run directory. A thread that logs therefore never waits
//! for a pipe. Only events of this program's own crates are lines: libraries may log what must not be kept, such as
//! headers with passwords.
//!
//! No line is written between the opening and the close of a window by a thread that measures or is measured.

mod held;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use plumb_host::time::{monotonic_ns, wall_clock_rfc3339};
use plumb_model::{LogLevel, LogLine};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use held::Held;

/// The beginning of the targets that are kept.
const OWN: &str = "plumb_";

/// Receives the lines of all processes, each with the name of its process.
pub type Sink = Box<dyn FnMut(&str, &LogLine) + Send>;
/// Shows a line of a process.
pub type Show = Box<dyn Fn(&str, &LogLine) + Send + Sync>;

/// A handle of this process's log.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    process: String,
    /// The lowest level that is shown as it comes, and how.
    show: Option<(LogLevel, Show)>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    held: Held,
    sink: Option<Sink>,
    is_closed: bool,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Log").field("process", &self.0.process).finish_non_exhaustive()
    }
}

impl Log {
    /// Starts the log of this process. `process` is its name in its own lines. Lines from a level on are shown at
    /// once.
    pub fn start(process: &str, show: Option<(LogLevel, Show)>) {
        // The first log of a process stays.
        let _ = tracing::subscriber::set_global_default(Self::new(process, show));
    }

    pub(crate) fn new(process: &str, show: Option<(LogLevel, Show)>) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { process: process.to_owned(), show, state, changed }))
    }

    /// The log of this process; `None` if it has none.
    #[must_use]
    pub fn current() -> Option<Self> {
        tracing::dispatcher::get_default(|dispatch| dispatch.downcast_ref::<Self>().cloned())
    }

    /// Adds a line of some process.
    pub fn add(&self, process: &str, line: LogLine) {
        let Shared { show, changed, .. } = &*self.0;
        if let Some((_, show)) = show.as_ref().filter(|(lowest, _)| line.level <= *lowest) {
            show(process, &line);
        }
        let mut state = self.state();
        match &mut state.sink {
            Some(sink) => sink(process, &line),
            None => {
                state.held.push(process, line);
                changed.notify_all();
            }
        }
    }

    /// Passes all held lines and each later one to `sink`, which must not log anything.
    pub fn write_to(&self, mut sink: Sink) {
        let mut state = self.state();
        for (process, line) in state.held.take() {
            sink(&process, &line);
        }
        state.sink = Some(sink);
    }

    /// Drops the sink, and holds later lines.
    pub fn hold(&self) {
        self.state().sink = None;
    }

    /// Waits for a line to take; false once the log is closed.
    #[must_use]
    pub fn wait(&self) -> bool {
        let is_idle = |state: &mut State| state.held.is_empty() && !state.is_closed;
        let state = self.0.changed.wait_while(self.state(), is_idle);
        !state.unwrap_or_else(PoisonError::into_inner).is_closed
    }

    /// Takes the held lines.
    #[must_use]
    pub fn take(&self) -> Vec<(String, LogLine)> {
        self.state().held.take()
    }

    /// Ends every [`Log::wait`].
    pub fn close(&self) {
        self.state().is_closed = true;
        self.0.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line that was written now, such as one that another program wrote to its standard error.
#[must_use]
pub fn line_now(level: LogLevel, target: &str, message: &str) -> LogLine {
    LogLine {
        time: wall_clock_rfc3339(),
        at_ns: Some(monotonic_ns()),
        level,
        target: target.to_owned(),
        message: message.to_owned(),
        fields: Default::default(),
    }
    .bounded()
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with(OWN)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // No span is enabled.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = line_now(level(*metadata.level()), metadata.target(), "");
        event.record(&mut Fields(&mut line));
        self.add(&self.0.process, line.bounded());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

/// Collects the message and the fields of an event.
struct Fields<'l>(&'l mut LogLine);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.0.message);
        } else {
            self.0.fields.insert(field.name().to_owned(), value.to_owned());
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(log: &Log) -> Vec<String> {
        let words = |(process, line): &(String, LogLine)| format!("{process} {} {line}", line.level.word());
        log.take().iter().map(words).collect()
    }

    #[test]
    fn events_of_this_programs_crates_are_lines_and_others_are_not() {
        let log = Log::new("load", None);
        tracing::subscriber::with_default(log.clone(), || {
            tracing::info!(pid = 7, program = %"nginx", "started a program");
            tracing::warn!("it is {}", "late");
            tracing::error!(target: "hyper::client", "authorization: Basic c2VjcmV0");
            tracing::info_span!("a span").in_scope(|| tracing::trace!("within"));
            assert!(Log::current().is_some());
        });
        assert_eq!(
            taken(&log),
            ["load info started a program pid=7 program=nginx", "load warn it is late", "load trace within"]
        );
        assert!(Log::current().is_none());
    }

    #[test]
    fn a_line_has_its_module_and_both_clocks() {
        let log = Log::new("load", None);
        let before_ns = monotonic_ns();
        tracing::subscriber::with_default(log.clone(), || tracing::info!("x"));
        let (_, line) = log.take().remove(0);
        assert_eq!(line.target, module_path!());
        assert!((before_ns..=monotonic_ns()).contains(&line.at_ns.unwrap()));
        assert!(line.time.ends_with('Z'), "{}", line.time);
    }

    #[test]
    fn a_sink_gets_the_lines_from_before_it_and_those_after() {
        let log = Log::new("runner", None);
        let (sender, lines) = std::sync::mpsc::channel();
        log.add("keeper host1", line_now(LogLevel::Info, "plumb_x", "before"));
        log.write_to(Box::new(move |process, line| sender.send(format!("{process}: {line}")).unwrap()));
        log.add("runner", line_now(LogLevel::Info, "plumb_x", "after"));
        log.hold();
        log.add("runner", line_now(LogLevel::Info, "plumb_x", "held"));
        assert_eq!(lines.iter().collect::<Vec<_>>(), ["keeper host1: before", "runner: after"]);
        assert_eq!(taken(&log), ["runner info held"]);
    }

    #[test]
    fn lines_are_shown_from_their_level_on() {
        let (sender, shown) = std::sync::mpsc::channel();
        let show: Show = Box::new(move |_, line| sender.send(line.message.clone()).unwrap());
        let log = Log::new("runner", Some((LogLevel::Info, show)));
        for level in LogLevel::ALL {
            log.add("runner", line_now(level, "plumb_x", level.word()));
        }
        assert_eq!(shown.try_iter().collect::<Vec<_>>(), ["error", "warn", "info"]);
        assert_eq!(log.take().len(), 5, "what is not shown is kept all the same");
    }

    #[test]
    fn who_waits_for_lines_wakes_for_each_and_for_the_end() {
        let log = Log::new("load", None);
        let other = log.clone();
        let waiting = std::thread::spawn(move || {
            let mut taken = Vec::new();
            while other.wait() {
                taken.extend(other.take());
            }
            taken.extend(other.take());
            taken.len()
        });
        log.add("load", line_now(LogLevel::Info, "plumb_x", "1"));
        log.add("load", line_now(LogLevel::Info, "plumb_x", "2"));
        log.close();
        assert_eq!(waiting.join().unwrap(), 2);
    }
}
