//! The evidence that a slot measured what it was asked to: the storage and not the page cache, at the depth that was asked
//! for.

mod seen;
pub mod volume;

use plumb_model::{Evidence, Measurement, Reading, facts, statements};
use plumb_path::{SeenWindow, tool};

use self::seen::seen;
use crate::settings::{Driver, StorageSettings, Suite, SystemKind};
use crate::{metrics, system};

/// The share of the asked depth that has to be in flight on the mean.
pub const DEPTH_SHARE: f64 = 0.9;

statements! {
    DIRECT = "direct-io": "direct I/O", "{asked}", "{seen}";
    ENGINE = "io-engine": "engine", "{asked}, or what stands in for it", "{seen}";
    DEPTH = "io-depth": "reads and writes in flight",
        "at least {least:.1} of {asked:.0} on average (where the storage takes no more, lower `load.depth`)", "{achieved:.1}";
}

/// The kind of the statement on the depth that was reached.
pub const IO_DEPTH: &str = DEPTH.kind;

/// Proof, from counters before and after the window, that a slot did what was asked.
pub fn evidence(
    settings: &StorageSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let SeenWindow { before, after, .. } = seen;
    let mut evidence: Vec<Evidence> = driver(settings, measurement).into_iter().collect();
    // A job file and dbench's script say these themselves, and the words of a job file are recorded with the driver's options.
    let is_by_settings = settings.load.job.is_none() && settings.load.driver != Driver::Dbench;
    if is_by_settings {
        evidence.extend([direct(settings, measurement), engine(settings, measurement)]);
    }
    if let Some(array) = &settings.system.ontap {
        evidence.push(system::ontap::evidence(array, before, after));
    }
    // At a fixed rate the depth is what the storage makes of it.
    if settings.load.is_closed_loop() && is_by_settings && settings.load.suite == Suite::None {
        evidence.push(depth(settings, measurement));
    }
    if settings.system.kind == SystemKind::Volumes {
        evidence.extend(volume::evidence(settings, (before, after), measurement));
    }
    evidence
}

/// Proof that the system is as its settings say, whatever the load is.
pub fn of_system(
    settings: &StorageSettings,
    SeenWindow { before, after, .. }: SeenWindow<'_>,
) -> Vec<Evidence> {
    match settings.system.kind {
        SystemKind::Volumes => volume::limits(&settings.system.volume, before, after),
        _ => Vec::new(),
    }
}

fn driver(settings: &StorageSettings, measurement: &Measurement) -> Option<Evidence> {
    let program = settings.load.driver.program()?;
    // bash runs dbench's script.
    let word = if settings.load.driver == Driver::Dbench { "bash" } else { program };
    tool::evidence(measurement, program, word)
}

fn direct(settings: &StorageSettings, measurement: &Measurement) -> Evidence {
    let seen = seen(measurement, "direct");
    // A server may cache where plumb cannot see it; only a cache that was seen refutes direct I/O.
    let holds = !settings.load.direct || seen != "no";
    DIRECT.evidence(holds, facts![asked = if settings.load.direct { "yes" } else { "no" }, seen])
}

fn engine(settings: &StorageSettings, measurement: &Measurement) -> Evidence {
    // Another one measures the same storage; that it was another one is said, and costs other CPU time.
    let holds = true;
    ENGINE.evidence(holds, facts![asked = settings.load.engine.name(), seen = seen(measurement, "engine")])
}

fn depth(settings: &StorageSettings, measurement: &Measurement) -> Evidence {
    let asked = f64::from(settings.load.depth) * f64::from(settings.load.jobs);
    let achieved = match measurement.readings.get(metrics::ACHIEVED_DEPTH.name) {
        Some(Reading::Gauge(achieved)) => *achieved,
        _ => 0.0,
    };
    let least = asked * DEPTH_SHARE;
    DEPTH.evidence(achieved >= least, facts![least, asked, achieved])
}
