//! A progress line on standard error that is overwritten again and again, on a terminal only.

use std::cell::Cell;

use plumb_model::{Span, printable};
use plumb_path::Mark;

use crate::output;

/// The line. It writes nothing where standard error is not a terminal.
#[derive(Debug)]
pub struct LiveLine {
    is_shown: bool,
    /// Work and time at the mark before, which the rate is counted from.
    before: Cell<(u64, u64)>,
}

/// A measurement under way.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    /// The job's name with its separator, or an empty text.
    pub job: &'a str,
    /// When it ends.
    pub goal: Goal,
    /// What is counted, in the plural.
    pub unit: &'a str,
    /// In a closed loop, how many are in flight; half as many where the time of each is half of a round trip.
    pub in_flight: Option<f64>,
}

/// When a measurement ends by itself.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// After a time.
    Duration(Span),
    /// After this much work.
    Work(u64),
}

impl Goal {
    /// The amount of work where one was asked for, or else the duration.
    pub fn of(duration: Span, work: Option<u64>) -> Self {
        work.map_or(Self::Duration(duration), Self::Work)
    }
}

impl LiveLine {
    /// A line that is shown on a terminal, unless somebody wants quiet.
    pub fn new(quiet: bool) -> Self {
        Self { is_shown: output::can_overwrite() && !quiet, before: Cell::new((0, 0)) }
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
            Mark::Agreed { .. } | Mark::Closed => {}
        }
    }

    /// Takes it away.
    pub fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            output::overwritten(text);
        }
    }
}

impl Course<'_> {
    fn words(&self, before: (u64, u64), now: (u64, u64)) -> String {
        let Self { job, goal, unit, in_flight } = *self;
        let pace = pace(before, now, in_flight).map(|pace| format!(", {pace}")).unwrap_or_default();
        let (work, ns) = now;
        let passed_s = Span(ns).seconds();
        match goal {
            Goal::Duration(all) => {
                format!("{job}{passed_s:.0} s of {:.0} s, {work} {unit}{pace}", all.seconds())
            }
            Goal::Work(all) => format!("{job}{passed_s:.0} s, {work} of {all} {unit}{pace}"),
        }
    }
}

/// `4000/s, about 5.000 ms each`, from work and time at two marks; `None` where no time is between them. By Little's law, the
/// time of each is the number in flight divided by the rate. It is unknown where nothing was done.
pub fn pace(
    (work_before, ns_before): (u64, u64),
    (work, ns): (u64, u64),
    in_flight: Option<f64>,
) -> Option<String> {
    let since_s = Span(ns.saturating_sub(ns_before)).seconds();
    let rate = work.saturating_sub(work_before) as f64 / since_s;
    let each = in_flight.filter(|_| rate > 0.0);
    let each = each.map(|in_flight| format!(", about {:.3} ms each", 1e3 * in_flight / rate));
    rate.is_finite().then(|| format!("{rate:.0}/s{}", each.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_the_rate_since_the_mark_before_and_the_time_of_each() {
        let course = Course {
            job: "",
            goal: Goal::Duration(Span(10_000_000_000)),
            unit: "requests",
            in_flight: Some(20.0),
        };
        assert_eq!(
            course.words((1000, 1_000_000_000), (5000, 2_000_000_000)),
            "2 s of 10 s, 5000 requests, 4000/s, about 5.000 ms each"
        );
        let stalled = course.words((5000, 2_000_000_000), (5000, 3_000_000_000));
        assert_eq!(stalled, "3 s of 10 s, 5000 requests, 0/s");
        assert_eq!(course.words((0, 0), (0, 0)), "0 s of 10 s, 0 requests");
        let counted = Course { goal: Goal::of(Span(u64::MAX), Some(9000)), in_flight: None, ..course };
        assert_eq!(
            counted.words((1000, 1_000_000_000), (5000, 2_000_000_000)),
            "2 s, 5000 of 9000 requests, 4000/s"
        );
    }
}
