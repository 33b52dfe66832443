//! Checks on answers: `status == 200`, `duration < 200 ms`, `body length == 612 B`, `body contains "x"`.
//!
//! A check that looks at the body does so while the body passes by, so that a body is never kept.

use std::fmt;

use memchr::memmem::Finder;
use plumb_model::Bytes;
use plumb_model::name::suggestion;
use plumb_model::quantity::{Dimension, Quantity, QuantityError};

/// A comparison of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// Longer symbols first, so that `<=` is not read as `<`.
    const SYMBOLS: [(&'static str, Self); 6] = [
        ("==", Self::Equal),
        ("!=", Self::Unequal),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
        }
    }
}

/// A check, ready to be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Demand {
    Status(Relation, u16),
    DurationNs(Relation, u64),
    BodyBytes(Relation, u64),
    BodyContains(Vec<u8>),
}

/// A condition that a good answer meets. It prints as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    text: String,
    demand: Demand,
}

/// Why a text is not a check.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{text}` is not a check: {why}")]
pub struct CheckError {
    text: String,
    why: NotCheck,
}

/// The reason why a text is not a check.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
enum NotCheck {
    #[error("every body contains an empty text")]
    Empty,
    #[error("put the text that the body must contain in quotes: `body contains \"ok\"`")]
    Unquoted,
    #[error("a check cannot look at `{_0}`; {}", suggestion(_0, SUBJECTS))]
    Subject(String),
    #[error("it compares with `==`, `!=`, `<`, `<=`, `>` or `>=`")]
    Relation,
    #[error("`{_0}` is not a status such as `200`")]
    Status(String),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

const SUBJECTS: [&str; 4] = ["status", "duration", "body length", "body contains"];

impl Check {
    /// Reads a check.
    ///
    /// # Errors
    /// When the text is not a check.
    pub fn parse(text: &str) -> Result<Self, CheckError> {
        let text = text.trim();
        let wrong = |why| CheckError { text: text.to_owned(), why };
        let demand = match text.strip_prefix("body contains") {
            Some(rest) => Demand::BodyContains(quoted(rest.trim()).map_err(wrong)?),
            None => comparison(text).map_err(wrong)?,
        };
        Ok(Self { text: text.to_owned(), demand })
    }

    /// The check as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    fn watches_body(&self) -> bool {
        matches!(self.demand, Demand::BodyBytes(..) | Demand::BodyContains(_))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn quoted(text: &str) -> Result<Vec<u8>, NotCheck> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match inner {
        Some("") => Err(NotCheck::Empty),
        Some(inner) => Ok(inner.replace("\\\"", "\"").replace("\\\\", "\\").into_bytes()),
        None => Err(NotCheck::Unquoted),
    }
}

fn comparison(text: &str) -> Result<Demand, NotCheck> {
    let found = text.find(['=', '!', '<', '>']);
    let (subject, rest) = text.split_at(found.unwrap_or(text.len()));
    let subject = subject.split_whitespace().collect::<Vec<_>>().join(" ");
    if !SUBJECTS.contains(&subject.as_str()) {
        return Err(NotCheck::Subject(subject));
    }
    let (symbol, relation) = Relation::SYMBOLS
        .into_iter()
        .find(|(symbol, _)| rest.starts_with(symbol))
        .ok_or(NotCheck::Relation)?;
    let value = rest[symbol.len()..].trim();
    match subject.as_str() {
        "status" => {
            let is_status = |status: &u16| (100..=999).contains(status);
            let status = value.parse().ok().filter(is_status);
            let status = status.ok_or_else(|| NotCheck::Status(value.to_owned()))?;
            Ok(Demand::Status(relation, status))
        }
        "duration" => {
            let time = Quantity::parse_as(value, Dimension::Time)?;
            Ok(Demand::DurationNs(relation, (time.value * 1e9).round() as u64))
        }
        _ => {
            let bytes = Bytes::parse(value)?;
            Ok(Demand::BodyBytes(relation, bytes.0))
        }
    }
}

/// The checks of one load, which are applied to every answer.
#[derive(Debug)]
pub struct Checks {
    checks: Vec<Check>,
    /// A finder for each `body contains`, in the order of the checks.
    finders: Vec<Finder<'static>>,
    watches_body: bool,
    /// Whether a check names the wanted status, which can be that of a failure.
    judges_status: bool,
}

/// The parts of a body that checks look at, gathered while it passes by. Kept per connection.
#[derive(Debug, Default)]
pub struct BodyWatch {
    bytes: u64,
    found: Vec<bool>,
    /// The end of the body so far, one byte shorter than the longest text that is looked for.
    tail: Vec<u8>,
}

impl Checks {
    /// Checks to be made on every answer.
    #[must_use]
    pub fn new(checks: Vec<Check>) -> Self {
        let finders = checks
            .iter()
            .filter_map(|check| match &check.demand {
                Demand::BodyContains(text) => Some(Finder::new(text).into_owned()),
                _ => None,
            })
            .collect();
        let watches_body = checks.iter().any(Check::watches_body);
        let judges_status = checks.iter().any(|check| matches!(check.demand, Demand::Status(..)));
        Self { checks, finders, watches_body, judges_status }
    }

