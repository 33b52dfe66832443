//! Evidence that a treatment was in effect: statements of a kind, with their figures.
//!
//! A crate declares its statements with their words, as it declares its metrics, so that a new data path changes neither model
//! nor report. The words are filled in here and nowhere else. Run directories have them, too: the judge, the runner and other
//! programs that read runs know no report.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ByteRate, Bytes, Span, template};

/// A counter or a readable state that proves that the treatment was in effect.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The subject of the statement, such as `io-depth`; absent in runs from before evidence had kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Which of several it is of, such as a volume, a test or a setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The host, if it is another than the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The subject.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The observed value.
    pub observed: String,
    /// Whether the two agree.
    pub holds: bool,
    /// Whether it says only how well the machine kept up in its slot. If it does not hold, the slot was disturbed, which says nothing
    /// about the treatment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_slot: bool,
    /// The figures in both by name. The name ends with the unit, if there is one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

impl Evidence {
    /// Whether both are about the same thing. Evidence from before there were kinds is told by its words.
    #[must_use]
    pub fn is_about_same(&self, other: &Self) -> bool {
        match self.kind.is_empty() || other.kind.is_empty() {
            true => self.what == other.what,
            false => (&self.kind, &self.of, &self.host) == (&other.kind, &other.of, &other.host),
        }
    }

    /// Whether it is of a kind, given by its key, or by its words as in plans from before there were kinds.
    #[must_use]
    pub fn is_of_kind(&self, kind: &str) -> bool {
        [&self.kind, &self.what].into_iter().any(|known| known == kind)
    }

    /// The same evidence of a host that is not the system's.
    #[must_use]
    pub fn on(self, host: &str) -> Self {
        Self { what: format!("{} on {host}", self.what), host: Some(host.to_owned()), ..self }
    }

    /// Whether it denies that the treatment was in effect.
    #[must_use]
    pub fn denies(&self) -> bool {
        !self.holds && !self.of_slot
    }

    /// Adds a later observation to those of other things: the first that does not hold stays, and otherwise the last.
    pub fn add_to(&self, known: &mut Vec<Self>) {
        match known.iter_mut().find(|known| known.is_about_same(self)) {
            Some(known) if known.holds => known.clone_from(self),
            Some(_) => {}
            None => known.push(self.clone()),
        }
    }
}

/// The statement that does not hold, as a sentence without its end.
impl fmt::Display for Evidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, expected, observed, .. } = self;
        write!(formatter, "expected {what} to be {expected}; observed {observed}")
    }
}

/// The words of one kind of evidence, as templates.
///
/// `{name}` stands for the fact of that name, and may end with the form of a figure: `{name:.1}` has one decimal, `{name:%}` and
/// `{name:.1%}` are a share in percent, `{name:B}` is in bytes, `{name:B/s}` in bytes per second, `{name:bits}` in
/// bytes and bits per second, and `{name:ns}` a time in ns. A unit may follow, which a text in its place does not get:
/// `{name:.0 IOPS}`.
#[derive(Debug, Clone, Copy)]
pub struct Statement {
    /// The kind of the evidence.
    pub kind: &'static str,
    /// The subject. Only `{of}` may stand in it, so that kind and `of` tell evidence apart.
    pub what: &'static str,
    /// The expected value.
    pub expected: &'static str,
    /// The observed value.
    pub observed: &'static str,
}

/// Declares [`Statement`]s: name, kind, and the templates of what is looked at, of what it should be, and of what it was.
#[macro_export]
macro_rules! statements {
    ($($name:ident = $kind:literal: $what:expr, $expected:expr, $observed:expr;)*) => {
        $(const $name: $crate::Statement =
            $crate::Statement { kind: $kind, what: $what, expected: $expected, observed: $observed };)*
    };
}

/// A figure or a text in a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A figure.
    Figure(f64),
    /// A name, a state, or words.
    Text(String),
}

/// Facts by name, from variables and from values: `facts![asked, work = measurement.work]`.
#[macro_export]
macro_rules! facts {
    (@ $name:ident) => { $crate::Fact::from($name) };
    (@ $name:ident = $value:expr) => { $crate::Fact::from($value) };
    ($($name:ident $(= $value:expr)?),* $(,)?) => {
        [$((stringify!($name), $crate::facts!(@ $name $(= $value)?))),*]
    };
}

impl Statement {
    /// Evidence with these facts. The fact `of` is which of several it is of.
    #[must_use]
    pub fn evidence<const N: usize>(&self, holds: bool, facts: [(&str, Fact); N]) -> Evidence {
        let words = |template| {
            template::fill(template, |hole| {
                let (name, form) = hole.split_once(':').unwrap_or((hole, ""));
                let fact = facts.iter().find(|(known, _)| *known == name);
                debug_assert!(fact.is_some(), "{}: no fact {name}", self.kind);
                fact.map_or_else(String::new, |(_, fact)| fact.shown(form))
            })
        };
        let [what, expected, observed] = [self.what, self.expected, self.observed].map(words);
        let (mut of, mut figures) = (None, BTreeMap::new());
        for (name, fact) in facts {
            match fact {
                Fact::Text(text) if name == "of" => of = Some(text),
                // JSON has no other numbers.
                Fact::Figure(figure) if figure.is_finite() => drop(figures.insert(name.to_owned(), figure)),
                Fact::Text(_) | Fact::Figure(_) => {}
            }
        }
        Evidence {
            kind: self.kind.to_owned(),
            of,
            host: None,
            what,
            expected,
            observed,
            holds,
            of_slot: false,
            figures,
        }
    }

