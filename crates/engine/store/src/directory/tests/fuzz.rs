//! Run directories that are nearly right. A run that is read is written again, and read back as the same run.
//!
//! An input is the files of a directory, one after the other with a byte of 0 between them.

use std::collections::BTreeMap;

use plumb_fuzz::Target;
use plumb_model::{
    Claim, CpuCost, Evidence, MetricInfo, MetricKind, Noise, Notice, Operand, Relation, Share, Statistic,
    Term,
};

use super::*;

/// The files of an input, in this order.
const FILES: [&str; 4] = [RUN, SLOTS, END, EXPERIMENT];
/// Writing a run again takes longer than reading it.
const WRITTEN_SLOTS_MAX: usize = 8;

fn measurement() -> Measurement {
    let mut histogram = Histogram::new();
    [1_000, 1_000, 2_500, 70_000, 9_000_000].into_iter().for_each(|ns| histogram.record(ns));
    let readings = [
        ("rate", Reading::Rate { value: 1234.567, count: 9 }),
        ("count", Reading::Count(1 << 52)),
        ("share", Reading::Share { yes: 3, no: 4 }),
        ("time", Reading::Trend(histogram)),
        (
            "summary",
            Reading::Summary { count: Some(7), statistics_ns: BTreeMap::from([(Statistic::Avg, 0.1)]) },
        ),
        ("gauge", Reading::Gauge(-0.3)),
    ];
    Measurement {
        window_ns: 1_000_000_000,
        work: 9,
        readings: readings.map(|(name, reading)| (name.to_owned(), reading)).into(),
        windows: [("rate".to_owned(), vec![1.5, 2.5])].into(),
        shares: vec![Share { work: 9, work_per_s: 8.9, ..Share::default() }; 2],
        notices: vec![Notice::text("it was slow")],
        ..Measurement::default()
    }
}

fn measured() -> Slot {
    let text = |text: &str| text.to_owned();
    let evidence = Evidence {
        kind: text("tls-version"),
        of: Some(text("load")),
        host: Some(text("client1")),
        what: text("tls"),
        expected: text("1.2"),
        observed: text("1.2"),
        holds: true,
        of_slot: true,
        figures: [(text("handshakes"), 12.0)].into(),
    };
    let components = [(text("ingress"), 12)].into();
    let result = SlotResult {
        measurement: measurement(),
        evidence: vec![evidence],
        system_cpu: CpuCost { user_ns: 5, system_ns: 7, components },
        workers: vec![12, 7],
        worker_cpu_ns: vec![9, 5],
        noise: Noise { others: 0.01, pressure_cpu: Some(0.3), ..Noise::default() },
        ..SlotResult::default()
    };
    Slot { outcome: SlotOutcome::Measured(Box::new(result)), ..slot(0) }
}

/// The header of a plan with two variants and a claim.
fn claiming() -> Header {
    let term =
        |variant: &str| Term { variant: variant.to_owned(), metric: "rate".to_owned(), statistic: None };
    let claim = Claim {
        text: "b.rate >= 1.2 * a.rate".to_owned(),
        left: term("b"),
        relation: Relation::AtLeast,
        right: Operand::Term { factor: 1.2, term: term("a") },
        note: None,
    };
    let rate = MetricInfo {
        name: "rate".to_owned(),
        unit: plumb_model::Unit::PerSecond,
        better: plumb_model::Better::Higher,
        kind: MetricKind::Rate,
        about: "units of work per second".to_owned(),
    };
    let mut header = header();
    header.plan = Plan::new("x", "null", vec![Variant::new("a"), Variant::new("b")]);
    header.plan.claims = vec![claim];
    header.plan.metrics = vec![rate];
    header
}

fn directories() -> Vec<Vec<u8>> {
    let header = |header: Header| {
        let record = HeaderRecord { format: FORMAT.to_owned(), experiment: Some("a: b".to_owned()), header };
        serde_json::to_string(&record).unwrap()
    };
    let line = |slot: Slot| serde_json::to_string(&SlotRecord { slot }).unwrap() + "\n";
    let slots = [measured(), slot(1), measured()].map(line).concat();
    let end = serde_json::to_string(&EndRecord { ending: Ending::Complete, took_s: 12.3 }).unwrap();
    let files = |head: Header| [header(head), slots.clone(), end.clone(), "a: b".to_owned()].join("\0");
    vec![files(super::header()).into_bytes(), files(claiming()).into_bytes()]
}

/// Writes a run's files as its writer does.
fn write_again(path: &Path, run: &Run) {
    let mut directory = RunDirectory::create(path, &run.header, &run.experiment_text).unwrap();
    run.slots.iter().for_each(|slot| directory.append(slot).unwrap());
    if let (Some(ending), Some(took_s)) = (run.ending, run.took_s) {
        directory.finish(ending, took_s).unwrap();
    }
}

#[test]
fn fuzz_run_directories() {
    // In memory, so that syncing costs nothing.
    let temporary = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let (given, again) = (temporary.path().join("given"), temporary.path().join("again"));
    fs::create_dir(&given).unwrap();
    Target::new("fuzz_run_directories").seeds(directories()).run(|bytes| {
        let mut contents = bytes.splitn(FILES.len(), |byte| *byte == 0);
        for name in FILES {
            match contents.next() {
                Some(content) => fs::write(given.join(name), content).unwrap(),
                None => drop(fs::remove_file(given.join(name))),
            }
        }
        let run = match read_run(&given) {
            Ok(run) => run,
            Err(error) => {
                let text = error.to_string();
                return text.chars().filter(char::is_ascii_lowercase).take(80).collect();
            }
        };
        let (plan, whole) = (&run.header.plan, run.slots.len());
        if whole <= WRITTEN_SLOTS_MAX {
            let _ = fs::remove_dir_all(&again);
            write_again(&again, &run);
            let mut same = read_run(&again).unwrap();
            same.directory.clone_from(&run.directory);
            assert_eq!(same, run, "what is written is read back");
        }
        format!(
            "{} variants, {} claims, {whole} slots, {:?}",
            plan.variants.len(),
            plan.claims.len(),
            run.ending
        )
    });
}
