//! Outputs of tools that are nearly right: nothing that a file holds may end the program, or become a number that was not measured.
//!
//! The first byte of an input chooses how the rest is read: as which format, or with which columns that the user names.

use plumb_fuzz::Target;
use plumb_model::Statistic;
use plumb_readers::{FORMATS, Format, ReadError, ToolRun, read_as, read_mapped, read_runs};

use crate::fixtures::{all, columns, fixture, texts};

/// Files that are read with named columns.
const MAPPED: [&str; 4] = ["hgrm/latency.hgrm", "hlog/latency.hlog", "prometheus/range.json", "csv/runs.csv"];
const WORDS: [&str; 14] = [
    "-1",
    "1e308",
    "1e999",
    "NaN",
    "inf",
    "0.0000000001",
    "\u{1b}[31m",
    "\u{b5}s",
    "ms",
    "us",
    "%",
    "requests",
    ",",
    "\t",
];

/// Fixtures of this size or less are read in a few milliseconds.
const SMALL_BYTES: usize = 8 << 10;

fn input(way: usize, content: &str) -> Vec<u8> {
    [&[u8::try_from(way).unwrap()], content.as_bytes()].concat()
}

/// Fixtures with the number of the format that they are recognised as. A larger one is there only where its format has no other, as most
/// of the time would go into reading it.
fn fixtures() -> Vec<Vec<u8>> {
    let texts: Vec<String> = all().iter().map(|name| fixture(name)).collect();
    let of_format = |(way, format): (usize, &Format)| -> Vec<Vec<u8>> {
        let mut of: Vec<&String> = texts.iter().filter(|text| format.is(text)).collect();
        assert!(!of.is_empty(), "{} has no fixture", format.name);
        of.sort_by_key(|text| text.len());
        let small = of.iter().take_while(|text| text.len() <= SMALL_BYTES).count().max(1);
        of[..small].iter().map(|text| input(way, text)).collect()
    };
    FORMATS.iter().enumerate().flat_map(of_format).collect()
}

/// No number of a run is one that could not have been measured.
fn check_run(run: &ToolRun) {
    assert_eq!(run.metrics.is_empty(), run.failure.is_some(), "{}: a run without a metric", run.tool);
    for metric in &run.metrics {
        let reading = &run.measurement.readings[&metric.name];
        for statistic in Statistic::ALL.into_iter().map(Some).chain([None]) {
            let number = reading.number(statistic, metric.unit);
            assert!(number.is_none_or(|number| !number.is_nan()), "{}: {}", run.tool, metric.name);
        }
    }
}

/// What became of an input: the names of what was read, or the first words of the error without what it quotes of the input.
fn outcome(read: Result<Vec<ToolRun>, ReadError>) -> String {
    match read {
        Ok(runs) => {
            runs.iter().for_each(check_run);
            let names =
                |run: &ToolRun| format!("{} {:?}", run.metrics.len(), run.measurement.readings.keys());
            runs.first().map(names).unwrap_or_default()
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.is_empty());
            let own = message.split(['`', '"']).step_by(2);
            own.flat_map(str::chars).filter(char::is_ascii_alphabetic).take(60).collect()
        }
    }
}

/// How many values there are, or `None` if a part of the text was refused, or said to be missing.
fn values(runs: &[ToolRun]) -> Option<usize> {
    let of_metric = |run: &ToolRun, metric: &plumb_model::MetricInfo| {
        let reading = &run.measurement.readings[&metric.name];
        let all = Statistic::ALL.into_iter().map(Some).chain([None]);
        all.filter(|statistic| reading.number(*statistic, metric.unit).is_some()).count()
    };
    let of_run = |run: &ToolRun| {
        let is_told =
            |text: String| ["left out", "cut off", "cut short"].iter().any(|words| text.contains(words));
        let is_whole = run.failure.is_none() && !texts(run).any(is_told);
        is_whole.then(|| run.metrics.iter().map(|metric| of_metric(run, metric)).sum::<usize>())
    };
    runs.iter().map(of_run).sum()
}

/// A figure in another form is refused: it never makes a value absent that is there with other digits.
fn check_another_form(text: &str) {
    // Without the number in it, the rest of a colour's code would be text.
    if text.contains('\u{1b}') {
        return;
    }
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_first = |at: &usize| {
        is_digit(*at)
            && (*at == 0
                || !text.as_bytes()[at - 1].is_ascii_alphanumeric() && text.as_bytes()[at - 1] != b'.')
    };
    let starts: Vec<usize> = (0..text.len()).filter(is_first).collect();
    let Some(start) = starts.get(text.len() % starts.len().max(1)).copied() else { return };
    let end = (start..).find(|at| !is_digit(*at)).unwrap_or(text.len());
    let with = |figure: &str| read_runs(&format!("{}{figure}{}", &text[..start], &text[end..])).ok();
    let other: String = text[start..end].chars().map(|digit| if digit == '1' { '2' } else { '1' }).collect();
    let counts = with("12ms34").zip(with(&other)).map(|(found, due)| (values(&found), values(&due)));
    if let Some((Some(found), Some(due))) = counts {
        assert!(found >= due, "12ms34 at byte {start} leaves {found} of {due} values");
    }
}

#[test]
fn fuzz_tool_outputs() {
    let target = Target::new("fuzz_tool_outputs").seeds(fixtures()).with_words(WORDS);
    target.run(|bytes| {
        let Some((way, rest)) = bytes.split_first() else { return [String::new(), String::new()] };
        let text = String::from_utf8_lossy(rest);
        check_another_form(&text);
        [outcome(read_runs(&text)), outcome(read_as(&FORMATS[usize::from(*way) % FORMATS.len()], &text))]
    });
}

#[test]
fn fuzz_tool_columns() {
    let columns = MAPPED.map(columns);
    let seeds = MAPPED.iter().enumerate().map(|(way, name)| input(way, &fixture(name)));
    // A histogram with five digits over all that 64 bits hold has 47 MiB.
    let target = Target::new("fuzz_tool_columns").seeds(seeds).with_words(WORDS).memory(64 << 20);
    target.run(|bytes| {
        let Some((way, rest)) = bytes.split_first() else { return String::new() };
        let run = read_mapped(&String::from_utf8_lossy(rest), &columns[usize::from(*way) % MAPPED.len()]);
        outcome(run.map(|run| vec![run]))
    });
}
