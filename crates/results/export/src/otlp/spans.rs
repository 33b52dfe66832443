//! A run as a trace, with a span for the run and for each cell, block and slot.

use std::collections::BTreeMap;

use plumb_model::{Ending, MetricKind, Run, Slot, SlotOutcome, SlotResult, Statistic, metric_key};
use serde_json::{Value, json};

use super::fields::{Attributes, flag, integer, number, text};
use super::times::{self, Stretch};
use crate::error::ExportError;
use crate::figures::figures;
use crate::identity::RunId;
use crate::slots::cause_word;

/// `SPAN_KIND_INTERNAL`.
const KIND: u8 = 1;
/// `STATUS_CODE_ERROR`.
const FAILED: u8 = 2;
/// The statistics of a distribution in a slot's span. More would exceed the number of attributes that
/// backends keep for a span.
const OF_SPAN: [Statistic; 3] = [Statistic::Med, Statistic::P95, Statistic::P99];

/// The fields of a span besides its identifiers.
struct SpanBody {
    name: String,
    when: Stretch,
    attributes: Attributes,
    events: Vec<Value>,
    /// Why it failed, if it did.
    failure: Option<String>,
}

/// Where a span belongs.
struct SpanPlace {
    id: RunId,
    /// The name of the part, which is unique within the run.
    part: String,
    parent: Option<String>,
}

impl SpanPlace {
    fn span(&self, body: SpanBody) -> Value {
        let SpanBody { name, when, attributes, events, failure } = body;
        let parent = self.parent.as_ref().map(|parent| self.id.part(parent)).unwrap_or_default();
        let status =
            failure.map_or_else(|| json!({}), |message| json!({ "code": FAILED, "message": message }));
        json!({
            "traceId": self.id.hex(),
            "spanId": self.id.part(&self.part),
            "parentSpanId": parent,
            "name": name,
            "kind": KIND,
            "startTimeUnixNano": when.from_ns.to_string(),
            "endTimeUnixNano": when.to_ns.to_string(),
            "attributes": attributes,
            "events": events,
            "status": status,
        })
    }
}

/// All spans of a run: each parent before its children, and the slots of a block in the order in which they
/// ran.
pub(super) fn spans(run: &Run) -> Result<Vec<Value>, ExportError> {
    let id = RunId::of_run(run);
    let times = run.slots.iter().map(times::of_slot).collect::<Result<Vec<Stretch>, _>>()?;
    let at_run = SpanPlace { id, part: "run".to_owned(), parent: None };
    let mut spans = vec![at_run.span(run_body(run, times::of_run(run, &times)?))];
    let mut by_block: BTreeMap<(usize, u32), Vec<(&Slot, Stretch)>> = BTreeMap::new();
    for (slot, when) in run.slots.iter().zip(&times) {
        by_block.entry((slot.cell, slot.block)).or_default().push((slot, *when));
    }
    let mut by_cell: BTreeMap<usize, Vec<Stretch>> = BTreeMap::new();
    for ((cell, _), slots) in &by_block {
        by_cell.entry(*cell).or_default().extend(slots.iter().map(|(_, when)| *when));
    }
    for (cell, times) in by_cell {
        let at = SpanPlace { id, part: format!("cell {cell}"), parent: Some("run".to_owned()) };
        spans.extend(Stretch::around(times).map(|when| at.span(cell_body(run, cell, when))));
    }
    for ((cell, block), slots) in by_block {
        let part = format!("cell {cell} block {block}");
        let at = SpanPlace { id, part: part.clone(), parent: Some(format!("cell {cell}")) };
        let when = Stretch::around(slots.iter().map(|(_, when)| *when));
        spans.extend(when.map(|when| at.span(block_body(cell, block, when))));
        spans.extend(slots.into_iter().map(|(slot, when)| {
            let own = format!("{part} slot {}", slot.position);
            let at = SpanPlace { id, part: own, parent: Some(part.clone()) };
            at.span(slot_body(run, slot, when))
        }));
    }
    Ok(spans)
}

