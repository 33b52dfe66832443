//! From merged trees to the cells of a plan: the settings of every variant, typed, checked and timed.

use plumb_model::{Cell, PlannedVariant, Span, Variant};
use plumb_path::tree::{Location, Mistake, Mistakes, Node};
use plumb_path::{CapacitySettings, DataPath, PathSettings, SettingsFault, TRIAL_PER_LIMIT, Timing};
use serde_json::Value;

use super::document::{self, VariantPart, spec_place};
use super::matrix::CellTree;
use super::merge::{merge, pruned};
use super::variants::{self, VariantTree};

/// The largest size of one plan's settings, in bytes of JSON.
const MAX_SETTINGS_BYTES: usize = 16 << 20;
/// The longest window and warm-up of a quick run, in ns.
const QUICK_WINDOW_NS: u64 = 1_000_000_000;
const QUICK_WARMUP_NS: u64 = 100_000_000;
/// The most data that a slot of a quick run moves from end to end.
const QUICK_DATA_BYTES: u64 = 128 << 20;

/// The most trials of a slot of a quick run, and how long each is: half a second, or half of what the limit asks for.
const QUICK_TRIALS: u32 = 3;
const QUICK_TRIAL_NS: u64 = 500_000_000;
const QUICK_TRIAL_PER_LIMIT: f64 = TRIAL_PER_LIMIT / 2.0;

/// The longest trial of a quick run under a limit.
fn quick_trial_ns(limit_ns: f64) -> u64 {
    QUICK_TRIAL_NS.max((limit_ns * QUICK_TRIAL_PER_LIMIT) as u64)
}

/// The length to which a quick run shortens a trial, if the limit is so long that the run may not end within 90 s.
#[must_use]
pub fn long_quick_trial_ns(trial_ns: u64, limit_ns: f64) -> Option<u64> {
    let trial_ns = trial_ns.min(quick_trial_ns(limit_ns));
    (trial_ns > QUICK_TRIAL_NS).then_some(trial_ns)
}

/// The spans of a slot and their keys, in the order of [`Timed`].
const SPANS: [(&str, &str); 2] = [("window", "load.duration"), ("warm-up", "load.warmup")];

/// The window and the warm-up of a variant's slots in ns, and the places in the file that set them.
type Timed = [(u64, Location); 2];

/// Settles every variant in every cell.
pub(super) struct Settling<'a> {
    pub(super) root: &'a Node,
    pub(super) path: &'a DataPath,
    /// The settings that all variants share.
    pub(super) base: &'a Node,
    pub(super) variants: &'a [VariantTree],
    /// Whether slots are short.
    pub(super) quick: bool,
    /// Whether a variant may have every setting of the baseline.
    pub(super) may_repeat: bool,
}

/// All variants in all cells.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) variants: Vec<Variant>,
    pub(super) cells: Vec<Cell>,
    /// The settings by cell and variant.
    pub(super) settings: Vec<Vec<PathSettings>>,
    pub(super) window_ns: u64,
    pub(super) warmup_ns: u64,
}

