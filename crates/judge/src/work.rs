//! Whether variants did the same work. Rates and times of different work are not to be compared.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use plumb_model::{Caution, ClaimVerdict, Histogram, Measurement, PlannedVariant, Statistic, WorkDifference};
use plumb_stats::is_apart;

use crate::claims::rests_on_work;
use crate::table::Table;

/// Shares that differ by less are the same work: one point.
const SHARE_MARGIN: f64 = 0.01;

/// What tells work apart: a property among what was observed, or of what there are sizes, and the keys of the settings by which
/// an experiment sets it. Such a key may be any part of a setting's name.
struct Aspect {
    name: &'static str,
    set_by: &'static [&'static str],
}

/// What asks for an answer.
const REQUEST: &[&str] = &["path", "method", "headers", "host", "sni", "body", "origin"];

/// Properties whose values have shares.
const SHARES: &[Aspect] = &[
    Aspect { name: "status", set_by: &[] },
    Aspect { name: "content_type", set_by: REQUEST },
    Aspect { name: "content_encoding", set_by: REQUEST },
    Aspect { name: "alpn", set_by: &["alpn", "tls"] },
    Aspect { name: "tls_version", set_by: &["tls"] },
    Aspect { name: "cipher", set_by: &["cipher", "tls", "key"] },
    Aspect { name: "group", set_by: &["group", "tls"] },
    Aspect { name: "handshakes", set_by: &["resumption", "tickets", "tls", "reuse"] },
    Aspect { name: "peer", set_by: &["system", "host"] },
    Aspect { name: "direct", set_by: &["direct", "driver"] },
    Aspect { name: "ending", set_by: &[] },
    Aspect { name: "shell", set_by: &["shell"] },
];

/// Of what there are sizes, and by which factor medians may differ; below a number of bytes, by any.
const SIZES: &[(Aspect, f64, f64)] = &[
    (Aspect { name: "body", set_by: REQUEST }, 1.01, 0.0),
    (Aspect { name: "written", set_by: &[] }, 10.0, WRITTEN_MIN),
];

/// A page: below this, what a program writes is incidental.
const WRITTEN_MIN: f64 = 4096.0;

/// What a variant did otherwise than the baseline, though its settings do not ask for it.
pub(crate) fn cautions(table: &Table<'_>) -> Vec<Caution> {
    let baseline = table.plan.baseline_name();
    let mut found = Vec::new();
    for (cell, planned) in table.plan.cells.iter().enumerate() {
        for planned in planned.variants.iter().filter(|planned| planned.variant != table.plan.baseline) {
            let variant = &table.plan.variants[planned.variant].name;
            let differences = differences(table, cell, planned, baseline);
            if !differences.is_empty() {
                found.push(Caution::DifferentWork {
                    cell: table.plan.cells[cell].label(),
                    variant: variant.clone(),
                    baseline: baseline.to_owned(),
                    differences,
                });
            }
        }
    }
    found
}

/// Whether a claim is about rates, times or costs of a variant that did other work.
pub(crate) fn concerns(table: &Table<'_>, cautions: &[Caution], found: &ClaimVerdict) -> bool {
    let claim = &table.plan.claims[found.claim];
    let label = table.plan.cells[found.cell].label();
    let is_of_claim = |caution: &Caution| {
        matches!(caution, Caution::DifferentWork { cell, variant, .. } if *cell == label
            && claim.variants().contains(&variant.as_str()))
    };
    rests_on_work(table, claim) && cautions.iter().any(is_of_claim)
}

fn differences(
    table: &Table<'_>,
    cell: usize,
    planned: &PlannedVariant,
    baseline: &str,
) -> Vec<WorkDifference> {
    let variant = &table.plan.variants[planned.variant].name;
    let blocks: Vec<[Vec<&Measurement>; 2]> = (0..table.complete_blocks(cell))
        .map(|block| [variant.as_str(), baseline].map(|name| measured(table, cell, name, block)))
        .collect();
    // Of a run from before settings were compared nobody knows what a variant asks for.
    let Some(differs) = &planned.differs else { return Vec::new() };
    let is_open = |aspect: &&Aspect| {
        !differs.iter().any(|key| key.split('.').any(|part| aspect.set_by.contains(&part)))
    };
    let shares = SHARES.iter().filter(is_open).filter_map(|aspect| share_apart(&blocks, aspect.name));
    let sizes = SIZES
        .iter()
        .filter(|(aspect, ..)| is_open(&aspect))
        .filter_map(|(aspect, factor, least)| size_apart(&blocks, aspect.name, (*factor, *least)));
    shares.chain(sizes).collect()
}

