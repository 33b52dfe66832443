//! Measures what a policy's limiter did to a load: the rate that it let through, the operations that it had saved up, how many it
//! charged for each, and the part of the latency that is its doing and not the storage's.
//!
//! The rate is that of the window's middle second; what came above it from the load's start on was saved up (a token
//! bucket, ITU-T I.371). By Little's law (J. D. C. Little, 1961) operations in flight under a limit take the same time
//! whatever the storage is: their number over the rate. Only the rest can be the storage's.

use std::collections::BTreeMap;

use plumb_model::{Column, Table, Unit};

use super::burst::most_ahead;
use crate::settings::Limit;

/// The table's name in a measurement.
pub const TABLE: &str = "limiter";
/// From this share of a policy's rate on the policy is what was met.
const MET: f64 = 0.95;
/// Operations charged as several were so if the rate is so near to a whole part of the policy's.
const WHOLE: f64 = 0.03;
const CHARGE_MAX: f64 = 4096.0;

/// The facts of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Observations<'a> {
    /// Completions in each whole second of the window that is after a burst.
    pub seconds: &'a [f64],
    /// Completions in each step from the load's start on.
    pub steps: &'a [u64],
    /// Completions in the window, per second.
    pub rate: f64,
    /// Reads and writes in flight, mean over the window.
    pub in_flight: f64,
    /// Their mean time, in a closed loop.
    pub latency_us: Option<f64>,
    /// Their size.
    pub block_bytes: f64,
    /// The limit of the policy.
    pub limit: Limit,
}

/// A limiter that was met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetLimiter {
    /// Operations per second that it let through.
    pub rate: f64,
    /// Operations that it had saved up.
    pub burst: f64,
    /// Operations per second that the policy allows at this size, each charged as one; `None` if it has no limit.
    pub policy: Option<f64>,
    /// How many operations each was charged as.
    pub charged_as: f64,
    /// Of which size those were.
    pub charged_bytes: f64,
    /// The mean time of a read or write, and the part of it that the limit explains.
    pub latency_us: Option<(f64, f64)>,
}

impl MetLimiter {
    /// The limiter that was met; `None` if no operation completed.
    pub fn during(seen: &Observations<'_>) -> Option<Self> {
        let rate = typical(seen.seconds).unwrap_or(seen.rate);
        if rate <= 0.0 {
            return None;
        }
        let by_bytes = seen.limit.bytes_per_s.map_or(f64::INFINITY, |bytes| bytes / seen.block_bytes);
        let by_operations = seen.limit.iops.unwrap_or(f64::INFINITY);
        let policy = Some(by_operations.min(by_bytes)).filter(|policy| policy.is_finite());
        let is_charged = by_operations <= by_bytes;
        let charged_as = policy.filter(|_| is_charged).map_or(1.0, |policy| charge(policy / rate));
        // Little's law with the limit, not with what was measured: that would explain any latency whole.
        let limit = policy.map_or(rate, |policy| policy / charged_as);
        let is_met = rate >= MET * limit;
        let by_limit = |latency_us: f64| (latency_us, (seen.in_flight / limit * 1e6).min(latency_us));
        Some(Self {
            rate,
            burst: most_ahead(seen.steps, rate).0,
            policy,
            charged_as,
            charged_bytes: seen.block_bytes / charged_as,
            latency_us: seen.latency_us.filter(|_| is_met).map(by_limit),
        })
    }

    /// As a table of one row. A column that is not known is left out.
    pub fn tables(&self) -> BTreeMap<String, Table> {
        let mut table = Table::default();
        let mut row = Vec::new();
        let mut put = |name: &str, unit: Unit, value: f64| {
            table.columns.push(Column { name: name.to_owned(), unit });
            row.push(value);
        };
        put("rate", Unit::PerSecond, self.rate);
        put("burst", Unit::Count, self.burst);
        if let Some(policy) = self.policy {
            put("policy", Unit::PerSecond, policy);
            put("charged_as", Unit::Count, self.charged_as);
            put("charged_bytes", Unit::Bytes, self.charged_bytes);
        }
        if let Some((latency_us, by_limit_us)) = self.latency_us {
            put("latency", Unit::Microseconds, latency_us);
            put("latency_by_limit", Unit::Microseconds, by_limit_us);
        }
        table.rows.push(row);
        BTreeMap::from([(TABLE.to_owned(), table)])
    }
}

