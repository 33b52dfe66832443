//! Made-up runs in memory, for tests of the history here and through the command.

use std::collections::BTreeMap;

use plumb_model::{
    Blocks, Cell, Ending, Evidence, Header, Histogram, Measurement, MetricInfo, MetricKind, Plan,
    PlannedVariant, Question, Reading, Run, Slot, SlotOutcome, SlotResult, SplitMix, Unit, Variant,
};

/// The variants: `b` does twice the work of `a`.
const VARIANTS: [(&str, f64); 2] = [("a", 1000.0), ("b", 2000.0)];
const BLOCKS: u32 = 6;

/// Run `number` of an experiment, an hour after the run before it. `factor` multiplies the throughput of `b`.
pub fn run(experiment: &str, number: u32, factor: f64) -> Run {
    let mut slots = Vec::new();
    for block in 0..BLOCKS {
        for (position, at) in [0, 1, 1, 0].into_iter().enumerate() {
            let (name, level) = VARIANTS[at];
            let factor = if at == 1 { factor } else { 1.0 };
            // Different in every slot, and the same in every test.
            let drawn = SplitMix::mix(&[u64::from(number), u64::from(block), position as u64]);
            let wobble = drawn as f64 / u64::MAX as f64 - 0.5;
            slots.push(slot(block, position as u32, name, level * factor * (1.0 + 0.02 * wobble)));
        }
    }
    Run {
        directory: format!("plumb-runs/{experiment}-{number}"),
        header: header(experiment, number),
        experiment_text: "kind: Experiment\n".to_owned(),
        slots,
        ending: Some(Ending::Complete),
        took_s: Some(12.5),
    }
}

fn header(experiment: &str, number: u32) -> Header {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Header {
        program_version: "0.1.0".to_owned(),
        build: Some("1f".to_owned()),
        started_at: started_at(number),
        plan: plan(experiment, number),
        host: vec![fact("cpu", "EPYC 7763"), fact("kernel", "6.1.0-18-amd64")],
        system_cpus: "0".to_owned(),
        load_cpus: "1".to_owned(),
        places: None,
        source: None,
        labels: BTreeMap::new(),
    }
}

/// `number` hours after the start of 2026, in months of 28 days.
fn started_at(number: u32) -> String {
    let (day, hour) = (number / 24, number % 24);
    let (month, day) = (day / 28, day % 28);
    format!("{:04}-{:02}-{:02}T{hour:02}:00:00.000Z", 2026 + month / 12, month % 12 + 1, day + 1)
}

fn plan(experiment: &str, number: u32) -> Plan {
    let planned = |variant: usize| PlannedVariant::new(variant, r#"{"a":1}"#.to_owned());
    let metric = |name: &str, unit, better, kind| MetricInfo {
        name: name.to_owned(),
        unit,
        better,
        kind,
        about: String::new(),
    };
    let metrics = vec![
        metric("throughput", Unit::PerSecond, plumb_model::Better::Higher, MetricKind::Rate),
        metric("latency", Unit::Milliseconds, plumb_model::Better::Lower, MetricKind::Trend),
    ];
    let names: Vec<String> = VARIANTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let scope = plumb_model::claim::Scope { variants: &names, metrics: &metrics };
    Plan {
        title: format!("Is b faster in {experiment}?"),
        cells: vec![Cell { values: BTreeMap::new(), variants: vec![planned(0), planned(1)] }],
        blocks: Blocks { min: BLOCKS, max: BLOCKS },
        claims: vec![scope.read_claim("b.throughput >= 1.5 * a.throughput").unwrap()],
        metrics: metrics.clone(),
        seed: u64::from(number),
        synthetic: true,
        questions: Question::of_old_runs(),
        ..Plan::new(experiment, "null", VARIANTS.iter().map(|(name, _)| Variant::new(name)).collect())
    }
}

fn slot(block: u32, position: u32, variant: &str, throughput: f64) -> Slot {
    let mut latency = Histogram::new();
    for at in 1..=100_u64 {
        latency.record(at * 1_000_000_000 / throughput as u64);
    }
    let readings = BTreeMap::from([
        ("throughput".to_owned(), Reading::Rate { value: throughput, count: throughput as u64 }),
        ("latency".to_owned(), Reading::Trend(latency.packed())),
    ]);
    let (what, expected) = ("operations of the treatment".to_owned(), "more than 0".to_owned());
    let result = SlotResult {
        measurement: Measurement {
            window_ns: 1_000_000_000,
            work: throughput as u64,
            readings,
            ..Measurement::default()
        },
        evidence: vec![Evidence {
            what,
            expected,
            observed: "1".to_owned(),
            holds: true,
            ..Evidence::default()
        }],
        ..SlotResult::default()
    };
    Slot {
        cell: 0,
        block,
        position,
        variant: variant.to_owned(),
        started_at: "2026-01-01T00:00:00Z".to_owned(),
        offset_s: f64::from(4 * block + position),
        took_s: 1.0,
        retried: Vec::new(),
        outcome: SlotOutcome::Measured(Box::new(result)),
    }
}
