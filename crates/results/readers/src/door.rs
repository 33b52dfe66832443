//! Turns the bytes of a file into the lines that a tool wrote.
//!
//! People paste outputs into mails and issues, and cut them out of logs. This module strips what those places add, before any reader sees
//! the text. It never adds or removes a line, so messages can give line numbers.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::figure::Unreadable;

/// Decodes a file as UTF-8 or UTF-16, with or without a byte order mark. Invalid bytes become U+FFFD, which no number contains.
#[must_use]
pub fn decoded(bytes: Vec<u8>) -> String {
    let units = |bytes: &[u8], of: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| of([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        // ASCII as UTF-16 without a byte order mark.
        [first, 0, third, 0, ..] if *first != 0 && *third != 0 => units(&bytes, u16::from_le_bytes),
        [0, second, 0, fourth, ..] if *second != 0 && *fourth != 0 => units(&bytes, u16::from_be_bytes),
        _ => String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

/// Strips everything that a terminal, a mail, a list or a log added to a tool's lines.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    match without_terminal(text) {
        Cow::Borrowed(text) => unwrapped(text),
        Cow::Owned(text) => Cow::Owned(unwrapped(&text).into_owned()),
    }
}

/// Strips terminal escape sequences (ECMA-48), carriage returns and a byte order mark.
pub(crate) fn without_terminal(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.contains(['\u{1b}', '\r']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            // A progress bar that overwrites itself becomes lines.
            '\r' => out.push('\n'),
            '\u{1b}' if characters.peek() == Some(&'[') => {
                characters.next();
                // Parameters and intermediates end with a byte from `@` to `~`.
                while characters.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\u{1b}' if characters.peek() == Some(&']') => {
                // The title of a window ends with BEL, or with an escape and a backslash.
                while let Some(part) = characters.next_if(|part| *part != '\n') {
                    if part == '\u{7}' || part == '\u{1b}' && characters.next_if_eq(&'\\').is_some() {
                        break;
                    }
                }
            }
            '\u{1b}' => {}
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// Strips quotation marks, log prefixes, list markers and the indentation of whole blocks. Fences become [`FENCE`].
fn unwrapped(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().map(unquoted).collect();
    let mut services: BTreeMap<&str, usize> = BTreeMap::new();
    lines.iter().filter_map(|line| service(line)).for_each(|name| *services.entry(name).or_default() += 1);
    let hosts: BTreeSet<&str> = lines.iter().filter_map(|line| host(line)).collect();
    let is_log = hosts.len() == 1;
    let mut base = Base::default();
    let mut out = String::new();
    let mut is_changed = false;
    for (at, (line, original)) in lines.iter().zip(text.lines()).enumerate() {
        let is_service = service(line).is_some_and(|name| {
            let is_object = || without_stamp(behind_bar(line), false).starts_with('{');
            services.get(name).is_some_and(|often| *often > 1) || is_object()
        });
        let line = if is_service { behind_bar(line) } else { line };
        let line = base.without_indentation(without_stamp(line, is_log));
        let line = if is_fence(line) { FENCE } else { line };
        if !is_changed && line != original {
            is_changed = true;
            text.lines().take(at).for_each(|line| push(&mut out, line));
        }
        if is_changed {
            push(&mut out, line);
        }
    }
    if is_changed && !text.ends_with('\n') {
        // Readers see by it that the last line may have been cut.
        out.pop();
    }
    if is_changed { Cow::Owned(out) } else { Cow::Borrowed(text) }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// Strips `> > `, as in a mail.
fn unquoted(line: &str) -> &str {
    let mut rest = line;
    while let Some(behind) = rest.trim_start().strip_prefix('>') {
        rest = behind.strip_prefix(' ').unwrap_or(behind);
    }
    rest
}

/// The service in `load-1  | text`, as `docker compose logs` prints it. The caller checks that several lines have the same one.
fn service(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once('|')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_service = name.ends_with(' ') && (rest.is_empty() || rest.starts_with(' '));
    let name = name.trim_end();
    (is_service && !name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn behind_bar(line: &str) -> &str {
    let rest = line.split_once('|').map_or(line, |(_, rest)| rest);
    rest.strip_prefix(' ').unwrap_or(rest)
}

/// Strips the prefixes of kubectl (`--prefix`, `--timestamps`) and journald. Only in a log of a single host, a program without an ID is a
/// prefix, because a tool's own line may have its form.
fn without_stamp(line: &str, is_log: bool) -> &str {
    let line = match line.strip_prefix("[pod/").and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.strip_prefix(' ').unwrap_or(rest),
        None => line,
    };
    if let Some(rest) = behind_rfc3339(line) {
        return behind_unit(rest).unwrap_or(rest);
    }
    let Some(rest) = behind_syslog_time(line) else { return line };
    let behind_name = || {
        let (program, rest) = rest.split_once(' ')?.1.split_once(": ")?;
        (is_log && !program.contains(' ')).then_some(rest)
    };
    behind_unit(rest).or_else(behind_name).unwrap_or(line)
}

/// The host in `Nov 26 12:00:00 host program: text`.
fn host(line: &str) -> Option<&str> {
    behind_syslog_time(line)?.split_once(' ').map(|(host, _)| host)
}

/// The text after `2024-05-01T12:00:00.123Z`, or after such a time with an offset.
fn behind_rfc3339(line: &str) -> Option<&str> {
    let (stamp, rest) = line.split_once(' ').unwrap_or((line, ""));
    let bytes = stamp.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let is_mark = |at: usize, mark: u8| bytes.get(at) == Some(&mark);
    let digits = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18];
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let is_end = |byte: &u8| byte.is_ascii_digit() || b".Z+-:".contains(byte);
    let is_stamp = digits.into_iter().all(is_digit)
        && marks.into_iter().all(|(at, mark)| is_mark(at, mark))
        && bytes[19..].iter().all(is_end);
    is_stamp.then_some(rest)
}

/// The text after `Nov 26 12:00:00 `.
fn behind_syslog_time(line: &str) -> Option<&str> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = line.get(..3).filter(|month| MONTHS.contains(month))?;
    let (day, rest) = line[month.len()..].trim_start().split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let is_day = day.parse::<u8>().is_ok_and(|day| (1..=31).contains(&day));
    let is_time = time.len() >= 8 && time.bytes().filter(|byte| *byte == b':').count() == 2;
    (is_day && is_time && time.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte)))
        .then_some(rest)
}

