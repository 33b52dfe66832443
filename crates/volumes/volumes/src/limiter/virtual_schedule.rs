//! When the next operation may begin: the generic cell rate algorithm in its virtual-scheduling form, for two rates.
//!
//! Each rate has a theoretical arrival time (TAT) before which no further operation may begin; an operation moves it on
//! by what it costs. An operation becomes due at the later of the two. Three rules make windows exact where a plain GCRA
//! is not:
//!
//! - An operation that was waiting is charged from when it was *due*, not from when a thread woke up to begin it. Otherwise
//!   each late wake-up, 50 µs on a good kernel, is lost for ever, which at 50,000 operations per second is most of the rate.
//! - Such lateness is made up for by at most [`CATCH_UP_NS`]: a server that was stopped for a second does not send a
//!   second's worth at once.
//! - While one rate makes an operation wait, the other falls behind by as much. Otherwise large and small operations in
//!   turn would stay far below both limits, since each would wait for its own rate alone.
//!
//! Times are ns of a monotonic clock in fixed point with [`FRACTION_BITS`] bits of fraction, so that a rate that does not
//! divide a second does not drift.

use super::account::Binding;
use super::limits::{Cost, Limits};

/// 2^-32 ns: with periods as short as 0.1 ns (10 GB/s) the rate is off by less than 3 parts in 10^9.
const FRACTION_BITS: u32 = 32;
const SECOND_NS: u128 = 1_000_000_000;
/// How much lateness of the machine is made up for: 0.45% of a second, nearly all of what a window of 1 s may be off. What a
/// longer standstill takes cannot be given back without a window that is too full.
pub(super) const CATCH_UP_NS: u64 = 4_500_000;

/// A time or a length of time in fixed point.
pub(super) type Fixed = u128;

pub(super) const fn fixed(ns: u64) -> Fixed {
    (ns as Fixed) << FRACTION_BITS
}

/// Whole nanoseconds, rounded up, so that nothing begins too early.
pub(super) fn ns(time: Fixed) -> u64 {
    let rounded = (time + ((1 << FRACTION_BITS) - 1)) >> FRACTION_BITS;
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// One rate.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// Time per unit.
    period: Fixed,
    /// Theoretical arrival time.
    tat: Fixed,
}

impl Rate {
    fn cost(&self, units: u64) -> Fixed {
        self.period.saturating_mul(Fixed::from(units))
    }
}

fn period(per_s: u64) -> Fixed {
    (SECOND_NS << FRACTION_BITS) / Fixed::from(per_s.max(1))
}

/// When an operation may begin, and why not earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub at: Fixed,
    /// How far back a rate may have fallen behind, and still be charged from there.
    from: Fixed,
    /// The limit that it waits for, or would have.
    pub binding: Binding,
}

/// The two rates of a limiter.
#[derive(Debug, Clone, Copy)]
pub(super) struct VirtualSchedule {
    iops: Option<Rate>,
    bytes: Option<Rate>,
    burst: Fixed,
}

impl VirtualSchedule {
    /// Nothing is saved up at `now_ns`, but for the burst.
    pub(super) fn new(limits: &Limits, now_ns: u64) -> Self {
        let rate = |per_s: u64| Rate { period: period(per_s), tat: fixed(now_ns) };
        Self {
            iops: limits.iops.map(|iops| rate(iops.get())),
            bytes: limits.bytes_per_s.map(|bytes| rate(bytes.get())),
            burst: fixed(limits.burst_ns),
        }
    }

    /// Goes on under other limits: what is owed already is owed in operations and bytes, and takes the time that the new
    /// rate needs for it.
    pub(super) fn change(&mut self, limits: &Limits, now_ns: u64) {
        let mut next = Self::new(limits, now_ns);
        for (new, old) in [(&mut next.iops, &self.iops), (&mut next.bytes, &self.bytes)] {
            let (Some(new), Some(old)) = (new, old) else { continue };
            let owed = old.tat.saturating_sub(fixed(now_ns));
            new.tat = fixed(now_ns) + scaled(owed, new.period, old.period);
        }
        *self = next;
    }

    /// The operation's share of its dearer rate.
    pub(super) fn time(&self, cost: Cost) -> Fixed {
        let operations = self.iops.map_or(0, |rate| rate.cost(cost.operations));
        let bytes = self.bytes.map_or(0, |rate| rate.cost(cost.bytes));
        operations.max(bytes)
    }

    /// When an operation that arrived at `arrival_ns` may begin. One that moves no bytes does not wait for the limit on bytes.
    pub(super) fn due(&self, cost: Cost, arrival_ns: u64, now_ns: u64) -> Due {
        let earliest = fixed(arrival_ns.min(now_ns).max(now_ns.saturating_sub(CATCH_UP_NS)));
        let free = |rate: &Option<Rate>| rate.map_or(0, |rate| rate.tat.saturating_sub(self.burst));
        let bytes_free = if cost.bytes == 0 { 0 } else { free(&self.bytes) };
        let iops_free = free(&self.iops);
        let binding = if bytes_free > iops_free { Binding::Bytes } else { Binding::Iops };
        Due { at: earliest.max(iops_free).max(bytes_free), from: earliest, binding }
    }

    /// Charges an operation that begins.
    pub(super) fn charge(&mut self, cost: Cost, due: Due) {
        if let Some(rate) = &mut self.iops {
            rate.tat = rate.tat.max(due.from) + rate.cost(cost.operations);
        }
        if let Some(rate) = &mut self.bytes {
            rate.tat = rate.tat.max(due.from) + rate.cost(cost.bytes);
        }
    }
}

/// `owed * new / old`, without overflow for anything that a rate can owe.
fn scaled(owed: Fixed, new: Fixed, old: Fixed) -> Fixed {
    owed.checked_mul(new)
        .map_or_else(|| (owed / old.max(1)).saturating_mul(new), |product| product / old.max(1))
}
