//! Checks requests against a collector's requirements.

use std::collections::BTreeMap;

use plumb_model::SlotOutcome;

use super::*;
use crate::fixture;

fn parsed(bodies: Vec<String>) -> Vec<Value> {
    bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
}

fn spans(run: &Run) -> Vec<Value> {
    let bodies = parsed(traces(&[run]).unwrap());
    let of = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    bodies.iter().flat_map(of).collect()
}

fn ns(span: &Value, key: &str) -> u64 {
    span[key].as_str().expect("64-bit integers are texts").parse().unwrap()
}

#[test]
fn the_trace_of_a_small_run() {
    let (run, _) = fixture::run();
    let body: Value = serde_json::from_str(&traces(&[&run]).unwrap()[0]).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
}

#[test]
fn the_metrics_of_a_small_run() {
    let (run, judgement) = fixture::run();
    let body: Value = serde_json::from_str(&metrics(&[(&run, &judgement)]).unwrap()[0]).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap());
}

#[test]
fn every_span_has_its_identifiers_and_lies_within_its_parent() {
    let (run, _) = fixture::run();
    let spans = spans(&run);
    assert_eq!(spans.len(), 1 + 2 + 2 + 5, "the run, two cells, a block of each, five slots");
    let is_hex = |text: &str, length| text.len() == length && text.chars().all(|c| c.is_ascii_hexdigit());
    let by_id: BTreeMap<&str, &Value> = spans.iter().map(|it| (it["spanId"].as_str().unwrap(), it)).collect();
    assert_eq!(by_id.len(), spans.len(), "no two spans share an identifier");
    let mut roots = 0;
    for span in &spans {
        assert!(
            is_hex(span["traceId"].as_str().unwrap(), 32) && is_hex(span["spanId"].as_str().unwrap(), 16)
        );
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert!(ns(span, "startTimeUnixNano") <= ns(span, "endTimeUnixNano"));
        match span["parentSpanId"].as_str().unwrap() {
            "" => roots += 1,
            parent => {
                let parent = by_id[parent];
                assert!(ns(parent, "startTimeUnixNano") <= ns(span, "startTimeUnixNano"));
                assert!(ns(span, "endTimeUnixNano") <= ns(parent, "endTimeUnixNano"));
            }
        }
    }
    assert_eq!(roots, 1);
}

#[test]
fn a_slot_has_the_times_that_were_recorded() {
    let (run, _) = fixture::run();
    let spans = spans(&run);
    let slots: Vec<&Value> =
        spans.iter().filter(|span| span["name"].as_str().unwrap().starts_with("slot ")).collect();
    let opened_ns = 1_772_366_403_250_000_000;
    let times = |span: &Value| (ns(span, "startTimeUnixNano"), ns(span, "endTimeUnixNano"));
    assert_eq!(times(slots[0]), (opened_ns, opened_ns + 2_000_000_000), "a measured one has its window");
    let failed_ns = opened_ns + 6_000_000_000;
    assert_eq!(times(slots[2]), (failed_ns - 2_750_000_000, failed_ns), "a failed one has all of itself");
    assert_eq!(slots[2]["status"]["code"], 2);
    assert_eq!(slots[2]["events"][0]["name"], "slot failed");
    assert_eq!(slots[3]["events"][0]["name"], "attempt discarded");
    assert_eq!(times(&spans[0]).1, 1_772_366_430_500_000_000, "the run ended 30.5 s after its start");
}

#[test]
fn evidence_that_is_missing_is_an_event() {
    let (mut run, _) = fixture::run();
    let SlotOutcome::Measured(result) = &mut run.slots[0].outcome else { panic!("it failed") };
    result.evidence[0].holds = false;
    let spans = spans(&run);
    let events: Vec<&Value> = spans.iter().flat_map(|span| span["events"].as_array().unwrap()).collect();
    assert!(events.iter().any(|event| event["name"] == "evidence missing"), "{events:?}");
}

#[test]
fn a_run_that_goes_on_keeps_the_identifiers_of_its_spans() {
    let (whole, _) = fixture::run();
    let mut part = whole.clone();
    part.slots.truncate(2);
    (part.ending, part.took_s) = (None, None);
    let ids = |run: &Run| {
        spans(run).iter().map(|span| span["spanId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ids(&whole);
    assert!(ids(&part).iter().all(|id| all.contains(id)));
    let first = spans(&part);
    assert_eq!(
        ns(&first[0], "endTimeUnixNano"),
        ns(&first[4], "endTimeUnixNano"),
        "it reaches to its last slot"
    );
}

#[test]
fn large_runs_are_sent_in_parts() {
    let (mut run, judgement) = fixture::run();
    let slot = run.slots[0].clone();
    let more = (1..=1200_u32).map(|block| plumb_model::Slot { block, ..slot.clone() });
    run.slots.extend(more);
    let bodies = parsed(traces(&[&run]).unwrap());
    let lengths: Vec<usize> = bodies
        .iter()
        .map(|body| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len())
        .collect();
    assert_eq!(lengths, [1000, 1000, 410]);
    let points = points::points(&run, &judgement).unwrap();
    let (one, rest) = points.split_at(3);
    let count = |points: &[points::GaugePoint]| -> usize {
        let metrics = points::metrics(points);
        metrics.iter().map(|it| it["gauge"]["dataPoints"].as_array().unwrap().len()).sum()
    };
    assert_eq!(count(one) + count(rest), points.len());
}

#[test]
fn a_time_that_is_none_is_an_error_that_names_it() {
    let (mut run, _) = fixture::run();
    run.slots[1].started_at = "yesterday".to_owned();
    let error = traces(&[&run]).unwrap_err().to_string();
    assert_eq!(
        error,
        "place the run in time: the time of slot 1 of block 0 of cell 0 is `yesterday` and not of the form \
         `2026-01-01T00:00:00Z`"
    );
}

#[test]
fn no_text_has_anything_that_a_terminal_would_obey() {
    let (run, judgement) = fixture::hostile();
    for body in [traces(&[&run]).unwrap(), metrics(&[(&run, &judgement)]).unwrap()].concat() {
        assert_eq!(body.chars().find(|c| *c == '\r' || plumb_model::is_unprintable(*c)), None);
        assert!(serde_json::from_str::<Value>(&body).unwrap().to_string().contains('\u{202e}'));
    }
}
