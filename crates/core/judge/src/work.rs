//! Whether variants did the same work. Rates and times of different work are not to be compared.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use plumb_model::{Caution, ClaimVerdict, Histogram, Measurement, PlannedVariant, Statistic, WorkDifference};
use plumb_stats::is_apart;

use crate::claims::rests_on_work;
use crate::table::Table;

/// Shares that differ by less are the same work: one point.
const SHARE_MARGIN: f64 = 0.01;

/// An observed property by which work differs, and the keys of an experiment that set it, themselves or by a key below them.
struct Aspect {
    name: &'static str,
    set_by: &'static [&'static str],
}

/// The settings that make the request.
const REQUEST: &[&str] =
    &["load.path", "load.method", "load.headers", "load.host", "load.sni", "load.body", "system.origin"];

/// Properties whose values have shares.
const SHARES: &[Aspect] = &[
    Aspect { name: "status", set_by: &[] },
    Aspect { name: "content_type", set_by: REQUEST },
    Aspect { name: "content_encoding", set_by: REQUEST },
    Aspect {
        name: "alpn",
        set_by: &["load.alpn", "load.protocol", "load.tls", TLS, "system.ingress.protocols"],
    },
    Aspect { name: "tls_version", set_by: &["load.tls", TLS] },
    Aspect { name: "cipher", set_by: &["load.cipher", "load.tls", TLS, "system.ingress.key"] },
    Aspect { name: "group", set_by: &["load.group", "load.tls", TLS] },
    Aspect {
        name: "handshakes",
        set_by: &["load.resumption", "load.reuse", "load.tls", TLS, "system.ingress.tickets"],
    },
    Aspect { name: "peer", set_by: &["system", TUNINGS] },
    Aspect {
        name: "tcp_segment",
        set_by: &[
            "system.mtu",
            "system.kind",
            "system.tunnel",
            "system.offloads",
            "system.fastpath",
            "system.link",
            "load.driver",
            TUNINGS,
            CHANGES,
        ],
    },
    Aspect { name: "direct", set_by: &["load.direct", "load.driver"] },
    Aspect { name: "ending", set_by: &[] },
    Aspect { name: "shell", set_by: &["load.shell"] },
];

const TLS: &str = "system.ingress.tls";
const TUNINGS: &str = "host.tunings";
const CHANGES: &str = "changes";

/// The counts per unit of work: a property among what was observed with a value of it, and what to call that.
const PER_WORK: &[(Aspect, &str, &str)] = &[(
    Aspect { name: "connections", set_by: &["load.reuse", "load.connections"] },
    "opened",
    "new connections",
)];

/// Of what there are sizes, and by which factor medians may differ; below a number of bytes, by any.
const SIZES: &[(Aspect, f64, f64)] = &[
    (Aspect { name: "body", set_by: REQUEST }, 1.01, 0.0),
    (Aspect { name: "written", set_by: &[] }, 10.0, WRITTEN_MIN),
    // Output to `/dev/null` never reaches a disk. Syncing a file more often writes more bytes, but not a thousand times as many.
    (Aspect { name: "written to disk", set_by: &[] }, 1000.0, WRITTEN_MIN),
];

/// A page: below this, what a program writes is incidental.
const WRITTEN_MIN: f64 = 4096.0;

/// The work of a variant that differs from the baseline's, though its settings do not ask for it.
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
    let of_variant = |name: &str| {
        let differences = cautions.iter().find_map(|caution| match caution {
            Caution::DifferentWork { cell, variant, differences, .. }
                if *cell == label && variant == name =>
            {
                Some(&differences[..])
            }
            _ => None,
        });
        differences.unwrap_or_default()
    };
    // Two variants may have done the same work, and both another than the baseline.
    let is_same = match claim.variants()[..] {
        [one, other] => is_alike(of_variant(one), of_variant(other)),
        ref names => names.iter().all(|name| of_variant(name).is_empty()),
    };
    rests_on_work(table, claim) && !is_same
}

