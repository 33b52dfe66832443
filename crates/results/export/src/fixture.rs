//! A small run with everything that an export has to show: two cells, a failed slot, a slot that was measured
//! again, a distribution, evidence, and claims. A second version of the run has texts that try to break out
//! of their surroundings.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use plumb_model::claim::Scope;
use plumb_model::{
    Better, Cell, Comparison, Ending, Evidence, FailureCause, Header, Histogram, Judgement, LoadHealth,
    Measurement, MetricInfo, MetricKind, Noise, Plan, PlannedVariant, Reading, Run, Slot, SlotOutcome,
    SlotResult, Unit, Variant,
};

fn metric(name: &str, unit: Unit, better: Better, kind: MetricKind, about: &str) -> MetricInfo {
    MetricInfo { name: name.to_owned(), unit, better, kind, about: about.to_owned() }
}

fn metrics() -> Vec<MetricInfo> {
    vec![
        metric(
            "http_reqs",
            Unit::PerSecond,
            Better::Higher,
            MetricKind::Rate,
            "requests answered per second",
        ),
        metric(
            "http_req_duration",
            Unit::Milliseconds,
            Better::Lower,
            MetricKind::Trend,
            "from sending the request to the last byte of the answer",
        ),
        metric(
            "http_req_failed",
            Unit::Share,
            Better::Lower,
            MetricKind::Share,
            "requests without a good answer",
        ),
        metric(
            "cpu_system",
            Unit::Microseconds,
            Better::Lower,
            MetricKind::Gauge,
            "CPU time of the system per request",
        ),
        metric("never_read", Unit::Bytes, Better::Neither, MetricKind::Gauge, "what no slot has"),
    ]
}

fn plan() -> Plan {
    let variant = |name: &str, treatment: &str| Variant {
        name: name.to_owned(),
        treatment: treatment.to_owned(),
        control: false,
    };
    let variants = vec![variant("software", ""), variant("threads", "ingress.offload: threads")];
    let planned = |variant| PlannedVariant::new(variant, "{}".to_owned());
    let cell = |connections: &str| Cell {
        values: BTreeMap::from([("load.connections".to_owned(), connections.to_owned())]),
        variants: vec![planned(0), planned(1)],
    };
    let (names, metrics) = (["software".to_owned(), "threads".to_owned()], metrics());
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims = [
        "threads.http_reqs >= 1.2 * software.http_reqs",
        "threads.http_req_duration.p99.9 < software.http_req_duration.p99.9",
    ];
    let claims = claims.map(|text| scope.read_claim(text).unwrap()).to_vec();
    Plan {
        title: "Does offloading help?".to_owned(),
        cells: vec![cell("20"), cell("50")],
        claims,
        metrics,
        seed: 7,
        units: "requests".to_owned(),
        window_ns: 2_000_000_000,
        warmup_ns: 500_000_000,
        ..Plan::new("tls-offload", "http", variants)
    }
}

fn measured(reqs_per_s: f64, duration_ms: u64) -> SlotOutcome {
    let mut durations = Histogram::new();
    durations.record_many(duration_ms * 1_000_000, 1000);
    let readings = BTreeMap::from([
        ("http_reqs".to_owned(), Reading::Rate { value: reqs_per_s, count: 2 * reqs_per_s as u64 }),
        ("http_req_duration".to_owned(), Reading::Trend(durations.packed())),
        ("http_req_failed".to_owned(), Reading::Share { yes: 1, no: 3 }),
        ("cpu_system".to_owned(), Reading::Gauge(12.5)),
    ]);
    let measurement = Measurement {
        window_ns: 2_000_000_000,
        work: 2 * reqs_per_s as u64,
        readings,
        health: LoadHealth { busiest_thread: 0.42, threads: 1, ..LoadHealth::default() },
        ..Measurement::default()
    };
    let evidence = Evidence {
        what: "full handshakes per request".to_owned(),
        expected: "1.00".to_owned(),
        observed: "1.00".to_owned(),
        holds: true,
        ..Evidence::default()
    };
    let noise =
        Noise { steal: 0.002, softirq: 0.01, pressure_cpu: Some(0.05), others: 0.03, ..Noise::default() };
    SlotOutcome::Measured(Box::new(SlotResult {
        measurement,
        evidence: vec![evidence],
        noise,
        ..SlotResult::default()
    }))
}

