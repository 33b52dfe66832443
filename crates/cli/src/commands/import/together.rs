//! Files of several variants as a run directory, which is judged and reported like any other.

use std::path::{Path, PathBuf};

use plumb_judge::judge;
use plumb_model::{
    Ending, FailureCause, Header, Imported as Import, OrderSource, Plan, Run, Slot, SlotOutcome, SlotResult,
};
use plumb_readers::NoReading;
use plumb_store::RunDirectory;

use super::files::{Found, Imported, matching, read_runs};
use super::order::{Order, Placed, order};
use super::planned::{self, Side};
use crate::args::{Format, ImportArguments};
use crate::commands::report::{print, write_all};
use crate::commands::run::{default_directory, failure};
use crate::commands::version::own_build;
use crate::exit::{self, Failure, Outcome};
use crate::output;

/// Imports, judges, writes the run directory and prints the report.
pub(super) fn import(arguments: &ImportArguments) -> Outcome {
    let sides = sides(arguments)?;
    planned::check(&sides)?;
    let mut plan = planned::plan(&sides, arguments)?;
    let (runs, order) = ordered(&sides);
    plan.imported = Some(Import {
        tool: sides[0].first().tool_run.tool_words(),
        order: order.source,
        interleaved: order.interleaved,
    });
    let slots = slots(&sides, &runs, &order);
    let run = record(arguments, plan, slots, &listing(arguments, &sides, &runs, &order))?;
    let judgement = judge(&run.header.plan, &run.slots);
    let directory = PathBuf::from(&run.directory);
    let page = write_all(&run, &judgement, &directory)?;
    let format = if arguments.shown.json { Format::Json } else { Format::Text };
    print(&run, &judgement, format, arguments.full)?;
    if !arguments.shown.quiet {
        output::message(&format!("report: {}", page.display()));
    }
    Ok(exit::of_run(&run, &judgement))
}

/// The runs of every variant, in the order of the command line.
fn sides(arguments: &ImportArguments) -> Result<Vec<Side>, Failure> {
    let mut sides: Vec<Side> = Vec::new();
    for variant in &arguments.variants {
        for file in matching(&variant.pattern)? {
            let run = only_run(&file, arguments)?;
            match sides.iter_mut().find(|side| side.name == variant.name) {
                Some(side) => side.runs.push(run),
                None => sides.push(Side { name: variant.name.clone(), runs: vec![run] }),
            }
        }
    }
    Ok(sides)
}

fn only_run(file: &Found, arguments: &ImportArguments) -> Result<Imported, Failure> {
    let mut runs = read_runs(file, arguments)?;
    if runs.len() == 1 {
        return Ok(runs.remove(0));
    }
    let name = file.file.display();
    let labels: Vec<String> = (1..)
        .zip(&runs)
        .map(|(number, run)| {
            let label = run.tool_run.label.as_ref();
            format!("`{name}#{number}`{}", label.map(|label| format!(" for {label}")).unwrap_or_default())
        })
        .collect();
    Err(Failure::usage(format!("{name} has {} runs; name one of them: {}", runs.len(), labels.join(", "))))
}

/// All runs, each with the index of its variant, and their order. The order of the command line is the one to fall back on.
fn ordered(sides: &[Side]) -> (Vec<(usize, &Imported)>, Order) {
    let all: Vec<(usize, &Imported)> = (0..)
        .zip(sides)
        .flat_map(|(variant, side)| side.runs.iter().map(move |run| (variant, run)))
        .collect();
    let placed: Vec<Placed> = all
        .iter()
        .map(|(variant, run)| Placed {
            variant: *variant,
            stamp_s: run.tool_run.started_unix_s,
            modified_s: run.modified_unix_s,
            took_s: run.tool_run.measurement.window_ns as f64 / 1e9,
        })
        .collect();
    let order = order(&placed, sides.len());
    (all, order)
}

