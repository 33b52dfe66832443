//! Operations that came first and faster than those that followed: a token bucket had saved them up, or a cache took them.
//!
//! A rate over a window that contains a burst is neither the rate of the burst nor the settled one. So the rate excludes the
//! seconds of a burst at the beginning of the window, and the load reports the burst, counted from its own start.

/// Completions from the load's start on are counted in steps of this length.
pub const STEP_NS: u64 = 50_000_000;
/// A burst is looked for in this many of them.
pub const STEPS_MAX: usize = 200;
/// A second belongs to a burst if it exceeds the settled rate by more than this share of it.
const ABOVE: f64 = 0.10;
/// It also exceeds that rate by more than this many times the largest deviation among the seconds that follow.
const DEVIATIONS: f64 = 4.0;
/// Seconds that deviate by more than this share of their median have not settled (SNIA's rule, see `steady`).
const DEVIATION_MAX: f64 = 0.20;
/// The rate during a burst before the window is at least this many times the settled one.
const TIMES: f64 = 1.2;
/// How many seconds at least have to follow a burst.
const FOLLOWING_MIN: usize = 2;

/// Operations that came before the rate settled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// How many came above the settled rate, from the load's start on.
    pub operations: f64,
    /// The operations per second after it.
    pub settled: f64,
    /// How many seconds of the window belong to it; 0 where it ended in the warm-up.
    pub seconds: usize,
}

impl Burst {
    /// Of completions in each second of a window, and in each step from the load's start on. `None` where nothing stands
    /// out, or too little follows to say what the rate settled at.
    pub fn find(seconds: &[f64], steps: &[u64]) -> Option<Self> {
        // Late seconds are the least likely to have a part of it.
        let late = &seconds[seconds.len() / 2..];
        let settled = plumb_stats::median(late).filter(|rate| *rate > 0.0)?;
        let deviation = late.iter().map(|second| (second - settled).abs()).fold(0.0, f64::max);
        if deviation > DEVIATION_MAX * settled {
            return None;
        }
        let least = (ABOVE * settled).max(DEVIATIONS * deviation);
        let length = seconds.iter().take_while(|second| **second - settled > least).count();
        if seconds.len() < length + FOLLOWING_MIN {
            return None;
        }
        let (operations, in_ns) = most_ahead(steps, settled);
        let usual = settled * in_ns as f64 / 1e9;
        let in_window: f64 = seconds[..length].iter().map(|second| second - settled).sum();
        if length == 0 && (operations <= least || operations + usual < TIMES * usual) {
            return None;
        }
        Some(Self { operations: operations.max(in_window), settled, seconds: length })
    }
}

/// The most that was ever ahead of a rate, from the load's start on, and how long after the start that was.
pub fn most_ahead(steps: &[u64], rate: f64) -> (f64, u64) {
    let mut most = (0.0, 0);
    let mut sum = 0.0;
    for (at_ns, count) in (STEP_NS..).step_by(STEP_NS as usize).zip(steps) {
        sum += *count as f64;
        let ahead = sum - rate * at_ns as f64 / 1e9;
        if ahead > most.0 {
            most = (ahead, at_ns);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completions in steps and in the seconds of a window, of a bucket that is full at the start.
    fn bucket(saved: u64, rate: u64, warmup: usize, window: usize) -> (Vec<f64>, Vec<u64>) {
        let mut steps = vec![rate / 20; 20 * (warmup + window)];
        // As fast as 5,000 a second.
        let mut left = saved;
        for step in &mut steps {
            let more = left.min(250 - rate / 20);
            *step += more;
            left -= more;
        }
        let second = |steps: &[u64]| steps.iter().sum::<u64>() as f64;
        (steps.chunks(20).skip(warmup).map(second).collect(), steps)
    }

    #[test]
    fn a_bucket_that_empties_in_the_window_or_in_the_warm_up_is_found() {
        let (seconds, steps) = bucket(1000, 500, 0, 8);
        assert_eq!(seconds[0], 1500.0);
        let burst = Burst::find(&seconds, &steps).unwrap();
        assert_eq!((burst.settled, burst.seconds), (500.0, 1));
        assert!((burst.operations - 1000.0).abs() <= 25.0, "{burst:?}");
        let (seconds, steps) = bucket(1000, 500, 2, 5);
        let burst = Burst::find(&seconds, &steps).unwrap();
        assert_eq!((burst.settled, burst.seconds), (500.0, 0));
        assert!((burst.operations - 1000.0).abs() <= 25.0, "{burst:?}");
        // Even a short measurement shows it.
        let (seconds, steps) = bucket(1000, 500, 0, 3);
        assert_eq!(Burst::find(&seconds, &steps).unwrap().seconds, 1);
    }

    #[test]
    fn what_is_only_unsteady_is_no_burst() {
        let steps = [25; 200];
        for seconds in [
            &[500.0; 8][..],
            &[530.0, 480.0, 515.0, 470.0, 500.0, 520.0],
            &[600.0, 450.0, 620.0, 400.0, 550.0, 610.0],
            // Nothing settled afterwards.
            &[2000.0, 1500.0, 1000.0, 700.0, 400.0, 100.0],
            &[1500.0, 500.0],
            &[0.0; 6],
            &[],
        ] {
            assert_eq!(Burst::find(seconds, &steps), None, "{seconds:?}");
        }
    }
}
