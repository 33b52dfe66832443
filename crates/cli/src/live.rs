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
#[derive(Debug)]
pub struct LiveTask {
    /// The jobs, one after the other, all for the same time.
    pub jobs: Vec<Job>,
    /// When it ends.
    pub goal: Goal,
    /// The counted units, in the plural.
    pub unit: &'static str,
}

/// A part of a measurement.
#[derive(Debug)]
pub struct Job {
    /// The name; empty where there is only one.
    pub name: &'static str,
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
    /// At a moment that nobody knows.
    Open,
}

impl Goal {
    /// The amount of work where one was asked for, or else the duration.
    pub fn new(duration: Span, work: Option<u64>) -> Self {
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
    pub fn progress(&self, mark: Mark, progress: &LiveTask) {
        match mark {
            Mark::Opened => self.before.set((0, 0)),
            Mark::Progress { work, elapsed_ns } => {
                let before = self.before.replace((work, elapsed_ns));
                self.show(&progress.progress_in_words(before, (work, elapsed_ns)));
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

impl LiveTask {
    /// A measurement without parts.
    pub fn of_one(unit: &'static str, goal: Goal, in_flight: Option<f64>) -> Self {
        Self { jobs: vec![Job { name: "", in_flight }], goal, unit }
    }

    /// A measurement of jobs one after the other, which are measured for this time together. Each has a warm-up before it.
    pub fn of_jobs(unit: &'static str, jobs: Vec<Job>, measured: Span, warmup: Span) -> Self {
        let between = warmup.0.saturating_mul(jobs.len().saturating_sub(1) as u64);
        Self { jobs, goal: Goal::Duration(Span(measured.0.saturating_add(between))), unit }
    }

    /// The job at a time after the beginning.
    fn job(&self, ns: u64) -> Option<&Job> {
        let part = match self.goal {
            Goal::Duration(all) if all.0 > 0 => ns as f64 / all.0 as f64,
            Goal::Duration(_) | Goal::Work(_) | Goal::Open => 0.0,
        };
        let at = (part * self.jobs.len() as f64) as usize;
        self.jobs.get(at).or(self.jobs.last())
    }

    fn progress_in_words(&self, before: (u64, u64), now: (u64, u64)) -> String {
        let (work, ns) = now;
        let job = self.job(ns);
        let pace = pace(before, now, job.and_then(|job| job.in_flight));
        let pace = pace.map(|pace| format!(", {pace}")).unwrap_or_default();
        let name = job.map(|job| job.name).filter(|name| !name.is_empty());
        let (job, unit) = (name.map(|name| format!("{name}: ")).unwrap_or_default(), self.unit);
        let passed_s = Span(ns).seconds();
        match self.goal {
            Goal::Duration(all) => {
                format!("{job}{passed_s:.0} s of {:.0} s, {work} {unit}{pace}", all.seconds())
            }
            Goal::Work(all) => format!("{job}{passed_s:.0} s, {work} of {all} {unit}{pace}"),
            Goal::Open => format!("{job}{passed_s:.0} s, {work} {unit}{pace}"),
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
        let progress = LiveTask::of_one("requests", Goal::Duration(Span(10_000_000_000)), Some(20.0));
        assert_eq!(
            progress.progress_in_words((1000, 1_000_000_000), (5000, 2_000_000_000)),
            "2 s of 10 s, 5000 requests, 4000/s, about 5.000 ms each"
        );
        let stalled = progress.progress_in_words((5000, 2_000_000_000), (5000, 3_000_000_000));
        assert_eq!(stalled, "3 s of 10 s, 5000 requests, 0/s");
        assert_eq!(progress.progress_in_words((0, 0), (0, 0)), "0 s of 10 s, 0 requests");
        let counted = LiveTask::of_one("requests", Goal::new(Span(u64::MAX), Some(9000)), None);
        assert_eq!(
            counted.progress_in_words((1000, 1_000_000_000), (5000, 2_000_000_000)),
            "2 s, 5000 of 9000 requests, 4000/s"
        );
    }

    #[test]
    fn progress_names_the_job_under_way() {
        let jobs = vec![Job { name: "first", in_flight: None }, Job { name: "second", in_flight: None }];
        let progress = LiveTask::of_jobs("reads", jobs, Span(8_000_000_000), Span(2_000_000_000));
        let at = |ns| progress.progress_in_words((0, ns), (0, ns));
        assert_eq!(at(4_900_000_000), "first: 5 s of 10 s, 0 reads");
        assert_eq!(at(5_000_000_000), "second: 5 s of 10 s, 0 reads");
        assert_eq!(at(10_100_000_000), "second: 10 s of 10 s, 0 reads");
    }
}
