//! `plumb history show`.

use plumb_history::{Database, RunPoint, RunRow};
use plumb_report::figures::{digits, effect};
use plumb_report::sheet::{Sheet, Tone};

use super::{document, list};
use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Shows a run.
pub fn show(history: &mut Database, given: &str, json: bool) -> Outcome {
    let run = history.run(given)?;
    let points = history.run_points(&run.key)?;
    if json {
        output::json(&document::run(&run, &points))?;
        return Ok(HOLDS);
    }
    let mut sheet = Sheet::new(&output::style(160));
    head(&mut sheet, &run);
    let (ratios, values): (Vec<&RunPoint>, Vec<&RunPoint>) =
        points.iter().partition(|of| of.identity.is_ratio());
    table(&mut sheet, "ratios to the baseline", &ratios);
    table(&mut sheet, "values: the median of the slots, the smallest, the largest", &values);
    output::painted(&sheet.finish())?;
    Ok(HOLDS)
}

fn head(sheet: &mut Sheet, run: &RunRow) {
    sheet.title(&format!("{} ({})", run.title, run.experiment));
    let mut lines = vec![
        ("run", run.key.clone()),
        ("started", list::moment(run.started_at_us)),
        ("ended", run.ending.word().to_owned()),
        ("claims", run.verdicts.to_string()),
        ("exit code", run.exit_code.to_string()),
        ("hosts", run.host_class.clone()),
        ("directory", run.directory.clone()),
    ];
    if let Some(source) = &run.source {
        let branch = source.branch.as_ref().map_or(String::new(), |branch| format!(" on {branch}"));
        let dirty = if source.dirty { ", with changes that were not committed" } else { "" };
        let subject = source.subject.as_ref().map_or(String::new(), |subject| format!(": {subject}"));
        lines.push(("revision", format!("{}{branch}{dirty}{subject}", source.revision)));
    }
    if !run.labels.is_empty() {
        let labels: Vec<String> = run.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.push(("labels", labels.join(" ")));
    }
    if run.synthetic {
        lines.push(("note", "the data path made its numbers up".to_owned()));
    }
    for (name, text) in lines {
        sheet.signed(Tone::Quiet, " ", (name, 9), &text);
    }
}

fn table(sheet: &mut Sheet, title: &str, points: &[&RunPoint]) {
    if points.is_empty() {
        return;
    }
    sheet.title(title);
    let row = |of: &&RunPoint| {
        let RunPoint { identity, point, .. } = of;
        let value = match (identity.is_ratio(), point.low.zip(point.high)) {
            (true, _) => effect(point.value, point.low.unwrap_or(0.0), point.high),
            (false, Some((low, high))) => {
                format!("{} [{}, {}] {}", digits(point.value), digits(low), digits(high), identity.unit)
            }
            (false, None) => format!("{} {}", digits(point.value), identity.unit),
        };
        vec![identity.sides(), identity.metric_key(), value]
    };
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    sheet.columns(2, &["variant", "metric", "value"], &rows);
}
