//! The fixtures, by their paths below `tests/fixtures`, whose `README.md` says how they were made.

use std::path::{Path, PathBuf};

use plumb_model::Statistic;
use plumb_readers::{Column, ReadError, ToolRun, Way, read_from};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every fixture, sorted by path.
pub(crate) fn all() -> Vec<String> {
    let inside = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = inside(root()).filter(|path| path.is_dir()).flat_map(inside);
    let name = |path: PathBuf| path.strip_prefix(root()).unwrap().display().to_string();
    let mut names: Vec<String> = files.map(name).collect();
    names.sort();
    names
}

pub(crate) fn fixture(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The columns of a fixture that needs them.
pub(crate) fn columns(name: &str) -> Vec<Column> {
    let columns: &[&str] = match name.split('/').next().unwrap() {
        "hgrm" => &["latency:us"],
        "hlog" => &["latency:ns"],
        "prometheus" => &["rps:1/s"],
        "csv" => &["latency:ms", "rate:1/s"],
        _ => &[],
    };
    columns.iter().map(|column| column.parse().unwrap()).collect()
}

/// The runs in the text of a fixture, or in a text like it.
pub(crate) fn runs(name: &str, text: &str) -> Result<Vec<ToolRun>, ReadError> {
    let columns = columns(name);
    let way = if columns.is_empty() { Way::Recognised } else { Way::Columns(&columns) };
    read_from(text.as_bytes(), way)
}

/// The value of `metric` or `metric.statistic`, in the metric's unit.
pub(crate) fn value(run: &ToolRun, key: &str) -> Option<f64> {
    let (name, statistic) = match key.split_once('.') {
        Some((name, statistic)) => (name, Some(Statistic::from_name(statistic).expect("a statistic"))),
        None => (key, None),
    };
    run.measurement.readings.get(name)?.number(statistic, run.metric(name)?.unit)
}

/// The sentences of a run's notices.
pub fn texts(run: &ToolRun) -> impl Iterator<Item = String> {
    run.measurement.notices.iter().map(plumb_report::notice)
}
