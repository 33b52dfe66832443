//! Bounds on what a run can have written. The writer keeps to them, and the reader rejects anything beyond
//! them.
//!
//! A directory may be damaged, or come from another user. The reader checks its content against its own plan
//! and against these bounds. Judge and reports then never index a missing item, nor draw an axis to 10^300.

use plumb_model::{
    Claim, Histogram, LoadHealth, Measurement, Operand, Plan, Reading, Relation, Share, Slot, SlotResult,
    SteadyRate, Term,
};

/// The plan with every variant's settings. The reader of experiments limits those to 16 MiB.
pub(crate) const HEADER_BYTES_MAX: u64 = 64 << 20;
/// The reader of experiments accepts 1 MiB.
pub(crate) const EXPERIMENT_BYTES_MAX: u64 = 2 << 20;
pub(crate) const END_BYTES_MAX: u64 = 64 << 10;
/// All slots of a run.
pub(crate) const SLOTS_BYTES_MAX: u64 = 16 << 30;
pub(crate) const SLOTS_MAX: usize = 1_000_000;
/// One slot: some distributions of at most a megabyte each.
pub(crate) const LINE_BYTES_MAX: u64 = 16 << 20;

const CELLS_MAX: usize = 256;
/// One more than an experiment may have, for the control.
const VARIANTS_MAX: usize = 65;
const BLOCKS_MAX: u32 = 1000;
const CLAIMS_MAX: usize = 10_000;
const METRICS_MAX: usize = 1000;
/// Claims times cells.
const VERDICTS_MAX: usize = 100_000;
/// A distribution of nanoseconds up to an hour, to three digits, has fewer bins.
const BINS_MAX: usize = 50_000;
/// Properties, kinds of errors, columns of tables and the like in one slot.
const NAMES_MAX: usize = 10_000;
/// Seconds in a window, or rows of a table.
const ROWS_MAX: usize = 100_000;
/// Counts and nanoseconds: up to here, an `f64` is exact.
const COUNT_MAX: u64 = 1 << 53;
/// Any other number, in whatever unit.
const NUMBER_MAX: f64 = 1e18;

type Checked = Result<(), OutOfBounds>;

/// Data that no run can have written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutOfBounds {
    #[error("there are {count} {what}; a run has at most {most}")]
    Number { what: String, count: usize, most: usize },
    #[error("{bytes} bytes are more than the {most} that a run writes")]
    Bytes { bytes: u64, most: u64 },
    #[error("{name:.100} is {count}, which cannot have been counted")]
    Count { name: String, count: u64 },
    #[error("{name:.100} is {figure:e}, which cannot have been measured")]
    Figure { name: String, figure: f64 },
    #[error("{min} to {max} blocks cannot be run")]
    Blocks { min: u32, max: u32 },
    #[error("{what} {index} of {of}")]
    Index { what: &'static str, index: usize, of: usize },
    #[error("{what} {name:?}, which {of} does not have")]
    Unknown { what: &'static str, name: String, of: &'static str },
    #[error("the slot is at position {position} of block {block}")]
    Position { position: u32, block: u32 },
    #[error("a row of the table {_0:?} does not have one number for each column")]
    Row(String),
    #[error("the bins of {_0:?} do not ascend, or hold nothing")]
    Bins(String),
}

