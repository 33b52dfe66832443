//! The work that a stall hides from a closed loop, and what an open loop would have seen of it.

use crate::{Histogram, Metric, Notice, NoticeKind, Statistic};

/// Shorter times without a completion are not reported.
const SHORTEST_NS: u64 = 10_000_000;
/// A stall lasts at least this many median times; below that it is one slow answer.
const MEDIANS: f64 = 10.0;
/// The estimate is reported where it is at least this many times the measured value.
const TIMES: f64 = 2.0;

/// The longest stall of a closed loop whose times are `times`, if its 99th percentile hides it.
///
/// The estimate takes the median as the interval at which each connection (job, flow) would have sent without the
/// stall: in a closed loop the next unit of work begins when the last one ends, and unlike the mean the median is not
/// moved by the stall itself.
#[must_use]
pub fn hidden_stall(metric: Metric, times: &Histogram, stall_ns_max: Option<u64>) -> Option<Notice> {
    let stall_ns = stall_ns_max.filter(|stall_ns| *stall_ns >= SHORTEST_NS)? as f64;
    let median_ns = times.statistic_ns(Statistic::Med)?;
    if stall_ns < MEDIANS * median_ns {
        return None;
    }
    let open = times.with_omitted(median_ns as u64);
    let (p99_ns, open_p99_ns) = (times.quantile_ns(0.99), open.quantile_ns(0.99));
    let notice = || NoticeKind::HiddenStall.with([stall_ns, p99_ns, open_p99_ns]).about([metric.name]);
    (open_p99_ns >= TIMES * p99_ns).then(notice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::CPU_LOAD;

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
        let found = hidden_stall(CPU_LOAD, &stalling(), Some(200 * MS)).unwrap();
        assert_eq!((found.kind, &found.about[..]), (NoticeKind::HiddenStall, &["cpu_load".to_owned()][..]));
        let [stall_ns, p99_ns, open_p99_ns] = found.figures[..] else { panic!("{found:?}") };
        assert_eq!((stall_ns.least, (p99_ns.most / 0.2e6).round()), (200e6, 1.0));
        // 1 of 5 requests of an open loop falls into a stall, and 1 of 20 of these waits for more than 190 ms.
        assert!((open_p99_ns.least / 190e6 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn what_is_short_or_shown_or_usual_is_not_told() {
        let find = |times: &Histogram, stall_ms: u64| hidden_stall(CPU_LOAD, times, Some(stall_ms * MS));
        assert_eq!(find(&stalling(), 9), None, "too short");
        assert_eq!(hidden_stall(CPU_LOAD, &stalling(), None), None, "unknown");
        assert_eq!(find(&Histogram::new(), 200), None, "no times");
        let mut slow = Histogram::new();
        slow.record_many(150 * MS, 100);
        assert_eq!(find(&slow, 160), None, "as long as any answer takes");
        let mut shown = stalling();
        shown.record_many(200 * MS, 1_000);
        assert_eq!(find(&shown, 200), None, "p99 shows it");
    }
}
