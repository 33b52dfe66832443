//! What a stall hides from a closed loop, and what an open loop would have seen of it.

use std::fmt;

use crate::{Histogram, Statistic};

/// Shorter times without a completion are not reported.
const SHORTEST_NS: u64 = 10_000_000;
/// A stall lasts at least this many median times; below that it is one slow answer.
const MEDIANS: f64 = 10.0;
/// The estimate is reported where it is at least this many times the measured value.
const TIMES: f64 = 2.0;

/// A stall that a closed loop's percentiles do not show. Prints as a sentence for people.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenStall {
    metric: &'static str,
    stall_ns: u64,
    p99_ns: f64,
    open_p99_ns: f64,
}

impl HiddenStall {
    /// The longest stall of a closed loop whose times are `times`, if its 99th percentile hides it.
    ///
    /// The estimate takes the median as the interval at which each connection (job, flow) would have sent without the
    /// stall: in a closed loop the next unit of work begins when the last one ends, and unlike the mean the median is not
    /// moved by the stall itself.
    #[must_use]
    pub fn find(metric: &'static str, times: &Histogram, stall_ns_max: Option<u64>) -> Option<Self> {
        let stall_ns = stall_ns_max.filter(|stall_ns| *stall_ns >= SHORTEST_NS)?;
        let median_ns = times.statistic_ns(Statistic::Med)?;
        if (stall_ns as f64) < MEDIANS * median_ns {
            return None;
        }
        let open = times.with_omitted(median_ns as u64);
        let (p99_ns, open_p99_ns) = (times.quantile_ns(0.99), open.quantile_ns(0.99));
        (open_p99_ns >= TIMES * p99_ns).then_some(Self { metric, stall_ns, p99_ns, open_p99_ns })
    }
}

impl fmt::Display for HiddenStall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "nothing completed for {}, and a closed loop sends nothing meanwhile: {} p99 is {}, and an open loop at this \
             rate would have seen about {}; `--rate` measures it",
            ms(self.stall_ns as f64),
            self.metric,
            ms(self.p99_ns),
            ms(self.open_p99_ns)
        )
    }
}

fn ms(time_ns: f64) -> String {
    let time_ms = time_ns / 1e6;
    match time_ms {
        _ if time_ms >= 10.0 => format!("{time_ms:.0} ms"),
        _ if time_ms >= 1.0 => format!("{time_ms:.1} ms"),
        _ => format!("{time_ms:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Ten seconds of 0.2 ms for one connection, with a stall of 200 ms in every second.
    fn stalling() -> Histogram {
        let mut times = Histogram::new();
        times.record_many(MS / 5, 40_000);
        times.record_many(200 * MS, 10);
        times
    }

    #[test]
    fn a_stall_that_p99_does_not_show_is_told_with_what_an_open_loop_would_have_seen() {
        let found = HiddenStall::find("iteration_duration", &stalling(), Some(200 * MS)).unwrap();
        let words = found.to_string();
        assert!(words.starts_with("nothing completed for 200 ms, and a closed loop"), "{words}");
        assert!(words.contains("iteration_duration p99 is 0.20 ms"), "{words}");
        assert!(words.ends_with("; `--rate` measures it"), "{words}");
        // 1 of 5 requests of an open loop falls into a stall, and 1 of 20 of these waits for more than 190 ms.
        assert!((found.open_p99_ns / 190e6 - 1.0).abs() < 0.02, "{words}");
    }

    #[test]
    fn what_is_short_or_shown_or_usual_is_not_told() {
        let find = |times: &Histogram, stall_ms: u64| HiddenStall::find("x", times, Some(stall_ms * MS));
        assert_eq!(find(&stalling(), 9), None, "too short");
        assert_eq!(HiddenStall::find("x", &stalling(), None), None, "unknown");
        assert_eq!(find(&Histogram::new(), 200), None, "no times");
        let mut slow = Histogram::new();
        slow.record_many(150 * MS, 100);
        assert_eq!(find(&slow, 160), None, "as long as any answer takes");
        let mut shown = stalling();
        shown.record_many(200 * MS, 1_000);
        assert_eq!(find(&shown, 200), None, "p99 shows it");
    }
}
