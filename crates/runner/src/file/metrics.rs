//! The metrics of a plan: those of its data path, those of every data path, and those that settings declare.

use std::collections::BTreeSet;

use plumb_model::{Claim, MetricInfo, metric};
use plumb_path::tree::{Mistake, collect};
use plumb_path::{DataPath, PathSettings};

use super::variants::VariantTree;

/// The metrics that claims may name.
#[derive(Debug)]
pub(super) struct PlanMetrics {
    /// All of them.
    pub(super) all: Vec<MetricInfo>,
    /// The key under which settings declare metrics.
    key: Option<&'static str>,
    /// By variant: the metrics that settings of other variants declare and its own do not.
    missing: Vec<BTreeSet<String>>,
    /// By variant: whether its system is built for the run in any cell.
    built: Vec<bool>,
}

/// The metrics that no settings declare.
pub(super) fn fixed(path: &DataPath) -> PlanMetrics {
    let all = [metric::CPU_SYSTEM, metric::CPU_LOAD];
    let missing = all.iter().filter(|metric| path.metrics.iter().all(|own| own.name != metric.name));
    let all = path.metrics.iter().chain(missing).map(MetricInfo::from).collect();
    PlanMetrics { all, key: path.metrics_key, missing: Vec::new(), built: Vec::new() }
}

/// All metrics, with those that the settings of each cell declare. `cells` has the settings in the order of
/// `variants`.
pub(super) fn declared(
    path: &DataPath,
    variants: &[VariantTree],
    cells: &[Vec<&PathSettings>],
) -> Result<PlanMetrics, Vec<Mistake>> {
    let mut metrics = fixed(path);
    let mut mistakes = Vec::new();
    let mut own: Vec<MetricInfo> = Vec::new();
    for (variant, settings) in cells.iter().flat_map(|cell| variants.iter().zip(cell)) {
        for metric in settings.facts().load.metrics {
            match own.iter().find(|known| known.name == metric.name) {
                None => own.push(metric),
                Some(known) if is_same(known, &metric) => {}
                Some(known) => collect(&mut mistakes, [disagreement(path, variant, known, &metric)]),
            }
        }
    }
    let all = || cells.iter().flatten();
    if all().any(|settings| settings.facts().system.foreign.is_some()) {
        metrics.all.extend(metric::OF_FOREIGN_SYSTEM.iter().map(MetricInfo::from));
    }
    let missing = |at: usize| -> BTreeSet<String> {
        let has = |name: &str| {
            cells.iter().all(|cell| cell[at].facts().load.metrics.iter().any(|it| it.name == name))
        };
        own.iter().map(|metric| metric.name.clone()).filter(|name| !has(name)).collect()
    };
    metrics.missing = (0..variants.len()).map(missing).collect();
    let is_built = |at: usize| cells.iter().any(|cell| cell[at].facts().system.foreign.is_none());
    metrics.built = (0..variants.len()).map(is_built).collect();
    metrics.all.extend(own);
    if mistakes.is_empty() { Ok(metrics) } else { Err(mistakes) }
}

impl PlanMetrics {
    /// The fault of a claim on a metric that its variant's settings do not declare.
    pub(super) fn undeclared(&self, claim: &Claim, variants: &[VariantTree]) -> Option<String> {
        claim.terms().find_map(|term| {
            let at = variants.iter().position(|variant| variant.name == term.variant)?;
            let is_foreign = metric::OF_FOREIGN_SYSTEM.iter().any(|metric| metric.name == term.metric);
            if is_foreign && self.built.get(at) == Some(&true) {
                return Some(format!(
                    "`{}` is measured of external systems alone, and the system of the variant `{}` is built",
                    term.metric, term.variant
                ));
            }
            let is_missing = self.missing.get(at).is_some_and(|names| names.contains(&term.metric));
            is_missing.then(|| {
                format!(
                    "the variant `{}` does not declare the metric `{}`; add it to its `{}`",
                    term.variant,
                    term.metric,
                    self.key.unwrap_or("load")
                )
            })
        })
    }
}

/// Whether values of the two metrics can be compared.
fn is_same(one: &MetricInfo, other: &MetricInfo) -> bool {
    (one.unit, one.better, one.kind) == (other.unit, other.better, other.kind)
}

fn disagreement(path: &DataPath, variant: &VariantTree, known: &MetricInfo, found: &MetricInfo) -> Mistake {
    let name = &found.name;
    let place = path.metrics_key.and_then(|key| variant.over.place_of(&format!("{key}.{name}")));
    let words = |metric: &MetricInfo| {
        let better = format!("{:?}", metric.better).to_lowercase();
        format!("in {} with `better: {better}`", metric.unit.symbol())
    };
    let message = format!(
        "the metric `{name}` is {} in the variant `{}`, and {} elsewhere: all variants must declare it alike",
        words(found),
        variant.name,
        words(known)
    );
    Mistake::new(place.unwrap_or(variant.place), message)
}
