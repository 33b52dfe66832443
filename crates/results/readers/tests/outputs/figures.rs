//! No number rather than a wrong one: figures in another form, and texts without their end.

use std::fmt::Write as _;
use std::ops::Range;

use plumb_readers::{NoReading, ToolRun};

use crate::fixtures::{all, fixture, runs, texts};

/// Forms in which no tool prints its figures, each with the number that a tool of which this is not true means by it.
const FORMS: [(&str, Option<&str>); 9] = [
    ("17,886,898.43", Some("17886898.43")),
    ("1.086M", Some("1086000")),
    ("12,5", None),
    ("1e6x", None),
    ("0x10", None),
    ("12ms34", None),
    ("--", None),
    ("7 654", Some("7654")),
    ("\"8\"", Some("8")),
];
/// How many figures of a fixture are tried, and at how many lines it is cut.
const TRIED: usize = 30;

/// What follows a digit that is part of a name, a unit or an option.
const NAMES: [&str; 9] =
    ["xx", "st byte", "/(1", "-Percentile", "^6bits", "bits/", "s of bytes", "m\"", "k\""];

/// Everything of a run that figures of its text become.
fn figures(run: &ToolRun) -> String {
    let of = &run.measurement;
    let (keys, sums) = (run.options.keys(), &run.sums);
    let mut all = format!("{keys:?} {sums:?} {} {} {:?}", of.window_ns, of.work, of.attempts);
    write!(all, " {:?} {:?} {:?}", of.readings, of.errors, of.windows).unwrap();
    all
}

/// The figures of all runs; a run that cannot be read is an error.
fn reading(name: &str, text: &str) -> Result<Vec<String>, String> {
    let runs = runs(name, text).map_err(|error| error.to_string())?;
    let one = |run: &ToolRun| match &run.failure {
        Some(failure @ NoReading::Unread(_)) => Err(failure.to_string()),
        _ => Ok(figures(run)),
    };
    runs.iter().map(one).collect()
}

/// The figures of a text as byte ranges: digits, with a point and more digits if they have them, unless they are part of a name.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_part = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
    let begins = |at: &usize| {
        bytes[*at].is_ascii_digit()
            && (*at == 0 || !bytes[at - 1].is_ascii_alphanumeric() && !is_part(at - 1))
    };
    let end = |at: usize| {
        let end = (at..).find(|at| !is_part(*at)).unwrap_or(text.len());
        if text[..end].ends_with('.') { end - 1 } else { end }
    };
    let is_in_name = |range: &Range<usize>| {
        let (before, behind) = (&text[..range.start], &text[range.end..]);
        let word_begins = before.rfind([' ', '\n', '\t', ',']).map_or(0, |at| at + 1);
        // `2xx` and the like, `AES-128-GCM`, `253-bits`, a packed histogram, a key of JSON.
        NAMES.iter().any(|name| behind.starts_with(name))
            || before
                .strip_suffix('-')
                .is_some_and(|it| it.ends_with(|c: char| c.is_alphanumeric()) && behind.starts_with('-'))
            || behind.strip_prefix('-').is_some_and(|it| it.starts_with(|c: char| c.is_alphabetic()))
            || text[word_begins..].split([' ', '\n', '\t', ',']).next().is_some_and(|word| word.len() > 60)
            || behind.split_once('"').is_some_and(|(rest, colon)| {
                !rest.contains([',', '{', '}', '\n']) && colon.trim_start().starts_with(':')
            })
    };
    (0..bytes.len()).filter(begins).map(|at| at..end(at)).filter(|range| !is_in_name(range)).collect()
}

/// About as many of a list as are tried, evenly.
fn some<T>(all: Vec<T>) -> impl Iterator<Item = T> {
    let step = all.len() / TRIED + 1;
    all.into_iter().step_by(step)
}

#[test]
fn a_figure_in_another_form_is_refused_at_its_place() {
    let mut wrong = Vec::new();
    for name in all() {
        let text = fixture(&name);
        let right = reading(&name, &text).unwrap();
        for (at, place) in some(numbers(&text)).enumerate() {
            let with = |figure: &str| format!("{}{figure}{}", &text[..place.start], &text[place.end..]);
            let other = if text[place.clone()].starts_with('1') { "2" } else { "1" };
            if reading(&name, &with(other)).as_ref() == Ok(&right) {
                continue;
            }
            let line = text[..place.start].matches('\n').count() + 1;
            // Two forms in turn: all of them would take four times as long.
            for (form, number) in FORMS.into_iter().cycle().skip(2 * at).take(2) {
                let found = reading(&name, &with(form));
                let is_as = |number: &str| reading(&name, &with(number)) == found;
                let is_right = match &found {
                    Err(error) if error.contains(&format!("line {line}, column ")) => true,
                    found => found.as_ref() == Ok(&right) || number.is_some_and(is_as),
                };
                // In a list of JSON, a comma separates two numbers.
                let is_list = || serde_json::from_str::<serde_json::Value>(&with(form)).is_ok();
                if !is_right && !is_list() {
                    let original = &text[place.clone()];
                    wrong.push(format!("{name}:{line}: {form} for {original}: {:?}", found));
                }
            }
        }
    }
    let shown: Vec<String> = wrong.iter().map(|it| it.chars().take(300).collect()).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), shown.join("\n"));
}

/// Where a text may end: behind each line but the last, and in the middle of the last.
fn cuts(text: &str) -> Vec<usize> {
    let text = text.trim_end();
    let mut cuts: Vec<usize> = some(text.match_indices('\n').map(|(at, _)| at + 1).collect()).collect();
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    cuts.extend([
        last,
        text.floor_char_boundary(last.midpoint(text.len())),
        text.floor_char_boundary(text.len() - 1),
    ]);
    cuts
}

#[test]
fn a_text_without_its_end_is_refused_or_says_so() {
    let mut wrong = Vec::new();
    for name in all() {
        let text = fixture(&name);
        let whole = reading(&name, &text).unwrap();
        for cut in cuts(&text) {
            // Each object of JSON is a report.
            if text[cut..].trim_start().starts_with('{') {
                continue;
            }
            let Ok(found) = runs(&name, &text[..cut]) else { continue };
            let says = |run: &ToolRun| {
                run.open_end.is_some()
                    || texts(run).any(|warning| {
                        ["was cut off", "may be cut short"].iter().any(|words| warning.contains(words))
                    })
            };
            let left: Vec<String> = found.iter().map(figures).collect();
            if !found.iter().any(says) && !whole.starts_with(&left) {
                let last = &text[text.floor_char_boundary(cut.saturating_sub(50))..cut];
                wrong.push(format!("{name}: …{last:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_total_of_a_spectrum_that_falls_is_refused_at_its_row() {
    for (name, total, line) in [("wrk2/spectrum.txt", " 5000 ", 19), ("hgrm/latency.hgrm", " 900 ", 5)] {
        let error = reading(name, &fixture(name).replacen(total, " 0 ", 1)).unwrap_err();
        let reason = format!("line {line}, column 1: the total of this row is below that of the row before");
        assert!(error.ends_with(&reason), "{name}: {error}");
    }
}
