//! The last step: the plan of a run, from an experiment's cells and variants with their settled settings.

use plumb_model::claim::Scope;
use plumb_model::{
    Blocks, Cell, Claim, Operand, Percent, Plan, PlannedVariant, PodSides, Span, UserChange, Variant,
};
use plumb_path::tree::{Location, Mistake, Node, collect, hint, keep};
use plumb_path::{DataPath, PathSettings, Remark};

use super::document::{self, Document, MAX_BLOCKS, spec_place, spec_value};
use super::error::FileError;
use super::matrix::{self, CellTree};
use super::merge::{merge, pruned};
use super::metrics::{self, PlanMetrics};
use super::parse::{decode, parse};
use super::settle::{Settled, Unsettled, settle};
use super::variants::{self, VariantTree};

/// The length above which a text cannot be a claim, in bytes.
const LONG_CLAIM: usize = 500;

/// The largest size of one plan's settings, in bytes of JSON.
const MAX_SETTINGS_BYTES: usize = 16 << 20;

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
    /// At most this many blocks, whatever the file says; a verdict needs six.
    pub blocks_max: Option<u32>,
    /// The share of CPU time that neighbours may use, in place of the file's.
    pub others_max: Option<Percent>,
    /// The time that the run may take.
    pub budget: Option<Span>,
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
    /// Its data path.
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
pub fn read(
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
    let root = document::with_null_path(parse(text).map_err(|mistake| vec![mistake])?);
    let document = document::document(&root)?;
    let mut mistakes = Vec::new();
    let base = root.get("spec").map_or_else(|| Node::mapping(Vec::new()), document::settings);
    let path = keep(&mut mistakes, document::data_path(&root, &document.spec.path, paths));
    let blocks = keep(&mut mistakes, blocks(&root, &document, options));
    let axes = keep(&mut mistakes, matrix::axes(&root, &base));
    let control = options.control || document.spec.control.unwrap_or(false);
    let variants =
        variants::variants(&root, &document.spec.baseline, control, axes.as_deref().unwrap_or(&[]));
    let (Some(path), Some(axes), Some(variants)) = (path, axes, keep(&mut mistakes, variants)) else {
        return Err(mistakes);
    };
    let kept = keep(&mut mistakes, kept(&root, &variants, &options.only));
    let every = Settling { root: &root, path, base: &base, options };
    let settled = keep(&mut mistakes, every.settle(&matrix::cells(&axes), &variants));
    let metrics = match &settled {
        Some(settled) => keep(&mut mistakes, metrics::declared(path, &variants, &settled.by_cell())),
        // Settings with mistakes do not tell which metrics they declare.
        None => path.metrics_key.is_none().then(|| metrics::fixed(path)),
    };
    let Some(metrics) = metrics else { return Err(mistakes) };
    let claims = keep(&mut mistakes, claims(&root, &variants, &metrics, &options.claims));
    let (Some(blocks), Some(claims), Some(kept), Some(settled)) = (blocks, claims, kept, settled) else {
        return Err(mistakes);
    };
    settled.check_claims(&claims, &variants, &root)?;
    let Document { metadata, spec, .. } = document;
    let settings = settled.settings(&kept, options.quick);
    let plan = Plan {
        title: metadata.title.unwrap_or_else(|| metadata.name.clone()),
        name: metadata.name,
        others_max: spec.others_max(options.others_max),
        path: spec.path,
        baseline: 0,
        variants: kept.iter().map(|&at| settled.variants[at].clone()).collect(),
        window_ns: if options.quick {
            quick_window_ns(settled.window_ns, kept.len(), blocks, &claims)
        } else {
            settled.window_ns
        },
        warmup_ns: settled.warmup_ns,
        cooldown_ns: spec.cooldown.map_or(0, |Span(ns)| ns),
        cells: settled.cells(&kept, options.quick),
        blocks,
        claims: claims
            .into_iter()
            .filter(|claim| speaks_of(claim, &kept, &variants))
            .map(|claim| settled.noted(claim, &variants))
            .collect(),
        metrics: metrics.all,
        seed: options.seed,
        quick: options.quick,
        only: options.only.clone(),
        blocks_asked: options.blocks,
        others_max_asked: options.others_max.is_some(),
        failures_max: spec.failures_max.map_or_else(Plan::failures_max, |Percent(share)| share),
        budget_ns: options.budget.map(|Span(ns)| ns),
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

fn blocks(root: &Node, document: &Document, options: &ReadOptions) -> Result<Blocks, Vec<Mistake>> {
    let asked = document::blocks(root, document.spec.blocks)?;
    match options.blocks {
        Some(count) if !(2..=MAX_BLOCKS).contains(&count) => {
            let message = format!("`--blocks {count}` is out of range; 2 to {MAX_BLOCKS} blocks can be run");
            Err(vec![Mistake::new(spec_place(root, "blocks"), message)])
        }
        Some(count) => Ok(Blocks { min: count, max: count }),
        None if options.blocks_max.is_some() => {
            let max = options.blocks_max.unwrap_or(asked.max).clamp(2, MAX_BLOCKS);
            Ok(Blocks { min: Blocks::default().min.min(max), max })
        }
        None if options.quick => {
            let max = QUICK_BLOCKS.max.min(asked.max);
            Ok(Blocks { min: QUICK_BLOCKS.min.min(max), max })
        }
        None => Ok(asked),
    }
}

/// Indexes of the variants to run: the baseline, and those that `only` names.
fn kept(root: &Node, variants: &[VariantTree], only: &[String]) -> Result<Vec<usize>, Vec<Mistake>> {
    if only.is_empty() {
        return Ok((0..variants.len()).collect());
    }
    let names = || variants.iter().map(|variant| variant.name.as_str());
    let wrong = |message: String| vec![Mistake::new(spec_place(root, "variants"), message)];
    if let Some(unknown) = only.iter().find(|name| names().all(|known| known != name.as_str())) {
        let hint = hint(unknown, names());
        return Err(wrong(format!("no variant is named `{unknown}`, which `--only` asks for; {hint}")));
    }
    let asked = |at: &usize| *at == 0 || only.contains(&variants[*at].name);
    let kept: Vec<usize> = (0..variants.len()).filter(asked).collect();
    if kept.len() < 2 {
        let message = "`--only` leaves the baseline alone; name a variant to compare with it, too";
        return Err(wrong(message.to_owned()));
    }
    Ok(kept)
}

fn speaks_of(claim: &Claim, kept: &[usize], variants: &[VariantTree]) -> bool {
    claim.variants().iter().all(|name| kept.iter().any(|&at| variants[at].name == *name))
}

fn claims(
    root: &Node,
    variants: &[VariantTree],
    metrics: &PlanMetrics,
    more: &[String],
) -> Result<Vec<Claim>, Vec<Mistake>> {
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let scope = Scope { variants: &names, metrics: &metrics.all };
    let mut claims = Vec::new();
    let mut mistakes = Vec::new();
    let items = |key: &str| {
        let list = spec_value(root, key).map_or(&[][..], Node::items);
        list.iter().filter_map(Node::scalar)
    };
    let estimates = items("until").map(|scalar| (scalar, true));
    for (scalar, is_estimate) in items("claims").map(|scalar| (scalar, false)).chain(estimates) {
        if scalar.text.len() > LONG_CLAIM {
            let message = format!("a claim is at most {LONG_CLAIM} bytes long");
            collect(&mut mistakes, [Mistake::new(scalar.span, message)]);
            continue;
        }
        let read = if is_estimate { scope.read_estimate(&scalar.text) } else { scope.read(&scalar.text) };
        match read {
            Ok(claim) => match metrics.undeclared(&claim, variants) {
                Some(message) => collect(&mut mistakes, [Mistake::new(scalar.span, message)]),
                None => claims.push(claim),
            },
            Err(error) => {
                let place = scalar.part(error.offset, error.length);
                collect(&mut mistakes, [Mistake::new(place, error.message)]);
            }
        }
    }
    for text in more {
        match scope.read(text) {
            Ok(claim) => claims.push(claim),
            Err(error) => {
                let message = format!("`--claim {text}`: {}", error.message);
                collect(&mut mistakes, [Mistake::new(spec_place(root, "claims"), message)]);
            }
        }
    }
    if mistakes.is_empty() { Ok(claims) } else { Err(mistakes) }
}

/// Settles every variant in every cell.
struct Settling<'a> {
    root: &'a Node,
    path: &'a DataPath,
    base: &'a Node,
    options: &'a ReadOptions,
}

/// All variants settled, and their settings by cell and variant.
struct AllSettled {
    variants: Vec<Variant>,
    cells: Vec<(CellValues, Vec<SettledVariant>)>,
    window_ns: u64,
    warmup_ns: u64,
}

type CellValues = std::collections::BTreeMap<String, String>;

/// A variant in a cell: the data path's settings, also as JSON, and the changes of the host.
struct SettledVariant {
    settings: PathSettings,
    json: String,
    tunings: Vec<String>,
    changes: Vec<UserChange>,
    pods: PodSides,
}

impl SettledVariant {
    /// Whether slots of the two would do the same.
    fn is_like(&self, other: &Self) -> bool {
        (&self.json, &self.tunings, &self.changes, &self.pods)
            == (&other.json, &other.tunings, &other.changes, &other.pods)
    }
}

impl Settling<'_> {
    /// Collects the mistakes of one cell; the next cell would repeat most of them.
    fn settle(&self, cells: &[CellTree], variants: &[VariantTree]) -> Result<AllSettled, Vec<Mistake>> {
        let mut described_variants = Vec::new();
        let mut settled_cells = Vec::new();
        let mut timing = None;
        let mut bytes = 0;
        for cell in cells {
            let base = merge(self.base, &cell.over);
            let trees: Vec<Node> =
                variants.iter().map(|variant| pruned(&merge(&base, &variant.over))).collect();
            let context = (cells.len() > 1).then(|| cell.label());
            let settings = self.settle_cell(context.as_deref(), variants, &trees, &mut timing)?;
            if described_variants.is_empty() {
                described_variants = described(&pruned(&base), variants, &trees, &settings);
            }
            bytes += settings.iter().map(|settled| settled.json.len()).sum::<usize>();
            if bytes > MAX_SETTINGS_BYTES {
                let message = "the settings of all cells and variants grow beyond what a plan can hold";
                return Err(vec![Mistake::new(spec_place(self.root, "matrix"), message)]);
            }
            settled_cells.push((with_units(&cell.values, &settings[0]), settings));
        }
        let (window_ns, warmup_ns) = timing.map_or((0, 0), |first: Timed| (first.window_ns, first.warmup_ns));
        let settled = AllSettled { variants: described_variants, cells: settled_cells, window_ns, warmup_ns };
        // What the null path measures is made up.
        if !self.options.may_repeat && !self.path.synthetic {
            settled.check_differences(variants)?;
        }
        Ok(settled)
    }

    fn settle_cell(
        &self,
        cell: Option<&str>,
        variants: &[VariantTree],
        trees: &[Node],
        timing: &mut Option<Timed>,
    ) -> Result<Vec<SettledVariant>, Vec<Mistake>> {
        let mut settings = Vec::new();
        let mut mistakes = Vec::new();
        for (at, (variant, tree)) in variants.iter().zip(trees).enumerate() {
            let of_path = document::without_host(tree);
            let settled =
                settle(self.path, &of_path, self.options.quick).map_err(|unsettled| match unsettled {
                    Unsettled::Shape(mistakes) => mistakes,
                    Unsettled::Fault(fault) => {
                        let place = self.fault_place(&fault.key, variant, tree);
                        let mistake = Mistake::new(place, fault.message);
                        let name = (at > 0).then_some(variant.name.as_str());
                        vec![match context(name, cell) {
                            Some(context) => mistake.help(context),
                            None => mistake,
                        }]
                    }
                });
            if let Some(settled) = keep(&mut mistakes, settled) {
                let timed = Timed::of(&settled, tree, variant);
                collect(&mut mistakes, timing.get_or_insert_with(|| timed.clone()).mismatch(&timed));
                settings.push(SettledVariant {
                    settings: settled.settings,
                    json: settled.json,
                    tunings: document::tunings(tree),
                    changes: document::changes(tree),
                    pods: document::pods(tree),
                });
            }
        }
        if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
    }

    /// The place of a fault's key: in the variant's own lines if they hold as much of the key as the merged
    /// tree does.
    fn fault_place(&self, key: &str, variant: &VariantTree, tree: &Node) -> Location {
        let (merged, own) = (tree.nearest(key), variant.over.nearest(key));
        let nearest = if own.0 >= merged.0 { own.1 } else { merged.1 };
        nearest.unwrap_or_else(|| spec_place(self.root, "system"))
    }
}