impl Settling<'_> {
    /// Collects the mistakes of one cell; the next cell would repeat most of them.
    pub(super) fn settle(&self, cells: Vec<CellTree>) -> Result<Settled, Vec<Mistake>> {
        let mut settled = Settled::default();
        let mut first = None;
        let mut bytes = 0;
        let are_several = cells.len() > 1;
        for CellTree { mut cell, over } in cells {
            let base = merge(self.base, &over);
            let merged = |variant: &VariantTree| pruned(&merge(&base, &variant.over));
            let trees: Vec<Node> = self.variants.iter().map(merged).collect();
            let label = are_several.then(|| cell.label());
            let (settings, jsons) = self.settle_cell(label.as_deref(), &trees, &mut first)?;
            if settled.variants.is_empty() {
                settled.variants = variants::described(&pruned(&base), self.variants, &trees, &jsons);
            }
            for (key, text) in &mut cell.values {
                let read = jsons[0].pointer(&format!("/{}", key.replace('.', "/")));
                *text = read.and_then(|read| variants::with_unit(text, read)).unwrap_or_else(|| text.clone());
            }
            let planned = trees.iter().zip(&jsons).zip(&settings).enumerate();
            let planned = planned.map(|(at, ((tree, json), settings))| PlannedVariant {
                differs: Some(variants::differing(&jsons[0], json)),
                in_flight: settings.facts().load.in_flight,
                ..planned_variant(at, tree, json)
            });
            cell.variants = planned.collect();
            bytes += cell.variants.iter().map(|variant| variant.settings.len()).sum::<usize>();
            if bytes > MAX_SETTINGS_BYTES {
                let message = "the settings of all cells and variants grow beyond what a plan can hold";
                return Err(vec![Mistake::new(spec_place(self.root, "matrix"), message)]);
            }
            settled.cells.push(cell);
            settled.settings.push(settings);
        }
        [settled.window_ns, settled.warmup_ns] = first.map_or([0; 2], |first: Timed| first.map(|(ns, _)| ns));
        // What the null path measures is made up.
        if !self.may_repeat && !self.path.synthetic {
            self.check_differences(&settled.cells)?;
        }
        Ok(settled)
    }

    fn settle_cell(
        &self,
        cell: Option<&str>,
        trees: &[Node],
        first: &mut Option<Timed>,
    ) -> Result<(Vec<PathSettings>, Vec<Value>), Vec<Mistake>> {
        let (mut all, mut jsons, mut mistakes) = (Vec::new(), Vec::new(), Mistakes::default());
        for (at, (variant, tree)) in self.variants.iter().zip(trees).enumerate() {
            let fault = |fault: SettingsFault| {
                let mistake = Mistake::new(self.fault_place(&fault.key, variant, tree), fault.message);
                let name = (at > 0).then_some(variant.name.as_str());
                vec![match context(name, cell) {
                    Some(context) => mistake.help(context),
                    None => mistake,
                }]
            };
            let settled = mistakes.keep(self.settle_variant(tree, &fault));
            let Some((settings, json, lengths_ns)) = settled else { continue };
            let place = |(_, key): (&str, &str)| tree.place_of(key).unwrap_or(variant.place);
            let [window, warmup] = SPANS.map(place);
            let timed = [(lengths_ns[0], window), (lengths_ns[1], warmup)];
            mistakes.extend(mismatch(first.get_or_insert(timed), &timed));
            all.push(settings);
            jsons.push(json);
        }
        mistakes.unless((all, jsons))
    }

    /// Reads a merged tree as settings, shortened for a quick run. Also returns them as JSON, and the lengths of
    /// window and warm-up in ns.
    fn settle_variant(
        &self,
        tree: &Node,
        fault: &dyn Fn(SettingsFault) -> Vec<Mistake>,
    ) -> Result<(PathSettings, Value, [u64; 2]), Vec<Mistake>> {
        let mut settings = self.path.read_settings(&document::without_host(tree))?;
        settings.check().map_err(fault)?;
        let limit_ns = settings.facts().load.capacity.and_then(|capacity| capacity.limit_ns());
        let Timing { window, warmup, data, capacity } = settings.timing();
        let (window, longest_ns) = match capacity {
            Some(CapacitySettings { trial, trials, .. }) => {
                if self.quick {
                    *trials = (*trials).min(QUICK_TRIALS);
                }
                (trial, limit_ns.map_or(QUICK_TRIAL_NS, quick_trial_ns))
            }
            None => (window, QUICK_WINDOW_NS),
        };
        if self.quick {
            window.0 = window.0.min(longest_ns);
            warmup.0 = warmup.0.min(QUICK_WARMUP_NS);
            data.into_iter().for_each(|data| data.0 = data.0.min(QUICK_DATA_BYTES));
        }
        let lengths_ns = [window.0, warmup.0];
        if lengths_ns[0] == 0 {
            return Err(fault(SettingsFault::new("load.duration", "a window must be longer than 0 s")));
        }
        let json = settings.to_json();
        let json = json.map_err(|error| fault(SettingsFault::new("system", format!("failed to {error}"))))?;
        Ok((settings, json, lengths_ns))
    }

    /// The place of a fault's key: in the variant's own lines if they hold as much of the key as the merged
    /// tree does.
    fn fault_place(&self, key: &str, variant: &VariantTree, tree: &Node) -> Location {
        let (merged, own) = (tree.nearest(key), variant.over.nearest(key));
        let nearest = if own.0 >= merged.0 { own.1 } else { merged.1 };
        nearest.unwrap_or_else(|| spec_place(self.root, "system"))
    }

    /// Refuses variants that equal the baseline in every cell and are not the control.
    fn check_differences(&self, cells: &[Cell]) -> Result<(), Vec<Mistake>> {
        let is_same = |cell: &Cell, at: usize| {
            PlannedVariant { variant: 0, ..cell.variants[at].clone() } == cell.variants[0]
        };
        let all = self.variants.iter().enumerate().skip(1).filter(|(_, variant)| !variant.control);
        let same = all.filter(|(at, _)| cells.iter().all(|cell| is_same(cell, *at)));
        let mut mistakes = Mistakes::default();
        mistakes.extend(same.map(|(_, VariantTree { name, place, .. })| {
            let message = format!("`{name}` has every setting of the baseline, so nothing is compared");
            Mistake::new(*place, message)
                .help("change something in it, or write `control: true` in `spec` for a copy of the baseline that must not differ")
        }));
        mistakes.unless(())
    }
}

