//! Numbers and times as tools print them for people.

use std::borrow::Cow;

/// The text without escape sequences of terminals (ECMA-48) and carriage returns.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(['\u{1b}', '\r']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            // Progress that overwrites itself is lines to a reader.
            '\r' => out.push('\n'),
            '\u{1b}' if characters.peek() == Some(&'[') => {
                characters.next();
                // Parameters and intermediates end with a byte from `@` to `~`.
                while characters.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\u{1b}' => {}
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// What follows a label at the beginning of a line, trimmed; of the first such line.
pub(crate) fn after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    all_after(text, label).next()
}

/// As [`after`], of every such line.
pub(crate) fn all_after<'t>(text: &'t str, label: &str) -> impl Iterator<Item = &'t str> {
    text.lines().filter_map(move |line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// What stands between two markers, of their first occurrence on one line.
pub(crate) fn between<'t>(text: &'t str, before: &str, behind: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(before)?;
        rest.split_once(behind).map(|(found, _)| found)
    })
}

/// A finite number at the beginning, and what follows it.
pub(crate) fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let is_part =
        |(at, c): (usize, char)| c.is_ascii_digit() || c == '.' || (at == 0 && matches!(c, '-' | '+'));
    let mut end = text.char_indices().find(|it| !is_part(*it)).map_or(text.len(), |(at, _)| at);
    // An exponent counts only with digits behind it: `1e-05`, but not the `e` of `2each`.
    if let Some(rest) = text[end..].strip_prefix(['e', 'E']) {
        let digits = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let length = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        if length > 0 {
            end = text.len() - digits.len() + length;
        }
    }
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then_some((number, &text[end..]))
}

/// A finite number at the beginning.
pub(crate) fn number(text: &str) -> Option<f64> {
    split_number(text).map(|(number, _)| number)
}

/// A number that counts or measures something, which is never negative.
pub(crate) fn positive(text: &str) -> Option<f64> {
    number(text).filter(|number| *number >= 0.0)
}

/// A whole number at the beginning.
pub(crate) fn count(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// A time such as `1.5ms`, `12 us` or Go's `1m30.5s`, in ns. µ exists twice in Unicode, and tools print both.
pub(crate) fn time_ns(text: &str) -> Option<f64> {
    let (mut rest, mut sum_ns) = (text.trim(), None);
    while let Some((number, behind)) = split_number(rest) {
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let unit_ns = match &behind[..end] {
            "ns" | "nsec" => 1.0,
            "us" | "\u{b5}s" | "\u{3bc}s" | "usec" => 1e3,
            "ms" | "msec" => 1e6,
            "s" | "sec" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        sum_ns = Some(sum_ns.unwrap_or(0.0) + number * unit_ns);
        rest = &behind[end..];
    }
    sum_ns.filter(|ns| *ns >= 0.0 && rest.trim().is_empty())
}

/// What a prefix such as `k`, `M` or `Gi` multiplies by, in steps of `thousand` where no `i` follows.
fn multiple(prefix: &str, thousand: f64) -> Option<f64> {
    let (letter, thousand) = match prefix.strip_suffix('i') {
        Some(letter) => (letter, 1024.0),
        None => (prefix, thousand),
    };
    let power = match letter {
        "" => 0,
        "k" | "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some(thousand.powi(power))
}

/// A number with a prefix and then `unit`, such as `1.2MB`: `thousand` is 1000 or 1024, as the tool has it. `KiB` is binary always.
pub(crate) fn scaled(text: &str, unit: &str, thousand: f64) -> Option<f64> {
    let (number, rest) = split_number(text)?;
    let word = rest.trim();
    let prefix = word.strip_suffix(unit)?.trim();
    Some(number * multiple(prefix, thousand)?).filter(|value| *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_no_text() {
        assert_eq!(plain("\u{1b}[1;31mavg\u{1b}[0m=1\r\nx"), "avg=1\nx");
        assert_eq!(plain("10%\r20%\u{1b}"), "10%\n20%");
        assert!(matches!(plain("as is"), Cow::Borrowed(_)));
    }

    #[test]
    fn numbers_end_where_their_unit_begins() {
        assert_eq!(split_number(" 1.5ms"), Some((1.5, "ms")));
        assert_eq!(split_number("5.0e-05,"), Some((5e-5, ",")));
        assert_eq!(split_number("2each"), Some((2.0, "each")));
        for wrong in ["", "ms", "-", ".", "nan", "inf", "1.2.3", "e5"] {
            assert_eq!(split_number(wrong), None, "{wrong}");
        }
        assert_eq!(number("9e999"), None);
        assert_eq!(count("1234 requests"), Some(1234));
    }

    #[test]
    fn times_of_every_spelling_are_ns() {
        for (text, ns) in [
            ("1.5ms", 1.5e6),
            ("12 us", 12e3),
            ("3\u{b5}s", 3e3),
            ("3\u{3bc}s", 3e3),
            ("1m30.5s", 90.5e9),
            ("1h", 3600e9),
            ("0s", 0.0),
        ] {
            assert_eq!(time_ns(text), Some(ns), "{text}");
        }
        for wrong in ["5", "5 apples", "-1s", "", "1s x"] {
            assert_eq!(time_ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn multiples_are_those_of_the_tool() {
        assert_eq!(scaled("1.5MB", "B", 1024.0), Some(1.5 * 1024.0 * 1024.0));
        assert_eq!(scaled("1.5MB", "B", 1000.0), Some(1.5e6));
        assert_eq!(scaled("2 KiB/s", "B/s", 1000.0), Some(2048.0));
        assert_eq!(scaled("15.3k", "", 1000.0), Some(15_300.0));
        assert_eq!(scaled("7 XB", "B", 1000.0), None);
    }
}
