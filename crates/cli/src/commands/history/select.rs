//! Which series of an experiment a command looks at.

use std::collections::BTreeSet;

use plumb_history::{Database, RunFilter, SeriesFilter, SeriesRow};

use crate::args::history::SeriesArguments;
use crate::exit::Failure;

/// Some series of an experiment.
pub struct Selected {
    /// Those that are looked at.
    pub chosen: Vec<SeriesRow>,
    /// How many others the experiment has.
    pub others: usize,
}

/// Chooses series: those of a metric, or else the ratios of what claims speak of. Of series that differ by their settings alone, it is the
/// one of the latest run, because an edited experiment begins new ones.
pub fn select(
    history: &mut Database,
    arguments: &SeriesArguments,
    metric: Option<&str>,
) -> Result<Selected, Failure> {
    let experiment = arguments.experiment.clone();
    let of_experiment = SeriesFilter { experiment: Some(experiment.clone()), ..SeriesFilter::default() };
    let all = history.series(&of_experiment)?;
    if all.is_empty() {
        return Err(unknown_experiment(history, &experiment)?);
    }
    let filter = SeriesFilter {
        metric: metric.map(str::to_owned),
        variant: arguments.variant.clone(),
        cell: arguments.cell.clone(),
        host: arguments.host.clone(),
        ratios: arguments.host.is_some().then_some(false),
        ..of_experiment
    };
    let mut chosen = history.series(&filter)?;
    if metric.is_none() {
        chosen = interesting(chosen, &claimed(history, &experiment)?);
    }
    let mut seen = BTreeSet::new();
    chosen.retain(|row| {
        let of = &row.identity;
        let texts = [&of.cell, &of.variant, &of.metric, &of.statistic, &of.host_class];
        seen.insert((texts.map(String::clone), of.baseline.clone()))
    });
    if chosen.is_empty() {
        return Err(nothing_chosen(&all, arguments, metric));
    }
    let others = all.len() - chosen.len();
    Ok(Selected { chosen, others })
}

/// The metrics of which the claims of the experiment's latest run speak.
fn claimed(history: &mut Database, experiment: &str) -> Result<Vec<String>, Failure> {
    let latest =
        RunFilter { experiment: Some(experiment.to_owned()), limit: Some(1), ..RunFilter::default() };
    Ok(history.runs(&latest)?.pop().map_or_else(Vec::new, |run| run.claimed))
}

/// The ratios of what claims speak of; without any, all ratios; without any of these either, all values.
fn interesting(series: Vec<SeriesRow>, claimed: &[String]) -> Vec<SeriesRow> {
    let (ratios, values): (Vec<_>, Vec<_>) = series.into_iter().partition(|row| row.identity.is_ratio());
    let all = if ratios.is_empty() { values } else { ratios };
    let (spoken_of, rest): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|row| claimed.contains(&row.identity.metric_key()));
    if spoken_of.is_empty() { rest } else { spoken_of }
}

fn unknown_experiment(history: &mut Database, name: &str) -> Result<Failure, Failure> {
    let known: Vec<String> = history.experiments()?.into_iter().map(|row| row.name).collect();
    let known = match &known[..] {
        [] => "it is empty; `plumb history add DIR` adds the runs in a folder".to_owned(),
        _ => format!("it has {}", known.join(", ")),
    };
    Ok(Failure::usage(format!("the history has no values of an experiment `{name}`; {known}")))
}

fn nothing_chosen(all: &[SeriesRow], arguments: &SeriesArguments, metric: Option<&str>) -> Failure {
    let names = |of: fn(&SeriesRow) -> String| {
        let names: BTreeSet<String> = all.iter().map(of).filter(|name| !name.is_empty()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let mut known = format!("metrics: {}", names(|row| row.identity.metric_key()));
    known += &format!("; variants: {}", names(|row| row.identity.variant.clone()));
    for (what, names) in [
        ("cells", names(|row| row.identity.cell.clone())),
        ("hosts", names(|row| row.identity.host_class.clone())),
    ] {
        if !names.is_empty() {
            known += &format!("; {what}: {names}");
        }
    }
    let metric = metric.map_or(String::new(), |metric| format!(" of {metric}"));
    Failure::usage(format!("`{}` has no such series{metric}; it has {known}", arguments.experiment))
}
