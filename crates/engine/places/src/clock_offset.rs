//! Moments on the clocks of several hosts.
//!
//! Round trips tell how far another clock is ahead. A question leaves, the other clock is read, and the
//! answer arrives. The middle of the trip is thus wrong by at most half of it. The shortest trip is the most
//! exact. It becomes less certain with age, since clocks drift.

use std::collections::VecDeque;

/// How far two clocks may drift apart, in parts per million: twice the slew limit of one clock in
/// adjtimex(2).
const DRIFT_PPM: u64 = 1000;
/// How many round trips are remembered.
const TRIPS_MAX: usize = 64;

/// Round trips that tell the offset of another clock.
#[derive(Debug, Default)]
pub struct Clocks(VecDeque<Trip>);

#[derive(Debug, Clone, Copy)]
struct Trip {
    sent_ns: u64,
    came_ns: u64,
    ahead_ns: i64,
}

impl Trip {
    fn bound_ns(&self, at_ns: u64) -> u64 {
        let drift_ns = at_ns.saturating_sub(self.came_ns) / 1_000_000 * DRIFT_PPM;
        (self.came_ns - self.sent_ns).div_ceil(2) + drift_ns
    }
}

impl Clocks {
    /// Adds a round trip: when it began and ended here, and the moment there in between.
    pub fn add(&mut self, sent_ns: u64, there_ns: u64, came_ns: u64) {
        let came_ns = came_ns.max(sent_ns);
        let middle_ns = sent_ns + (came_ns - sent_ns) / 2;
        if self.0.len() == TRIPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Trip { sent_ns, came_ns, ahead_ns: there_ns.wrapping_sub(middle_ns).cast_signed() });
    }

    /// The estimate of the other clock at a moment.
    pub fn at(&self, at_ns: u64) -> ClockOffset {
        let best = self.0.iter().min_by_key(|trip| trip.bound_ns(at_ns));
        best.map_or_else(ClockOffset::default, |trip| ClockOffset {
            ahead_ns: trip.ahead_ns,
            bound_ns: trip.bound_ns(at_ns),
        })
    }

    /// The shortest round trip.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        self.0.iter().map(|trip| trip.came_ns - trip.sent_ns).min().unwrap_or(0)
    }
}

/// The relation of another monotonic clock to this process's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// How far it is ahead, in ns.
    pub ahead_ns: i64,
    /// The bound on the error of that, in ns.
    pub bound_ns: u64,
}

impl ClockOffset {
    /// Translates a moment of this process's clock to the other.
    pub fn theirs(self, ours_ns: u64) -> u64 {
        ours_ns.saturating_add_signed(self.ahead_ns)
    }

    /// Translates a moment of the other clock to this process's.
    pub fn ours(self, theirs_ns: u64) -> u64 {
        theirs_ns.saturating_add_signed(self.ahead_ns.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_goes_there_and_back() {
        let behind = ClockOffset { ahead_ns: -300, bound_ns: 1 };
        assert_eq!((behind.theirs(1000), behind.ours(700)), (700, 1000));
        assert_eq!(behind.ours(behind.theirs(5_000)), 5_000);
    }

    #[test]
    fn the_truth_lies_within_the_bound_and_the_shortest_trip_says_most() {
        const AHEAD_NS: u64 = 1_000_000_000;
        let mut clocks = Clocks::default();
        let mut bounds = Vec::new();
        // Each trip has different times for the way there and back, as unequal as they may be.
        for (there_ns, back_ns) in [(9_000_000, 1_000_000), (50_000, 300_000), (0, 40_000_000)] {
            let sent_ns = 5_000_000_000;
            clocks.add(sent_ns, sent_ns + there_ns + AHEAD_NS, sent_ns + there_ns + back_ns);
            let clock = clocks.at(sent_ns + there_ns + back_ns);
            assert!(clock.ahead_ns.abs_diff(AHEAD_NS.cast_signed()) <= clock.bound_ns, "{clock:?}");
            bounds.push(clock.bound_ns);
        }
        assert_eq!(clocks.round_trip_ns(), 350_000);
        assert_eq!(bounds[..2], [5_000_000, 175_000]);
        let later = clocks.at(7_000_000_000);
        assert!((175_000 + 1_900_000..175_000 + 2_100_000).contains(&later.bound_ns), "{later:?}");
    }
}
