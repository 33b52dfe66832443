//! The limiters that a run met: the rate that each let through against its policy, the burst that it had
//! saved up and charged, and the latency without the limiter's part.
//!
//! The load reports these in a table of one row. The findings are medians over slots.

use plumb_model::finding::Limit;
use plumb_stats::median;

use super::concluded::Concluded;

/// A rate within this share of a policy's limit counts as that limit.
const NEAR: f64 = 0.02;
/// The share of a second's operations above which a saved-up burst is worth a warning.
const BURST: f64 = 0.01;

/// Every limit that a policy set and a load reached.
pub(super) fn find(concluded: &Concluded<'_>, table: &str) -> Vec<Limit> {
    let plan = concluded.table.plan;
    let places = (0..plan.cells.len()).flat_map(|cell| (0..plan.variants.len()).map(move |at| (cell, at)));
    places
        .filter(|(cell, variant)| concluded.may_be_stated(*cell, *variant))
        .filter_map(|(cell, variant)| limit(concluded, cell, variant, table))
        .collect()
}

fn limit(concluded: &Concluded<'_>, cell: usize, variant: usize, table: &str) -> Option<Limit> {
    let typical = |column: &str| {
        let tables =
            concluded.results(cell, variant).filter_map(|result| result.measurement.tables.get(table));
        let values = tables.filter_map(|table| {
            let index = table.columns.iter().position(|found| found.name == column)?;
            table.rows.first()?.get(index).copied()
        });
        median(&values.collect::<Vec<f64>>())
    };
    let (rate, burst, charged_as) = (typical("rate")?, typical("burst")?, typical("charged_as")?);
    let policy = typical("policy").filter(|policy| *policy > 0.0)?;
    let share = rate * charged_as / policy;
    Some(Limit {
        cell,
        variant,
        rate,
        policy,
        burst,
        has_burst: burst > (BURST * rate).max(2.0),
        charged_as,
        charged_bytes: typical("charged_bytes")?,
        share,
        is_as_said: (share - 1.0).abs() <= NEAR,
        latency_us: typical("latency").zip(typical("latency_by_limit")),
    })
}