/// Checks that a plan is consistent: every index and every name in it exists, and no size exceeds its bound.
pub(crate) fn check_plan(plan: &Plan) -> Checked {
    at_most("cells", plan.cells.len(), CELLS_MAX)?;
    at_most("variants", plan.variants.len(), VARIANTS_MAX)?;
    at_most("claims", plan.claims.len(), CLAIMS_MAX)?;
    at_most("metrics", plan.metrics.len(), METRICS_MAX)?;
    at_most("verdicts", plan.claims.len() * plan.cells.len(), VERDICTS_MAX)?;
    for cell in &plan.cells {
        at_most("variants in a cell", cell.variants.len(), VARIANTS_MAX)?;
    }
    let blocks = plan.blocks;
    if blocks.max > BLOCKS_MAX || blocks.min > blocks.max || blocks.min == 0 {
        return Err(OutOfBounds::Blocks { min: blocks.min, max: blocks.max });
    }
    if plan.baseline >= plan.variants.len() {
        let (index, of) = (plan.baseline, plan.variants.len());
        return Err(OutOfBounds::Index { what: "the baseline is variant", index, of });
    }
    check_count("window_ns", plan.window_ns)?;
    check_count("warmup_ns", plan.warmup_ns)?;
    check_count("cooldown_ns", plan.cooldown_ns)?;
    check_number("others_max", plan.others_max)?;
    check_number("failures_max", plan.failures_max)?;
    for planned in plan.cells.iter().flat_map(|cell| &cell.variants) {
        let than = planned.saving.as_ref().and_then(|saving| saving.than);
        if let Some(index) =
            [Some(planned.variant), than].into_iter().flatten().find(|index| *index >= plan.variants.len())
        {
            let of = plan.variants.len();
            return Err(OutOfBounds::Index { what: "a cell has variant", index, of });
        }
    }
    plan.claims.iter().try_for_each(|claim| check_claim(claim, plan))
}

fn check_claim(claim: &Claim, plan: &Plan) -> Checked {
    check_term(&claim.left, plan)?;
    if let Relation::EqualWithin(tolerance)
    | Relation::KnownWithin(tolerance)
    | Relation::KnownWithinOrApart(tolerance) = claim.relation
    {
        check_number("a claim's tolerance", tolerance)?;
    }
    match &claim.right {
        Operand::Term { factor, term } => {
            check_number("a claim's factor", *factor)?;
            check_term(term, plan)
        }
        Operand::Value(value) => check_number("a claim's value", *value),
        Operand::Cap { value, tolerance } => {
            check_number("a claim's cap", *value)?;
            check_number("a claim's tolerance", *tolerance)
        }
    }
}

fn check_term(term: &Term, plan: &Plan) -> Checked {
    if !plan.variants.iter().any(|variant| variant.name == term.variant) {
        return Err(unknown("a claim is about the variant", &term.variant, "the plan"));
    }
    if plan.metric(&term.metric).is_none() {
        return Err(unknown("a claim is about the metric", &term.metric, "the plan"));
    }
    Ok(())
}

/// Checks that a slot belongs to a plan, and that its numbers can have been measured.
pub(crate) fn check_slot(slot: &Slot, plan: &Plan) -> Checked {
    let Some(cell) = plan.cells.get(slot.cell) else {
        let (index, of) = (slot.cell, plan.cells.len());
        return Err(OutOfBounds::Index { what: "the slot is in cell", index, of });
    };
    if slot.block >= plan.blocks.max || slot.position as usize >= 2 * VARIANTS_MAX {
        return Err(OutOfBounds::Position { position: slot.position, block: slot.block });
    }
    if !cell.variants.iter().any(|planned| plan.variants[planned.variant].name == slot.variant) {
        return Err(unknown("the slot is of the variant", &slot.variant, "its cell"));
    }
    check_number("offset_s", slot.offset_s)?;
    check_number("took_s", slot.took_s)?;
    slot.result().map_or(Ok(()), check_result)
}

