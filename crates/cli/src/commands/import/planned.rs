//! The common part of a comparison's files, the differences between the variants, and the plan that follows from both.

use std::collections::BTreeMap;

use plumb_model::claim::Scope;
use plumb_model::{Blocks, Cell, Claim, MetricInfo, Operand, Plan, PlannedVariant, Statistic, Term, Variant};

use super::files::Imported;
use crate::args::ImportArguments;
use crate::exit::Failure;

/// A plan holds no more blocks.
const RUNS_MAX: usize = 1000;

/// The runs of one variant.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) name: String,
    pub(super) runs: Vec<Imported>,
}

impl Side {
    /// The runs with readings.
    fn good(&self) -> impl Iterator<Item = &Imported> {
        self.runs.iter().filter(|run| run.tool_run.failure.is_none())
    }

    /// The first run with readings, or else the first run.
    pub(super) fn first(&self) -> &Imported {
        self.good().next().unwrap_or(&self.runs[0])
    }
}

/// Checks that the runs can be compared at all.
///
/// # Errors
/// When tools differ, or the options of one variant's runs do, or there are too many.
pub(super) fn check(sides: &[Side]) -> Result<(), Failure> {
    let [first, second, ..] = sides else {
        return Err(Failure::usage(
            "a comparison needs at least two variants; give --variant again with another name",
        ));
    };
    let all = sides.iter().flat_map(|side| &side.runs);
    let reference = first.first();
    if let Some(other) = all.clone().find(|run| run.tool_run.tool != reference.tool_run.tool) {
        return Err(Failure::usage(format!(
            "failed to compare files of different tools: {} is {}'s, and {} is {}'s; two tools measure different things",
            reference.file.display(),
            reference.tool_run.tool,
            other.file.display(),
            other.tool_run.tool,
        )));
    }
    if let Some(side) = sides.iter().find(|side| side.runs.len() > RUNS_MAX) {
        let count = side.runs.len();
        return Err(Failure::usage(format!(
            "{} has {count} runs, and at most {RUNS_MAX} are imported",
            side.name
        )));
    }
    let same_file = first.runs.iter().find(|run| second.runs.iter().any(|other| is_same(run, other)));
    if let Some(run) = same_file {
        let file = run.file.display();
        return Err(Failure::usage(format!("{file} is a run of both {} and {}", first.name, second.name)));
    }
    sides.iter().try_for_each(check_side)
}

fn is_same(one: &Imported, other: &Imported) -> bool {
    one.file == other.file && one.tool_run == other.tool_run
}

fn check_side(side: &Side) -> Result<(), Failure> {
    let first = side.first();
    for run in side.good() {
        if let Some((name, one, other)) = differences(&said(first), &said(run)).into_iter().next() {
            return Err(Failure::usage(format!(
                "the runs of {} are not of the same test: {name} is {one} in {} and {other} in {}; give them as different \
                 variants",
                side.name,
                first.file.display(),
                run.file.display()
            )));
        }
    }
    Ok(())
}

/// The options of a run with the version of its tool.
fn said(run: &Imported) -> BTreeMap<String, String> {
    let mut options = run.tool_run.options.clone();
    options.extend(run.tool_run.version.iter().map(|version| ("version".to_owned(), version.clone())));
    options
}

/// Name, value there and value here of all options that differ.
fn differences<'a>(
    one: &'a BTreeMap<String, String>,
    other: &'a BTreeMap<String, String>,
) -> Vec<(&'a str, &'a str, &'a str)> {
    let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
    let value = |of: &'a BTreeMap<String, String>, name: &str| of.get(name).map_or("not set", String::as_str);
    let pairs = names.map(|name| (name.as_str(), value(one, name), value(other, name)));
    pairs.filter(|(_, one, other)| one != other).collect()
}