/// The lengths of a variant's slots, and the places in the file that set them.
#[derive(Debug, Clone)]
struct Timed {
    window_ns: u64,
    warmup_ns: u64,
    window_place: Location,
    warmup_place: Location,
}

impl Timed {
    fn of(settled: &Settled, tree: &Node, variant: &VariantTree) -> Self {
        let place = |key: &str| tree.place_of(key).unwrap_or(variant.place);
        Self {
            window_ns: settled.window_ns,
            warmup_ns: settled.warmup_ns,
            window_place: place("load.duration"),
            warmup_place: place("load.warmup"),
        }
    }

    /// The mistake of different lengths: a plan has one window and one warm-up, since slots of different
    /// lengths cannot be compared.
    fn mismatch(&self, other: &Self) -> Option<Mistake> {
        let (what, here, there, first_ns, ns) = if self.window_ns != other.window_ns {
            ("window", other.window_place, self.window_place, self.window_ns, other.window_ns)
        } else if self.warmup_ns != other.warmup_ns {
            ("warm-up", other.warmup_place, self.warmup_place, self.warmup_ns, other.warmup_ns)
        } else {
            return None;
        };
        let message = format!(
            "a {what} of {} here and one of {} for the baseline: all slots of a run must have the same",
            Span(ns),
            Span(first_ns)
        );
        let mistake = Mistake::new(here, message);
        Some(if here == there { mistake } else { mistake.also(there, "the first one") })
    }
}