fn check_result(result: &SlotResult) -> Checked {
    for cost in [&result.system_cpu, &result.load_cpu] {
        at_most("components", cost.components.len(), NAMES_MAX)?;
        check_count("user_ns", cost.user_ns)?;
        check_count("system_ns", cost.system_ns)?;
        cost.components.iter().try_for_each(|(name, cpu_ns)| check_count(name, *cpu_ns))?;
    }
    let facts: usize = result.evidence.iter().map(|evidence| evidence.figures.len() + 1).sum();
    at_most("pieces of evidence", facts, NAMES_MAX)?;
    if let Some(placement) = &result.placement {
        let sets = [&placement.ran, &placement.allowed, &placement.load];
        at_most("CPUs", sets.iter().map(|cpus| cpus.len()).sum(), ROWS_MAX)?;
    }
    for (name, workers) in [("workers", &result.workers), ("worker_cpu_ns", &result.worker_cpu_ns)] {
        at_most(name, workers.len(), ROWS_MAX)?;
        workers.iter().try_for_each(|figure| check_count(name, *figure))?;
    }
    let noise = &result.noise;
    check_number("steal", noise.steal)?;
    check_number("softirq", noise.softirq)?;
    check_number("others", noise.others)?;
    check_number("pressure_cpu", noise.pressure_cpu.unwrap_or_default())?;
    check_count("throttled_ns", noise.throttled_ns)?;
    check_number("taken_cpus", noise.taken_cpus.unwrap_or_default())?;
    check_measurement(&result.measurement)
}

fn check_measurement(measurement: &Measurement) -> Checked {
    let counts = [
        ("window_ns", measurement.window_ns),
        ("work", measurement.work),
        ("cpu_user_ns", measurement.cpu_user_ns),
        ("cpu_system_ns", measurement.cpu_system_ns),
        ("tried", measurement.attempts.tried),
        ("failed", measurement.attempts.failed),
        ("stall_ns_max", measurement.stall_ns_max.unwrap_or_default()),
    ];
    counts.into_iter().try_for_each(|(name, count)| check_count(name, count))?;
    check_health(&measurement.health)?;
    measurement.steady.as_ref().map_or(Ok(()), check_steady)?;
    let observed: usize = measurement.observed.values().map(std::collections::BTreeMap::len).sum();
    at_most("observations", observed + measurement.observed.len(), NAMES_MAX)?;
    at_most("errors", measurement.errors.len(), NAMES_MAX)?;
    let parts = measurement.notices.iter().map(|notice| (notice.about.len() + notice.figures.len()).max(1));
    at_most("notices", parts.sum(), NAMES_MAX)?;
    let figures = measurement.notices.iter().flat_map(|notice| &notice.figures);
    let ends = figures.flat_map(|figure| [figure.least, figure.most]);
    ends.into_iter().try_for_each(|end| check_number("notices", end))?;
    let observed = measurement.observed.values().flatten().chain(&measurement.errors);
    observed.into_iter().try_for_each(|(name, count)| check_count(name, *count))?;
    at_most("readings", measurement.readings.len(), METRICS_MAX)?;
    measurement.readings.iter().try_for_each(|(name, reading)| check_reading(name, reading))?;
    let seconds: usize = measurement.windows.values().map(Vec::len).sum();
    at_most("seconds", seconds + measurement.windows.len(), ROWS_MAX)?;
    for (name, values) in &measurement.windows {
        values.iter().try_for_each(|value| check_number(name, *value))?;
    }
    at_most("tables", measurement.tables.len(), NAMES_MAX)?;
    for (name, table) in &measurement.tables {
        at_most("columns", table.columns.len(), NAMES_MAX)?;
        let numbers: usize = table.rows.iter().map(Vec::len).sum();
        at_most("numbers in a table", numbers + table.rows.len(), ROWS_MAX)?;
        if table.rows.iter().any(|row| row.len() != table.columns.len()) {
            return Err(OutOfBounds::Row(name.clone()));
        }
        table.rows.iter().flatten().try_for_each(|value| check_number(name, *value))?;
    }
    at_most("gauges that add up", measurement.additive.len(), METRICS_MAX)?;
    check_number("asked", measurement.asked.unwrap_or_default())?;
    check_number("the number in flight", measurement.in_flight.unwrap_or_default())?;
    at_most("load agents", measurement.shares.len(), NAMES_MAX)?;
    measurement.shares.iter().try_for_each(check_share)
}

