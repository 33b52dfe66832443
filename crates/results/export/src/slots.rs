//! Slots as one table, with a row for each slot and a column for each fact about it.
//!
//! The table is wide, so that pandas, DuckDB and spreadsheets need no pivot: `http_req_duration.p95` is a
//! column, with the name that claims use. An unknown value is missing, never 0.

use std::collections::BTreeMap;

use plumb_model::{
    Better, FailureCause, MetricInfo, Plan, Run, Slot, SlotOutcome, SlotResult, Statistic, Unit, metric_key,
    printable,
};

use crate::error::ExportError;
use crate::figures::figures;
use crate::identity::RunId;

/// The values of a column, one for each row; `None` where there is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    /// Names and sentences.
    Text(Vec<Option<String>>),
    /// Times in RFC 3339, as they were recorded.
    Stamp(Vec<Option<String>>),
    /// Counts and indices.
    Integer(Vec<Option<i64>>),
    /// Numbers in the column's unit; all of them are finite.
    Number(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

/// A column of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlotColumn {
    pub(crate) name: String,
    pub(crate) unit: Option<Unit>,
    /// Which direction is an improvement, for metrics that have one.
    pub(crate) better: Option<Better>,
    pub(crate) about: String,
    pub(crate) values: Values,
}

/// All slots of some runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlotTable {
    pub(crate) columns: Vec<SlotColumn>,
    /// The number of rows.
    pub(crate) rows: usize,
}

/// The prefix of a metric's column if the metric's name is also that of another column.
const PREFIX: &str = "metric.";

/// A slot with its run.
struct SlotOfRun<'a> {
    run: &'a Run,
    id: String,
    slot: &'a Slot,
}

impl<'a> SlotOfRun<'a> {
    fn plan(&self) -> &'a Plan {
        &self.run.header.plan
    }

    fn result(&self) -> Option<&'a SlotResult> {
        self.slot.result()
    }
}

