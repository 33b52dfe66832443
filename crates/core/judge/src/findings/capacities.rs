//! The capacity of each variant that searched for one, with its interval.

use plumb_model::finding::CapacityInterval;
use plumb_model::{Plan, Term, metric};

use super::concluded::Concluded;

/// Each interval stands alone: it takes no share of what the claims may err.
pub(super) fn find(concluded: &Concluded<'_>) -> Vec<CapacityInterval> {
    let table = concluded.table;
    if table.plan.metric(metric::CAPACITY.name).is_none() {
        return Vec::new();
    }
    let found = |(cell, variant): (usize, usize)| {
        // Where the load was the limit, its slots have lower bounds only.
        concluded.summary(cell, variant).filter(|summary| !summary.is_load_bound())?;
        let (variant_name, metric) =
            (table.plan.variants[variant].name.clone(), metric::CAPACITY.name.to_owned());
        let term = Term { variant: variant_name, metric, statistic: None };
        let interval = table.sample_against(cell, &term, 1.0).interval(table.level(Plan::ALPHA))?;
        let [estimate, low, high] = [interval.estimate, interval.low, interval.high].map(f64::exp);
        Some(CapacityInterval { cell, variant, estimate, low, high })
            .filter(|_| low > 0.0 && high.is_finite())
    };
    let cells = 0..table.plan.cells.len();
    cells
        .flat_map(|cell| concluded.in_effect(cell).map(move |variant| (cell, variant)))
        .filter_map(found)
        .collect()
}
