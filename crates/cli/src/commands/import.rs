//! `plumb import`: what other tools wrote, as one measurement or as a run that is judged like any other.

mod files;
mod order;
mod planned;
mod together;

use plumb_model::Measurement;
use plumb_report::Source;
use plumb_tools::ToolRun;

use self::files::{Imported, found, read};
use super::single;
use crate::args::ImportArguments;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// Prints files one by one, or makes a run of them.
pub fn import(arguments: &ImportArguments) -> Outcome {
    if arguments.variants.is_empty() { alone(arguments) } else { together::import(arguments) }
}

fn alone(arguments: &ImportArguments) -> Outcome {
    let mut code = HOLDS;
    for file in &arguments.files {
        for run in read(&found(file), arguments)? {
            print(&run, arguments)?;
            code = code.max(single::code(&run.tool_run.measurement, &arguments.shown, HOLDS));
        }
    }
    Ok(code)
}

fn print(run: &Imported, arguments: &ImportArguments) -> Result<(), Failure> {
    let Imported { tool_run, .. } = run;
    let source = source(run);
    let failures = plumb_report::too_many_failures(&tool_run.measurement, arguments.shown.failures_max.0);
    if arguments.shown.json {
        let mut measurement = tool_run.measurement.clone();
        measurement.warnings.splice(0..0, failures);
        return output::result(&plumb_report::imported_measurement_json(
            &measurement,
            &tool_run.metrics,
            &source,
        ));
    }
    if !arguments.shown.quiet {
        output::message(&headline(tool_run, &source, &tool_run.measurement));
    }
    if let Some(failures) = failures {
        output::result(&format!("✗ {failures}\n"))?;
    }
    let style = plumb_report::TextStyle { colour: output::colour_on_stdout(), width: output::width(140) };
    let text =
        plumb_report::imported_measurement_text(&tool_run.measurement, &tool_run.metrics, &source, &style);
    output::painted(&text)
}

fn headline(run: &ToolRun, source: &Source, measurement: &Measurement) -> String {
    let label = run.label.as_ref().map(|label| format!(" · {label}")).unwrap_or_default();
    let metrics = plumb_report::plural(measurement.readings.len(), "metric");
    format!("plumb {} · {}{label} · {metrics} from {}", env!("CARGO_PKG_VERSION"), source.file, source.tool)
}

fn source(run: &Imported) -> Source {
    let Imported { tool_run, file, .. } = run;
    Source {
        file: file.display().to_string(),
        tool: tool_run.tool_words(),
        options: tool_run.options.clone(),
        started_at: tool_run.started_unix_s.map(plumb_host::time::rfc3339_of),
        units: tool_run.units.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::MetricInfo;

    #[test]
    fn metrics_of_tools_are_those_of_the_data_paths() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tests/fixtures");
        let folders = std::fs::read_dir(root).unwrap().filter_map(Result::ok).filter(|it| it.path().is_dir());
        let files =
            folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).filter_map(Result::ok);
        let paths = crate::data_paths::all();
        let mut compared = std::collections::BTreeSet::new();
        for run in files
            .filter_map(|file| std::fs::read_to_string(file.path()).ok())
            .flat_map(|text| plumb_tools::read(&text).unwrap_or_default())
        {
            let Some(path) = paths.iter().find(|path| path.name == run.path) else { continue };
            for metric in &run.metrics {
                let Some(own) = path.metrics.iter().find(|own| own.name == metric.name) else { continue };
                let own = MetricInfo { about: metric.about.clone(), ..MetricInfo::from(own) };
                assert_eq!(*metric, own, "{}", run.tool);
                compared.insert(metric.name.clone());
            }
        }
        assert!(compared.len() > 20, "{compared:?}");
    }
}