    /// The checks in their order.
    #[must_use]
    pub fn all(&self) -> &[Check] {
        &self.checks
    }

    /// A new answer begins.
    pub fn begin(&self, watch: &mut BodyWatch) {
        if self.watches_body {
            watch.bytes = 0;
            watch.found.clear();
            watch.found.resize(self.finders.len(), false);
            watch.tail.clear();
        }
    }

    /// A piece of the body passes by.
    pub fn pass(&self, watch: &mut BodyWatch, piece: &[u8]) {
        if !self.watches_body {
            return;
        }
        watch.bytes += piece.len() as u64;
        let tail_bytes_max = self.finders.iter().map(|finder| finder.needle().len() - 1).max().unwrap_or(0);
        // Texts that lie across the border are looked for in the end of what passed and the beginning of this.
        let border = piece.len().min(tail_bytes_max);
        let tail_bytes = watch.tail.len();
        watch.tail.extend_from_slice(&piece[..border]);
        for (finder, found) in self.finders.iter().zip(&mut watch.found) {
            *found = *found
                || finder.find(piece).is_some()
                || (tail_bytes > 0 && finder.find(&watch.tail).is_some());
        }
        if piece.len() >= tail_bytes_max {
            watch.tail.clear();
            watch.tail.extend_from_slice(&piece[piece.len() - tail_bytes_max..]);
        } else {
            let excess = watch.tail.len().saturating_sub(tail_bytes_max);
            watch.tail.drain(..excess);
        }
    }

