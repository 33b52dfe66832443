//! How a row compares with the best software device that had the same work.

use plumb_stats::{Effect, effect, log_ratio};

use super::found::{DeviceRow, RowWork};

/// The error rate of an interval. Each row is a separate question, so the rows do not share it.
const ALPHA: f64 = 0.05;

/// What a row is, compared with others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Compared<'a> {
    /// The row that others are compared with.
    Best,
    /// The ratio of operations per second, without an interval where there was one window only.
    Against { best: &'a DeviceRow, ratio: f64, interval: Option<Effect> },
    /// There is nothing to compare it with.
    Alone,
}

/// Compares one row of a table.
pub(super) fn compared<'a>(row: &'a DeviceRow, rows: &'a [DeviceRow]) -> Compared<'a> {
    let Some(best) = best_software(row, rows) else { return Compared::Alone };
    if std::ptr::eq(best, row) {
        return Compared::Best;
    }
    let ratio = rate(row) / rate(best);
    if !ratio.is_finite() {
        return Compared::Alone;
    }
    let interval = (row.rates_per_s.len() == best.rates_per_s.len()).then(|| by_round(best, row)).flatten();
    Compared::Against { best, ratio: interval.map_or(ratio, |interval| interval.ratio), interval }
}

/// The fastest software device with the same work; with the least in flight where none had as much, since that makes a
/// device without lanes neither faster nor slower.
fn best_software<'a>(row: &DeviceRow, rows: &'a [DeviceRow]) -> Option<&'a DeviceRow> {
    let software = || {
        let same = |other: &&DeviceRow| other.is_software && other.algorithm == row.algorithm;
        rows.iter().filter(same).filter(|other| rate(other) > 0.0)
    };
    let fastest = |wanted: RowWork| {
        let same_work = software().filter(|other| without_batch(other.work) == wanted);
        same_work.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    let least = || software().map(|other| without_batch(other.work)).min_by_key(in_flight).and_then(fastest);
    match row.work {
        RowWork::Blocks { .. } => fastest(row.work),
        RowWork::Keys { .. } => fastest(without_batch(row.work)).or_else(least),
    }
}

/// A device without lanes has no batches.
fn without_batch(work: RowWork) -> RowWork {
    match work {
        RowWork::Keys { in_flight, .. } => RowWork::Keys { batch: 1, in_flight },
        blocks @ RowWork::Blocks { .. } => blocks,
    }
}

fn in_flight(work: &RowWork) -> u32 {
    match work {
        RowWork::Keys { in_flight, .. } => *in_flight,
        RowWork::Blocks { .. } => 1,
    }
}

/// Operations per second of all windows together.
pub(super) fn rate(row: &DeviceRow) -> f64 {
    let seconds = row.total.window_ns as f64 / 1e9;
    match row.total.readings.get("ops") {
        Some(plumb_model::Reading::Rate { value, .. }) if value.is_finite() => *value,
        _ if seconds > 0.0 => row.total.work as f64 / seconds,
        _ => 0.0,
    }
}

/// The interval of the ratio; a round is a block of two windows of each.
fn by_round(best: &DeviceRow, row: &DeviceRow) -> Option<Effect> {
    let pairs = |row: &DeviceRow| row.rates_per_s.as_chunks::<2>().0.to_vec();
    let ds = pairs(best).into_iter().zip(pairs(row)).map(|(a, b)| log_ratio(a, b));
    let ds = ds.collect::<Result<Vec<f64>, _>>().ok()?;
    effect(&ds, ALPHA)
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    fn at<'a>(rows: &'a [DeviceRow], device: &str, in_flight: u32) -> &'a DeviceRow {
        let found = rows.iter().find(|row| {
            row.device == device
                && matches!(row.work, RowWork::Keys { in_flight: found, .. } if found == in_flight)
        });
        found.unwrap()
    }

    #[test]
    fn a_row_is_compared_with_the_best_software_that_had_as_much_in_flight() {
        let table = sample();
        let rows = &table.rows;
        assert_eq!(compared(at(rows, "software-openssl", 16), rows), Compared::Best);
        let Compared::Against { best, ratio, interval } = compared(at(rows, "multibuffer", 16), rows) else {
            panic!()
        };
        assert_eq!(
            (best.device.as_str(), best.work),
            ("software-openssl", RowWork::Keys { batch: 1, in_flight: 16 })
        );
        let interval = interval.unwrap();
        assert!(interval.low < ratio && ratio < interval.high && interval.blocks == 6, "{interval:?}");
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn one_window_has_a_ratio_and_no_interval() {
        let table = sample();
        let Compared::Against { best, interval: None, .. } =
            compared(at(&table.rows, "openssl-speed", 1), &table.rows)
        else {
            panic!()
        };
        assert!(best.is_software);
    }

    #[test]
    fn a_row_that_did_nothing_and_one_without_software_are_alone() {
        let mut rows = sample().rows;
        rows.retain(|row| !row.is_software);
        assert!(rows.iter().all(|row| compared(row, &rows) == Compared::Alone));
        let mut rows = sample().rows;
        for row in rows.iter_mut().filter(|row| row.is_software) {
            row.total = plumb_model::Measurement::default();
        }
        assert!(rows.iter().all(|row| compared(row, &rows) == Compared::Alone));
    }

    #[test]
    fn a_window_without_an_operation_leaves_no_interval() {
        let mut rows = sample().rows;
        let index = rows.iter().position(|row| row.device == "multibuffer").unwrap();
        rows[index].rates_per_s[3] = 0.0;
        assert!(matches!(compared(&rows[index], &rows), Compared::Against { interval: None, .. }));
    }

    #[test]
    fn where_no_software_had_as_much_in_flight_the_least_is_taken() {
        let mut rows = sample().rows;
        rows.retain(|row| !row.is_software || !matches!(row.work, RowWork::Keys { in_flight: 16, .. }));
        let Compared::Against { best, .. } = compared(at(&rows, "multibuffer", 16), &rows) else { panic!() };
        assert_eq!(best.work, RowWork::Keys { batch: 1, in_flight: 1 });
    }
}
