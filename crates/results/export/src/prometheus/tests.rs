//! The text is read back by a parser that is as strict as the format.

use std::collections::BTreeSet;

use plumb_model::{Ending, printable};
use proptest::prelude::*;

use super::*;
use crate::fixture::{self, EVIL};

type Sample = (String, BTreeMap<String, String>, f64);

/// Parses the whole text, or says what is wrong with it.
fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    let mut seen = BTreeSet::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("no help")?;
            if !is_name(name) || help.is_empty() || !families.insert(name.to_owned()) {
                return Err(format!("a bad or repeated family: {line}"));
            }
            family = name.to_owned();
            if lines.next() != Some(&format!("# TYPE {name} gauge")) {
                return Err(format!("no type after {line}"));
            }
            continue;
        }
        let (name, labels, value) = sample(line)?;
        if name != family {
            return Err(format!("{name} within {family}"));
        }
        if !seen.insert((name.clone(), labels.clone())) {
            return Err(format!("twice: {line}"));
        }
        samples.push((name, labels, value));
    }
    (text.is_empty() || text.ends_with('\n')).then_some(samples).ok_or("no line feed at the end".to_owned())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

fn sample(line: &str) -> Result<Sample, String> {
    let wrong = || format!("not a sample: {line}");
    let (name, rest) = line.split_once('{').ok_or_else(wrong)?;
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, after) = rest.split_once("=\"").ok_or_else(wrong)?;
        let (value, after) = quoted(after).ok_or_else(wrong)?;
        if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
            return Err(wrong());
        }
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => {
                rest = after.strip_prefix("} ").ok_or_else(wrong)?;
                break;
            }
        }
    }
    let value = match rest {
        "+Inf" => f64::INFINITY,
        number => number.parse().map_err(|_| wrong())?,
    };
    if is_name(name) { Ok((name.to_owned(), labels, value)) } else { Err(wrong()) }
}

/// The text up to the closing quote, without escapes, and the text that follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                _ => return None,
            },
            other => value.push(other),
        }
    }
    None
}

fn value(samples: &[Sample], name: &str, wanted: &[(&str, &str)]) -> Option<f64> {
    let fits = |labels: &BTreeMap<String, String>| {
        wanted.iter().all(|(label, value)| labels.get(*label).is_some_and(|found| found == value))
    };
    let mut found = samples.iter().filter(|(known, labels, _)| known == name && fits(labels));
    let first = found.next().map(|(_, _, value)| *value);
    assert_eq!(found.next(), None, "{name} with {wanted:?} is ambiguous");
    first
}

#[test]
fn a_small_run_as_text() {
    let (run, judgement) = fixture::run();
    insta::assert_snapshot!(prometheus(&[(&run, &judgement)]));
}

#[test]
fn every_family_is_declared_and_has_its_numbers() {
    let (run, judgement) = fixture::run();
    let samples = parse(&prometheus(&[(&run, &judgement)])).unwrap();
    let families: BTreeSet<&str> = samples.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(families.len(), HELP.len(), "{families:?}");
    let of = |name: &str, wanted: &[(&str, &str)]| value(&samples, name, wanted);
    let cell = ("cell", "load.connections=20");
    let reqs = [cell, ("variant", "threads"), ("metric", "http_reqs"), ("unit", "1/s")];
    assert_eq!(of("plumb_metric", &reqs), Some(2000.0));
    assert_eq!(of("plumb_run_slots", &[("outcome", "failed")]), Some(1.0));
    assert_eq!(of("plumb_run_in_progress", &[]), Some(0.0));
    assert_eq!(of("plumb_run_started_timestamp_seconds", &[]), Some(1_772_366_400.0));
    let noise = [cell, ("variant", "software"), ("kind", "others"), ("statistic", "max")];
    assert_eq!(of("plumb_noise", &noise), Some(0.03));
    let ratio = [cell, ("metric", "http_reqs")];
    let open = of("plumb_ratio_high", &ratio);
    assert_eq!((of("plumb_ratio_low", &ratio), open), (Some(0.0), Some(f64::INFINITY)));
}

#[test]
fn the_current_run_stands_beside_the_latest_results_and_older_ones_are_left_out() {
    let (ended, judgement) = fixture::run();
    let at = |day: u32, ending: Option<Ending>| {
        let mut run = ended.clone();
        run.header.started_at = format!("2026-03-{day:02}T12:00:00.000Z");
        run.ending = ending;
        run
    };
    let older = at(1, Some(Ending::Complete));
    let killed = at(2, None);
    let latest = at(3, Some(Ending::Interrupted));
    let current = at(4, None);
    let started = |runs: &[&Run]| {
        let runs: Vec<(&Run, &Judgement)> = runs.iter().map(|run| (*run, &judgement)).collect();
        let samples = parse(&prometheus(&runs)).unwrap();
        let mut found: Vec<(String, String)> = samples
            .iter()
            .filter(|(name, ..)| name == "plumb_run_info")
            .map(|(_, labels, _)| (labels["run"].clone(), labels["started_at"][8..10].to_owned()))
            .collect();
        found.sort();
        found
    };
    let pair = |word: &str, day: &str| (word.to_owned(), day.to_owned());
    assert_eq!(started(&[&current, &older, &latest, &killed]), [pair("current", "04"), pair("latest", "03")]);
    assert_eq!(started(&[&killed, &latest, &older]), [pair("latest", "03")]);
    assert_eq!(started(&[&current]), [pair("current", "04")]);
    assert_eq!(prometheus(&[]), "");
}

#[test]
fn no_name_breaks_out_of_its_label() {
    let (run, judgement) = fixture::hostile();
    let text = prometheus(&[(&run, &judgement)]);
    assert_eq!(text.chars().find(|c| *c == '\r' || plumb_model::is_unprintable(*c)), None);
    let samples = parse(&text).unwrap();
    let name = printable(EVIL);
    let reqs = [("experiment", name.as_ref()), ("variant", name.as_ref()), ("metric", "http_reqs")];
    let found = samples.iter().filter(|(family, labels, _)| {
        family == "plumb_metric" && reqs.iter().all(|(label, value)| labels[*label] == *value)
    });
    assert_eq!(found.count(), 2, "one of each cell");
}

proptest! {
    #[test]
    fn any_text_is_a_label_that_is_read_back(text in "[\\PC\\\\\"\n{},=]{0,20}") {
        let (mut run, judgement) = fixture::run();
        run.header.plan.name.clone_from(&text);
        let samples = parse(&prometheus(&[(&run, &judgement)])).unwrap();
        prop_assert!(!samples.is_empty());
        for (_, labels, _) in samples {
            prop_assert_eq!(labels["experiment"].clone(), printable(&text).into_owned());
        }
    }
}
