//! A line of a process's log.
//!
//! Its size is bounded when it is made, so that whatever passes it on (an agent, a keeper, the run directory)
//! need not check it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The most bytes that a line has as JSON.
pub const LOG_LINE_BYTES_MAX: usize = 8 << 10;
/// The most bytes of lines that are kept for a process.
pub const LOG_BYTES_MAX: usize = 1 << 20;

/// The most bytes of a message, of all fields, and of a name, as JSON.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
const FIELDS_BYTES_MAX: usize = 3 << 10;
const NAME_BYTES_MAX: usize = 128;
/// The text in place of what a bound cut off.
const CUT: &str = "…";

crate::named! {
    /// The importance of a line, from high to low.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum LogLevel: word {
        /// Something failed.
        Error = "error",
        /// Something is not as it should be, and the process goes on.
        Warn = "warn",
        /// A step of the run.
        Info = "info",
        /// A detail of a step.
        Debug = "debug",
        /// Each message between processes.
        Trace = "trace",
    }
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// The wall clock of the process's host, as RFC 3339 in UTC.
    pub time: String,
    /// The monotonic clock, in ns: the process's own as it is written, the runner's in a run directory; `None`
    /// if the relation of the two is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<u64>,
    /// The importance.
    pub level: LogLevel,
    /// The module that wrote it, or `stderr` for what a process wrote there.
    pub target: String,
    /// The text.
    pub message: String,
    /// Values by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

impl LogLine {
    /// The line, cut so that it is at most [`LOG_LINE_BYTES_MAX`] long.
    #[must_use]
    pub fn bounded(self) -> Self {
        let Self { time, at_ns, level, target, message, fields } = self;
        let mut left = FIELDS_BYTES_MAX;
        let mut kept = BTreeMap::new();
        for (name, value) in fields {
            let name = cut(&name, NAME_BYTES_MAX);
            // Quotes, a colon and a comma.
            let name_bytes = json_bytes(&name) + 6;
            if left < name_bytes + CUT.len() {
                break;
            }
            let value = cut(&value, left - name_bytes);
            left -= name_bytes + json_bytes(&value);
            kept.insert(name, value);
        }
        Self {
            time: cut(&time, NAME_BYTES_MAX),
            at_ns,
            level,
            target: cut(&target, NAME_BYTES_MAX),
            message: cut(&message, MESSAGE_BYTES_MAX),
            fields: kept,
        }
    }

    /// About how much memory or disk it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len() + 6).sum::<usize>();
        100 + self.target.len() + self.message.len() + fields
    }
}

impl fmt::Display for LogLine {
    /// Writes the message and its fields.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        for (name, value) in &self.fields {
            if value.is_empty() || value.contains([' ', '"', '\n']) {
                write!(formatter, " {name}={value:?}")?;
            } else {
                write!(formatter, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

/// The text, shortened to this many bytes as JSON.
fn cut(text: &str, bytes_max: usize) -> String {
    if json_bytes(text) <= bytes_max {
        return text.to_owned();
    }
    let mut left = bytes_max.saturating_sub(CUT.len());
    let fits = |character: &char| {
        let bytes = json_bytes_of(*character);
        let is_room = bytes <= left;
        left = left.saturating_sub(bytes);
        is_room
    };
    text.chars().take_while(fits).collect::<String>() + CUT
}

fn json_bytes(text: &str) -> usize {
    text.chars().map(json_bytes_of).sum()
}

/// The bytes of a character in a JSON text.
fn json_bytes_of(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        character if character < ' ' => 6,
        character => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(message: &str, fields: &[(&str, &str)]) -> LogLine {
        LogLine {
            time: "2026-03-01T12:00:00.250Z".to_owned(),
            at_ns: Some(u64::MAX),
            level: LogLevel::Info,
            target: "plumb_path::agent".to_owned(),
            message: message.to_owned(),
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    #[test]
    fn a_short_line_stays_as_it_is_and_is_read_back() {
        let short = line("started a program", &[("pid", "7")]);
        assert_eq!(short.clone().bounded(), short);
        let json = serde_json::to_string(&short).unwrap();
        assert_eq!(serde_json::from_str::<LogLine>(&json).unwrap(), short);
    }

    #[test]
    fn a_line_is_shown_with_its_fields() {
        let shown = line("it ended", &[("code", "3"), ("said", "no \"x\"")]).to_string();
        assert_eq!(shown, r#"it ended code=3 said="no \"x\"""#);
    }

    #[test]
    fn an_error_is_the_highest_level() {
        assert!(LogLevel::ALL.is_sorted() && LogLevel::Error < LogLevel::Trace);
    }

    proptest! {
        #[test]
        fn a_line_is_bounded_whatever_is_in_it(
            message in "(.|\\n|\\x00|\"){0,6000}",
            fields in proptest::collection::btree_map(".{0,300}", ".{0,3000}", 0..6),
        ) {
            let long = LogLine { fields, target: message.clone(), ..line(&message, &[]) };
            let bounded = long.clone().bounded();
            prop_assert!(serde_json::to_string(&bounded).unwrap().len() <= LOG_LINE_BYTES_MAX);
            prop_assert_eq!(bounded.message == long.message, json_bytes(&message) <= MESSAGE_BYTES_MAX);
        }
    }
}
