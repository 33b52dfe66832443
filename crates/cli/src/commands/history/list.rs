//! `plumb history list`.

use plumb_history::{Database, RunFilter, RunRow};
use plumb_report::plural;
use plumb_report::sheet::{Sheet, Tone};

use super::document;
use crate::args::history::HistoryListArguments;
use crate::commands::recording::short;
use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Lists runs.
pub fn list(history: &mut Database, arguments: &HistoryListArguments) -> Outcome {
    let filter = RunFilter {
        experiment: arguments.experiment.clone(),
        labels: arguments.label.clone(),
        text: arguments.text.clone(),
        limit: Some(arguments.limit).filter(|limit| *limit > 0),
        ..RunFilter::default()
    };
    let (runs, total) = (history.runs(&filter)?, history.count(&filter)?);
    if arguments.json {
        output::json(&document::list(total, &runs))?;
        return Ok(HOLDS);
    }
    let mut sheet = Sheet::new(&output::style(160));
    if runs.is_empty() {
        sheet.text(Tone::Quiet, "There are no such runs. `plumb history add DIR` adds those in a folder, `plumb run --record` a new one.");
    } else {
        let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
        sheet.columns(0, &["run", "started", "took", "verdicts", "revision", "experiment"], &rows);
        let hidden = total.saturating_sub(runs.len() as u64);
        if hidden > 0 {
            let hidden = plural(usize::try_from(hidden).unwrap_or(usize::MAX), "older run");
            sheet.block();
            sheet.text(Tone::Quiet, &format!("{hidden} not shown; `--limit 0` shows all."));
        }
    }
    output::painted(&sheet.finish())?;
    Ok(HOLDS)
}

fn row(run: &RunRow) -> Vec<String> {
    let revision = run.source.as_ref().map(|source| {
        let mark = if source.dirty { "+" } else { "" };
        format!("{}{mark}", source.revision.get(..8).unwrap_or(&source.revision))
    });
    let labels: Vec<String> = run.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let quick = if run.quick { " (quick)" } else { "" };
    vec![
        short(&run.key).to_owned(),
        moment(run.started_at_us),
        run.took_s.map_or_else(|| "-".to_owned(), plumb_report::figures::duration_s),
        run.verdicts.to_string(),
        revision.unwrap_or_else(|| "-".to_owned()),
        format!("{}{quick} {}", run.experiment, labels.join(" ")).trim_end().to_owned(),
    ]
}

/// A time to the minute, in UTC.
pub fn moment(at_us: i64) -> String {
    document::time(at_us).chars().take(16).collect::<String>().replace('T', " ")
}
