//! The plan: an experiment after parsing, merging and expanding, free of the data path's own types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Claim, MetricInfo, MetricKind, Operand, PodSides, Question, UserChange};

/// How many blocks a run takes.
///
/// The default of six before the first verdict is not a matter of taste: within n blocks all random orders have the same sign
/// with probability 2^(1-n), and a disturbance in step with the blocks then passes for an effect. From
/// 1 + log2(1/α) blocks on, which is six at α = 0.05, that is rarer than α.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// No verdict ends a cell before this many.
    pub min: u32,
    /// No cell takes more than this many.
    pub max: u32,
}

impl Blocks {
    /// A verdict takes at least this many blocks: six, or fewer where the experiment itself runs fewer.
    #[must_use]
    pub fn before_verdict(self) -> u32 {
        self.min.min(6)
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self { min: 6, max: 20 }
    }
}

/// A variant by name, as the experiment has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The name.
    pub name: String,
    /// The change, in one line: `ingress.offload: threads`.
    pub treatment: String,
    /// Whether it is the automatic copy of the baseline that must not differ from it.
    pub control: bool,
}

impl Variant {
    /// A variant that changes nothing.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), treatment: String::new(), control: false }
    }
}

/// A variant as one cell runs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedVariant {
    /// Index in the plan's variants.
    pub variant: usize,
    /// The merged settings as JSON text; only the data path reads them.
    pub settings: String,
    /// The settings in which it differs from the baseline: `load.path`; `None` in runs from before they were compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<Vec<String>>,
    /// The number of units of work in flight, if its load keeps it constant: a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<f64>,
    /// The tunings of the host that are in effect in its slots, in the order in which they are applied.
    #[serde(default)]
    pub tunings: Vec<String>,
    /// The users' changes in its slots beyond that, in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<UserChange>,
    /// The settings of its pods beyond the places.
    #[serde(default, skip_serializing_if = "PodSides::is_empty")]
    pub pods: PodSides,
    /// Why it cannot run on this host, if it cannot.
    pub skipped: Option<String>,
    /// The saving that it must show where no counter proves that its treatment was in effect.
    #[serde(default)]
    pub saving: Option<RequiredSaving>,
}

impl PlannedVariant {
    /// A variant with these settings that changes nothing outside its system.
    #[must_use]
    pub fn new(variant: usize, settings: String) -> Self {
        Self {
            variant,
            settings,
            differs: None,
            in_flight: None,
            tunings: Vec::new(),
            changes: Vec::new(),
            pods: PodSides::default(),
            skipped: None,
            saving: None,
        }
    }
}

/// CPU time that a treatment has to save. It is the proof for treatments that have no counter: what says of itself that
/// it is loaded may still leave all the work to the software that it was to replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequiredSaving {
    /// The cost that has to fall, in words: `CPU time of HAProxy per full handshake`.
    pub what: String,
    /// The part of the system that spends it, by its name among [`crate::CpuCost::components`].
    pub component: String,
    /// The divisor: a property among [`crate::Measurement::observed`] and one of its values.
    pub per: (String, String),
    /// Index in the plan's variants of the one that is the same but for the treatment; `None` where there is none.
    pub than: Option<usize>,
    /// The kind of evidence that proves the treatment by itself: with it in every slot nothing has to be saved. In plans from before
    /// evidence had kinds, its `what`.
    pub unless: String,
    /// Advice for a variant that saved nothing.
    pub hint: Option<String>,
}

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The matrix' keys with this cell's values; empty without a matrix.
    pub values: BTreeMap<String, String>,
    /// Every variant, in the plan's order.
    pub variants: Vec<PlannedVariant>,
}

impl Cell {
    /// `load.connections=20`, or an empty text without a matrix.
    #[must_use]
    pub fn label(&self) -> String {
        let parts: Vec<String> = self.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
        parts.join(", ")
    }
}

/// The known facts of runs that other tools made, where a run consists of these.
///
/// One run of each variant is a block. Nobody knows whether they stopped when the numbers looked good, nor what else the
/// machines did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The tool with its version, such as `fio 3.33`.
    pub tool: String,
    /// How the order of the runs is known.
    pub order: OrderSource,
    /// Whether the variants took turns, so that a drift of the machine concerns all of them.
    pub interleaved: bool,
}