impl AllSettled {
    /// The claim with notes on its metrics, from the settings of its variants in any cell.
    fn noted(&self, claim: Claim, variants: &[VariantTree]) -> Claim {
        let of = |settings: &[SettledVariant]| {
            claim.terms().find_map(|term| {
                let at = variants.iter().position(|variant| variant.name == term.variant)?;
                match settings[at].settings.remark(&term.metric, term.statistic)? {
                    Remark::Note(note) => Some(note),
                    Remark::Lacks(_) => None,
                }
            })
        };
        let note = self.cells.iter().find_map(|(_, settings)| of(settings));
        Claim { note, ..claim }
    }

    /// Refuses claims on metrics that the load of a variant does not measure under its settings.
    fn check_claims(
        &self,
        claims: &[Claim],
        variants: &[VariantTree],
        root: &Node,
    ) -> Result<(), Vec<Mistake>> {
        let lacking = |claim: &Claim, settings: &[SettledVariant]| {
            claim.terms().find_map(|term| {
                let at = variants.iter().position(|variant| variant.name == term.variant)?;
                match settings[at].settings.remark(&term.metric, term.statistic)? {
                    Remark::Lacks(reason) => Some(format!(
                        "`{}` needs a value that {} has not: {reason}",
                        claim.text, term.variant
                    )),
                    Remark::Note(_) => None,
                }
            })
        };
        let found = claims
            .iter()
            .find_map(|claim| self.cells.iter().find_map(|(_, settings)| lacking(claim, settings)));
        match found {
            Some(message) => Err(vec![Mistake::new(spec_place(root, "claims"), message)]),
            None => Ok(()),
        }
    }

