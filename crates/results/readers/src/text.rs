//! Numbers, times and names as tools print them for people.

use std::borrow::Cow;

/// The trimmed text after a label at the beginning of a line; of the first such line.
pub(crate) fn after<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    all_after(text, label).next()
}

/// As [`after`], of every such line.
pub(crate) fn all_after<'t>(text: &'t str, label: &str) -> impl Iterator<Item = &'t str> {
    text.lines().filter_map(move |line| line.trim_start().strip_prefix(label)).map(str::trim)
}

/// The text between two markers, at their first occurrence on one line.
pub(crate) fn between<'t>(text: &'t str, before: &str, behind: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(before)?;
        rest.split_once(behind).map(|(found, _)| found)
    })
}

/// The name of a key-exchange group, as in `X25519 253 bits` and `ECDH prime256v1 256 bits`. `DH 2048 bits` has no name, and stays
/// as it is.
pub(crate) fn key_exchange_group(printed: &str) -> &str {
    match printed.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["ECDH", name, _, "bits"] => name,
        [name, _, "bits"] if name != "DH" => name,
        _ => printed,
    }
}

/// Marks that stand between digits in some language.
pub(crate) const MARKS: [char; 7] = ['.', ',', '\'', '_', '\u{2019}', '\u{a0}', '\u{202f}'];

/// The digits at the beginning without separators, and what follows; `None` for a number that could be read in two ways, as
/// `1,086` could.
fn digits(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let text = text.trim_start();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut end = text.len() - unsigned.len();
    while let Some(next) = text[end..].chars().next() {
        // A mark is part of a number only between digits, but for a point: `.5`, `5.`.
        let behind = end + next.len_utf8();
        let is_part =
            next.is_ascii_digit() || next == '.' || MARKS.contains(&next) && is_digit(&text[behind..]);
        if !is_part {
            break;
        }
        end = behind;
    }
    let (number, rest) = text.split_at(end);
    if !number.contains(|c| c != '.' && MARKS.contains(&c)) {
        return Some((Cow::Borrowed(number), rest));
    }
    let (whole, fraction) =
        number.split_once('.').map_or((number, None), |(whole, rest)| (whole, Some(rest)));
    let mut groups = whole.trim_start_matches(['-', '+']).split(',');
    let is_led = groups.next().is_some_and(|first| (1..=3).contains(&first.len()) && first != "0");
    let others: Vec<&str> = groups.collect();
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_group = |group: &&str| group.len() == 3 && is_digits(group);
    // Two commas, or a comma and a point, are English; a single comma may stand before decimals.
    let is_clear = others.len() + usize::from(fraction.is_some()) >= 2;
    let is_grouped = is_led && !others.is_empty() && others.iter().all(is_group);
    let is_english = is_grouped && is_clear && fraction.is_none_or(is_digits);
    is_english.then(|| (Cow::Owned(number.replace(',', "")), rest))
}

/// Whether a word begins with digits that could be read as two different numbers.
pub(crate) fn is_unclear(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && digits(word).is_none_or(|(_, rest)| group(rest).is_some())
}

/// The text from the next group of `1 834 206` on: three digits behind a single blank.
fn group(rest: &str) -> Option<&str> {
    let behind = rest.strip_prefix(char::is_whitespace)?;
    (behind.bytes().take_while(u8::is_ascii_digit).count() == 3).then_some(behind)
}

/// The first word, with the groups of digits that follow if it is a number.
pub(crate) fn first_word(text: &str) -> &str {
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || MARKS.contains(&c));
    let (mut rest, mut end) = (text, 0);
    loop {
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        end += length;
        let Some(next) = group(behind).filter(|_| is_number(word)) else { return &text[..end] };
        end += behind.len() - next.len();
        rest = next;
    }
}