fn slot(cell: usize, position: u32, variant: &str, outcome: SlotOutcome) -> Slot {
    let second = 3 + 3 * position + 20 * u32::try_from(cell).unwrap();
    Slot {
        cell,
        block: 0,
        position,
        variant: variant.to_owned(),
        started_at: format!("2026-03-01T12:00:{second:02}.250Z"),
        offset_s: f64::from(second) + 0.25,
        took_s: 2.75,
        retried: Vec::new(),
        outcome,
    }
}

static RUN: LazyLock<(Run, Judgement)> = LazyLock::new(made);

/// The run and its judgement.
pub(crate) fn run() -> (Run, Judgement) {
    RUN.clone()
}

fn made() -> (Run, Judgement) {
    let reason = "the server said \"no\",\nthen ended".to_owned();
    let failed = SlotOutcome::Failed { reason, cause: FailureCause::System };
    let mut slots = vec![
        slot(0, 0, "software", measured(1000.0, 8)),
        slot(0, 1, "threads", measured(2000.0, 4)),
        slot(0, 2, "threads", failed),
        slot(0, 3, "software", measured(1020.0, 9)),
        slot(1, 0, "threads", measured(500.0, 5)),
    ];
    slots[3].retried = vec!["the load's agent was killed by signal 9".to_owned()];
    let header = Header {
        program_version: "0.1.0".to_owned(),
        build: None,
        started_at: "2026-03-01T12:00:00.000Z".to_owned(),
        plan: plan(),
        host: vec![("cpu".to_owned(), "a fast one".to_owned())],
        system_cpus: "0".to_owned(),
        load_cpus: "1".to_owned(),
        places: None,
        source: None,
        labels: BTreeMap::new(),
    };
    let run = Run {
        directory: "runs/a".to_owned(),
        header,
        experiment_text: "kind: Experiment\n".to_owned(),
        slots,
        ending: Some(Ending::Complete),
        took_s: Some(30.5),
    };
    // One block gives no interval, so these comparisons are made up as if of six blocks.
    let comparisons = vec![
        comparison("http_reqs", 1.9, 0.0, None),
        comparison("http_req_duration.p95", 0.5, 0.4, Some(0.6)),
    ];
    let judgement = Judgement { comparisons, ..plumb_judge::judge(&run.header.plan, &run.slots) };
    (run, judgement)
}

fn comparison(metric: &str, ratio: f64, low: f64, high: Option<f64>) -> Comparison {
    let metric = metric.to_owned();
    let (cell, variant, blocks, missing) = (0, 1, 6, 0);
    Comparison {
        cell,
        metric,
        variant,
        ratio,
        low,
        high,
        alpha: 0.05,
        blocks,
        missing,
        autocorrelation: None,
    }
}

/// A text that tries to break out of a label, a field or a string.
pub(crate) const EVIL: &str = "a\"b\\c\nd}e,{f=\"\u{1b}[31m\u{202e}\r=1";

/// The run with [`EVIL`] in texts that come from outside.
pub(crate) fn hostile() -> (Run, Judgement) {
    let (mut run, _) = run();
    let plan = &mut run.header.plan;
    plan.name = EVIL.to_owned();
    plan.path = EVIL.to_owned();
    plan.claims[0].text = EVIL.to_owned();
    plan.variants[1].name = EVIL.to_owned();
    plan.metrics[0].about = EVIL.to_owned();
    for (number, cell) in plan.cells.iter_mut().enumerate() {
        cell.values = BTreeMap::from([(EVIL.to_owned(), format!("{EVIL}{number}"))]);
    }
    run.header.program_version = EVIL.to_owned();
    for slot in run.slots.iter_mut().filter(|slot| slot.variant == "threads") {
        slot.variant = EVIL.to_owned();
        slot.retried.push(EVIL.to_owned());
    }
    let judgement = plumb_judge::judge(&run.header.plan, &run.slots);
    (run, judgement)
}
