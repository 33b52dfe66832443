//! The observations of a load: the results of named checks, and everything else that was negotiated or counted.
//!
//! A load reports checks as two properties, `checks passed` and `checks failed`, with the checks' texts as values; every
//! other property is a count for each of its values.

use std::collections::BTreeMap;

use plumb_model::Measurement;

use crate::figures;

const PASSED: &str = "checks passed";
const FAILED: &str = Measurement::FAILED_CHECKS;

/// By property, by value: how often.
pub type Observed = BTreeMap<String, BTreeMap<String, u64>>;

/// Every check by its text, with how often it passed and failed.
pub fn checks(observed: &Observed) -> Vec<(&str, u64, u64)> {
    let mut found: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (text, count) in observed.get(PASSED).into_iter().flatten() {
        found.entry(text).or_default().0 += count;
    }
    for (text, count) in observed.get(FAILED).into_iter().flatten() {
        found.entry(text).or_default().1 += count;
    }
    found.into_iter().map(|(text, (passed, failed))| (text, passed, failed)).collect()
}

/// Every property that is not a check.
pub fn properties(observed: &Observed) -> impl Iterator<Item = (&str, &BTreeMap<String, u64>)> {
    let is_check = |name: &str| name == PASSED || name == FAILED;
    let all = observed.iter().map(|(name, values)| (name.as_str(), values));
    all.filter(move |(name, values)| !is_check(name) && !values.is_empty())
}

/// The values of a property with the words for how often each was seen, the most frequent first: `TLSv1.2` with `6,436`, or
/// where there are several `x25519` with `6,433, 99.95%`.
pub fn values(values: &BTreeMap<String, u64>) -> Vec<(&str, String)> {
    let all: u64 = values.values().sum();
    let mut sorted: Vec<(&str, u64)> = values.iter().map(|(value, count)| (value.as_str(), *count)).collect();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words = |count: u64| match values.len() {
        1 => figures::count(count as f64),
        _ => {
            format!("{}, {}", figures::count(count as f64), figures::share(count as f64 / all.max(1) as f64))
        }
    };
    sorted.into_iter().map(|(value, count)| (value, words(count))).collect()
}

#[cfg(test)]
mod tests {
    use plumb_model::Merge;

    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect()
    }

    #[test]
    fn checks_are_told_apart_and_slots_added() {
        let slot = Observed::from([
            (PASSED.to_owned(), counts(&[("status == 200", 9)])),
            (FAILED.to_owned(), counts(&[("status == 200", 1), ("duration < 1 ms", 10)])),
            ("group".to_owned(), counts(&[("secp256r1", 1), ("x25519", 3)])),
        ]);
        let mut both = Observed::new();
        both.add(&slot);
        both.add(&slot);
        assert_eq!(checks(&both), [("duration < 1 ms", 0, 20), ("status == 200", 18, 2)]);
        let properties: Vec<(&str, &BTreeMap<String, u64>)> = properties(&both).collect();
        assert_eq!(properties.len(), 1);
        assert_eq!(
            values(properties[0].1),
            [("x25519", "6, 75.00%".to_owned()), ("secp256r1", "2, 25.00%".to_owned())]
        );
    }
}