impl Settled {
    /// Leaves out all variants but `kept`, and for a quick run all cells but the first.
    pub(super) fn only(mut self, kept: &[usize], quick: bool) -> Self {
        fn retain<T>(items: &mut Vec<T>, kept: &[usize]) {
            let mut at = 0..;
            items.retain(|_| at.next().is_some_and(|at| kept.contains(&at)));
        }
        if quick {
            self.cells.truncate(1);
            self.settings.truncate(1);
        }
        retain(&mut self.variants, kept);
        self.settings.iter_mut().for_each(|settings| retain(settings, kept));
        for cell in &mut self.cells {
            retain(&mut cell.variants, kept);
            cell.variants.iter_mut().enumerate().for_each(|(at, variant)| variant.variant = at);
        }
        self
    }
}

fn planned_variant(variant: usize, tree: &Node, json: &Value) -> PlannedVariant {
    let VariantPart { host, changes, pods, .. } = document::part(tree);
    PlannedVariant {
        tunings: host.and_then(|host| host.tunings).into_iter().flatten().map(|name| name.text).collect(),
        changes: changes.unwrap_or_default(),
        pods: pods.unwrap_or_default(),
        ..PlannedVariant::new(variant, json.to_string())
    }
}

/// The mistake of different lengths: a plan has one window and one warm-up, since slots of different lengths
/// cannot be compared.
fn mismatch(first: &Timed, other: &Timed) -> Option<Mistake> {
    let mut pairs = SPANS.iter().zip(first.iter().zip(other));
    let ((what, _), ((first_ns, there), (ns, here))) =
        pairs.find(|(_, (first, other))| first.0 != other.0)?;
    let message = format!(
        "a {what} of {} here and one of {} for the baseline: all slots of a run must have the same",
        Span(*ns),
        Span(*first_ns)
    );
    let mistake = Mistake::new(*here, message);
    Some(if here == there { mistake } else { mistake.also(*there, "the first one") })
}

/// Names the variant, unless it is the baseline, and the cell, if there are several.
fn context(variant: Option<&str>, cell: Option<&str>) -> Option<String> {
    let variant = variant.map(|name| format!("in the variant `{name}`"));
    let cell = cell.map(|label| format!("at {label}"));
    let parts: Vec<String> = variant.into_iter().chain(cell).collect();
    (!parts.is_empty()).then(|| format!("this is so {}", parts.join(" ")))
}
