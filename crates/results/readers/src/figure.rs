//! Figures that a tool prints: each is read in the tool's own form, or refused at its place.

use std::borrow::Cow;

use crate::text::{count, first_word, is_unclear, number};

/// Why a part of a text cannot be read.
#[derive(Debug, PartialEq)]
pub(crate) enum Unreadable<'t> {
    /// A figure in a form that the tool does not print: a slice of the text, or a copy of one.
    Figure(Cow<'t, str>),
    /// A row that has another number of figures than the tool prints: a slice of the text.
    Row(&'t str),
    /// A reason at a place, both counted from 1.
    At { line: usize, column: usize, reason: String },
    /// Anything else, in words.
    Other(String),
}

impl From<String> for Unreadable<'_> {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl From<&str> for Unreadable<'_> {
    fn from(reason: &str) -> Self {
        Self::Other(reason.to_owned())
    }
}

impl Unreadable<'_> {
    /// The reason in words, with its place in `text`, whose first line has this number.
    pub(crate) fn in_words(&self, text: &str, first_line: usize) -> String {
        let found = match self {
            Self::Other(reason) => return reason.clone(),
            Self::At { line, column, reason } => {
                return format!("line {}, column {column}: {reason}", first_line - 1 + line);
            }
            Self::Row(row) => {
                let reason = "this row has another number of figures than the tool prints".to_owned();
                return Unreadable::at(text, place(row.trim_start(), text), reason)
                    .in_words(text, first_line);
            }
            Self::Figure(found) => found.trim_start(),
        };
        let word = first_word(found).trim_end_matches([',', ';', ')', ']']);
        let reason = if is_unclear(word) {
            "could be read as two different numbers; write it without separators"
        } else {
            "is not a figure in a form that the tool prints"
        };
        Unreadable::at(text, place(found, text), format!("`{word}` {reason}")).in_words(text, first_line)
    }

    /// A reason at an offset of a text.
    pub(crate) fn at(text: &str, offset: usize, reason: String) -> Self {
        let before = &text[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        Self::At { line, column, reason }
    }
}

/// The offset of a slice in a text; of a copy, that of the first text like it.
pub(crate) fn place(found: &str, text: &str) -> usize {
    let offset = found.as_ptr().addr().checked_sub(text.as_ptr().addr());
    let slice = offset.filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(found)));
    slice.or_else(|| text.find(found)).unwrap_or_default()
}

/// A figure in the form that the tool prints, such as [`positive`].
pub(crate) fn figure<'t, T>(text: &'t str, form: impl Fn(&str) -> Option<T>) -> Result<T, Unreadable<'t>> {
    form(text).ok_or(Unreadable::Figure(Cow::Borrowed(text)))
}

/// As [`figure`]; `None` if the tool printed nothing here, or that it has no value.
pub(crate) fn printed<'t, T>(
    found: Option<&'t str>,
    form: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Unreadable<'t>> {
    found.map(str::trim).filter(|text| !is_absent(text)).map(|text| figure(text, form)).transpose()
}

/// Whether a tool says that it has no value. For some of them, such as netperf, that is -1.
pub(crate) fn is_absent(text: &str) -> bool {
    const ABSENT: [&str; 3] = ["-", "n/a", "none"];
    let word = text.split_whitespace().next().unwrap_or_default();
    if is_no_number(word) {
        return true;
    }
    let word = word.trim_end_matches(['%', 's']);
    word.is_empty()
        || ABSENT.iter().any(|absent| word.eq_ignore_ascii_case(absent))
        || number(word).is_some_and(|number| number < 0.0)
}

/// `nan` or `inf` of any unit, as C prints them: wrk2 has `-nanus`, openssl `infs`.
fn is_no_number(word: &str) -> bool {
    const UNITS: [&str; 9] = ["", "%", "s", "ms", "us", "ns", "\u{b5}s", "\u{3bc}s", "k"];
    let word = word.trim_start_matches('-').to_ascii_lowercase();
    let unit = word.strip_prefix("nan").or_else(|| word.strip_prefix("inf"));
    unit.is_some_and(|unit| UNITS.contains(&unit))
}

/// Whether a figure has the decimals with which some tools print all of theirs, so that none of its digits is missing.
pub(crate) fn has_three_decimals(text: &str) -> bool {
    let figure = text.split_whitespace().next().and_then(|word| word.split_once('.'));
    figure.is_some_and(|(_, decimals)| decimals.len() == 3)
}

/// A count that is 0 if it was not printed.
pub(crate) fn counted(found: Option<&str>) -> Result<u64, Unreadable<'_>> {
    Ok(printed(found, count)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::positive;

    #[test]
    fn a_fault_has_its_place() {
        let text = "1,086 y\nReq/s:  1,086 x";
        let fault = figure(&text[16..], positive).unwrap_err();
        assert!(fault.in_words(text, 7).starts_with("line 8, column 9: `1,086` could be"), "{fault:?}");
        let text = "took 1 834 206 ms 7";
        let words = figure(&text[5..], positive).unwrap_err().in_words(text, 1);
        assert!(words.starts_with("line 1, column 6: `1 834 206` could be"), "{words}");
    }

    #[test]
    fn no_value_is_none_and_another_form_is_a_fault() {
        for absent in
            ["", " ", "-", "N/A", "nan", "-nan%", "NaN s", "-1", "-1.00", "-nanus", "nank", "infs", "-inf"]
        {
            assert_eq!(printed(Some(absent), positive), Ok(None), "{absent}");
        }
        for wrong in ["--", "x", "1.086M", "0x10", "12ms34", "1e6x", "12,5", "nano", "info"] {
            assert!(printed(Some(wrong), positive).is_err(), "{wrong}");
        }
        assert_eq!((printed(Some("5 x"), positive), printed(None, positive)), (Ok(Some(5.0)), Ok(None)));
    }
}
