//! JSON that tools write, with whatever other text is around it.

use std::ops::Range;

use serde_json::Value;

use crate::figure::Unreadable;
use crate::text::MARKS;

/// The JSON objects in a text that begin at the start of a line.
#[derive(Debug, Default)]
pub(crate) struct Documents<'t> {
    pub(crate) found: Vec<Value>,
    /// The other lines: tools print warnings before and between their JSON.
    pub(crate) around: Vec<&'t str>,
    /// Whether the last object is incomplete.
    pub(crate) is_cut: bool,
    /// The first error within an object.
    pub(crate) broken: Option<Unreadable<'static>>,
}

/// Finds the objects in a text. Whatever does not parse is other text.
pub(crate) fn documents(text: &str) -> Documents<'_> {
    let mut documents = Documents::default();
    let mut rest = text;
    while !rest.is_empty() && !documents.is_cut {
        let line_end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let line = &rest[..line_end];
        if line.trim_start().starts_with('{') {
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            match stream.next() {
                Some(Ok(value)) => {
                    rest = &rest[stream.byte_offset()..];
                    documents.found.push(value);
                    continue;
                }
                // Do not look for objects inside it.
                Some(Err(error)) => {
                    documents.is_cut = error.is_eof();
                    let is_object = rest.trim_start()[1..].trim_start().starts_with('"');
                    if is_object && !error.is_eof() && documents.broken.is_none() {
                        documents.broken = Some(not_json(&error, &text[..text.len() - rest.len()]));
                    }
                }
                None => {}
            }
        }
        documents.around.extend(Some(line.trim()).filter(|line| !line.is_empty()));
        rest = &rest[line_end..];
    }
    documents
}

/// The objects of a text, none of which has an error.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>, Unreadable<'static>> {
    let documents = documents(text);
    documents.broken.map_or(Ok(documents.found), Err)
}

/// An error in the JSON behind `before`.
pub(crate) fn not_json(error: &serde_json::Error, before: &str) -> Unreadable<'static> {
    let words = error.to_string();
    let reason = words.rsplit_once(" at line ").map_or(words.as_str(), |(reason, _)| reason);
    let line = before.matches('\n').count() + error.line();
    let same_line = if error.line() > 1 { "" } else { before.rsplit('\n').next().unwrap_or_default() };
    let column = same_line.chars().count() + error.column();
    let is_other_type = error.classify() == serde_json::error::Category::Data;
    let what =
        if is_other_type { "a value has another type than the tool writes" } else { "this is not JSON" };
    Unreadable::At { line, column, reason: format!("{what}: {reason}") }
}

/// The texts that begin as a number does and are values of JSON, but not options: as ranges of bytes, with their quotes.
pub(crate) fn quoted_figures(text: &str) -> Vec<Range<usize>> {
    let is_value = |range: &Range<usize>| {
        text[..range.start].trim_end().ends_with([':', '[', ','])
            && text[range.end..].trim_start().starts_with([',', ']', '}'])
    };
    let names_options = |brace: usize| {
        let key = text[..brace].trim_end_matches([':', ' ']);
        key.ends_with("options\"") || key.ends_with("parameters\"")
    };
    let (mut found, mut quote, mut is_option) = (Vec::new(), None, false);
    for (at, mark) in text.match_indices(['"', '{', '}']) {
        if mark != "\"" {
            is_option = mark == "{" && names_options(at);
            continue;
        }
        let range = quote.replace(at).map(|start: usize| start..at + 1);
        let is_figure =
            |range: &Range<usize>| begins_as_number(&text[range.start + 1..at]) && is_value(range);
        found.extend(range.filter(|range| !is_option && is_figure(range)));
    }
    found
}

/// Whether a text is digits with their marks, and at most a unit such as `ms` or `MB/s`.
fn begins_as_number(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || c.is_whitespace() || MARKS.contains(&c);
    let unit = text.trim_start_matches('-').trim_start_matches(is_part);
    text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit())
        && unit.len() <= 5
        && unit.chars().all(|c| c.is_alphabetic() || "%/".contains(c))
}

/// A text in which these ranges are numbers instead of texts: their digits, with the first point.
pub(crate) fn unquoted(text: &str, ranges: &[Range<usize>]) -> String {
    let (mut out, mut end) = (String::with_capacity(text.len()), 0);
    for range in ranges {
        out += &text[end..range.start];
        let (mut has_point, quoted) = (false, &text[range.clone()]);
        let is_kept = |c: &char| c.is_ascii_digit() || *c == '.' && !std::mem::replace(&mut has_point, true);
        let number = quoted.chars().filter(is_kept).collect::<String>().parse::<f64>();
        out += &number.unwrap_or_default().min(1e15).to_string();
        end = range.end;
    }
    out + &text[end..]
}

/// A finite number at a JSON pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer)?.as_f64().filter(|number| number.is_finite())
}

/// A finite number that is not negative.
pub(crate) fn positive(value: &Value, pointer: &str) -> Option<f64> {
    number(value, pointer).filter(|number| *number >= 0.0)
}

/// A whole number; some tools write counts as floats.
pub(crate) fn count(value: &Value, pointer: &str) -> Option<u64> {
    let found = value.pointer(pointer)?;
    found
        .as_u64()
        .or_else(|| Some(found.as_f64().filter(|number| (0.0..9e15).contains(number))?.round() as u64))
}

/// A text.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer)?.as_str()
}

/// A scalar as text, for options.
pub(crate) fn scalar(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The elements of an array; empty if the array is missing.
pub(crate) fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_among_other_text() {
        let text = "fio: note\n{ not json\n{\"a\": 1}\ntrailer {x}\n{\n \"a\": 2\n}{\"a\":3}\n";
        let all = documents(text);
        let values: Vec<f64> = all.found.iter().filter_map(|value| number(value, "/a")).collect();
        assert_eq!(values, [1.0, 2.0, 3.0]);
        assert_eq!(all.around, ["fio: note", "{ not json", "trailer {x}"]);
        assert!(!all.is_cut);
        let cut = documents("{\"a\": 1}\n{\"b\": [\n{\"a\": 2}\n");
        assert_eq!((cut.found.len(), cut.is_cut, cut.broken), (1, true, None));
        let broken = documents("fio: note\n{\n \"a\": 0x10\n}\n").broken.unwrap();
        assert_eq!(broken.in_words("", 5), "line 7, column 8: this is not JSON: expected `,` or `}`");
    }

    #[test]
    fn numbers_that_are_none_are_none() {
        let value = serde_json::json!({ "a": -1, "b": 2.6, "c": "3" });
        assert_eq!(positive(&value, "/a"), None);
        assert_eq!(count(&value, "/b"), Some(3));
        assert_eq!(number(&value, "/c"), None);
        assert_eq!(scalar(&value, "/c").as_deref(), Some("3"));
    }
}
