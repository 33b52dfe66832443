//! The subject of a comparison: an experiment whose two sides are filled in, with the claims on it.

use std::path::Path;

use plumb_experiment::{Experiment, ReadOptions, read_experiment};
use plumb_host::named_file;
use plumb_host::signals::Interrupts;
use plumb_model::{Better, MetricInfo, MetricKind, Plan, Statistic};

use super::directory::SIDES;
use super::made::command_line;
use super::trees::Trees;
use crate::args::GateArguments;
use crate::commands::planning;
use crate::data_paths;
use crate::exit::Failure;
use crate::experiments::in_yaml;

/// With this many slots to a budget, there are enough blocks, and each slot is long beside its beginning and end.
const SLOTS_PER_BUDGET: u64 = 120;
/// Slots are not shorter than this, in ms.
const SLOT_MS_MIN: u64 = 200;
/// Nor longer than this, in ms.
const SLOT_MS_MAX: u64 = 5000;

/// The subject of a comparison.
pub struct Subject {
    /// The experiment, with the claims of its file or else those of the command.
    pub experiment: Experiment,
    /// The names of the base and the head in sentences.
    pub names: [String; 2],
    /// Held while the work trees are needed.
    pub(super) _trees: Option<Trees>,
}

impl Subject {
    /// Checks out, builds, and fills in.
    pub fn prepare(
        arguments: &GateArguments,
        directory: &Path,
        interrupts: &Interrupts,
    ) -> Result<Self, Failure> {
        let trees = match &arguments.base {
            Some(base) => {
                let trees = Trees::check_out(base, &arguments.head)?;
                if let Some(build) = &arguments.build {
                    trees.build(build, directory, interrupts)?;
                }
                Some(trees)
            }
            None => None,
        };
        let names = match &trees {
            Some(trees) => trees.revisions().clone().map(|revision| revision.name_with_commit()),
            None => SIDES.map(str::to_owned),
        };
        let (name, text) = match &arguments.run {
            Some(file) => (file.display().to_string(), from_file(file, trees.as_ref())?),
            None => ("gate".to_owned(), from_commands(arguments, trees.as_ref(), &names)?),
        };
        let commits = trees.as_ref().map(|trees| trees.revisions().clone().map(|revision| revision.commit));
        let seed = arguments.seed.unwrap_or_else(planning::drawn_seed);
        let mut options = ReadOptions {
            seed,
            may_repeat: true,
            made_by: Some(command_line(arguments, commits, seed)),
            ..ReadOptions::default()
        };
        let mut experiment = read_experiment(&name, text.as_bytes(), &options, &data_paths::all())?;
        options.claims = claims(arguments, &name, &experiment.plan)?;
        if !options.claims.is_empty() {
            experiment = read_experiment(&name, text.as_bytes(), &options, &data_paths::all())?;
        }
        Ok(Self { experiment, names, _trees: trees })
    }
}

/// An experiment whose `{base}` and `{head}` stand for the work trees.
fn from_file(file: &Path, trees: Option<&Trees>) -> Result<String, Failure> {
    let text = named_file::text(file).map_err(Failure::unreadable)?;
    let Some(trees) = trees else { return Ok(text) };
    let mut filled = text;
    for side in SIDES {
        let mark = format!("{{{side}}}");
        if !filled.contains(&mark) {
            return Err(Failure::usage(format!(
                "{} does not mention `{mark}`, which stands for the directory of the {side}'s build; \
                 the variant `{side}` has to use it",
                file.display()
            )));
        }
        filled = filled.replace(&mark, &trees.path(side).to_string_lossy());
    }
    Ok(filled)
}

/// An experiment with one command a side.
fn from_commands(
    arguments: &GateArguments,
    trees: Option<&Trees>,
    names: &[String; 2],
) -> Result<String, Failure> {
    let commands = match (&arguments.command, &arguments.base_command, &arguments.head_command) {
        (Some(command), ..) => [command, command],
        (None, Some(base), Some(head)) => [base, head],
        _ => {
            return Err(Failure::usage(
                "there is nothing to run; give --command, or --run with an experiment",
            ));
        }
    };
    let slot_ms = (arguments.budget.0 / 1_000_000 / SLOTS_PER_BUDGET).clamp(SLOT_MS_MIN, SLOT_MS_MAX);
    let mut text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata:\n  name: gate\n  title: {}\nspec:\n  path: command\n  \
         load: {{ duration: {slot_ms} ms, shell: {} }}\n  noise: {{ others_max: {} }}\n  baseline: base\n  variants:\n",
        in_yaml(&format!("Is {} worse than {}?", names[1], names[0])),
        if arguments.shell { "sh" } else { "none" },
        arguments.others_max
    );
    for (side, command) in SIDES.into_iter().zip(commands) {
        let directory =
            trees.map(|trees| format!(", directory: {}", in_yaml(&trees.path(side).to_string_lossy())));
        text += &format!(
            "    {side}: {{ load: {{ command: {}{} }} }}\n",
            in_yaml(command),
            directory.unwrap_or_default()
        );
    }
    Ok(text)
}

/// The claims that ask for no more than the margin, unless the file has its own claims.
fn claims(arguments: &GateArguments, name: &str, plan: &Plan) -> Result<Vec<String>, Failure> {
    let has_head = plan.variants.iter().any(|variant| variant.name == SIDES[1]);
    if plan.baseline_name() != SIDES[0] || !has_head {
        return Err(Failure::usage(format!(
            "{name}: the baseline has to be `base`, and a variant has to be `head`"
        )));
    }
    if arguments.metric.is_empty() && !plan.claims.is_empty() {
        return Ok(Vec::new());
    }
    let asked = match &arguments.metric[..] {
        [] => vec![main_metric(plan)],
        asked => asked.to_vec(),
    };
    asked.iter().map(|asked| claim(plan, asked, arguments.worse_than.0)).collect()
}

/// The metric to compare if none was named.
fn main_metric(plan: &Plan) -> String {
    let is_main = |metric: &&MetricInfo| matches!(metric.kind, MetricKind::Trend | MetricKind::Rate);
    plan.metrics.iter().find(is_main).map(|metric| metric.name.clone()).unwrap_or_default()
}

fn claim(plan: &Plan, asked: &str, margin: f64) -> Result<String, Failure> {
    let (name, statistic) = match asked.split_once('.') {
        Some((name, statistic)) => (name, Some(statistic)),
        None => (asked, None),
    };
    let Some(metric) = plan.metric(name) else {
        let known: Vec<&str> = plan.metrics.iter().map(|metric| metric.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "--metric {asked}: there is no such metric; the data path {} has {}",
            plan.path,
            known.join(", ")
        )));
    };
    let key = match (metric.kind, statistic) {
        (MetricKind::Trend, None) => format!("{name}.{}", Statistic::Avg.name()),
        _ => asked.to_owned(),
    };
    let (relation, factor) = match metric.better {
        Better::Higher => (">=", 1.0 - margin),
        Better::Lower => ("<=", 1.0 + margin),
        Better::Neither => {
            return Err(Failure::usage(format!("--metric {asked}: neither more nor less of it is better")));
        }
    };
    Ok(format!("head.{key} {relation} {factor} * base.{key}"))
}
