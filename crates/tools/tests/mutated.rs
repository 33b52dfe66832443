//! Every fixture, broken in many ways: nothing that a file holds may end the program.
//!
//! The sequence is the same each time. `PLUMB_MUTATIONS` says how many inputs are made of each format, and `PLUMB_MUTATED` names the
//! only format to break.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plumb_model::SplitMix;
use plumb_tools::{Column, FORMATS, read, read_as, read_mapped};

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let folders =
        std::fs::read_dir(root).unwrap().filter_map(Result::ok).filter(|entry| entry.path().is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).filter_map(Result::ok);
    let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Texts by the name of the format that they are recognised as.
fn by_format() -> BTreeMap<&'static str, Vec<Vec<u8>>> {
    let mut found: BTreeMap<&'static str, Vec<Vec<u8>>> = BTreeMap::new();
    for file in files() {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for format in FORMATS.iter().filter(|format| format.is(&text)) {
            found.entry(format.name).or_default().push(bytes.clone());
        }
    }
    found
}

const NASTY: [&str; 18] = [
    "-1",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "inf",
    "18446744073709551615",
    "18446744073709551616",
    "0",
    "0.0000000001",
    "",
    " ",
    "{",
    "}",
    "\"",
    "\u{1b}[31m",
    "\u{b5}",
    "99999999999999999999999999999999",
];

struct Mutator {
    random: SplitMix,
}

impl Mutator {
    fn below(&mut self, limit: usize) -> usize {
        (self.random.draw() % limit.max(1) as u64) as usize
    }

    /// One to four changes: a byte, a stretch that is cut, doubled or moved, a number that becomes another one.
    fn mutate(&mut self, original: &[u8]) -> String {
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let end = (at + self.below(40)).min(bytes.len());
            match self.below(7) {
                0 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                1 => drop(bytes.drain(at..end)),
                2 => bytes.truncate(at),
                3 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                4 => {
                    let to = self.below(bytes.len());
                    bytes.swap(at, to);
                }
                _ => self.replace_number(&mut bytes),
            }
            if bytes.is_empty() {
                break;
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn replace_number(&mut self, bytes: &mut Vec<u8>) {
        let from = self.below(bytes.len());
        let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let Some(start) = bytes[from..].iter().position(is_digit).map(|at| from + at) else { return };
        let end = bytes[start..].iter().position(|byte| !is_digit(byte)).map_or(bytes.len(), |at| start + at);
        let nasty = NASTY[self.below(NASTY.len())];
        bytes.splice(start..end, nasty.bytes());
    }
}

/// What is read has to be sound as well: no number that could not have been measured, and words that say what is wrong.
fn check(format: &str, text: &str) {
    for found in [read(text), read_as(plumb_tools::format_named(format).unwrap(), text)] {
        match found {
            Ok(runs) => {
                for run in &runs {
                    assert!(!run.metrics.is_empty(), "{format}: a run without a metric");
                    for metric in &run.metrics {
                        let reading = &run.measurement.readings[&metric.name];
                        for statistic in plumb_model::Statistic::ALL.into_iter().map(Some).chain([None]) {
                            let number = reading.number(statistic, metric.unit);
                            assert!(
                                number.is_none_or(|number| !number.is_nan()),
                                "{format}: {}",
                                metric.name
                            );
                        }
                    }
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn no_mutation_of_a_file_with_named_columns_panics() {
    let columns =
        |texts: &[&str]| texts.iter().map(|text| text.parse::<Column>().unwrap()).collect::<Vec<_>>();
    let cases = [
        ("hgrm/latency.hgrm", columns(&["latency:us"])),
        ("hlog/latency.hlog", columns(&["latency:ns"])),
        ("prometheus/range.json", columns(&["rps:1/s"])),
        ("csv/runs.csv", columns(&["latency:ms", "rate:1/s"])),
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (file, columns) in cases {
        let original = std::fs::read(root.join(file)).unwrap();
        let mut mutator = Mutator { random: SplitMix::new(0x5eed) };
        for _ in 0..mutations() {
            match read_mapped(&mutator.mutate(&original), &columns) {
                Ok(run) => assert!(!run.metrics.is_empty()),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

/// How many inputs are made of each format.
fn mutations() -> usize {
    std::env::var("PLUMB_MUTATIONS").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

#[test]
fn no_mutation_of_any_fixture_panics() {
    let formats = by_format();
    let only = std::env::var("PLUMB_MUTATED").ok();
    for format in FORMATS.iter().filter(|format| only.as_ref().is_none_or(|only| only == format.name)) {
        let texts = formats.get(format.name).unwrap_or_else(|| panic!("{} has no fixture", format.name));
        let mut mutator = Mutator { random: SplitMix::new(0x5eed) };
        for number in 0..mutations() {
            let text = mutator.mutate(&texts[number % texts.len()]);
            check(format.name, &text);
        }
    }
}
