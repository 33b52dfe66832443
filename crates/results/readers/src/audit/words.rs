//! Figures and sentences, and the rule about units in prose.

use std::collections::BTreeSet;

use plumb_model::Unit;

use crate::audit::document::Document;
use crate::audit::finding::Finding;
use crate::audit::rule::Rule;

/// A figure with three or four digits.
pub(crate) fn digits(value: f64) -> String {
    rounded(value, 4)
}

/// A figure with this many digits, or more if the whole part has more.
pub(crate) fn rounded(value: f64, count: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let whole_digits = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(count - whole_digits).unwrap_or(0).min(6);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A figure with three or four digits and its unit: `6791/s`, `1.2 ms`, `606.1 MB/s`.
pub(crate) fn with_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", digits(value)),
        Unit::Bytes | Unit::BytesPerSecond => {
            let prefixes = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];
            let (prefix, factor) =
                prefixes.into_iter().find(|(_, factor)| value >= *factor).unwrap_or(("", 1.0));
            format!("{} {prefix}{}", digits(value / factor), unit.symbol())
        }
        Unit::Count => digits(value),
        unit => format!("{} {}", digits(value), unit.symbol()),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// `line 6`, `lines 6 and 8`; each line once.
pub(crate) fn at_lines(lines: impl IntoIterator<Item = usize>) -> String {
    let mut lines: Vec<usize> = lines.into_iter().collect();
    lines.dedup();
    let word = if lines.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", list(&lines.iter().map(usize::to_string).collect::<Vec<_>>()))
}

/// Where something stands: the last two headings above it.
pub(crate) fn under(place: &str) -> String {
    let parts: Vec<&str> = place.split(", ").filter(|part| !part.is_empty()).collect();
    match &parts[parts.len().saturating_sub(2)..] {
        [] => String::new(),
        last => format!(", under \"{}\"", last.join(", ")),
    }
}

/// A clause as a sentence.
pub(crate) fn sentence(clause: &str) -> String {
    let end = if clause.ends_with('.') { "" } else { "." };
    format!("{clause}{end}")
}

/// Bits and bytes that a text uses for one limit.
pub(crate) fn findings(document: &Document<'_>) -> Vec<Finding> {
    let mut bits: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for (line, text) in &document.lines {
        for word in text.split(|c: char| c.is_whitespace() || "(),;".contains(c)) {
            bits.extend(word.strip_suffix("Gbps").filter(|number| is_number(number)).map(str::to_owned));
        }
        let bytes = rates_in_bytes(text);
        if let Some(number) = bytes.iter().find(|number| bits.contains(*number)) {
            found.push(Finding {
                line: *line,
                rule: Rule::BitsOrBytes,
                why: format!("The text has both {number} Gbps and {number} GBps for what seems one rate. They differ by a factor of 8."),
            });
            break;
        }
    }
    found
}

/// The numbers before `GBps`, with or without a blank.
fn rates_in_bytes(text: &str) -> Vec<String> {
    let numbers = text.match_indices("GBps").filter_map(|(at, _)| {
        let number = text[..at].trim_end().rsplit(|c: char| c.is_whitespace() || c == '(').next()?;
        is_number(number).then(|| number.to_owned())
    });
    numbers.collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_at_most() {
        let texts = [0.0123456, 523.697, 31.4, 100_000.0, 8080.8].map(digits);
        assert_eq!(texts, ["0.01235", "523.7", "31.4", "100000", "8081"]);
    }

    #[test]
    fn figures_have_their_unit() {
        let texts = [
            with_unit(6791.2, Unit::PerSecond),
            with_unit(1.2, Unit::Milliseconds),
            with_unit(606_076_928.0, Unit::BytesPerSecond),
        ];
        assert_eq!(texts, ["6791/s", "1.2 ms", "606.1 MB/s"]);
    }

    #[test]
    fn bits_and_bytes_of_one_rate_are_told_apart() {
        let found = |text: &str| findings(&Document::new(text)).len();
        assert_eq!(found("in the 10Gbps case it reaches 10 GBps"), 1);
        assert_eq!(found("a 10Gbps link at 1 GBps"), 0);
    }
}
