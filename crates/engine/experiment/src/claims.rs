//! The claims of a plan, and the metrics that they may name: those of its data path, those of every data path, and
//! those that settings declare.

use plumb_model::claim::Scope;
use plumb_model::{Claim, Metric, MetricInfo, Term, metric};
use plumb_path::tree::{Mistake, Mistakes, Node};
use plumb_path::{Capacity, DataPath, PathSettings, Remark};

use super::document::{Spec, spec_place};
use super::variants::VariantTree;

/// The length above which a text cannot be a claim, in bytes.
const LONG_CLAIM: usize = 500;

/// Metrics that every data path has.
const OF_ALL_PATHS: [Metric; 2] = [metric::CPU_SYSTEM, metric::CPU_LOAD];

/// Reads claims.
pub(super) struct Claiming<'a> {
    pub(super) path: &'a DataPath,
    pub(super) variants: &'a [VariantTree],
    /// The settings by cell and variant; empty if they have mistakes.
    pub(super) settings: &'a [Vec<PathSettings>],
}

/// A mistake in a claim, with the offset and length of the part that is wrong, unless it is the claim as a whole.
type Wrong = (Option<(usize, usize)>, String);

impl Claiming<'_> {
    /// The metrics that claims may name, and the claims of the file and of the command line.
    pub(super) fn read_claims(
        &self,
        (root, spec): (&Node, &Spec),
        more: &[String],
        mistakes: &mut Mistakes,
    ) -> (Vec<MetricInfo>, Vec<Claim>) {
        let metrics = self.metrics(mistakes);
        let names: Vec<String> = self.variants.iter().map(|variant| variant.name.clone()).collect();
        let scope = Scope { variants: &names, metrics: &metrics };
        let mut claims = Vec::new();
        let estimates = spec.until.iter().flatten().map(|scalar| (scalar, true));
        for (scalar, is_estimate) in
            spec.claims.iter().flatten().map(|scalar| (scalar, false)).chain(estimates)
        {
            match self.claim(scope, &scalar.text, is_estimate) {
                Ok(claim) => claims.push(claim),
                Err((part, message)) => {
                    let place = part.map_or(scalar.span, |(offset, length)| scalar.part(offset, length));
                    mistakes.at(place, message);
                }
            }
        }
        for text in more {
            match self.claim(scope, text, false) {
                Ok(claim) => claims.push(claim),
                Err((_, message)) => {
                    mistakes.at(spec_place(root, "claims"), format!("`--claim {text}`: {message}"));
                }
            }
        }
        (metrics, claims)
    }

    /// A claim with a note on its metrics, from the settings of its variants in any cell.
    fn claim(&self, scope: Scope<'_>, text: &str, is_estimate: bool) -> Result<Claim, Wrong> {
        if text.len() > LONG_CLAIM {
            return Err((None, format!("a claim is at most {LONG_CLAIM} bytes long")));
        }
        let read = if is_estimate { scope.read_estimate(text) } else { scope.read_claim(text) };
        let claim = read.map_err(|error| (Some((error.offset, error.length)), error.message))?;
        if let Some(message) = self.undeclared(&claim) {
            return Err((None, message));
        }
        let mut note = None;
        for (term, settings) in self.settings.iter().flat_map(|cell| self.terms(&claim, cell)) {
            match settings.remark(&term.metric, term.statistic) {
                Some(Remark::Lacks(reason)) => {
                    let Claim { text, .. } = &claim;
                    let message =
                        format!("`{text}` needs a value that {} does not measure: {reason}", term.variant);
                    return Err((None, message));
                }
                Some(Remark::Note(of_term)) => note = note.or(Some(of_term)),
                None => {}
            }
        }
        Ok(Claim { note, ..claim })
    }

    /// The terms of a claim, each with the settings of its variant in a cell.
    fn terms<'c>(
        &'c self,
        claim: &'c Claim,
        cell: &'c [PathSettings],
    ) -> impl Iterator<Item = (&'c Term, &'c PathSettings)> {
        claim.terms().filter_map(|term| {
            let at = self.variants.iter().position(|variant| variant.name == term.variant)?;
            Some((term, &cell[at]))
        })
    }

    /// All metrics that claims may name.
    fn metrics(&self, mistakes: &mut Mistakes) -> Vec<MetricInfo> {
        let own = |metric: &Metric| self.path.metrics.iter().any(|own| own.name == metric.name);
        let fixed = self.path.metrics.iter().chain(OF_ALL_PATHS.iter().filter(|metric| !own(metric)));
        let mut all: Vec<MetricInfo> = fixed.map(MetricInfo::from).collect();
        let every = || self.settings.iter().flat_map(|cell| self.variants.iter().zip(cell));
        if every().any(|(_, settings)| settings.facts().system.foreign.is_some()) {
            let others = metric::OF_FOREIGN_SYSTEM.iter().filter(|metric| !own(metric));
            all.extend(others.map(MetricInfo::from));
        }
        if every().any(|(_, settings)| settings.link_maker().is_some()) {
            all.push(MetricInfo::from(&metric::CPU_LINK));
        }
        if self.settings.is_empty() {
            // Settings with mistakes do not tell whether their load searches for a capacity.
            all.extend(Capacity::METRICS.iter().map(MetricInfo::from));
        }
        let mut declared: Vec<MetricInfo> = Vec::new();
        for (variant, settings) in every() {
            for metric in settings.facts().load.metrics {
                match declared.iter().find(|known| known.name == metric.name) {
                    None => declared.push(metric),
                    Some(known) if is_same(known, &metric) => {}
                    Some(known) => mistakes.extend([self.disagreement(variant, known, &metric)]),
                }
            }
        }
        all.extend(declared);
        all
    }

    /// The fault of a claim on a metric that its variant does not have in every cell.
    fn undeclared(&self, claim: &Claim) -> Option<String> {
        self.settings.iter().flat_map(|cell| self.terms(claim, cell)).find_map(|(term, settings)| {
            let Term { variant, metric: name, .. } = term;
            let has = |metrics: &[Metric]| metrics.iter().any(|metric| metric.name == name);
            let facts = settings.facts();
            if has(&metric::OF_FOREIGN_SYSTEM) && !has(self.path.metrics) {
                let is_built = facts.system.foreign.is_none();
                return is_built.then(|| format!(
                    "`{name}` is measured of external systems alone, and the system of the variant `{variant}` is built"
                ));
            }
            if name == metric::CPU_LINK.name {
                let has_none = settings.link_maker().is_none();
                return has_none.then(|| {
                    format!("`{name}` is measured only where there is a link, and the variant `{variant}` has none")
                });
            }
            let is_declared = facts.load.metrics.iter().any(|metric| metric.name == *name);
            (!is_declared && !has(self.path.metrics) && !has(&OF_ALL_PATHS)).then(|| {
                let key = self.path.metrics_key.unwrap_or("load");
                format!("the variant `{variant}` does not declare the metric `{name}`; add it to its `{key}`")
            })
        })
    }

    fn disagreement(&self, variant: &VariantTree, known: &MetricInfo, found: &MetricInfo) -> Mistake {
        let name = &found.name;
        let place = self.path.metrics_key.and_then(|key| variant.over.place_of(&format!("{key}.{name}")));
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
}

/// Whether values of the two metrics can be compared.
fn is_same(one: &MetricInfo, other: &MetricInfo) -> bool {
    (one.unit, one.better, one.kind) == (other.unit, other.better, other.kind)
}
