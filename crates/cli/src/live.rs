//! One line on standard error that is written over again and again, on a terminal only.

use std::cell::Cell;
use std::io::{IsTerminal, Write};

use plumb_model::{Span, printable};
use plumb_path::Mark;

use crate::output;

/// The line, or nothing where nobody watches.
#[derive(Debug)]
pub struct LiveLine {
    is_shown: bool,
    /// Work and time at the mark before, which the rate is counted from.
    before: Cell<(u64, u64)>,
}

/// What a measurement that goes on is made of.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    /// Before everything else: the job, or nothing.
    pub job: &'a str,
    /// How long the window is.
    pub duration: Span,
    /// What is counted, in the plural.
    pub unit: &'a str,
    /// In a closed loop, how many are in flight; half as many where the time of each is half of a round trip.
    pub in_flight: Option<f64>,
}

impl LiveLine {
    /// A line that is shown on a terminal, unless somebody wants quiet.
    pub fn new(quiet: bool) -> Self {
        let is_terminal =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { is_shown: is_terminal && !quiet, before: Cell::new((0, 0)) }
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Writes it anew, as far as the terminal is wide.
    pub fn show(&self, text: &str) {
        let fitting: String = printable(text).chars().take(output::width(200).saturating_sub(1)).collect();
        self.write(&fitting);
    }

    /// Shows how far a measurement has come, with the rate since the mark before.
    pub fn progress(&self, mark: Mark, course: Course<'_>) {
        match mark {
            Mark::Opened => self.before.set((0, 0)),
            Mark::Progress { work, elapsed_ns } => {
                let before = self.before.replace((work, elapsed_ns));
                self.show(&course.words(before, (work, elapsed_ns)));
            }
            Mark::Closed => {}
        }
    }

    /// Takes it away.
    pub fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let mut error = std::io::stderr().lock();
            let _ = write!(error, "\r\x1b[K{text}");
            let _ = error.flush();
        }
    }
}

impl Course<'_> {
    fn words(&self, before: (u64, u64), now: (u64, u64)) -> String {
        let Self { job, duration, unit, in_flight } = *self;
        let pace = pace(before, now, in_flight).map(|pace| format!(", {pace}")).unwrap_or_default();
        let (work, ns) = now;
        format!("{job}{:.0} s of {:.0} s, {work} {unit}{pace}", Span(ns).seconds(), duration.seconds())
    }
}

/// `4000/s, about 5.000 ms each`, from work and time at two marks; `None` where nothing was done between them. The time that
/// each takes follows from the rate by Little's law: so many in flight, divided by the rate.
#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are far below 2^53")]
pub fn pace(
    (work_before, ns_before): (u64, u64),
    (work, ns): (u64, u64),
    in_flight: Option<f64>,
) -> Option<String> {
    let since_s = Span(ns.saturating_sub(ns_before)).seconds();
    let rate = work.saturating_sub(work_before) as f64 / since_s;
    let each = in_flight.map(|in_flight| format!(", about {:.3} ms each", 1e3 * in_flight / rate));
    (rate > 0.0 && rate.is_finite()).then(|| format!("{rate:.0}/s{}", each.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_the_rate_since_the_mark_before_and_the_time_of_each() {
        let course =
            Course { job: "", duration: Span(10_000_000_000), unit: "requests", in_flight: Some(20.0) };
        assert_eq!(
            course.words((1000, 1_000_000_000), (5000, 2_000_000_000)),
            "2 s of 10 s, 5000 requests, 4000/s, about 5.000 ms each"
        );
        let stalled = Course { in_flight: None, ..course };
        assert_eq!(stalled.words((5000, 2_000_000_000), (5000, 3_000_000_000)), "3 s of 10 s, 5000 requests");
        assert_eq!(stalled.words((0, 0), (0, 0)), "0 s of 10 s, 0 requests");
    }
}