    /// Calls `each` with the index of every check and whether the complete answer passes it. Returns whether the answer is
    /// good: it passes all checks, and its status is below 400 unless a check names the wanted status.
    pub fn judge(
        &self,
        watch: &BodyWatch,
        status: u16,
        duration_ns: u64,
        mut each: impl FnMut(usize, bool),
    ) -> bool {
        let mut found = watch.found.iter();
        let mut is_good = status < 400 || self.judges_status;
        for (index, check) in self.checks.iter().enumerate() {
            let passes = match &check.demand {
                Demand::Status(relation, due) => relation.holds(&status, due),
                Demand::DurationNs(relation, due_ns) => relation.holds(&duration_ns, due_ns),
                Demand::BodyBytes(relation, due) => relation.holds(&watch.bytes, due),
                Demand::BodyContains(_) => found.next().copied().unwrap_or(false),
            };
            is_good &= passes;
            each(index, passes);
        }
        is_good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judged(checks: &[&str], status: u16, duration_ns: u64, pieces: &[&[u8]]) -> Vec<bool> {
        let checks = Checks::new(checks.iter().map(|text| Check::parse(text).unwrap()).collect());
        let mut watch = BodyWatch::default();
        // An earlier answer leaves nothing behind.
        checks.begin(&mut watch);
        checks.pass(&mut watch, b"something else that went before");
        checks.begin(&mut watch);
        pieces.iter().for_each(|piece| checks.pass(&mut watch, piece));
        let mut results = Vec::new();
        checks.judge(&watch, status, duration_ns, |index, passes| {
            assert_eq!(index, results.len());
            results.push(passes);
        });
        results
    }

    #[test]
    fn every_relation_is_what_it_says() {
        let checks =
            ["status == 200", "status != 200", "status<200", "status <= 200", "status > 200", "status >=200"];
        assert_eq!(judged(&checks, 200, 0, &[]), [true, false, false, true, false, true]);
        assert_eq!(judged(&checks, 199, 0, &[]), [false, true, true, true, false, false]);
    }

    #[test]
    fn a_status_of_failure_is_good_only_where_a_check_wants_it() {
        let is_good = |checks: &[&str], status| {
            let checks = Checks::new(checks.iter().map(|text| Check::parse(text).unwrap()).collect());
            checks.judge(&BodyWatch::default(), status, 0, |_, _| ())
        };
        assert!(is_good(&[], 399) && !is_good(&[], 400) && !is_good(&["duration < 1 s"], 503));
        assert!(is_good(&["status == 404"], 404) && !is_good(&["status == 404"], 200));
        assert!(!is_good(&["status < 500", "body length == 1 B"], 200));
    }

    #[test]
    fn durations_and_bodies_are_looked_at() {
        let checks =
            ["duration < 200 ms", "body length == 5 B", "body contains \"lo\"", "body contains \"\\\"\""];
        assert_eq!(judged(&checks, 200, 199_999_999, &[b"hel", b"lo"]), [true, true, true, false]);
        assert_eq!(judged(&checks, 200, 200_000_000, &[b"\"hel"]), [false, false, false, true]);
    }

    #[test]
    fn what_is_no_check_says_what_would_be_right() {
        let texts = [
            "",
            "statuss == 200",
            "status = 200",
            "status == ok",
            "status == 20",
            "duration < 5",
            "body length == 5 s",
            "body contains x",
            "body contains \"\"",
            "latency < 5 ms",
            "status",
        ];
        let errors = texts.map(|text| Check::parse(text).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @r#"
        `` is not a check: a check cannot look at ``; known: status, duration, body length, body contains
        `statuss == 200` is not a check: a check cannot look at `statuss`; did you mean `status`?
        `status = 200` is not a check: it compares with `==`, `!=`, `<`, `<=`, `>` or `>=`
        `status == ok` is not a check: `ok` is not a status such as `200`
        `status == 20` is not a check: `20` is not a status such as `200`
        `duration < 5` is not a check: `5` has no unit; expected a duration such as `5 s` or `200 us`
        `body length == 5 s` is not a check: `5 s` is a duration such as `5 s` or `200 us`; expected an amount of data such as `612 B` or `4 KiB`
        `body contains x` is not a check: put the text that the body must contain in quotes: `body contains "ok"`
        `body contains ""` is not a check: every body contains an empty text
        `latency < 5 ms` is not a check: a check cannot look at `latency`; known: status, duration, body length, body contains
        `status` is not a check: it compares with `==`, `!=`, `<`, `<=`, `>` or `>=`
        "#);
    }

    proptest! {
        #[test]
        fn a_text_is_found_however_the_body_is_split(
            before in "[ab]{0,12}", after in "[ab]{0,12}", text in "[ab]{1,6}", other in "[ab]{1,9}", size in 1..8_usize,
        ) {
            let body = format!("{before}{text}{after}");
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
            let checks = [format!("body contains \"{text}\""), format!("body contains \"{other}\"")];
            let results = judged(&[&checks[0], &checks[1]], 200, 0, &pieces);
            prop_assert_eq!(results, [true, body.contains(&other)]);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(body contains|status|duration|body length)?[ =<>!\"\\\\a0é]{0,12}") {
            drop(Check::parse(&text));
        }
    }
}