/// One slot a run: the first run of each variant is in the first block, and so on.
fn slots(sides: &[Side], runs: &[(usize, &Imported)], order: &Order) -> Vec<Slot> {
    let mut seen = vec![0_u32; sides.len()];
    let mut in_block: Vec<u32> = Vec::new();
    let mut slot = |(index, offset_s): (&usize, &f64)| {
        let (variant, run) = runs[*index];
        let block = seen[variant];
        seen[variant] += 1;
        in_block.resize(in_block.len().max(block as usize + 1), 0);
        let position = in_block[block as usize];
        in_block[block as usize] += 1;
        let measured = || {
            let measurement = run.tool_run.measurement.clone();
            SlotOutcome::Measured(Box::new(SlotResult { measurement, ..SlotResult::default() }))
        };
        // A failure that the tool reports counts against the system; a damaged file counts against nobody.
        let failed = |failure: &NoReading| {
            let cause = match failure {
                NoReading::Failed(_) => FailureCause::System,
                NoReading::Unread(_) => FailureCause::Harness,
            };
            SlotOutcome::Failed { reason: failure.to_string(), cause }
        };
        Slot {
            cell: 0,
            block,
            position,
            variant: sides[variant].name.clone(),
            started_at: started_at(run, order.source).unwrap_or_default(),
            offset_s: *offset_s,
            took_s: run.tool_run.measurement.window_ns as f64 / 1e9,
            retried: Vec::new(),
            outcome: run.tool_run.failure.as_ref().map_or_else(measured, failed),
        }
    };
    order.runs.iter().zip(&order.offsets_s).map(&mut slot).collect()
}

fn started_at(run: &Imported, source: OrderSource) -> Option<String> {
    let unix_s = match source {
        OrderSource::Stamps => run.tool_run.started_unix_s,
        OrderSource::Files => run.modified_unix_s,
        OrderSource::Given => None,
    };
    unix_s.map(plumb_host::time::rfc3339_of)
}

/// The text that an imported run has in place of an experiment: which file became which slot.
fn listing(
    arguments: &ImportArguments,
    sides: &[Side],
    runs: &[(usize, &Imported)],
    order: &Order,
) -> String {
    let mut text = format!(
        "# `plumb import` made this run of files, so there is nothing to run again.\n# The runs are in the order of {}.\nruns:\n",
        order.source.in_words()
    );
    for index in &order.runs {
        let (variant, run) = runs[*index];
        let time = started_at(run, order.source).unwrap_or_else(|| "unknown".to_owned());
        let file = serde_json::Value::from(run.name());
        text += &format!("  - {{ variant: {}, time: \"{time}\", file: {file} }}\n", sides[variant].name);
    }
    if !arguments.claims.is_empty() {
        text += "claims:\n";
    }
    for claim in &arguments.claims {
        text += &format!("  - {}\n", serde_json::Value::from(claim.as_str()));
    }
    text
}

fn record(arguments: &ImportArguments, plan: Plan, slots: Vec<Slot>, text: &str) -> Result<Run, Failure> {
    let directory = match &arguments.output {
        Some(directory) => directory.clone(),
        None => {
            plumb_store::make_unique(&default_directory(&plan.name)).map_err(|error| failure(error.into()))?
        }
    };
    let header = Header {
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        build: Some(own_build()?),
        started_at: slots.first().map(|slot| slot.started_at.clone()).unwrap_or_default(),
        host: host_lines(&plan),
        plan,
        system_cpus: String::new(),
        load_cpus: String::new(),
        places: None,
        source: None,
        labels: Default::default(),
    };
    let took_s = slots.iter().map(|slot| slot.offset_s + slot.took_s).fold(0.0, f64::max);
    let run = Run {
        directory: directory.display().to_string(),
        header,
        experiment_text: text.to_owned(),
        slots,
        ending: Some(Ending::Complete),
        took_s: Some(took_s),
    };
    write(&run, &directory).map_err(|error| failure(error.into()))?;
    Ok(run)
}

fn write(run: &Run, directory: &Path) -> Result<(), plumb_store::StoreError> {
    let mut store = RunDirectory::create(directory, &run.header, &run.experiment_text)?;
    run.slots.iter().try_for_each(|slot| store.append(slot))?;
    store.finish(Ending::Complete, run.took_s.unwrap_or_default())
}

/// The host of the runs is not known, and the report must not show this one for it.
fn host_lines(plan: &Plan) -> Vec<(String, String)> {
    let imported = plan.imported.iter().flat_map(|imported| {
        [
            ("measured by", imported.tool.clone()),
            ("order of runs", format!("that of {}", imported.order.in_words())),
        ]
    });
    let unknown = ("host", "not known: the files do not say".to_owned());
    imported.chain([unknown]).map(|(name, value)| (name.to_owned(), value)).collect()
}
