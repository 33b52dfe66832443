//! Lines of a log that nobody has taken yet: bounded for each process, the oldest dropped first.

use std::collections::{BTreeMap, VecDeque};

use plumb_model::{LOG_BYTES_MAX, LogLevel, LogLine};

/// The target of the line that counts dropped ones.
const TARGET: &str = "plumb_path::log";

/// Lines of some processes, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Held {
    lines: VecDeque<(String, LogLine)>,
    by_process: BTreeMap<String, Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    dropped: u64,
}

impl Held {
    /// Adds a line.
    pub(super) fn push(&mut self, process: &str, line: LogLine) {
        let kept = self.by_process.entry(process.to_owned()).or_default();
        kept.bytes += line.bytes();
        self.lines.push_back((process.to_owned(), line));
        while kept.bytes > LOG_BYTES_MAX {
            let Some(oldest) = self.lines.iter().position(|(of, _)| of == process) else { break };
            if let Some((_, line)) = self.lines.remove(oldest) {
                kept.bytes -= line.bytes();
                kept.dropped += 1;
            }
        }
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes all lines. The first one of a process whose lines were dropped says how many.
    pub(super) fn take(&mut self) -> Vec<(String, LogLine)> {
        let dropped = std::mem::take(&mut self.by_process);
        let first_of = |process: &str| self.lines.iter().find(|(of, _)| of == process);
        let notes = dropped.into_iter().filter(|(_, kept)| kept.dropped > 0).filter_map(|(process, kept)| {
            let (_, first) = first_of(&process)?;
            let note = dropped_lines(kept.dropped, first.time.clone());
            Some((process, note))
        });
        let notes: Vec<_> = notes.collect();
        notes.into_iter().chain(std::mem::take(&mut self.lines)).collect()
    }
}

/// The line in place of lines that were dropped.
fn dropped_lines(count: u64, time: String) -> LogLine {
    LogLine {
        time,
        at_ns: None,
        level: LogLevel::Warn,
        target: TARGET.to_owned(),
        message: format!("{count} lines dropped"),
        fields: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str) -> LogLine {
        LogLine { message: message.to_owned(), ..dropped_lines(0, "now".to_owned()) }
    }

    fn messages(held: &mut Held) -> Vec<(String, String)> {
        held.take().into_iter().map(|(process, line)| (process, line.message)).collect()
    }

    #[test]
    fn lines_are_taken_once_and_in_order() {
        let mut held = Held::default();
        held.push("a", line("1"));
        held.push("b", line("2"));
        held.push("a", line("3"));
        let text = |process: &str, text: &str| (process.to_owned(), text.to_owned());
        assert_eq!(messages(&mut held), [text("a", "1"), text("b", "2"), text("a", "3")]);
        assert!(held.is_empty() && messages(&mut held).is_empty());
    }

    #[test]
    fn the_oldest_lines_of_a_talkative_process_are_dropped_and_counted() {
        let mut held = Held::default();
        held.push("quiet", line("first"));
        let long = "x".repeat(4000);
        for number in 0..1000 {
            held.push("talkative", line(&format!("{number} {long}")));
        }
        let bytes: usize = held.lines.iter().map(|(_, line)| line.bytes()).sum();
        assert!(bytes <= LOG_BYTES_MAX + line("first").bytes());
        let taken = messages(&mut held);
        let kept = taken.iter().filter(|(_, text)| text.ends_with('x')).count();
        assert_eq!(taken[0].1, format!("{} lines dropped", 1000 - kept));
        assert_eq!(taken[1], ("quiet".to_owned(), "first".to_owned()));
        assert!(taken.last().unwrap().1.starts_with("999 "));
        held.push("talkative", line("again"));
        assert_eq!(messages(&mut held).len(), 1, "what was counted once is not counted again");
    }
}
