//! The last step: the plan of a run, from an experiment's cells and variants with their settled settings.

use plumb_model::{Blocks, Claim, Operand, Percent, Plan, Span};
use plumb_path::tree::{Mistake, Mistakes, Node, from_node_thorough, hint};
use plumb_path::{DataPath, PathSettings};

use super::claims::Claiming;
use super::document::{self, Document, MAX_BLOCKS, Spec, check_name, check_part, shared, spec_place};
use super::error::FileError;
use super::matrix;
use super::parse::{decode, parse};
use super::settle::{Settled, Settling};
use super::variants::{self, VariantTree};

/// The least and the most blocks of a quick run. It gives no verdict before the least. It takes more than
/// those only while there is time (`time_left.rs`), and its windows are short enough for the least to fit.
const QUICK_BLOCKS: Blocks = Blocks { min: 6, max: 12 };

/// The command line's options for a plan, beside the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// The seed of the random orders.
    pub seed: u64,
    /// Only the first cell, slots of about a second, and no block beyond the sixth that would end after 85 s.
    pub quick: bool,
    /// Only these variants beside the baseline; empty for all.
    pub only: Vec<String>,
    /// Exactly this many blocks, whatever the file says.
    pub blocks: Option<u32>,
    /// The share of CPU time that neighbours may use, in place of the file's.
    pub others_max: Option<Percent>,
    /// Claims in addition to those of the file.
    pub claims: Vec<String>,
    /// Whether to add a copy of the baseline, which the file can request as well.
    pub control: bool,
    /// Whether a variant may have every setting of the baseline, as where a user gives the same command twice.
    pub may_repeat: bool,
    /// The command that repeats the run, if it is not `plumb run`.
    pub made_by: Option<String>,
}

/// The content of an experiment file, before this host is asked whether it can build the variants.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The plan.
    pub plan: Plan,
    /// The data path.
    pub path: DataPath,
    /// The settings by cell and variant, in the plan's orders.
    pub settings: Vec<Vec<PathSettings>>,
    /// The file, byte for byte.
    pub text: String,
}

/// Reads an experiment file.
///
/// # Errors
/// The mistakes in the file, with their places.
pub fn read_experiment(
    name_of_file: &str,
    bytes: &[u8],
    options: &ReadOptions,
    paths: &[DataPath],
) -> Result<Experiment, FileError> {
    let text = decode(bytes).map_err(|mistake| FileError::new(name_of_file, "", vec![mistake]))?;
    let read =
        experiment(text, options, paths).map_err(|mistakes| FileError::new(name_of_file, text, mistakes));
    let text = String::from_utf8_lossy(bytes).into_owned();
    read.map(|(plan, path, settings)| Experiment { plan, path, settings, text })
}

type Parts = (Plan, DataPath, Vec<Vec<PathSettings>>);

fn experiment(text: &str, options: &ReadOptions, paths: &[DataPath]) -> Result<Parts, Vec<Mistake>> {
    let root = parse(text).map_err(|mistake| vec![mistake])?;
    let Document { metadata, spec, .. } = from_node_thorough(&root)?;
    let base = shared(&root);
    let mut mistakes = Mistakes::default();
    check_name(&metadata.name, &mut mistakes);
    check_part(&base, &mut mistakes);
    let path = paths.iter().find(|path| path.name == spec.path.text);
    if path.is_none() {
        let hint = hint(&spec.path.text, paths.iter().map(|path| path.name));
        mistakes.at(spec.path.span, format!("no data path is named `{}`; {hint}", spec.path.text));
    }
    let axes = matrix::axes(&root, &base, &mut mistakes);
    let control = options.control || spec.control.unwrap_or(false);
    let variants = variants::variants(&root, &spec.baseline, control, &axes, &mut mistakes);
    let path = path.filter(|_| mistakes.0.is_empty());
    let blocks = blocks(&root, &spec, options, &mut mistakes);
    let Some(path) = path else { return Err(mistakes.0) };
    let kept = kept(&root, &variants, &options.only, &mut mistakes);
    let (quick, may_repeat) = (options.quick, options.may_repeat);
    let every = Settling { root: &root, path, base: &base, variants: &variants, quick, may_repeat };
    let settled = mistakes.keep(every.settle(matrix::cells(&axes)));
    if settled.is_none() && path.metrics_key.is_some() {
        // Settings with mistakes do not tell which metrics they declare.
        return Err(mistakes.0);
    }
    let settings = settled.as_ref().map_or(&[][..], |settled| &settled.settings);
    let claiming = Claiming { path, variants: &variants, settings };
    let (metrics, claims) = claiming.read_claims((&root, &spec), &options.claims, &mut mistakes);
    let settled = mistakes.unless(settled)?.unwrap_or_default();
    let Settled { variants: described, cells, settings, window_ns, warmup_ns } = settled.only(&kept, quick);
    let windows = windows(&settings);
    let plan = Plan {
        title: metadata.title.unwrap_or_else(|| metadata.name.text.clone()),
        name: metadata.name.text,
        others_max: spec.others_max(options.others_max),
        path: spec.path.text,
        baseline: 0,
        variants: described,
        windows,
        window_ns: if options.quick && windows == 1 {
            quick_window_ns(window_ns, kept.len(), blocks, &claims)
        } else {
            window_ns
        },
        warmup_ns,
        cooldown_ns: spec.cooldown.map_or(0, |Span(ns)| ns),
        cells,
        blocks,
        claims: claims.into_iter().filter(|claim| speaks_of(claim, &kept, &variants)).collect(),
        metrics,
        seed: options.seed,
        quick: options.quick,
        only: options.only.clone(),
        blocks_asked: options.blocks,
        others_max_asked: options.others_max.is_some(),
        failures_max: spec.failures_max.map_or_else(Plan::failures_max, |Percent(share)| share),
        budget_ns: None,
        made_by: options.made_by.clone(),
        extended_from: None,
        retries_only_killed: true,
        imported: None,
        units: path.units.to_owned(),
        synthetic: path.synthetic,
        threads_key: path.threads_key.map(str::to_owned),
        questions: path.questions.to_vec(),
    };
    Ok((plan, *path, settings))
}