    /// Evidence that holds if the facts `asked` and `seen` are equal.
    #[must_use]
    pub fn equal<const N: usize>(&self, facts: [(&str, Fact); N]) -> Evidence {
        let fact = |name| facts.iter().find(|(known, _)| *known == name).map(|(_, fact)| fact);
        let holds = fact("asked") == fact("seen");
        self.evidence(holds, facts)
    }
}

impl Fact {
    fn shown(&self, form: &str) -> String {
        let figure = match self {
            Self::Text(text) => return text.clone(),
            Self::Figure(figure) => *figure,
        };
        let decimals = |form: &str| form.strip_prefix('.').and_then(|digits| digits.parse().ok());
        let unit_at = form.find(' ').unwrap_or(form.len());
        let (form, unit) = form.split_at(unit_at);
        let words = match (form, form.strip_suffix('%')) {
            ("B", _) => Bytes(figure as u64).to_string(),
            ("B/s", _) => ByteRate(figure).to_string(),
            ("bits", _) => ByteRate(figure).with_bits(),
            ("ns", _) => Span(figure as u64).to_string(),
            (_, Some(form)) => format!("{:.*}%", decimals(form).unwrap_or(0), figure * 100.0),
            _ => match decimals(form) {
                Some(decimals) => format!("{figure:.decimals$}"),
                None => figure.to_string(),
            },
        };
        words + unit
    }
}

/// Converts a missing value to `none`.
impl<T: Into<Self>> From<Option<T>> for Fact {
    fn from(fact: Option<T>) -> Self {
        fact.map_or_else(|| Self::from("none"), Into::into)
    }
}

macro_rules! from {
    ($($from:ty => |$value:ident| $fact:expr),* $(,)?) => {
        $(impl From<$from> for Fact {
            fn from($value: $from) -> Self {
                $fact
            }
        })*
    };
}

from! {
    f64 => |figure| Self::Figure(figure),
    u64 => |count| Self::Figure(count as f64),
    u32 => |count| Self::Figure(f64::from(count)),
    usize => |count| Self::Figure(count as f64),
    String => |text| Self::Text(text),
    &str => |text| Self::Text(text.to_owned()),
}

#[cfg(test)]
mod tests {
    use super::*;

    statements! {
        DEPTH = "io-depth": "reads in flight of {of}", "at least {least:.1} of {asked} on average", "{achieved:.1%} ({size_bytes:B})";
    }

    fn depth(of: &str, achieved: f64, holds: bool) -> Evidence {
        DEPTH.evidence(holds, facts![of, least = 57.6, asked = 64_u32, achieved, size_bytes = 4096_u64])
    }

    #[test]
    fn a_statement_keeps_its_figures_beside_its_words() {
        let evidence = depth("vol1", 0.4567, false);
        assert_eq!(
            evidence.to_string(),
            "expected reads in flight of vol1 to be at least 57.6 of 64 on average; observed 45.7% (4 KiB)"
        );
        let figures = serde_json::to_value(&evidence.figures).unwrap();
        let expected =
            serde_json::json!({ "achieved": 0.4567, "asked": 64.0, "least": 57.6, "size_bytes": 4096.0 });
        assert_eq!(figures, expected);
        let unknown = depth("vol1", f64::NAN, false);
        let json = serde_json::to_string(&unknown).unwrap();
        assert_eq!(serde_json::from_str::<Evidence>(&json).unwrap(), unknown);
    }

    #[test]
    fn evidence_is_told_by_kind_part_and_host_and_that_of_older_runs_by_its_words() {
        let (one, other) = (depth("vol1", 0.5, true), depth("vol2", 0.5, true));
        assert!(one.is_about_same(&depth("vol1", 0.9, false)) && !one.is_about_same(&other));
        assert!(!one.is_about_same(&one.clone().on("client1")));
        assert_eq!(one.clone().on("client1").what, "reads in flight of vol1 on client1");
        let old = r#"{"what":"reads in flight of vol1","expected":"64","observed":"64","holds":true}"#;
        let read: Evidence = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
        assert!(read.is_about_same(&one) && !read.is_about_same(&other));
        assert!(one.is_of_kind("io-depth") && read.is_of_kind("reads in flight of vol1"));
    }

    #[test]
    fn of_observations_of_the_same_the_first_that_does_not_hold_stays() {
        let mut known = Vec::new();
        for (achieved, holds) in [(0.9, true), (0.8, true), (0.1, false), (0.2, false), (0.7, true)] {
            depth("vol1", achieved, holds).add_to(&mut known);
        }
        assert_eq!(known, [depth("vol1", 0.1, false)]);
    }
}