/// A finite number at the beginning, and what follows it.
pub(crate) fn split_number(text: &str) -> Option<(f64, &str)> {
    let (digits, mut rest) = digits(text)?;
    let mut number = digits.into_owned();
    // An exponent counts only with digits behind it: `1e-05`, but not the `e` of `2each`.
    if let Some(behind) = rest.strip_prefix(['e', 'E']) {
        let sign = behind.len() - behind.strip_prefix(['-', '+']).unwrap_or(behind).len();
        let length = behind[sign..].find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len() - sign);
        if length > 0 {
            number = format!("{number}e{}", &behind[..sign + length]);
            rest = &behind[sign + length..];
        }
    }
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some((number, rest))
}

/// Whether a number ended where it seems to: neither within a word, as in `1.086M`, nor before more of its digits, as in `4 321`.
fn is_end(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() || "_'\u{2019}".contains(c)) && group(rest).is_none()
}

/// A finite number at the beginning, all of it.
pub(crate) fn number(text: &str) -> Option<f64> {
    split_number(text).filter(|(_, rest)| is_end(rest)).map(|(number, _)| number)
}

/// A number that counts or measures something, which is never negative.
pub(crate) fn positive(text: &str) -> Option<f64> {
    number(text).filter(|number| *number >= 0.0)
}

/// A whole number at the beginning, all of it.
pub(crate) fn count(text: &str) -> Option<u64> {
    let (digits, rest) = digits(text)?;
    digits.parse().ok().filter(|_| is_end(rest))
}

/// A time such as `1.5ms`, `12 us` or Go's `1h1m30.5s`, in ns. µ exists twice in Unicode, and tools print both.
pub(crate) fn time_ns(text: &str) -> Option<f64> {
    let (mut rest, mut sum_ns, mut larger_ns) = (text.trim(), None, f64::INFINITY);
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
        // Only hours and minutes have something behind them.
        if unit_ns >= larger_ns || larger_ns < 60e9 {
            return None;
        }
        larger_ns = unit_ns;
        sum_ns = Some(sum_ns.unwrap_or(0.0) + number * unit_ns);
        rest = &behind[end..];
    }
    sum_ns.filter(|ns| *ns >= 0.0 && rest.trim().is_empty())
}

/// The factor of a prefix such as `k`, `M` or `Gi`, in steps of `thousand` unless an `i` follows.
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
    fn a_number_is_whole_or_none() {
        assert_eq!(number("17,886,898.43"), Some(17_886_898.43));
        assert_eq!((number("61,119.83/s"), count("1,834,206 requests")), (Some(61_119.83), Some(1_834_206)));
        assert_eq!(split_number("-1,234,567ms"), Some((-1_234_567.0, "ms")));
        assert_eq!(split_number("12, 13"), Some((12.0, ", 13")));
        for unclear in [
            "1,086",
            "61119,83",
            "1.234,5",
            "1,234.5,6",
            "1,23,456",
            "1234,567.8",
            "0,123.5",
            "1'234'567",
            "1_000",
            "1\u{a0}234",
            "1 834 206",
            "4\u{2009}321.5",
            "1_.9",
        ] {
            assert_eq!(
                (number(unclear), count(unclear), scaled(&format!("{unclear} B"), "B", 1000.0)),
                (None, None, None),
                "{unclear}"
            );
        }
        for longer in ["1.086M", "12ms", "3k", "0x10"] {
            assert_eq!((number(longer), count(longer)), (None, None), "{longer}");
        }
        assert_eq!(
            (number("5%"), number("5)"), count("5.0"), count("-5")),
            (Some(5.0), Some(5.0), None, None)
        );
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
        for wrong in ["5", "5 apples", "-1s", "", "1s x", "12ms34us", "1s1s", "1m1h"] {
            assert_eq!(time_ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_group_is_known_by_its_name() {
        for (printed, name) in [
            ("X25519 253 bits", "X25519"),
            ("ECDH prime256v1 256 bits", "prime256v1"),
            ("ECDH P-384 384 bits", "P-384"),
            ("DH 2048 bits", "DH 2048 bits"),
            ("X25519MLKEM768", "X25519MLKEM768"),
        ] {
            assert_eq!(key_exchange_group(printed), name);
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