/// How many windows a slot has: of a search, its trials, and a probe after about every second one, which fails.
fn windows(settings: &[Vec<PathSettings>]) -> u32 {
    let capacity = settings.iter().flatten().find_map(|settings| settings.facts().load.capacity);
    capacity.map_or(1, |capacity| capacity.trials.saturating_add(capacity.trials.div_ceil(2)))
}

/// How long the windows of a quick run's least blocks may be in total, so that the run ends within 90 s.
const QUICK_WINDOWS_NS: u64 = 66_000_000_000;

/// A cap is judged in whole seconds, so a shorter window would say nothing about it.
const CAP_WINDOW_NS: u64 = 1_000_000_000;

/// The window of a quick run: shorter with many variants.
fn quick_window_ns(window_ns: u64, variants: usize, blocks: Blocks, claims: &[Claim]) -> u64 {
    let slots = 2 * variants as u64 * u64::from(blocks.min);
    let has_cap = claims.iter().any(|claim| matches!(claim.right, Operand::Cap { .. }));
    let least_ns = if has_cap { CAP_WINDOW_NS } else { 0 };
    window_ns.min((QUICK_WINDOWS_NS / slots.max(1)).max(least_ns))
}

/// The blocks that the command line or the file asks for.
fn blocks(root: &Node, spec: &Spec, options: &ReadOptions, mistakes: &mut Mistakes) -> Blocks {
    let asked = document::blocks(root, spec.blocks, mistakes);
    match options.blocks {
        Some(count) => {
            if !(2..=MAX_BLOCKS).contains(&count) {
                let message =
                    format!("`--blocks {count}` is out of range; 2 to {MAX_BLOCKS} blocks can be run");
                mistakes.at(spec_place(root, "blocks"), message);
            }
            Blocks { min: count, max: count }
        }
        None if options.quick => {
            let max = QUICK_BLOCKS.max.min(asked.max);
            Blocks { min: QUICK_BLOCKS.min.min(max), max }
        }
        None => asked,
    }
}

/// Indexes of the variants to run: the baseline, and those that `only` names.
fn kept(root: &Node, variants: &[VariantTree], only: &[String], mistakes: &mut Mistakes) -> Vec<usize> {
    let names = || variants.iter().map(|variant| variant.name.as_str());
    let asked = |at: &usize| *at == 0 || only.is_empty() || only.contains(&variants[*at].name);
    let kept: Vec<usize> = (0..variants.len()).filter(asked).collect();
    if let Some(unknown) = only.iter().find(|name| names().all(|known| known != name.as_str())) {
        let hint = hint(unknown, names());
        let message = format!("no variant is named `{unknown}`, which `--only` asks for; {hint}");
        mistakes.at(spec_place(root, "variants"), message);
    } else if kept.len() < 2 {
        let message = "`--only` leaves the baseline alone; name a variant to compare with it, too";
        mistakes.at(spec_place(root, "variants"), message);
    }
    kept
}

fn speaks_of(claim: &Claim, kept: &[usize], variants: &[VariantTree]) -> bool {
    claim.variants().iter().all(|name| kept.iter().any(|&at| variants[at].name == *name))
}