fn run_body(run: &Run, when: Stretch) -> SpanBody {
    let plan = &run.header.plan;
    let ending = run.ending.map_or("none", Ending::word);
    let mut attributes = vec![
        text("plumb.title", &plan.title),
        text("plumb.ending", ending),
        integer("plumb.seed", plan.seed),
        flag("plumb.quick", plan.quick),
    ];
    let facts = run.header.host.iter();
    attributes.extend(facts.map(|(name, value)| text(&format!("plumb.host.{name}"), value)));
    let failure = (run.ending == Some(Ending::Failed)).then(|| "the harness failed".to_owned());
    SpanBody { name: format!("run {}", plan.name), when, attributes, events: Vec::new(), failure }
}

fn cell_body(run: &Run, cell: usize, when: Stretch) -> SpanBody {
    let planned = run.header.plan.cells.get(cell);
    let mut attributes = vec![integer("plumb.cell", cell as u64)];
    let values = planned.into_iter().flat_map(|planned| &planned.values);
    attributes.extend(values.map(|(key, value)| text(&format!("plumb.matrix.{key}"), value)));
    SpanBody { name: "cell".to_owned(), when, attributes, events: Vec::new(), failure: None }
}

fn block_body(cell: usize, block: u32, when: Stretch) -> SpanBody {
    let attributes = vec![integer("plumb.cell", cell as u64), integer("plumb.block", block)];
    SpanBody { name: "block".to_owned(), when, attributes, events: Vec::new(), failure: None }
}

fn slot_body(run: &Run, slot: &Slot, when: Stretch) -> SpanBody {
    let mut attributes = vec![
        text("plumb.variant", &slot.variant),
        integer("plumb.cell", slot.cell as u64),
        integer("plumb.block", slot.block),
        integer("plumb.position", slot.position),
        integer("plumb.attempt", slot.retried.len() as u64 + 1),
    ];
    attributes.extend(number("plumb.took_s", slot.took_s));
    let mut events: Vec<Value> = slot
        .retried
        .iter()
        .map(|reason| event("attempt discarded", when.from_ns, &[("reason", reason)]))
        .collect();
    let mut failure = None;
    match &slot.outcome {
        SlotOutcome::Measured(result) => {
            attributes.extend(result_attributes(run, result));
            let unproven = result.evidence.iter().filter(|evidence| !evidence.holds);
            events.extend(unproven.map(|evidence| {
                let about = [
                    ("what", evidence.what.as_str()),
                    ("expected", evidence.expected.as_str()),
                    ("observed", evidence.observed.as_str()),
                ];
                event("evidence missing", when.to_ns, &about)
            }));
        }
        SlotOutcome::Failed { reason, cause } => {
            let about = [("reason", reason.as_str()), ("cause", cause_word(*cause))];
            events.push(event("slot failed", when.to_ns, &about));
            failure = Some(reason.clone());
        }
    }
    SpanBody { name: format!("slot {}", slot.variant), when, attributes, events, failure }
}

/// The attributes of a measured slot: its metrics, whether the load was the limit, and the host's noise.
fn result_attributes(run: &Run, result: &SlotResult) -> Attributes {
    let health = &result.measurement.health;
    let mut attributes = vec![
        integer("plumb.work", result.measurement.work),
        flag("plumb.load_bound", health.is_load_bound()),
    ];
    let noise = &result.noise;
    attributes.extend(number("plumb.noise.steal", noise.steal));
    attributes.extend(number("plumb.noise.softirq", noise.softirq));
    attributes.extend(number("plumb.noise.others", noise.others));
    attributes.extend(noise.pressure_cpu.and_then(|share| number("plumb.noise.pressure_cpu", share)));
    for metric in &run.header.plan.metrics {
        let Some(reading) = result.measurement.readings.get(&metric.name) else { continue };
        let is_wanted = |statistic: &Option<Statistic>| {
            metric.kind != MetricKind::Trend || statistic.is_some_and(|it| OF_SPAN.contains(&it))
        };
        let wanted = figures(reading, metric.unit).into_iter().filter(|(statistic, _)| is_wanted(statistic));
        attributes.extend(wanted.filter_map(|(statistic, value)| {
            number(&format!("plumb.metric.{}", metric_key(&metric.name, statistic)), value)
        }));
    }
    attributes
}

fn event(name: &str, at_ns: u64, about: &[(&str, &str)]) -> Value {
    let attributes: Attributes =
        about.iter().map(|(key, value)| text(&format!("plumb.{key}"), value)).collect();
    json!({ "timeUnixNano": at_ns.to_string(), "name": name, "attributes": attributes })
}
