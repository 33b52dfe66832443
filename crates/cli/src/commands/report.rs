//! `plumb report DIR`: any form of a run's report, from its directory alone.

use plumb_judge::judge;
use plumb_model::{Judgement, Run};
use plumb_report as forms;

use crate::args::{Format, ReportArguments};
use crate::exit::{self, Failure, Outcome};
use crate::output;

/// Prints the report in the form that was asked for.
pub fn report(arguments: &ReportArguments) -> Outcome {
    let run = plumb_store::read(&arguments.directory).map_err(|error| match error {
        plumb_store::StoreError::NoRun { .. } => Failure::usage(format!("failed to {error}")),
        other => Failure::harness(other),
    })?;
    let judgement = judge(&run.header.plan, &run.slots);
    output::result(&render(&run, &judgement, arguments.format))?;
    Ok(exit::HOLDS)
}

/// A run in one form.
pub fn render(run: &Run, judgement: &Judgement, format: Format) -> String {
    match format {
        Format::Text => {
            let style = forms::TextStyle { colour: output::colour_on_stdout(), width: output::width(120) };
            forms::text(run, judgement, &style)
        }
        Format::Markdown => forms::markdown(run, judgement),
        Format::Html => forms::html(run, judgement),
        Format::Json => forms::json(run, judgement),
        Format::Junit => forms::junit(run, judgement),
    }
}

/// Writes every form but the terminal's beside the run's slots; returns where the page is.
pub fn write_all(
    run: &Run,
    judgement: &Judgement,
    directory: &std::path::Path,
) -> Result<std::path::PathBuf, Failure> {
    let files = [
        ("report.html", Format::Html),
        ("report.md", Format::Markdown),
        ("report.json", Format::Json),
        ("junit.xml", Format::Junit),
    ];
    for (name, format) in files {
        plumb_store::write_report(directory, name, &render(run, judgement, format))
            .map_err(Failure::harness)?;
    }
    Ok(directory.join("report.html"))
}