/// The files' statements on how a variant differs from the baseline.
pub(super) fn treatment(baseline: &Side, side: &Side) -> Option<String> {
    let (here, there) = (said(side.first()), said(baseline.first()));
    let words: Vec<String> = differences(&there, &here)
        .into_iter()
        .map(|(name, was, is)| format!("{name}: {is} instead of {was}"))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The plan of a run that consists of these, its order apart.
///
/// # Errors
/// When a claim cannot be read or judged.
pub(super) fn plan(sides: &[Side], arguments: &ImportArguments) -> Result<Plan, Failure> {
    let metrics = metrics(sides)?;
    let names: Vec<String> = sides.iter().map(|side| side.name.clone()).collect();
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims: Result<Vec<Claim>, Failure> =
        arguments.claims.iter().map(|text| claim(scope, text, sides)).collect();
    let first = &sides[0].first().tool_run;
    let most = sides.iter().map(|side| side.runs.len()).max().unwrap_or_default();
    let of_variant = |(at, side): (usize, &Side)| Variant {
        name: side.name.clone(),
        treatment: match (at, treatment(&sides[0], side)) {
            (0, _) => "the baseline".to_owned(),
            (_, Some(words)) => words,
            (_, None) => "as the baseline, by what the files say".to_owned(),
        },
        control: false,
    };
    let planned = |(variant, side): (usize, &Side)| {
        let settings = serde_json::json!({ "tool": first.tool, "options": said(side.first()) });
        PlannedVariant::new(variant, settings.to_string())
    };
    let mut windows: Vec<u64> = sides[0].runs.iter().map(|run| run.tool_run.measurement.window_ns).collect();
    windows.sort_unstable();
    Ok(Plan {
        title: format!("{} against {}, measured by {}", names[1..].join(", "), names[0], first.tool_words()),
        cells: vec![Cell {
            values: BTreeMap::new(),
            variants: sides.iter().enumerate().map(planned).collect(),
        }],
        blocks: Blocks { min: 6, max: u32::try_from(most).unwrap_or(u32::MAX).max(6) },
        claims: claims?,
        metrics,
        units: first.units.to_owned(),
        window_ns: windows[windows.len() / 2],
        failures_max: arguments.shown.failures_max.0,
        ..Plan::new(&arguments.name, first.path, sides.iter().enumerate().map(of_variant).collect())
    })
}

/// Every metric that any run has.
fn metrics(sides: &[Side]) -> Result<Vec<MetricInfo>, Failure> {
    let mut all: Vec<MetricInfo> = Vec::new();
    let every = sides
        .iter()
        .flat_map(|side| &side.runs)
        .flat_map(|run| run.tool_run.metrics.iter().map(move |it| (run, it)));
    for (run, metric) in every {
        match all.iter().find(|known| known.name == metric.name) {
            Some(known) if known.unit != metric.unit => {
                return Err(Failure::usage(format!(
                    "{} has {} in {}, and another file in {}",
                    run.file.display(),
                    metric.name,
                    metric.unit.symbol(),
                    known.unit.symbol()
                )));
            }
            Some(_) => {}
            None => all.push(metric.clone()),
        }
    }
    Ok(all)
}

fn claim(scope: Scope<'_>, text: &str, sides: &[Side]) -> Result<Claim, Failure> {
    let failed = |reason: String| Failure::usage(format!("failed to judge the claim `{text}`: {reason}"));
    let claim = scope.read_claim(text).map_err(|error| failed(error.to_string()))?;
    for term in claim.terms() {
        let side = sides.iter().find(|side| side.name == term.variant);
        check_term(scope, term, side, &failed)?;
    }
    if let Operand::Cap { .. } = claim.right {
        let has_windows = |side: &Side| {
            side.good().all(|run| run.tool_run.measurement.windows.contains_key(&claim.left.metric))
        };
        if !sides.iter().any(|side| side.name == claim.left.variant && has_windows(side)) {
            return Err(failed(format!(
                "a cap holds for every second, and the files have no value of {} for each second",
                claim.left.metric
            )));
        }
    }
    Ok(claim)
}

/// Whether every run of a variant has what a claim speaks of.
fn check_term(
    scope: Scope<'_>,
    term: &Term,
    side: Option<&Side>,
    failed: &dyn Fn(String) -> Failure,
) -> Result<(), Failure> {
    let Some((side, metric)) = side.zip(scope.metrics.iter().find(|metric| metric.name == term.metric))
    else {
        return Ok(());
    };
    let has = |run: &&Imported, statistic: Option<Statistic>| {
        let reading = run.tool_run.measurement.readings.get(&term.metric);
        reading.and_then(|reading| reading.number(statistic, metric.unit)).is_some()
    };
    let Some(without) = side.good().find(|run| !has(run, term.statistic)) else { return Ok(()) };
    let file = without.file.display();
    let Some(statistic) = term.statistic else {
        return Err(failed(format!("{file}, a run of {}, has no value of {}", side.name, term.metric)));
    };
    let known: Vec<&str> = Statistic::ALL
        .into_iter()
        .filter(|statistic| has(&without, Some(*statistic)))
        .map(Statistic::name)
        .collect();
    let remedy = without.tool_run.remedies.get(&term.metric);
    Err(failed(format!(
        "{file}, a run of {}, has no {} of {}, only {}{}",
        side.name,
        statistic.name(),
        term.metric,
        if known.is_empty() { "no statistic at all".to_owned() } else { known.join(", ") },
        remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default()
    )))
}