/// The middle one.
fn typical(seconds: &[f64]) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// How many operations each was charged as, if a whole number explains the rate; else 1.
fn charge(times: f64) -> f64 {
    let whole = times.round();
    let is_whole = (2.0..=CHARGE_MAX).contains(&whole) && (times / whole - 1.0).abs() <= WHOLE;
    if is_whole { whole } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<'a>(seconds: &'a [f64], steps: &'a [u64], limit: Limit) -> Observations<'a> {
        let rate = typical(seconds).unwrap();
        Observations {
            seconds,
            steps,
            rate,
            in_flight: 4.0,
            latency_us: Some(4.0 / rate * 1e6),
            block_bytes: 4096.0,
            limit,
        }
    }

    const IOPS: Limit = Limit { iops: Some(500.0), bytes_per_s: None };

    /// dbench under 500 IOPS at depth 4: 8,003 us, of which the storage has 3.
    #[test]
    fn the_published_latency_is_the_limits() {
        let mut seen = seen(&[500.0, 499.0, 500.0], &[25; 40], IOPS);
        seen.latency_us = Some(8_002.64);
        let met = MetLimiter::during(&seen).unwrap();
        assert_eq!((met.rate, met.policy, met.charged_as), (500.0, Some(500.0), 1.0));
        let (latency_us, by_limit_us) = met.latency_us.unwrap();
        assert!((by_limit_us - 8_000.0).abs() < 1e-6 && latency_us - by_limit_us < 3.0, "{met:?}");
        assert!(met.burst < 1e-6, "{met:?}");
    }

    /// 128 KiB came at 250 a second under 500 IOPS: each was charged as two.
    #[test]
    fn the_published_bandwidth_says_what_was_charged() {
        let mut seen = seen(&[251.0, 250.0, 250.0], &[], IOPS);
        seen.block_bytes = 131_072.0;
        let met = MetLimiter::during(&seen).unwrap();
        assert_eq!((met.charged_as, met.charged_bytes), (2.0, 65_536.0));
        assert!((met.latency_us.unwrap().1 - 16_000.0).abs() < 1e-6);
        // Two thirds are not a whole number of charges; then it is the policy that was not reached.
        let below = MetLimiter::during(&self::seen(&[333.0; 3], &[], IOPS)).unwrap();
        assert_eq!((below.charged_as, below.latency_us), (1.0, None));
    }

    #[test]
    fn what_was_saved_up_is_found() {
        // A bucket of two seconds, full at the start, at a rate of 500.
        let steps: Vec<u64> = [500, 500].into_iter().chain([25; 60]).collect();
        let met = MetLimiter::during(&seen(&[500.0; 3], &steps, IOPS)).unwrap();
        assert!((met.burst - 950.0).abs() < 1e-6, "{met:?}");
    }

    #[test]
    fn bytes_limit_where_they_are_reached_first() {
        let limit = Limit { iops: Some(500.0), bytes_per_s: Some(409_600.0) };
        let met = MetLimiter::during(&seen(&[100.0; 3], &[], limit)).unwrap();
        assert_eq!((met.policy, met.charged_as), (Some(100.0), 1.0));
    }

    #[test]
    fn a_policy_without_a_limit_explains_nothing() {
        let met = MetLimiter::during(&seen(&[100.0, 900.0, 500.0], &[], Limit::default())).unwrap();
        assert_eq!((met.policy, met.charged_as), (None, 1.0));
    }
}