/// How a column gets its value from a slot.
enum Getter {
    Text(fn(&SlotOfRun<'_>) -> Option<String>),
    Stamp(fn(&SlotOfRun<'_>) -> Option<String>),
    Integer(fn(&SlotOfRun<'_>) -> Option<i64>),
    Number(fn(&SlotOfRun<'_>) -> Option<f64>),
    Flag(fn(&SlotOfRun<'_>) -> Option<bool>),
}

/// A column that every table has.
struct FixedColumn {
    name: &'static str,
    unit: Option<Unit>,
    about: &'static str,
    get: Getter,
}

const fn fixed(name: &'static str, unit: Option<Unit>, about: &'static str, get: Getter) -> FixedColumn {
    FixedColumn { name, unit, about, get }
}

/// Where and when a slot ran.
const PLACE: &[FixedColumn] = &[
    fixed(
        "run",
        None,
        "identifies the run; its trace in OpenTelemetry has the same identifier",
        Getter::Text(|it| Some(it.id.clone())),
    ),
    fixed(
        "run_started_at",
        None,
        "when the run began",
        Getter::Stamp(|it| Some(it.run.header.started_at.clone())),
    ),
    fixed("experiment", None, "the experiment's name", Getter::Text(|it| Some(it.plan().name.clone()))),
    fixed("path", None, "the data path", Getter::Text(|it| Some(it.plan().path.clone()))),
    fixed("cell", None, "the cell of the matrix, from 0", Getter::Integer(|it| integer(it.slot.cell))),
    fixed("block", None, "the block within the cell, from 0", Getter::Integer(|it| integer(it.slot.block))),
    fixed(
        "position",
        None,
        "the position within the block, from 0",
        Getter::Integer(|it| integer(it.slot.position)),
    ),
    fixed("variant", None, "the variant that was measured", Getter::Text(|it| Some(it.slot.variant.clone()))),
    fixed(
        "baseline",
        None,
        "the variant that all others are compared with",
        Getter::Text(|it| Some(it.plan().baseline_name().to_owned())),
    ),
];

/// How a slot went.
const COURSE: &[FixedColumn] = &[
    fixed(
        "started_at",
        None,
        "when the window opened; of a failed slot, when it failed",
        Getter::Stamp(|it| Some(it.slot.started_at.clone())),
    ),
    fixed(
        "offset",
        Some(Unit::Seconds),
        "from the start of the run to the opening of the window; of a failed slot, to its beginning",
        Getter::Number(|it| Some(it.slot.offset_s)),
    ),
    fixed(
        "took",
        Some(Unit::Seconds),
        "the whole slot, with everything that is not measuring",
        Getter::Number(|it| Some(it.slot.took_s)),
    ),
    fixed(
        "window",
        Some(Unit::Seconds),
        "the measured time",
        Getter::Number(|it| Some(it.result()?.measurement.window_ns as f64 / 1e9)),
    ),
    fixed(
        "attempt",
        None,
        "which attempt counts, from 1: an earlier one was killed from outside the run",
        Getter::Integer(|it| integer(it.slot.retried.len() + 1)),
    ),
    fixed("failed", None, "whether the slot failed", Getter::Flag(|it| Some(it.result().is_none()))),
    fixed("failure_cause", None, "which side failed: `system` or `harness`", Getter::Text(failure_cause)),
    fixed("failure_reason", None, "why it failed", Getter::Text(failure_reason)),
    fixed(
        "work",
        Some(Unit::Count),
        "units of work done in the window",
        Getter::Integer(|it| integer(it.result()?.measurement.work)),
    ),
    fixed(
        "work_tried",
        Some(Unit::Count),
        "units of work that were tried and came to an end, or were due and did not",
        Getter::Integer(|it| integer(it.result()?.measurement.attempts.tried)),
    ),
    fixed(
        "work_failed",
        Some(Unit::Count),
        "those of them that failed",
        Getter::Integer(|it| integer(it.result()?.measurement.attempts.failed)),
    ),
    fixed(
        "evidence_holds",
        None,
        "whether all evidence says that the treatment was in effect; missing where there is none",
        Getter::Flag(evidence_holds),
    ),
    fixed(
        "load_bound",
        None,
        "whether the load, and not the system, was the limit",
        Getter::Flag(|it| Some(it.result()?.measurement.health.is_load_bound())),
    ),
    fixed(
        "load_busiest_thread",
        Some(Unit::Share),
        "the part of the window in which the busiest load thread was on a CPU",
        Getter::Number(|it| Some(it.result()?.measurement.health.busiest_thread)),
    ),
];

/// The host's noise during a slot.
const NOISE: &[FixedColumn] = &[
    fixed(
        "noise_steal",
        Some(Unit::Share),
        "CPU time that the hypervisor took, over all CPU time",
        Getter::Number(|it| Some(it.result()?.noise.steal)),
    ),
    fixed(
        "noise_softirq",
        Some(Unit::Share),
        "CPU time in soft interrupts, over all CPU time",
        Getter::Number(|it| Some(it.result()?.noise.softirq)),
    ),
    fixed(
        "noise_others",
        Some(Unit::Share),
        "CPU time of processes of neither side, over all CPU time",
        Getter::Number(|it| Some(it.result()?.noise.others)),
    ),
    fixed(
        "noise_pressure_cpu",
        Some(Unit::Share),
        "the part of the window in which some task waited for a CPU; missing if CPUs were kept awake or the kernel does not say",
        Getter::Number(|it| it.result()?.noise.pressure_cpu),
    ),
    fixed(
        "noise_throttled",
        Some(Unit::Seconds),
        "time for which a CPU quota stopped the control group",
        Getter::Number(|it| Some(it.result()?.noise.throttled_ns as f64 / 1e9)),
    ),
    fixed(
        "clock_skew",
        Some(Unit::Seconds),
        "by how much the windows of the hosts may differ; missing where both sides share a clock",
        Getter::Number(|it| Some(it.result()?.skew_ns? as f64 / 1e9)),
    ),
];

fn integer(number: impl TryInto<i64>) -> Option<i64> {
    number.try_into().ok()
}

fn failure_cause(it: &SlotOfRun<'_>) -> Option<String> {
    match &it.slot.outcome {
        SlotOutcome::Measured(_) => None,
        SlotOutcome::Failed { cause, .. } => Some(cause_word(*cause).to_owned()),
    }
}

fn failure_reason(it: &SlotOfRun<'_>) -> Option<String> {
    match &it.slot.outcome {
        SlotOutcome::Measured(_) => None,
        SlotOutcome::Failed { reason, .. } => Some(reason.clone()),
    }
}

/// The word for the side that failed.
pub(crate) fn cause_word(cause: FailureCause) -> &'static str {
    match cause {
        FailureCause::System => "system",
        FailureCause::Harness => "harness",
    }
}

fn evidence_holds(it: &SlotOfRun<'_>) -> Option<bool> {
    let evidence = &it.result()?.evidence;
    (!evidence.is_empty()).then(|| evidence.iter().all(|one| one.holds))
}

/// The table of all slots of some runs, in the order of the runs.
pub(crate) fn table(runs: &[&Run]) -> Result<SlotTable, ExportError> {
    let ids: Vec<String> = runs.iter().map(|run| RunId::of_run(run).hex()).collect();
    let with_ids = runs.iter().zip(&ids);
    let slots: Vec<SlotOfRun<'_>> = with_ids
        .flat_map(|(run, id)| run.slots.iter().map(move |slot| SlotOfRun { run, id: id.clone(), slot }))
        .collect();
    let mut columns: Vec<SlotColumn> = PLACE.iter().map(|fixed| fixed_column(fixed, &slots)).collect();
    columns.extend(matrix_columns(runs, &slots));
    columns.extend(COURSE.iter().chain(NOISE).map(|fixed| fixed_column(fixed, &slots)));
    columns.extend(metric_columns(runs, &slots)?);
    Ok(SlotTable { columns, rows: slots.len() })
}

fn fixed_column(fixed: &FixedColumn, slots: &[SlotOfRun<'_>]) -> SlotColumn {
    let texts = |get: fn(&SlotOfRun<'_>) -> Option<String>| {
        slots.iter().map(|slot| get(slot).map(|text| printable(&text).into_owned())).collect()
    };
    let values = match fixed.get {
        Getter::Text(get) => Values::Text(texts(get)),
        Getter::Stamp(get) => Values::Stamp(texts(get)),
        Getter::Integer(get) => Values::Integer(slots.iter().map(get).collect()),
        Getter::Number(get) => {
            Values::Number(slots.iter().map(|slot| get(slot).filter(|it| it.is_finite())).collect())
        }
        Getter::Flag(get) => Values::Flag(slots.iter().map(get).collect()),
    };
    let (name, about) = (fixed.name.to_owned(), fixed.about.to_owned());
    SlotColumn { name, unit: fixed.unit, better: None, about, values }
}

/// A column for each key of the matrix: `matrix.load.connections`.
fn matrix_columns(runs: &[&Run], slots: &[SlotOfRun<'_>]) -> Vec<SlotColumn> {
    let cells = runs.iter().flat_map(|run| &run.header.plan.cells);
    let keys: std::collections::BTreeSet<&String> = cells.flat_map(|cell| cell.values.keys()).collect();
    let value = |slot: &SlotOfRun<'_>, key: &str| {
        let value = slot.plan().cells.get(slot.slot.cell)?.values.get(key)?;
        Some(printable(value).into_owned())
    };
    let column = |key: &String| SlotColumn {
        name: format!("matrix.{}", printable(key)),
        unit: None,
        better: None,
        about: format!("the cell's value of `{}`", printable(key)),
        values: Values::Text(slots.iter().map(|slot| value(slot, key)).collect()),
    };
    keys.into_iter().map(column).collect()
}

/// The columns of every metric that has a value in some slot, in the order of the plans.
fn metric_columns(runs: &[&Run], slots: &[SlotOfRun<'_>]) -> Result<Vec<SlotColumn>, ExportError> {
    let mut metrics: Vec<&MetricInfo> = Vec::new();
    for metric in runs.iter().flat_map(|run| &run.header.plan.metrics) {
        match metrics.iter().find(|known| known.name == metric.name) {
            None => metrics.push(metric),
            Some(known) if known.unit == metric.unit => {}
            Some(known) => {
                let (one, other) = (known.unit.symbol(), metric.unit.symbol());
                return Err(ExportError::Units { column: metric.name.clone(), one, other });
            }
        }
    }
    Ok(metrics.into_iter().flat_map(|metric| columns_of(metric, slots)).collect())
}

/// The columns of one metric: one for each statistic of a distribution.
fn columns_of(metric: &MetricInfo, slots: &[SlotOfRun<'_>]) -> Vec<SlotColumn> {
    let mut values: BTreeMap<Option<Statistic>, Vec<Option<f64>>> = BTreeMap::new();
    for (row, slot) in slots.iter().enumerate() {
        let Some(reading) = slot.result().and_then(|result| result.measurement.readings.get(&metric.name))
        else {
            continue;
        };
        for (statistic, value) in figures(reading, metric.unit) {
            values.entry(statistic).or_insert_with(|| vec![None; slots.len()])[row] = Some(value);
        }
    }
    let column = |(statistic, values)| SlotColumn {
        name: column_name(&metric_key(&metric.name, statistic)),
        unit: Some(metric.unit),
        better: Some(metric.better),
        about: printable(&metric.about).into_owned(),
        values: Values::Number(values),
    };
    values.into_iter().map(column).collect()
}

fn column_name(key: &str) -> String {
    let is_taken = PLACE.iter().chain(COURSE).chain(NOISE).any(|fixed| fixed.name == key);
    if is_taken { format!("{PREFIX}{key}") } else { printable(key).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use plumb_model::Reading;

    fn column<'a>(table: &'a SlotTable, name: &str) -> &'a SlotColumn {
        table.columns.iter().find(|column| column.name == name).unwrap_or_else(|| panic!("no column {name}"))
    }

    #[test]
    fn every_column_has_a_value_or_a_gap_for_each_slot() {
        let (run, _) = fixture::run();
        let table = table(&[&run]).unwrap();
        assert_eq!(table.rows, 5);
        for column in &table.columns {
            let length = match &column.values {
                Values::Text(values) | Values::Stamp(values) => values.len(),
                Values::Integer(values) => values.len(),
                Values::Number(values) => values.len(),
                Values::Flag(values) => values.len(),
            };
            assert_eq!(length, 5, "{}", column.name);
        }
        let names: std::collections::BTreeSet<&str> =
            table.columns.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), table.columns.len(), "no two columns share a name");
    }

    #[test]
    fn a_failed_slot_has_its_reason_and_no_figure() {
        let (run, _) = fixture::run();
        let table = table(&[&run]).unwrap();
        let Values::Flag(failed) = &column(&table, "failed").values else { panic!("not flags") };
        assert_eq!(failed, &[Some(false), Some(false), Some(true), Some(false), Some(false)]);
        let Values::Text(reasons) = &column(&table, "failure_reason").values else { panic!("not texts") };
        assert_eq!(reasons[2].as_deref(), Some("the server said \"no\", then ended"));
        let reqs = column(&table, "http_reqs");
        assert_eq!((reqs.unit, reqs.better), (Some(Unit::PerSecond), Some(Better::Higher)));
        assert_eq!(
            reqs.values,
            Values::Number(vec![Some(1000.0), Some(2000.0), None, Some(1020.0), Some(500.0)])
        );
    }

    #[test]
    fn a_metric_that_has_the_name_of_another_column_gets_a_prefix() {
        let (mut run, _) = fixture::run();
        let plan = &mut run.header.plan;
        plan.metrics.push(MetricInfo { name: "work".to_owned(), ..plan.metrics[0].clone() });
        let SlotOutcome::Measured(result) = &mut run.slots[0].outcome else { panic!("it failed") };
        result.measurement.readings.insert("work".to_owned(), Reading::Gauge(3.0));
        let table = table(&[&run]).unwrap();
        let Values::Number(values) = &column(&table, "metric.work").values else { panic!("not numbers") };
        assert_eq!(values[0], Some(3.0));
        assert!(matches!(column(&table, "work").values, Values::Integer(_)));
    }

    #[test]
    fn runs_with_other_metrics_share_a_table_and_those_with_other_units_do_not() {
        let (run, _) = fixture::run();
        let mut other = run.clone();
        other.header.plan.metrics.retain(|metric| metric.name == "http_reqs");
        other.header.plan.seed += 1;
        for slot in &mut other.slots {
            if let SlotOutcome::Measured(result) = &mut slot.outcome {
                result.measurement.readings.retain(|name, _| name == "http_reqs");
            }
        }
        let both = table(&[&run, &other]).unwrap();
        let Values::Number(values) = &column(&both, "cpu_system").values else { panic!("not numbers") };
        assert_eq!((values.len(), values[0], values[5]), (10, Some(12.5), None));
        other.header.plan.metrics[0].unit = Unit::Count;
        let error = table(&[&run, &other]).unwrap_err().to_string();
        assert!(error.contains("`http_reqs` is in `1/s` in one of them and in `count`"), "{error}");
    }
}