    /// Refuses variants that equal the baseline in every cell and are not the control.
    fn check_differences(&self, variants: &[VariantTree]) -> Result<(), Vec<Mistake>> {
        let is_same = |at: usize| self.cells.iter().all(|(_, settings)| settings[at].is_like(&settings[0]));
        let same =
            variants.iter().enumerate().skip(1).filter(|(at, variant)| !variant.control && is_same(*at));
        let mistakes: Vec<Mistake> = same
            .map(|(_, variant)| {
                let message = format!("`{}` has every setting of the baseline, so nothing is compared", variant.name);
                Mistake::new(variant.place, message)
                    .help("change something in it, or write `control: true` in `spec` for a copy of the baseline that must not differ")
            })
            .collect();
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// The cells to run: only the first for a quick run.
    fn taken(&self, quick: bool) -> &[(CellValues, Vec<SettledVariant>)] {
        &self.cells[..if quick { self.cells.len().min(1) } else { self.cells.len() }]
    }

    /// The settings of every variant, by cell.
    fn by_cell(&self) -> Vec<Vec<&PathSettings>> {
        let cells = self.cells.iter();
        cells.map(|(_, settings)| settings.iter().map(|settled| &settled.settings).collect()).collect()
    }

    fn settings(&self, kept: &[usize], quick: bool) -> Vec<Vec<PathSettings>> {
        let of = |settings: &[SettledVariant]| kept.iter().map(|&at| settings[at].settings.clone()).collect();
        self.taken(quick).iter().map(|(_, settings)| of(settings)).collect()
    }

    fn cells(&self, kept: &[usize], quick: bool) -> Vec<Cell> {
        let planned = |settings: &[SettledVariant]| {
            let baseline = &settings[kept[0]].json;
            let variants = kept.iter().enumerate();
            variants
                .map(|(variant, &at)| PlannedVariant {
                    variant,
                    settings: settings[at].json.clone(),
                    differs: Some(variants::differing(baseline, &settings[at].json)),
                    tunings: settings[at].tunings.clone(),
                    changes: settings[at].changes.clone(),
                    pods: settings[at].pods.clone(),
                    skipped: None,
                    saving: None,
                })
                .collect()
        };
        let cell = |(values, settings): &(CellValues, Vec<SettledVariant>)| Cell {
            values: values.clone(),
            variants: planned(settings),
        };
        self.taken(quick).iter().map(cell).collect()
    }
}

/// A cell's values, with the units of those that were written as numbers alone.
fn with_units(values: &CellValues, baseline: &SettledVariant) -> CellValues {
    let settings: serde_json::Value = serde_json::from_str(&baseline.json).unwrap_or_default();
    let shown = |(key, text): (&String, &String)| {
        let read = settings.pointer(&format!("/{}", key.replace('.', "/")));
        let text = read.and_then(|read| variants::with_unit(text, read)).unwrap_or_else(|| text.clone());
        (key.clone(), text)
    };
    values.iter().map(shown).collect()
}

/// The changes of each variant: against the baseline, or for the baseline against the shared settings.
fn described(
    shared: &Node,
    variants: &[VariantTree],
    trees: &[Node],
    settings: &[SettledVariant],
) -> Vec<Variant> {
    let described = |(at, (variant, tree)): (usize, (&VariantTree, &Node))| {
        let (against, nothing) =
            if at == 0 { (shared, "the baseline") } else { (&trees[0], "as the baseline") };
        let read = serde_json::from_str(&settings[at].json).unwrap_or_default();
        let treatment = variants::treatment(against, tree, &read).unwrap_or_else(|| nothing.to_owned());
        Variant { name: variant.name.clone(), treatment, control: variant.control }
    };
    variants.iter().zip(trees).enumerate().map(described).collect()
}

/// Names the variant, unless it is the baseline, and the cell, if there are several.
fn context(variant: Option<&str>, cell: Option<&str>) -> Option<String> {
    let variant = variant.map(|name| format!("in the variant `{name}`"));
    let cell = cell.map(|label| format!("at {label}"));
    let parts: Vec<String> = variant.into_iter().chain(cell).collect();
    (!parts.is_empty()).then(|| format!("this is so {}", parts.join(" ")))
}
