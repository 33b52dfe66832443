//! How a row compares with the best software device that had the same work.

use plumb_stats::{Effect, effect, log_ratio};

use super::document::{DeviceRatioDocument, DeviceRowDocument};

/// The error rate of an interval. Each row is a separate question, so the rows do not share it.
const ALPHA: f64 = 0.05;

/// Compares every row with the best software device for its work.
pub fn compare(rows: &mut [DeviceRowDocument]) {
    let found: Vec<_> = rows.iter().map(|row| compared(row, rows)).collect();
    for (row, (is_best, ratio)) in rows.iter_mut().zip(found) {
        (row.is_best, row.ratio) = (is_best, ratio);
    }
}

/// Whether a row is the best, and if not, its ratio to that one.
fn compared(row: &DeviceRowDocument, rows: &[DeviceRowDocument]) -> (bool, Option<DeviceRatioDocument>) {
    let Some(best) = best_software(row, rows) else { return (false, None) };
    let ratio = row.ops_per_s / best.ops_per_s;
    if std::ptr::eq(best, row) || !ratio.is_finite() {
        return (std::ptr::eq(best, row), None);
    }
    let has_pairs = row.windows_per_s.len() == best.windows_per_s.len();
    let interval = has_pairs.then(|| by_round(best, row)).flatten();
    let document = DeviceRatioDocument {
        against: best.device.clone(),
        against_in_flight: best.in_flight,
        value: interval.map_or(ratio, |interval| interval.ratio),
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high).filter(|high| high.is_finite()),
    };
    (false, Some(document))
}

/// The fastest software device with the same work; with the least in flight where none had as much, since that makes a
/// device without lanes neither faster nor slower.
fn best_software<'a>(
    row: &DeviceRowDocument,
    rows: &'a [DeviceRowDocument],
) -> Option<&'a DeviceRowDocument> {
    let software = || {
        let same = |other: &&DeviceRowDocument| other.is_software && other.algorithm == row.algorithm;
        rows.iter().filter(same).filter(|other| other.ops_per_s > 0.0)
    };
    let work = |row: &DeviceRowDocument| (row.in_flight, row.block_bytes);
    let fastest = |wanted| {
        let same_work = software().filter(|other| work(other) == wanted);
        same_work.max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s))
    };
    let least = || software().map(work).min().filter(|_| row.in_flight.is_some()).and_then(fastest);
    fastest(work(row)).or_else(least)
}

/// The interval of the ratio; a round is a block of two windows of each.
fn by_round(best: &DeviceRowDocument, row: &DeviceRowDocument) -> Option<Effect> {
    let pairs = |row: &DeviceRowDocument| row.windows_per_s.as_chunks::<2>().0.to_vec();
    let ds = pairs(best).into_iter().zip(pairs(row)).map(|(a, b)| log_ratio(a, b));
    let ds = ds.collect::<Result<Vec<f64>, _>>().ok()?;
    effect(&ds, ALPHA)
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    /// The row of a device with this many operations on keys in flight.
    fn at<'a>(rows: &'a [DeviceRowDocument], device: &str, in_flight: u32) -> &'a DeviceRowDocument {
        rows.iter().find(|row| row.device == device && row.in_flight == Some(in_flight)).unwrap()
    }

    /// The rows of the sample after a change, compared again.
    fn after(change: impl FnOnce(&mut Vec<DeviceRowDocument>)) -> Vec<DeviceRowDocument> {
        let mut rows = sample().rows;
        change(&mut rows);
        compare(&mut rows);
        rows
    }

    #[test]
    fn a_row_is_compared_with_the_best_software_that_had_as_much_in_flight() {
        let rows = sample().rows;
        let best = at(&rows, "software-openssl", 16);
        assert_eq!((best.is_best, &best.ratio), (true, &None));
        let found = at(&rows, "multibuffer", 16).ratio.clone().unwrap();
        assert_eq!((found.against.as_str(), found.against_in_flight), ("software-openssl", Some(16)));
        let (low, high) = found.low.zip(found.high).unwrap();
        assert!(low < found.value && found.value < high, "{found:?}");
        assert!((1.9..2.1).contains(&found.value), "{found:?}");
    }

    #[test]
    fn one_window_has_a_ratio_and_no_interval() {
        let rows = sample().rows;
        let found = at(&rows, "openssl-speed", 1).ratio.clone().unwrap();
        assert_eq!((found.low, found.high), (None, None));
        assert!(found.against.starts_with("software-"), "{found:?}");
    }

    #[test]
    fn a_row_that_did_nothing_and_one_without_software_are_alone() {
        let is_alone = |row: &DeviceRowDocument| !row.is_best && row.ratio.is_none();
        assert!(after(|rows| rows.retain(|row| !row.is_software)).iter().all(is_alone));
        let idle =
            after(|rows| rows.iter_mut().filter(|row| row.is_software).for_each(|row| row.ops_per_s = 0.0));
        assert!(idle.iter().all(is_alone));
    }

    #[test]
    fn a_window_without_an_operation_leaves_no_interval() {
        let rows = after(|rows| {
            rows.iter_mut()
                .filter(|row| row.device == "multibuffer")
                .for_each(|row| row.windows_per_s[3] = 0.0);
        });
        assert_eq!(at(&rows, "multibuffer", 16).ratio.as_ref().unwrap().low, None);
    }

    #[test]
    fn where_no_software_had_as_much_in_flight_the_least_is_taken() {
        let rows = after(|rows| rows.retain(|row| !row.is_software || row.in_flight != Some(16)));
        assert_eq!(at(&rows, "multibuffer", 16).ratio.as_ref().unwrap().against_in_flight, Some(1));
    }
}
