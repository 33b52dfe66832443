//! A rate that came as steadily as under a limiter, while its units of work waited.
//!
//! A limiter by delay, such as nginx's `limit_req` with a burst or the IOPS limit of a volume, answers at one rate, whatever the
//! system could do. A closed loop then waits: by Little's law (J. D. C. Little, 1961) each unit of work takes as long as there
//! are units in flight over the rate. Three facts tell that from a system at its capacity: the rate is the same in every second,
//! at least one unit of work took far less time, and the system's CPUs are idle.

use serde::{Deserialize, Serialize};

/// The largest share of a second's work by which a second, or all seconds up to it, differ from the mean.
const STEADY: f64 = 0.005;
/// A unit of work may fall on either side of a moment, such as the window's opening.
const MOMENT_UNITS: f64 = 1.0;
/// So few units of work a second may be steady by chance.
const RATE_MIN: f64 = 5.0;
/// Units of work waited if the fastest took at most this share of their mean time. With a fixed delay, none is so fast.
const FASTEST_MAX: f64 = 0.5;
/// Seconds from which on a rate counts as steady.
const SECONDS_MIN: usize = 3;
/// CPUs from which on a system counts as busy.
const CPUS_MAX: f64 = 0.5;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyRate {
    /// Units of work per second: the mean of the seconds.
    pub rate_per_s: f64,
    /// The mean time of a unit of work, in ns.
    pub mean_ns: f64,
    /// The shortest time of a unit of work from the load's start on, in ns.
    pub fastest_ns: f64,
    /// How many seconds had this rate.
    pub seconds: usize,
}

impl SteadyRate {
    /// Looks for one in a closed loop's units of work per second. `fastest_ns` is of all units of work from the load's start on.
    #[must_use]
    pub fn find(seconds: &[f64], mean_ns: f64, fastest_ns: u64) -> Option<Self> {
        let rate_per_s = seconds.iter().sum::<f64>() / seconds.len() as f64;
        if seconds.is_empty() || rate_per_s < RATE_MIN {
            return None;
        }
        let mut ahead = 0.0;
        let is_steady = seconds.iter().all(|second| {
            let difference = second - rate_per_s;
            ahead += difference;
            is_near(difference, rate_per_s, 2.0 * MOMENT_UNITS) && is_near(ahead, rate_per_s, MOMENT_UNITS)
        });
        let fastest_ns = fastest_ns as f64;
        is_steady.then_some(Self { rate_per_s, mean_ns, fastest_ns, seconds: seconds.len() })
    }

    /// What was steady in all of several windows at the same rate, while units of work waited. `None` if the windows are too short
    /// together.
    ///
    /// Whether they waited only all windows show: a limiter may still hold up the first of a window for what came before it.
    #[must_use]
    pub fn of_all(windows: &[Self]) -> Option<Self> {
        let mut sorted = windows.to_vec();
        sorted.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
        let typical = sorted.get(sorted.len() / 2)?;
        let seconds = windows.iter().map(|one| one.seconds).sum();
        let fastest_ns = windows.iter().map(|one| one.fastest_ns).fold(f64::INFINITY, f64::min);
        let is_one = windows.iter().all(|one| {
            let units = MOMENT_UNITS / one.seconds.max(1) as f64;
            is_near(one.rate_per_s - typical.rate_per_s, typical.rate_per_s, units)
        });
        let has_waited = fastest_ns <= FASTEST_MAX * typical.mean_ns;
        (is_one && has_waited && seconds >= SECONDS_MIN).then_some(Self { seconds, fastest_ns, ..*typical })
    }

    /// Units of work in flight, by Little's law.
    #[must_use]
    pub fn in_flight(&self) -> f64 {
        self.rate_per_s * self.mean_ns / 1e9
    }

    /// Whether something else than the system's capacity must have set the rate, if the system used this many CPUs.
    ///
    /// Where that is not known, the utilisation law (P. J. Denning and J. P. Buzen, 1978) has to show it: at its capacity a system
    /// serves at least one unit of work at every moment, and as many as the rate times the time of the service.
    #[must_use]
    pub fn is_limited(&self, system_cpus: Option<f64>) -> bool {
        match system_cpus {
            Some(cpus) => cpus < CPUS_MAX,
            None => self.rate_per_s * self.fastest_ns / 1e9 < 1.0,
        }
    }
}

/// Whether a difference of units of work is that of a steady rate; `units` of them may be a moment's.
fn is_near(difference: f64, rate_per_s: f64, units: f64) -> bool {
    difference.abs() <= (STEADY * rate_per_s).max(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn find(seconds: &[f64], mean_ms: f64, fastest_ns: u64) -> Option<SteadyRate> {
        SteadyRate::find(seconds, mean_ms * 1e6, fastest_ns)
    }

    /// nginx under 200 requests per second, with 20 connections.
    #[test]
    fn waiting_at_one_rate_in_every_second_is_found() {
        let found = find(&[200.0, 201.0, 199.0, 200.0], 100.0, MS / 5).unwrap();
        assert_eq!((found.rate_per_s, found.seconds), (200.0, 4));
        assert!((found.in_flight() - 20.0).abs() < 1e-9 && found.is_limited(None));
        assert!(found.is_limited(Some(0.02)) && !found.is_limited(Some(0.9)));
    }

    #[test]
    fn what_varies_is_not() {
        assert_eq!(find(&[200.0, 203.0, 199.0], 100.0, MS / 5), None, "it varies");
        assert_eq!(find(&[10.0, 12.0, 8.0, 12.0, 8.0], 100.0, MS / 5), None, "it varies");
        assert!(find(&[11.0, 9.0, 10.0, 10.0], 100.0, MS / 5).is_some(), "one fell on the other side");
        assert_eq!(find(&[2.0; 5], 100.0, MS / 5), None, "so few are steady by chance");
        assert_eq!(find(&[], 100.0, MS), None);
        // A worker that takes 5 ms for each is at its capacity at 200 a second.
        assert!(!find(&[200.0; 4], 100.0, 5 * MS).unwrap().is_limited(None));
    }

    #[test]
    fn windows_are_one_steady_rate_only_at_the_same_rate() {
        let at = |rate: f64| find(&[rate; 2], 100.0, MS / 5).unwrap();
        assert_eq!(SteadyRate::of_all(&[at(1000.0)]), None, "two seconds are too few");
        assert_eq!(SteadyRate::of_all(&[at(1000.0), at(1001.0)]).unwrap().seconds, 4);
        assert_eq!(SteadyRate::of_all(&[at(1000.0), at(1020.0), at(1000.0)]), None);
        assert_eq!(SteadyRate::of_all(&[]), None);
        let delayed = find(&[200.0; 4], 20.0, 19 * MS).unwrap();
        assert_eq!(SteadyRate::of_all(&[delayed]), None, "a fixed delay: nothing waits");
        // The first of a window waited for the work before it.
        let late = SteadyRate { fastest_ns: 9e7, ..at(1000.0) };
        assert!(SteadyRate::of_all(&[late, at(1000.0)]).is_some());
    }
}
