//! The metrics of the `command` data path: those of every command, and those that settings declare.

use plumb_model::quantity::{Dimension, Quantity, QuantityError};
use plumb_model::{Better, Metric, MetricInfo, MetricKind, Unit, metric};

use crate::settings::{CommandSettings, MetricSettings};

/// The time of a run.
pub const WALL_TIME: Metric = Metric {
    name: "wall_time",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    kind: MetricKind::Trend,
    about: "time of a run, from right before the program is started until the kernel reports its end",
};

/// How much that varies.
pub const WALL_TIME_SD: Metric = Metric {
    name: "wall_time_sd",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "standard deviation of the times of a slot's runs",
};

/// User CPU time of a run.
pub const USER_TIME: Metric = Metric {
    name: "user_time",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    kind: MetricKind::Trend,
    about: "user CPU time of a run, with every descendant that was waited for; most kernels estimate the division from system time",
};

/// System CPU time of a run.
pub const SYSTEM_TIME: Metric = Metric {
    name: "system_time",
    about: "system CPU time of a run, with every descendant that was waited for",
    ..USER_TIME
};

/// The memory of a run.
pub const MEMORY_MAX: Metric = Metric {
    name: "memory_max",
    unit: Unit::Bytes,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "most memory that one process of a run held at a time, as the mean of a slot's runs; absent where it is below that of \
            the process that starts the runs",
};

/// Context switches of a run.
pub const CONTEXT_SWITCHES: Metric = Metric {
    name: "context_switches",
    unit: Unit::Count,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "context switches of a run, voluntary or not, as the mean of a slot's runs",
};

/// Page faults of a run.
pub const PAGE_FAULTS: Metric = Metric {
    name: "page_faults",
    about: "page faults of a run, with or without a read from a disk, as the mean of a slot's runs",
    ..CONTEXT_SWITCHES
};

/// Page faults of a run that read a disk.
pub const MAJOR_PAGE_FAULTS: Metric = Metric {
    name: "major_page_faults",
    about: "page faults of a run that waited for a read from a disk, as the mean of a slot's runs; above 0 where the page cache lacks \
            what the run maps, such as its program, or where its memory was swapped out",
    ..CONTEXT_SWITCHES
};

/// CPU time of a run.
pub const CPU_LOAD: Metric = Metric {
    about: "CPU time of a run, user and system together, with every descendant that was waited for",
    ..metric::CPU_LOAD
};

/// CPU time of the system for each run.
pub const CPU_SYSTEM: Metric = Metric {
    about: "CPU time of the system that `system.start` started, for each run; absent without one",
    ..metric::CPU_SYSTEM
};

/// Those of every command.
pub const METRICS: &[Metric] = &[
    WALL_TIME,
    WALL_TIME_SD,
    USER_TIME,
    SYSTEM_TIME,
    MEMORY_MAX,
    CONTEXT_SWITCHES,
    PAGE_FAULTS,
    MAJOR_PAGE_FAULTS,
    CPU_LOAD,
    CPU_SYSTEM,
];

/// Those that settings declare.
pub(crate) fn declared(settings: &CommandSettings) -> Vec<MetricInfo> {
    let info = |(name, metric): (&String, &MetricSettings)| {
        let (unit, _) = unit_of(metric).ok()?;
        Some(MetricInfo {
            name: name.clone(),
            unit,
            better: metric.better,
            kind: MetricKind::Gauge,
            about: format!("what each run says of it in {}, as the mean of a slot's runs", metric.from),
        })
    };
    settings.load.metrics.iter().filter_map(info).collect()
}

/// Why no metric has a unit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnitError {
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error("`{_0}` is a rate per capacity, which no metric has")]
    PerCapacity(String),
}

/// The unit in which a metric's values are kept, and how many of it one of the written unit is.
pub(crate) fn unit_of(metric: &MetricSettings) -> Result<(Unit, f64), UnitError> {
    let text = match metric.unit.as_deref() {
        None | Some("count") => return Ok((Unit::Count, 1.0)),
        Some("share") => return Ok((Unit::Share, 1.0)),
        Some(text) => text,
    };
    let one = Quantity::parse(&format!("1 {text}"))?;
    let unit = match (one.dimension, text) {
        (Dimension::Time, "s") => Unit::Seconds,
        (Dimension::Time, "us" | "µs") => Unit::Microseconds,
        (Dimension::Time, _) => Unit::Milliseconds,
        (Dimension::Data, _) => Unit::Bytes,
        (Dimension::DataRate, _) => Unit::BytesPerSecond,
        (Dimension::EventRate, _) => Unit::PerSecond,
        (Dimension::Share, _) => Unit::Share,
        (Dimension::Count, _) => Unit::Count,
        (Dimension::EventRatePerData, _) => {
            return Err(UnitError::PerCapacity(text.to_owned()));
        }
    };
    Ok((unit, one.value * unit.per_base()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_in_the_units_of_metrics() {
        let unit = |text: &str| {
            let unit = Some(text.to_owned()).filter(|text| !text.is_empty());
            let (from, better) = ("stdout".to_owned(), Better::Lower);
            unit_of(&MetricSettings {
                from,
                regex: None,
                pointer: None,
                format: None,
                value: None,
                unit,
                better,
            })
        };
        for (text, kept, factor) in [
            ("", Unit::Count, 1.0),
            ("1/s", Unit::PerSecond, 1.0),
            ("ms", Unit::Milliseconds, 1.0),
            ("us", Unit::Microseconds, 1.0),
            ("s", Unit::Seconds, 1.0),
            ("min", Unit::Milliseconds, 60_000.0),
            ("MB/s", Unit::BytesPerSecond, 1e6),
            ("KiB", Unit::Bytes, 1024.0),
            ("%", Unit::Share, 0.01),
            ("IOPS", Unit::PerSecond, 1.0),
        ] {
            let (found, of_one) = unit(text).unwrap();
            assert_eq!(found, kept, "{text}");
            assert!((of_one / factor - 1.0).abs() < 1e-12, "{text}: {of_one}");
        }
        assert!(unit("parsec").unwrap_err().to_string().contains("is not a unit"));
        assert!(unit("IOPS/GB").is_err());
    }
}