fn check_share(share: &Share) -> Checked {
    check_count("an agent's work", share.work)?;
    check_number("an agent's rate", share.work_per_s)?;
    check_number("an agent's part", share.asked.unwrap_or_default())?;
    check_count("an agent's CPU time", share.cpu_user_ns)?;
    check_count("an agent's CPU time", share.cpu_system_ns)?;
    check_health(&share.health)?;
    at_most("distributions of an agent", share.times.len(), METRICS_MAX)?;
    let times = share.times.iter().flat_map(|(name, times)| [(name, times.median_ns), (name, times.p99_ns)]);
    times.into_iter().try_for_each(|(name, time_ns)| check_number(name, time_ns.unwrap_or_default()))
}

fn check_steady(steady: &SteadyRate) -> Checked {
    check_number("the steady rate", steady.rate_per_s)?;
    check_number("the mean time at the steady rate", steady.mean_ns)?;
    check_number("the shortest time at the steady rate", steady.fastest_ns)?;
    at_most("seconds of a steady rate", steady.seconds, ROWS_MAX)
}

fn check_health(health: &LoadHealth) -> Checked {
    check_count("lag_ns_max", health.lag_ns_max)?;
    check_number("busiest_thread", health.busiest_thread)?;
    check_number("late_share", health.late_share)?;
    check_number("wanted", health.wanted)?;
    check_number("waited", health.waited)
}

fn check_reading(name: &str, reading: &Reading) -> Checked {
    match reading {
        Reading::Rate { value, count } => {
            check_number(name, *value)?;
            check_count(name, *count)
        }
        Reading::Count(count) => check_count(name, *count),
        Reading::Share { yes, no } => check_count(name, *yes).and_then(|()| check_count(name, *no)),
        Reading::Trend(histogram) => check_histogram(name, histogram),
        Reading::Summary { count, statistics_ns } => {
            check_count(name, count.unwrap_or_default())?;
            statistics_ns.values().try_for_each(|value_ns| check_number(name, *value_ns))
        }
        Reading::Gauge(value) => check_number(name, *value),
    }
}

fn check_histogram(name: &str, histogram: &Histogram) -> Checked {
    at_most(&format!("bins of {name:?}"), histogram.bins().take(BINS_MAX + 1).count(), BINS_MAX)?;
    check_count(name, histogram.count())?;
    let mut previous = None;
    for (value_ns, count) in histogram.bins() {
        if previous.is_some_and(|previous| value_ns <= previous) || count == 0 {
            return Err(OutOfBounds::Bins(name.to_owned()));
        }
        check_count(name, value_ns)?;
        previous = Some(value_ns);
    }
    Ok(())
}

fn unknown(what: &'static str, name: &str, of: &'static str) -> OutOfBounds {
    OutOfBounds::Unknown { what, name: name.to_owned(), of }
}

pub(crate) fn at_most(what: &str, count: usize, count_max: usize) -> Checked {
    if count <= count_max {
        Ok(())
    } else {
        Err(OutOfBounds::Number { what: what.to_owned(), count, most: count_max })
    }
}

pub(crate) fn check_bytes(bytes: u64, bytes_max: u64) -> Checked {
    if bytes <= bytes_max { Ok(()) } else { Err(OutOfBounds::Bytes { bytes, most: bytes_max }) }
}

fn check_count(name: &str, count: u64) -> Checked {
    if count <= COUNT_MAX { Ok(()) } else { Err(OutOfBounds::Count { name: name.to_owned(), count }) }
}

/// Checks that a number can have been measured.
pub(crate) fn check_number(name: &str, number: f64) -> Checked {
    if number.is_finite() && number.abs() <= NUMBER_MAX {
        Ok(())
    } else {
        Err(OutOfBounds::Figure { name: name.to_owned(), figure: number })
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Notice;

    use super::*;

    #[test]
    fn a_slot_may_have_as_many_warnings_as_names() {
        let of = |count| {
            let texts = (0..count).map(|at: usize| Notice::text(at.to_string()));
            check_measurement(&Measurement { notices: texts.collect(), ..Measurement::default() })
        };
        assert!(of(NAMES_MAX).is_ok());
        assert!(of(NAMES_MAX + 1).is_err());
    }
}
