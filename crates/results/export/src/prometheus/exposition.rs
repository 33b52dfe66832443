//! The text format itself: families with help and type, labels with their escapes, numbers.

use std::fmt::Write as _;

use plumb_model::printable;

/// Labels of a sample, without the braces.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Labels(String);

impl Labels {
    pub(super) fn new(labels: &[(&str, &str)]) -> Self {
        Self::default().and(labels)
    }

    /// These labels, followed by `labels`.
    pub(super) fn and(&self, labels: &[(&str, &str)]) -> Self {
        let mut text = self.0.clone();
        for (name, value) in labels {
            let comma = if text.is_empty() { "" } else { "," };
            // `printable` has replaced line breaks, so only quotes and backslashes need an escape.
            let value = printable(value).replace('\\', r"\\").replace('"', "\\\"");
            let _ = write!(text, "{comma}{name}=\"{value}\"");
        }
        Self(text)
    }
}

/// Samples by family. The format requires the samples of a family to be together.
#[derive(Debug, Clone)]
pub(super) struct Exposition {
    /// Name, help, and the lines of the samples.
    families: Vec<(&'static str, &'static str, String)>,
}

impl Exposition {
    /// Creates an exposition without samples. The families are gauges with these names and help texts, in
    /// this order.
    pub(super) fn new(help: &[(&'static str, &'static str)]) -> Self {
        Self { families: help.iter().map(|(name, help)| (*name, *help, String::new())).collect() }
    }

    /// Adds a sample. It is dropped if its family is not declared, which fails in debug builds.
    pub(super) fn add(&mut self, family: &str, labels: &Labels, value: f64) {
        let Some((name, _, lines)) = self.families.iter_mut().find(|(name, ..)| *name == family) else {
            debug_assert!(false, "{family} is not declared");
            return;
        };
        let _ = writeln!(lines, "{name}{{{}}} {}", labels.0, number(value));
    }

    /// Adds the samples of another exposition of the same families.
    pub(super) fn append(&mut self, other: &Self) {
        for ((_, _, lines), (_, _, more)) in self.families.iter_mut().zip(&other.families) {
            lines.push_str(more);
        }
    }

    /// The text of the families that have samples.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, help, lines) in self.families.iter().filter(|(.., lines)| !lines.is_empty()) {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{lines}");
        }
        text
    }
}

/// A number as Go's `ParseFloat` reads it.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}
