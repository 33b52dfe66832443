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
/// Fewer units of work a second may be steady by chance.
const RATE_MIN: f64 = 5.0;
/// Units of work waited if the fastest took at most this share of their mean time. A fixed delay of each alone lets none be so fast.
const FASTEST_MAX: f64 = 0.5;
/// Seconds from which on a rate counts as steady.
const SECONDS_MIN: usize = 3;
/// CPUs from which on a system counts as busy.
const CPUS_MAX: f64 = 0.5;
/// Seconds from which on a rate counts as steady in a single measurement, which has no other slot to show the same rate.
const ALONE_SECONDS_MIN: usize = 30;
/// Fewer units of work a second are too often steady by chance in a single measurement.
const ALONE_RATE_MIN: f64 = 200.0;

/// A rate that was the same in every second, with the times of its units of work.
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
    /// Checks a closed loop's units of work in each second. `fastest_ns` is the shortest time of a unit since the load's start, or
    /// `u64::MAX` if none succeeded.
    #[must_use]
    pub fn find(seconds: &[f64], mean_ns: f64, fastest_ns: u64) -> Option<Self> {
        let rate_per_s = seconds.iter().sum::<f64>() / seconds.len() as f64;
        if seconds.is_empty() || rate_per_s < RATE_MIN || fastest_ns == u64::MAX {
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

    /// The rate that several windows had in common while units of work waited. `None` if the windows are too short together.
    ///
    /// Only all windows together show whether work waited: a limiter may still delay the first unit of a window because of the work
    /// before it.
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

    /// Whether a limiter, and not the system's capacity, set the rate, given the CPUs that the system used. `false` if they are not
    /// known, because a system at its capacity looks the same then.
    #[must_use]
    pub fn is_limited(&self, system_cpus: Option<f64>) -> bool {
        system_cpus.is_some_and(|cpus| cpus < CPUS_MAX)
    }

    /// The rate, if a single measurement with it shows a limiter, given the CPUs that the system used.
    #[must_use]
    pub fn alone(self, system_cpus: Option<f64>) -> Option<Self> {
        let found = Self::of_all(&[self])?;
        let is_enough = found.seconds >= ALONE_SECONDS_MIN && found.rate_per_s >= ALONE_RATE_MIN;
        (is_enough && found.is_limited(system_cpus)).then_some(found)
    }
}

/// Whether a difference of units of work is that of a steady rate; `units` of them may be a moment's.
fn is_near(difference: f64, rate_per_s: f64, units: f64) -> bool {
    difference.abs() <= (STEADY * rate_per_s).max(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix;

    const MS: u64 = 1_000_000;
    const SIMULATED: usize = 10_000;
    /// Rates of servers with the scatter of their seconds.
    const SERVERS: [(f64, f64); 4] = [(10_000.0, 0.003), (200.0, 0.003), (50.0, 0.01), (20.0, 0.01)];

    fn find(seconds: &[f64], mean_ms: f64, fastest_ns: u64) -> Option<SteadyRate> {
        SteadyRate::find(seconds, mean_ms * 1e6, fastest_ns)
    }

    /// The bound for independent normal seconds, with 20 in flight.
    fn simulated(random: &mut SplitMix, (rate, scatter): (f64, f64), seconds: usize) -> Option<SteadyRate> {
        let mut unit = || (random.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut normal = || (0..12).map(|_| unit()).sum::<f64>() - 6.0;
        let counts: Vec<f64> = (0..seconds).map(|_| rate * (1.0 + scatter * normal())).collect();
        find(&counts, 20e3 / rate, MS / 50)
    }

    /// nginx under 200 requests per second, with 20 connections.
    #[test]
    fn waiting_at_one_rate_in_every_second_is_found() {
        let found = find(&[200.0, 201.0, 199.0, 200.0], 100.0, MS / 5).unwrap();
        assert_eq!((found.rate_per_s, found.seconds), (200.0, 4));
        assert!((found.in_flight() - 20.0).abs() < 1e-9 && found.is_limited(Some(0.02)));
        assert!(!found.is_limited(Some(0.9)), "its CPUs are busy");
        assert!(!found.is_limited(None), "it may be one worker at its capacity");
    }

    #[test]
    fn what_varies_is_not() {
        assert_eq!(find(&[200.0, 203.0, 199.0], 100.0, MS / 5), None, "it varies");
        assert_eq!(find(&[10.0, 12.0, 8.0, 12.0, 8.0], 100.0, MS / 5), None, "it varies");
        assert!(find(&[11.0, 9.0, 10.0, 10.0], 100.0, MS / 5).is_some(), "one fell on the other side");
        assert_eq!(find(&[2.0; 5], 100.0, MS / 5), None, "so few are steady by chance");
        assert_eq!(find(&[], 100.0, MS), None);
        assert_eq!(find(&[200.0; 4], 100.0, u64::MAX), None, "no unit of work succeeded");
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

    #[test]
    fn a_single_measurement_shows_a_limiter_only_if_it_is_long_and_the_system_idle() {
        let alone = |rate: f64, seconds: usize, cpus: Option<f64>| {
            find(&vec![rate; seconds], 100.0, MS / 5).unwrap().alone(cpus)
        };
        assert_eq!(alone(200.0, 30, Some(0.02)).unwrap().seconds, 30);
        assert_eq!(alone(200.0, 30, Some(0.95)), None, "it is at its capacity");
        assert_eq!(alone(200.0, 30, None), None, "it may be at its capacity");
        assert_eq!(alone(200.0, 29, Some(0.02)), None, "it is short");
        assert_eq!(alone(50.0, 60, Some(0.02)), None, "so few are steady by chance");
    }

    /// Servers with idle CPUs, such as ones that wait for a backend, whose seconds are independent.
    #[test]
    fn a_single_measurement_of_an_ordinary_server_shows_no_limiter() {
        let mut random = SplitMix::new(11);
        for server in SERVERS {
            for seconds in [3, 5, 10, 30] {
                let mut shown = || simulated(&mut random, server, seconds)?.alone(Some(0.02));
                let warned = (0..SIMULATED).filter(|_| shown().is_some()).count();
                assert!(warned * 200 < SIMULATED, "{warned}: {seconds} s of {server:?}");
            }
        }
    }

    /// The table in docs/verdicts.md.
    #[test]
    fn runs_of_very_steady_servers_show_a_limiter_as_often_as_the_manual_says() {
        let mut random = SplitMix::new(12);
        let table = [(1, [30, 30, 53, 100]), (5, [1, 3, 0, 73]), (10, [0, 0, 0, 22])];
        for (seconds, percents) in table {
            for (server, percent) in SERVERS.into_iter().zip(percents) {
                let mut shown = || -> Option<SteadyRate> {
                    let slots: Option<Vec<SteadyRate>> =
                        (0..12).map(|_| simulated(&mut random, server, seconds)).collect();
                    SteadyRate::of_all(&slots?)
                };
                let warned = (0..2000).filter(|_| shown().is_some()).count();
                assert!(warned.abs_diff(20 * percent) < 60, "{warned}: {seconds} s of {server:?}");
            }
        }
    }
}