fn measured<'a>(table: &Table<'a>, cell: usize, variant: &str, block: u32) -> Vec<&'a Measurement> {
    let of_block = table.of(cell, variant).iter().filter(|slot| slot.block == block);
    of_block.filter_map(|slot| Some(&slot.result()?.measurement)).collect()
}

/// The value of a property of which the variant has most more than the baseline, if they are apart.
fn share_apart(blocks: &[[Vec<&Measurement>; 2]], property: &str) -> Option<WorkDifference> {
    let all = |side: usize| blocks.iter().flat_map(move |block| block[side].iter().copied());
    let values: BTreeSet<&String> = all(0)
        .chain(all(1))
        .filter_map(|one| one.observed.get(property))
        .flat_map(|counts| counts.keys())
        .collect();
    let apart = values.into_iter().filter_map(|value| {
        let pairs: Vec<[f64; 2]> = blocks
            .iter()
            .filter_map(|[ours, theirs]| {
                Some([share(ours, property, value)?, share(theirs, property, value)?])
            })
            .collect();
        let differences: Vec<f64> = pairs.iter().map(|[ours, theirs]| ours - theirs).collect();
        let [variant, baseline] = [0, 1].map(|side| mean(pairs.iter().map(|pair| pair[side])));
        let difference =
            WorkDifference::Share { property: property.to_owned(), value: value.clone(), variant, baseline };
        is_apart(&differences, SHARE_MARGIN).then_some((variant - baseline, difference))
    });
    apart.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, difference)| difference)
}

/// The share of a value in slots of one block; `None` where nothing of the property was seen.
fn share(slots: &[&Measurement], property: &str, value: &str) -> Option<f64> {
    let all: u64 =
        slots.iter().filter_map(|one| one.observed.get(property)).flat_map(|counts| counts.values()).sum();
    let own: u64 = slots.iter().map(|one| one.observed_count(property, value)).sum();
    (all > 0).then(|| own as f64 / all as f64)
}

/// Median sizes, if they are apart. Whether chance explains it is asked of ranks: a median of few different sizes jumps.
fn size_apart(
    blocks: &[[Vec<&Measurement>; 2]],
    what: &str,
    (factor, least): (f64, f64),
) -> Option<WorkDifference> {
    let pairs: Vec<[Histogram; 2]> = blocks
        .iter()
        .map(|block| [0, 1].map(|side| sizes(&block[side], what)))
        .filter(|pair| pair.iter().all(|sizes| sizes.count() > 0))
        .collect();
    let all = |side: usize| together(pairs.iter().map(|pair| &pair[side]));
    let (ours, theirs) = (all(0), all(1));
    let middle = middle_bin(&together([&ours, &theirs].into_iter()))?;
    let differences: Vec<f64> =
        pairs.iter().map(|[ours, theirs]| above(ours, middle) - above(theirs, middle)).collect();
    let (variant_bytes, baseline_bytes) = (median(&ours)?, median(&theirs)?);
    // A size of 0 counts as one byte, so that it is far from any other.
    let ratio = variant_bytes.max(1.0) / baseline_bytes.max(1.0);
    let is_large = ratio.max(1.0 / ratio) > factor && variant_bytes.max(baseline_bytes) >= least;
    (is_large && is_apart(&differences, SHARE_MARGIN)).then(|| WorkDifference::Size {
        what: what.to_owned(),
        variant_bytes,
        baseline_bytes,
    })
}

fn sizes(slots: &[&Measurement], what: &str) -> Histogram {
    together(slots.iter().filter_map(|one| one.sizes.get(what)))
}

fn together<'a>(parts: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut all = Histogram::new();
    parts.for_each(|part| all.merge(part));
    all
}

fn median(sizes: &Histogram) -> Option<f64> {
    sizes.statistic_ns(Statistic::Med)
}

/// The value of the bin that has the median.
fn middle_bin(sizes: &Histogram) -> Option<u64> {
    let mut below = 0;
    let half = sizes.count().div_ceil(2);
    sizes
        .bins()
        .find(|(_, count)| {
            below += count;
            below >= half
        })
        .map(|(size, _)| size)
}

/// The share of sizes above one, with half of those that equal it.
fn above(sizes: &Histogram, middle: u64) -> f64 {
    let weight = |size: u64| match size.cmp(&middle) {
        Ordering::Greater => 1.0,
        Ordering::Equal => 0.5,
        Ordering::Less => 0.0,
    };
    sizes.bins().map(|(size, count)| weight(size) * count as f64).sum::<f64>() / sizes.count().max(1) as f64
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.sum::<f64>() / count
}
