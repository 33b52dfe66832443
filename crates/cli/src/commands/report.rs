//! `plumb report DIR`: any form of a run's report, from its directory alone.

use plumb_judge::judge;
use plumb_model::{Judgement, Run};
use plumb_report as forms;

use crate::args::{Format, ReportArguments};
use crate::exit::{self, Failure, Outcome};
use crate::output;

/// The file with the report as a page.
pub const PAGE: &str = "report.html";

/// Prints the report in the form that was asked for.
pub fn report(arguments: &ReportArguments) -> Outcome {
    let run = read_run(&arguments.directory)?;
    let judgement = judge(&run.header.plan, &run.slots);
    print(&run, &judgement, arguments.format, arguments.full)?;
    Ok(exit::HOLDS)
}

/// Reads a run directory. Warns if the experiment in it is not the one that ran.
pub fn read_run(directory: &std::path::Path) -> Result<Run, Failure> {
    let run = plumb_store::read_run(directory).map_err(|error| match error {
        plumb_store::StoreError::NoRun { .. } => Failure::usage(format!("failed to {error}")),
        other => Failure::harness(other),
    })?;
    match plumb_store::edited_experiment(&run) {
        Ok(None) => {}
        Ok(Some(path)) => output::message(&format!(
            "warning: {} was edited since the run; the report shows the experiment that ran",
            path.display()
        )),
        Err(error) => output::message(&format!("warning: failed to {error}")),
    }
    Ok(run)
}

/// Prints a run in one form; as text, whole or what fits on a screen.
pub fn print(run: &Run, judgement: &Judgement, format: Format, full: bool) -> Result<(), Failure> {
    let style = output::style(120);
    match format {
        Format::Text if full => output::painted(&forms::text(run, judgement, &style)),
        Format::Text => output::painted(&forms::brief(run, judgement, &style)),
        Format::Markdown => output::result(&forms::markdown(run, judgement)),
        Format::Html => output::result(&forms::html(run, judgement)),
        Format::Json => output::result(&forms::json(run, judgement)),
        Format::Junit => output::result(&forms::junit(run, judgement)),
    }
}

/// Writes every form but the terminal's beside the run's slots; returns where the page is.
pub fn write_all(
    run: &Run,
    judgement: &Judgement,
    directory: &std::path::Path,
) -> Result<std::path::PathBuf, Failure> {
    let files = [
        (PAGE, forms::html as fn(&Run, &Judgement) -> String),
        ("report.md", forms::markdown),
        ("report.json", forms::json),
        ("junit.xml", forms::junit),
    ];
    for (name, form) in files {
        plumb_store::write_report(directory, name, &form(run, judgement)).map_err(Failure::harness)?;
    }
    Ok(directory.join(PAGE))
}

#[cfg(test)]
mod printed;
#[cfg(test)]
mod tests;