/// The text after `host program[123]: `.
fn behind_unit(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    let (program, rest) = rest.split_once(':')?;
    let (name, id) = program.strip_suffix(']')?.split_once('[')?;
    let is_unit = !name.contains(' ') && id.bytes().all(|byte| byte.is_ascii_digit());
    is_unit.then(|| rest.strip_prefix(' ').unwrap_or(rest))
}

/// Stands for any line that opens or closes a fenced block.
const FENCE: &str = "```";

/// Replaces fences by empty lines.
pub(crate) fn unfenced(text: &str) -> Cow<'_, str> {
    if !text.contains(FENCE) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.split_inclusive('\n').map(|line| if line.trim_end() == FENCE { "\n" } else { line }).collect(),
    )
}

/// The fenced blocks, each with its first line, from 1.
pub(crate) fn fenced(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line == FENCE {
            is_inside = !is_inside;
            found.extend(is_inside.then(|| (number + 1, String::new())));
        } else if is_inside && let Some((_, block)) = found.last_mut() {
            push(block, line);
        }
    }
    if let Some((_, block)) = found.last_mut().filter(|_| is_inside && !text.ends_with('\n')) {
        block.pop();
    }
    found
}

fn is_fence(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("```") || line.starts_with("~~~")
}

/// How far the current block is indented: as far as its first line.
#[derive(Default)]
struct Base {
    indentation: usize,
    is_inside: bool,
}

impl Base {
    fn without_indentation<'t>(&mut self, line: &'t str) -> &'t str {
        let text = line.trim_start_matches([' ', '\t', '\u{a0}']);
        if text.is_empty() {
            self.is_inside = false;
            return text;
        }
        let indentation = line.len() - text.len();
        if let Some(item) = behind_marker(text) {
            self.indentation = line.len() - item.len();
            self.is_inside = true;
            return item;
        }
        if !self.is_inside {
            self.indentation = indentation;
            self.is_inside = true;
        }
        &line[indentation.min(self.indentation)..]
    }
}

/// The text of a list item: `- text`, `2. text`.
fn behind_marker(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        1..=3 => text[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let item = rest.trim_start_matches(' ');
    (item.len() < rest.len() && !item.is_empty()).then_some(item)
}

/// The key for lines that a run prints several of in a row.
pub(crate) const BLOCK: &str = "a line of a block";

/// A part of a text that is one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'t> {
    /// The line at which it begins, from 1.
    pub(crate) first_line: usize,
    /// The first line that certainly belongs to the run.
    pub(crate) run_line: usize,
    pub(crate) text: &'t str,
}

impl Part<'_> {
    /// The same part where this many lines stand before the text.
    pub(crate) fn behind(self, lines: usize) -> Self {
        Self { first_line: self.first_line + lines, run_line: self.run_line + lines, ..self }
    }

    /// Why it cannot be read, with the place.
    pub(crate) fn why_unread(self, fault: &Unreadable<'_>) -> String {
        fault.in_words(self.text, self.first_line)
    }
}