/// How the order of runs that other tools made is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderSource {
    /// By the times in the tool's output.
    Stamps,
    /// By the times at which the files were modified.
    Files,
    /// By the order on the command line.
    Given,
}

impl OrderSource {
    /// The name, to follow "the runs are in the order of".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Stamps => "the times in the files",
            Self::Files => "the times at which the files were modified",
            Self::Given => "the command line",
        }
    }
}

/// Everything that a run will do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The experiment's name.
    pub name: String,
    /// The title, or its name.
    pub title: String,
    /// The data path's name.
    pub path: String,
    /// Index of the baseline in `variants`.
    pub baseline: usize,
    /// All variants, the baseline first. What is derived from slots has the index here; files, slots and claims have the name.
    pub variants: Vec<Variant>,
    /// All cells.
    pub cells: Vec<Cell>,
    /// How many blocks.
    pub blocks: Blocks,
    /// The claims.
    pub claims: Vec<Claim>,
    /// The metrics of the data path.
    pub metrics: Vec<MetricInfo>,
    /// The seed of the random orders.
    pub seed: u64,
    /// Whether it is what `--quick` leaves of the experiment: its first cell, short slots, few blocks.
    #[serde(default)]
    pub quick: bool,
    /// The variants that `--only` asked for, as it named them; all where it is empty.
    #[serde(default)]
    pub only: Vec<String>,
    /// The number that `--blocks` asked for.
    #[serde(default)]
    pub blocks_asked: Option<u32>,
    /// The time that the whole run may take, in ns; beyond its least blocks it begins none that would not end within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<u64>,
    /// The command that makes the run again, where it is another than `plumb run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// The last block at which it planned to look before it was extended; `None` where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_from: Option<u32>,
    /// The data path's name for its units of work, in the plural: `requests`.
    #[serde(default = "Plan::units")]
    pub units: String,
    /// Whether the data path makes its numbers up.
    #[serde(default)]
    pub synthetic: bool,
    /// The key by which the load gets more threads, where it has one.
    #[serde(default)]
    pub threads_key: Option<String>,
    /// The data path's questions to every run beyond its claims.
    #[serde(default = "Question::of_old_runs")]
    pub questions: Vec<Question>,
    /// Length of one slot's window in ns.
    pub window_ns: u64,
    /// How many windows a slot has, about: more than one if it searches for a capacity.
    #[serde(default = "Plan::windows", skip_serializing_if = "Plan::has_one_window")]
    pub windows: u32,
    /// Length of a slot's warm-up in ns.
    pub warmup_ns: u64,
    /// How long nothing is measured before a slot, so that what the slot before it left behind fades, in ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cooldown_ns: u64,
    /// The share of all CPU time that processes of neither side may use; runs from before there was such a limit
    /// are read with the default.
    #[serde(default = "Plan::others_max")]
    pub others_max: f64,
    /// Whether the command line gave `others_max`, in place of the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others_max_asked: bool,
    /// The share of a variant's work that may fail; above it, claims about its rates and times are void. Runs from before
    /// there was such a limit are read with the default.
    #[serde(default = "Plan::failures_max")]
    pub failures_max: f64,
    /// Whether a slot was measured again only where somebody outside the run killed an agent. It is `false` in runs from
    /// before, which measured any failed slot again: there the second attempt replaced an outcome.
    #[serde(default)]
    pub retries_only_killed: bool,
    /// Where the slots come from, if other tools measured them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Plan {
    /// A plan with these variants in one cell, without settings. Windows last one second, and all other fields have their defaults.
    #[must_use]
    pub fn new(name: &str, path: &str, variants: Vec<Variant>) -> Self {
        let planned = (0..variants.len()).map(|variant| PlannedVariant::new(variant, "{}".to_owned()));
        let cell = Cell { values: BTreeMap::new(), variants: planned.collect() };
        Self {
            name: name.to_owned(),
            title: name.to_owned(),
            path: path.to_owned(),
            baseline: 0,
            variants,
            cells: vec![cell],
            blocks: Blocks::default(),
            claims: Vec::new(),
            metrics: Vec::new(),
            seed: 0,
            quick: false,
            only: Vec::new(),
            blocks_asked: None,
            budget_ns: None,
            made_by: None,
            extended_from: None,
            units: Self::units(),
            synthetic: false,
            threads_key: None,
            questions: Vec::new(),
            window_ns: 1_000_000_000,
            windows: Self::windows(),
            warmup_ns: 0,
            cooldown_ns: 0,
            others_max: Self::others_max(),
            others_max_asked: false,
            failures_max: Self::failures_max(),
            retries_only_killed: true,
            imported: None,
        }
    }

    const fn windows() -> u32 {
        1
    }

    const fn has_one_window(windows: &u32) -> bool {
        *windows == 1
    }

    /// How long a slot takes at least, with the time before it, in ns.
    #[must_use]
    pub fn slot_ns(&self) -> u64 {
        let window_ns = self.warmup_ns.saturating_add(self.window_ns);
        self.cooldown_ns.saturating_add(window_ns.saturating_mul(self.windows.into()))
    }

    /// The baseline's name.
    #[must_use]
    pub fn baseline_name(&self) -> &str {
        &self.variants[self.baseline].name
    }

    /// The metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricInfo> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Allows up to `blocks_max` blocks, after results were seen. Planned looks no longer hold then.
    pub fn extend(&mut self, blocks_max: u32) {
        self.extended_from.get_or_insert(self.blocks.max);
        self.blocks.max = blocks_max;
    }

    /// How many slots of each variant a block has: a palindrome has two, what was imported has one.
    #[must_use]
    pub fn slots_of_each(&self) -> usize {
        if self.imported.is_some() { 1 } else { 2 }
    }

    /// The two values of a variant in a block, from its slots there: one value counts twice where a block has no more.
    #[must_use]
    pub fn pair<T: Copy>(&self, values: &[T]) -> Option<[T; 2]> {
        match *values {
            [one] if self.slots_of_each() == 1 => Some([one, one]),
            [one, other] if self.slots_of_each() == 2 => Some([one, other]),
            _ => None,
        }
    }

    /// The total error probability α that all claims share.
    pub const ALPHA: f64 = 0.05;

    /// The limit of `others_max` where the experiment names none: a tenth of all CPU time.
    #[must_use]
    pub fn others_max() -> f64 {
        0.10
    }

    /// The word for units of work of a data path that does not name them.
    #[must_use]
    pub fn units() -> String {
        "units of work".to_owned()
    }

    /// The limit of `failures_max` where the experiment names none: one in a hundred.
    #[must_use]
    pub fn failures_max() -> f64 {
        0.01
    }

    /// The error probability that each claim of each cell begins with. Comparisons that no claim speaks of keep it.
    #[must_use]
    pub fn alpha_each(&self) -> f64 {
        Self::ALPHA / self.shares_of_alpha() as f64
    }

    /// How sure the intervals of the run are, in words: `95%`, or `joint 95%` where claims share α.
    #[must_use]
    pub fn confidence_words(&self) -> &'static str {
        if self.shares_of_alpha() > 1 { "joint 95%" } else { "95%" }
    }

    /// How many verdicts share α.
    #[must_use]
    pub fn shares_of_alpha(&self) -> usize {
        let cells = 0..self.cells.len();
        let shares =
            cells.flat_map(|cell| self.claims.iter().filter(move |claim| self.takes_share(cell, claim)));
        shares.count().max(1)
    }

    /// Whether chance can err on a claim of a cell, so that it needs a share of α. It cannot where a variant is skipped, where
    /// every slot is judged as it stands, nor on how closely a ratio is known.
    #[must_use]
    pub fn takes_share(&self, cell: usize, claim: &Claim) -> bool {
        let is_skipped = |name: &&str| {
            let mut of_cell = self.cells[cell].variants.iter();
            of_cell.any(|variant| self.variants[variant.variant].name == **name && variant.skipped.is_some())
        };
        let kind = self.metric(&claim.left.metric).map(|metric| metric.kind);
        let is_of_slots = matches!(claim.right, Operand::Value(_))
            && matches!(kind, Some(MetricKind::Share | MetricKind::Count));
        !claim.relation.is_estimate() && !is_of_slots && !claim.variants().iter().any(is_skipped)
    }
}
