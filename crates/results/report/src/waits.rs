//! Why requests waited before they were sent, or while: the waiting time by reason, with a bar for each.

use plumb_model::{Measurement, Reading, Statistic, Wait};

use crate::figures;
use crate::layout::{Paint, bar, columns};

const TITLE: &str = "Why requests waited";

/// The waits for one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waits {
    wait: Wait,
    requests: f64,
    time_ns: f64,
}

impl Waits {
    /// Of one measurement; `None` where the load does not measure them.
    fn of(measurement: &Measurement, wait: Wait) -> Option<Self> {
        let Reading::Trend(times) = measurement.readings.get(wait.metric().name)? else { return None };
        // A request that did not wait counts as 0.
        let waited = times.bins().filter(|(wait_ns, _)| *wait_ns > 0).map(|(_, count)| count);
        let requests = waited.sum::<u64>() as f64;
        let mean_ns = times.statistic_ns(Statistic::Avg).unwrap_or(0.0);
        Some(Self { wait, requests, time_ns: mean_ns * times.count() as f64 })
    }

    /// The share of the time of all of them, from 0 to 1; not a number where that is 0.
    fn share(&self, all: &[Self]) -> f64 {
        self.time_ns / all.iter().map(|waits| waits.time_ns).sum::<f64>()
    }

    fn reason(&self) -> &'static str {
        match self.wait {
            Wait::Connection => "no connection",
            Wait::Streams => "stream limit",
            Wait::ConnectionWindow => "connection window",
            Wait::StreamWindow => "stream window",
            Wait::Socket => "socket full",
        }
    }

    fn figures(&self, all: &[Self]) -> [String; 3] {
        [figures::share(self.share(all)), figures::time_ns(self.time_ns), figures::count(self.requests)]
    }
}

/// Why the requests of one measurement waited, as lines for a terminal; none where nothing waited.
pub fn lines(measurement: &Measurement, paint: Paint) -> Vec<String> {
    let all = Wait::ALL.into_iter().filter_map(|wait| Waits::of(measurement, wait));
    let all: Vec<Waits> = all.filter(|waits| waits.requests > 0.0).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let row = |waits: &Waits| {
        let first = std::iter::once(waits.reason().to_owned());
        first.chain(waits.figures(&all)).chain([bar(waits.share(&all))]).collect()
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    columns(paint, 4, &[TITLE, "share", "total time", "requests", ""], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Dice};

    #[test]
    fn a_measurement_shows_a_bar_for_each_reason() {
        let mut measurement = fixture::measurement(&mut Dice::new(3), &fixture::SOFTWARE, 5.0, 10);
        assert_eq!(lines(&measurement, Paint { colour: false }), [""; 0], "it measures no waits");
        fixture::wait(&mut measurement, &[]);
        assert_eq!(lines(&measurement, Paint { colour: false }), [""; 0], "nothing waited");
        fixture::wait(&mut measurement, &[(Wait::Streams, 1200), (Wait::Connection, 400), (Wait::Socket, 1)]);
        insta::assert_snapshot!(lines(&measurement, Paint { colour: false }).join("\n"), @r"
            Why requests waited   share  total time  requests
            no connection        24.98%      4.00 s       400  █████···············
            stream limit         74.95%      12.0 s     1,200  ███████████████·····
            socket full           0.06%     10.0 ms         1  █···················
        ");
    }
}