/// The parts of a text of which each is one run. A run has each of its keys once, so that
/// one which comes again is the beginning of the next run.
pub(crate) fn parts(text: &str, key: impl Fn(&str) -> Option<&str>) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let (mut start, mut first_line, mut run_line, mut at) = (0, 1, 1, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if let Some(key) = key(line.trim()) {
            let goes_on = key == BLOCK && seen.last() == Some(&BLOCK);
            if seen.contains(&key) && !goes_on {
                found.push(Part { first_line, run_line, text: &text[start..at] });
                (start, first_line) = (at, number);
                seen.clear();
            }
            if seen.is_empty() {
                run_line = number;
            }
            if !goes_on {
                seen.push(key);
            }
        }
        at += line.len();
    }
    found.push(Part { first_line, run_line, text: &text[start..] });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_sequences_are_no_text() {
        assert_eq!(plain("\u{1b}[1;31mavg\u{1b}[0m=1\r\nx"), "avg=1\nx");
        assert_eq!(plain("10%\r20%\u{1b}"), "10%\n20%");
        assert_eq!(plain("\u{1b}]0;host: ~\u{7}a\u{1b}]2;host\u{1b}\\b"), "ab");
        assert!(matches!(plain("as is\n  and so\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_a_place_adds_to_a_line_is_taken_off() {
        let pairs = [
            ("> > a\n>   b", "a\n  b"),
            ("load-1  | a\nload-1  |   b\nload-1  |", "a\n  b\n"),
            ("2024-05-01T12:00:00.123456789Z a\n2024-05-01T12:00:00Z   b", "a\n  b"),
            ("Nov 26 12:00:00 node wrk[12]: a\nNov  6 12:00:00 node wrk[12]:   b", "a\n  b"),
            ("2024-05-01T12:00:00+0200 node wrk[12]: a", "a"),
            ("Nov 26 12:00:00 node load: a\nNov 26 12:00:00 node load:   b", "a\n  b"),
            ("~~~\na\n~~~\n", "```\na\n```"),
            ("[pod/load-x/load] a\n[pod/load-x/load]   b", "a\n  b"),
            ("text\n\n    a\n      b\n", "text\n\na\n  b"),
            ("- a\n    b\n2. a\n     b", "a\n  b\na\n  b"),
            ("```console\na\n  b\n```", "```\na\n  b\n```"),
        ];
        for (wrapped, expected) in pairs {
            assert_eq!(plain(wrapped).trim_end(), expected.trim_end(), "{wrapped}");
        }
        let stamped = "Nov 26 12:00:00 Failed requests: 3\nNov 26 12:00:00 Write errors: 0";
        for as_is in [stamped, "a | b\nc | d", "12:00 a", "May the force", "-1 a\n1.5 b", "a\n  b\n    c"] {
            assert_eq!(plain(as_is), as_is);
        }
    }

    #[test]
    fn blocks_within_fences_have_their_lines() {
        let text = "x\n```\na\n```\ny\n```\nb\n";
        assert_eq!(fenced(text), [(3, "a\n".to_owned()), (7, "b\n".to_owned())]);
        assert_eq!(unfenced(text), "x\n\na\n\ny\n\nb\n");
    }

    #[test]
    fn every_encoding_is_one_text() {
        let text = "p99 = 3 \u{b5}s\n";
        let le: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
        for bytes in [
            text.as_bytes().to_vec(),
            marked(b"\xef\xbb\xbf", text.as_bytes()),
            marked(b"\xff\xfe", &le),
            marked(b"\xfe\xff", &be),
            le,
            be,
        ] {
            assert_eq!(decoded(bytes), text);
        }
        assert_eq!(decoded(vec![b'1', 0xff]), "1\u{fffd}");
    }

    #[test]
    fn a_key_that_comes_again_begins_a_run() {
        let key: fn(&str) -> Option<&str> =
            |line| line.split_once(':').map(|(key, _)| if key == "-" { BLOCK } else { key });
        let part = |first_line, run_line, text| Part { first_line, run_line, text };
        let found = parts("x\na: 1\nb: 2\n\na: 3\nb: 4\nb: 5\n", key);
        let expected = [part(1, 2, "x\na: 1\nb: 2\n\n"), part(5, 5, "a: 3\nb: 4\n"), part(7, 7, "b: 5\n")];
        assert_eq!(found, expected);
        let found = parts("-: 1\n-: 2\nb: 2\n-: 3\n-: 4\nb: 5\n", key);
        assert_eq!(found, [part(1, 1, "-: 1\n-: 2\nb: 2\n"), part(4, 4, "-: 3\n-: 4\nb: 5\n")]);
    }
}