/// Whether two variants differ from the baseline in the same way.
fn is_alike(some: &[WorkDifference], others: &[WorkDifference]) -> bool {
    let is_same = |one: &WorkDifference, other: &WorkDifference| match (one, other) {
        (
            WorkDifference::Share { property, value, variant, .. },
            WorkDifference::Share { property: of_other, value: others, variant: share, .. },
        ) => (property, value) == (of_other, others) && (variant - share).abs() <= SHARE_MARGIN,
        (
            WorkDifference::PerWork { what, variant, .. },
            WorkDifference::PerWork { what: of_other, variant: of_variant, .. },
        ) => what == of_other && (variant - of_variant).abs() <= SHARE_MARGIN,
        (
            WorkDifference::Size { what, variant_bytes, .. },
            WorkDifference::Size { what: of_other, variant_bytes: bytes, .. },
        ) => what == of_other && (variant_bytes - bytes).abs() <= 0.01 * bytes,
        _ => false,
    };
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
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
    let by_host = [(TUNINGS, !planned.tunings.is_empty()), (CHANGES, !planned.changes.is_empty())];
    let by_host = by_host.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key);
    let keys: Vec<&str> = differs.iter().map(String::as_str).chain(by_host).collect();
    let is_within = |key: &str, set_by: &str| {
        key.strip_prefix(set_by).is_some_and(|below| below.is_empty() || below.starts_with('.'))
    };
    let is_open =
        |aspect: &&Aspect| !keys.iter().any(|key| aspect.set_by.iter().any(|set_by| is_within(key, set_by)));
    let shares = SHARES.iter().filter(is_open).filter_map(|aspect| share_apart(&blocks, aspect.name));
    let per_work = PER_WORK.iter().filter(|(aspect, ..)| is_open(&aspect));
    let per_work =
        per_work.filter_map(|(aspect, value, what)| per_work_apart(&blocks, (aspect.name, value), what));
    let sizes = SIZES
        .iter()
        .filter(|(aspect, ..)| is_open(&aspect))
        .filter_map(|(aspect, factor, least)| size_apart(&blocks, aspect.name, (*factor, *least)));
    shares.chain(per_work).chain(sizes).collect()
}

fn measured<'a>(table: &Table<'a>, cell: usize, variant: &str, block: u32) -> Vec<&'a Measurement> {
    let of_block = table.slots_of(cell, variant).iter().filter(|slot| slot.block == block);
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

/// Whether something happened more often per unit of work, by more than a point.
fn per_work_apart(
    blocks: &[[Vec<&Measurement>; 2]],
    (property, value): (&str, &str),
    what: &str,
) -> Option<WorkDifference> {
    let per_work = |slots: &[&Measurement]| {
        let work: u64 = slots.iter().map(|one| one.work).sum();
        let count: u64 = slots.iter().map(|one| one.observed_count(property, value)).sum();
        (work > 0).then(|| count as f64 / work as f64)
    };
    let pairs: Vec<[f64; 2]> =
        blocks.iter().filter_map(|[ours, theirs]| Some([per_work(ours)?, per_work(theirs)?])).collect();
    let differences: Vec<f64> = pairs.iter().map(|[ours, theirs]| ours - theirs).collect();
    let [variant, baseline] = [0, 1].map(|side| mean(pairs.iter().map(|pair| pair[side])));
    is_apart(&differences, SHARE_MARGIN).then(|| WorkDifference::PerWork {
        what: what.to_owned(),
        variant,
        baseline,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_that_differ_from_the_baseline_alike_did_the_same_work() {
        let share = |value: &str, variant: f64| WorkDifference::Share {
            property: "content_encoding".to_owned(),
            value: value.to_owned(),
            variant,
            baseline: 0.0,
        };
        let size = |variant_bytes: f64| WorkDifference::Size {
            what: "body".to_owned(),
            variant_bytes,
            baseline_bytes: 612.0,
        };
        assert!(is_alike(&[share("gzip", 1.0), size(200.0)], &[share("gzip", 0.995), size(201.0)]));
        assert!(!is_alike(&[share("gzip", 1.0)], &[share("br", 1.0)]));
        assert!(!is_alike(&[share("gzip", 1.0)], &[share("gzip", 0.9)]));
        assert!(
            !is_alike(&[size(200.0)], &[size(300.0)]) && !is_alike(&[size(200.0)], &[share("gzip", 1.0)])
        );
        assert!(!is_alike(&[size(200.0)], &[]) && is_alike(&[], &[]));
    }
}
