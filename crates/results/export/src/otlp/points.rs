//! A run's results as gauges: the median of each metric, each ratio with its bounds, each verdict.
//!
//! The time of a point is the end of the run, or of its last slot if that is later. JSON has no infinite
//! number, so a ratio without an upper bound has no point for that bound.

use plumb_model::{Judgement, Plan, Run, Statistic, Unit};
use serde_json::{Value, json};

use super::fields::{Attributes, integer, text};
use super::times;
use crate::error::ExportError;
use crate::figures::{declared, medians};

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GaugePoint {
    name: String,
    unit: &'static str,
    about: String,
    /// The point in the form of OTLP.
    point: Value,
}

/// Every result of a run.
pub(super) fn points(run: &Run, judgement: &Judgement) -> Result<Vec<GaugePoint>, ExportError> {
    let slots = run.slots.iter().map(times::of_slot).collect::<Result<Vec<_>, _>>()?;
    let at_ns = times::of_run(run, &slots)?.to_ns;
    let mut found = Vec::new();
    let mut add = |name: &str, unit, about: &str, value: f64, attributes: Attributes| {
        let point = value.is_finite().then(
            || json!({ "timeUnixNano": at_ns.to_string(), "asDouble": value, "attributes": attributes }),
        );
        let (name, about) = (name.to_owned(), about.to_owned());
        found.extend(point.map(|point| GaugePoint { name, unit, about, point }));
    };
    let plan = &run.header.plan;
    for median in medians(run) {
        let mut attributes = place(plan, median.cell, median.variant);
        attributes.extend(median.statistic.map(|statistic| text("plumb.statistic", statistic.name())));
        let name = format!("plumb.metric.{}", median.metric.name);
        add(&name, ucum(median.metric.unit), &median.metric.about, median.value, attributes);
    }
    for found in &judgement.comparisons {
        let Some((metric, statistic)) = declared(plan, &found.metric) else { continue };
        let mut attributes = place(plan, found.cell, found.variant);
        attributes.push(text("plumb.metric", &metric.name));
        attributes.extend(statistic.map(Statistic::name).map(|name| text("plumb.statistic", name)));
        add("plumb.ratio", "1", RATIO, found.ratio, attributes.clone());
        add("plumb.ratio.low", "1", LOW, found.low, attributes.clone());
        add("plumb.ratio.high", "1", HIGH, found.high.unwrap_or(f64::INFINITY), attributes);
    }
    for found in &judgement.claims {
        let Some(claim) = plan.claims.get(found.claim) else { continue };
        let mut attributes = cell(plan, found.cell);
        attributes.extend([text("plumb.claim", &claim.text), text("plumb.verdict", found.verdict.word())]);
        add("plumb.claim", "1", CLAIM, 1.0, attributes);
    }
    Ok(found)
}

const RATIO: &str = "a metric of a variant over the same of the baseline";
const LOW: &str = "lower bound of the ratio; 0 where it is unbounded";
const HIGH: &str = "upper bound of the ratio; absent where it is unbounded";
const CLAIM: &str = "the verdict on a claim; 1 for the one that applies";

/// Groups points by name into the metrics of OTLP.
pub(super) fn metrics(points: &[GaugePoint]) -> Vec<Value> {
    let of_one = |points: &[GaugePoint]| {
        let GaugePoint { name, unit, about, .. } = &points[0];
        let data: Vec<&Value> = points.iter().map(|point| &point.point).collect();
        json!({ "name": name, "unit": unit, "description": about, "gauge": { "dataPoints": data } })
    };
    let mut by_name: Vec<GaugePoint> = points.to_vec();
    by_name.sort_by(|one, other| one.name.cmp(&other.name));
    by_name.chunk_by(|one, other| one.name == other.name).map(of_one).collect()
}

fn cell(plan: &Plan, cell: usize) -> Attributes {
    let values = plan.cells.get(cell).into_iter().flat_map(|cell| &cell.values);
    let mut attributes = vec![integer("plumb.cell", cell as u64)];
    attributes.extend(values.map(|(key, value)| text(&format!("plumb.matrix.{key}"), value)));
    attributes
}

fn place(plan: &Plan, in_cell: usize, variant: usize) -> Attributes {
    let mut attributes = cell(plan, in_cell);
    attributes.extend(plan.variants.get(variant).map(|variant| text("plumb.variant", &variant.name)));
    attributes
}

/// The unit in the Unified Code for Units of Measure, which OpenTelemetry requires.
fn ucum(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds => "ms",
        Unit::Microseconds => "us",
        Unit::Seconds => "s",
        Unit::PerSecond => "1/s",
        Unit::Bytes => "By",
        Unit::BytesPerSecond => "By/s",
        Unit::Share => "1",
        Unit::Count => "{count}",
    }
}
