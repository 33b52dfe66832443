//! The driver of every load with threads: it starts them, gives each its share, seed and common start, opens
//! and closes the window by one clock, and collects their results.
//!
//! It acts when threads start, several times a second while they run, and when they end. In between, a thread
//! runs its own [`Worker`] without dynamic dispatch: the driver adds no cost to a unit of work.

mod driven;
mod health;
mod part;
mod recorder;
mod watch;

pub use driven::{Accounts, Driven, Moment, Ran};
pub use health::load_health;
pub use part::{Part, Progress};
pub use recorder::Recorder;
pub use watch::{LOOK_NS, Marks, Standing, Watch};

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use plumb_host::cpu::process_cpu_time;
use plumb_host::demand::CpuSupply;
use plumb_host::signals::was_asked_to_stop;
use plumb_host::time::{keep_exact_timers, monotonic_ns, sleep};
use plumb_model::{Span, SplitMix};
use plumb_pace::{Budget, Closing, Frame, Schedule};

use crate::family::{Mark, PathError, Window};

/// How long this number of threads may take to start, in ns. All threads begin after that.
#[must_use]
pub fn lead_ns(threads: u32) -> u64 {
    2_000_000 * u64::from(threads)
}

/// How often progress is reported.
const PROGRESS_NS: u64 = 1_000_000_000;
/// How long after the window threads may finish work in progress.
const PATIENCE: Span = Span(30_000_000_000);
/// How long after an interruption they may.
const HASTE: Span = Span(500_000_000);

/// The work of one thread of a load. It is created in that thread and stays there.
pub trait Worker {
    /// The counts and times that it collects.
    type Tally: Send + 'static;

    /// Drives load from the common start, which is now, until all work of the window has ended.
    ///
    /// # Errors
    /// When it cannot measure anything.
    fn run(self) -> Result<Ran<Self::Tally>, PathError>;

    /// Why `missing` of `threads` threads still run this long after the window.
    #[must_use]
    fn overdue(missing: usize, threads: usize, after: Span) -> PathError {
        PathError::load(format!(
            "finish the measurement: {missing} of {threads} load threads still run {after} after the window"
        ))
    }
}

/// The threads of one measurement, and the values that they share.
#[derive(Debug, Clone, Copy)]
pub struct Drive {
    /// The number of threads.
    pub threads: u32,
    /// The window to measure.
    pub window: Window,
    /// The rate of an open loop, in units of work per second over all threads.
    pub rate_per_s: Option<f64>,
    /// The number of units of work after which the window ends early.
    pub units: Option<u64>,
    /// How often the watching thread checks the others, in ns.
    pub look_ns: u64,
}

impl Drive {
    /// Measures one window. `make` turns each thread's part into a function that creates the worker in its
    /// thread.
    ///
    /// # Errors
    /// When a thread does not start, fails or does not end, or when `watch` fails. Threads that still run
    /// then close their windows and end by themselves.
    pub fn run<M, W, O>(
        &self,
        watch: &mut O,
        make: impl FnMut(Part) -> M,
    ) -> Result<Driven<W::Tally>, O::Error>
    where
        M: FnOnce() -> Result<W, PathError> + Send + 'static,
        W: Worker,
        O: Watch,
    {
        let (sender, results) = channel();
        let mut threads = Threads {
            look_ns: self.look_ns,
            closing: Closing::new(self.frame()),
            progress: (0..self.threads).map(|_| Arc::default()).collect(),
            results,
            ran: Vec::new(),
            is_interrupted: false,
            watch,
        };
        threads.watch.agreed(threads.closing.frame());
        threads.start(self, sender, make)?;
        let (opened, closed) = threads.measure()?;
        let end_ns = monotonic_ns();
        if !threads.wait(|threads| end_ns.saturating_add(threads.patience().0))? {
            let all = threads.progress.len();
            return Err(W::overdue(all - threads.ran.len(), all, threads.patience()).into());
        }
        Ok(Driven {
            threads: std::mem::take(&mut threads.ran),
            frame: threads.closing.frame(),
            opened,
            closed,
        })
    }

    fn schedule(&self) -> Option<Schedule> {
        Some(Schedule::constant(self.rate_per_s?)?.later(self.window.phase))
    }

    /// The planned moments of the measurement. The window of a schedule ends after its last unit of work, if
    /// that is earlier.
    fn frame(&self) -> Frame {
        let ready_ns = monotonic_ns() + lead_ns(self.threads);
        let start_ns = ready_ns.max(self.window.start_ns);
        let mut frame = Frame::new(start_ns, self.window.warmup_ns, self.window.window_ns);
        frame.late_ns = frame.late_ns.max(self.window.late_ns);
        let (Some(schedule), Some(units)) = (self.schedule(), self.units) else { return frame };
        let first = schedule.first_at_or_after(frame.open_ns - start_ns);
        let end_ns = start_ns.saturating_add(schedule.due_ns(first.saturating_add(units)));
        Frame { close_ns: frame.close_ns.min(end_ns), ..frame }
    }
}

/// The result of a thread, or the reason why it has none.
type Outcome<T> = Result<Ran<T>, PathError>;

/// The threads from the view of the thread that watches them.
struct Threads<'a, T, O> {
    look_ns: u64,
    closing: Closing,
    progress: Vec<Arc<Progress>>,
    results: Receiver<Outcome<T>>,
    ran: Vec<Ran<T>>,
    is_interrupted: bool,
    watch: &'a mut O,
}

impl<T, O> Drop for Threads<'_, T, O> {
    fn drop(&mut self) {
        self.closing.abandon(monotonic_ns());
    }
}

impl<T: Send + 'static, O: Watch> Threads<'_, T, O> {
    /// Starts the threads. No other code holds `sender`, so the watcher sees when all of them have ended.
    fn start<M, W>(
        &self,
        drive: &Drive,
        sender: Sender<Outcome<T>>,
        mut make: impl FnMut(Part) -> M,
    ) -> Result<(), PathError>
    where
        M: FnOnce() -> Result<W, PathError> + Send + 'static,
        W: Worker<Tally = T>,
    {
        let (frame, schedule) = (self.closing.frame(), drive.schedule());
        // In an open loop, the schedule determines the last unit of work.
        let budget = drive.units.filter(|_| schedule.is_none()).map(|units| Arc::new(Budget::new(units)));
        for (number, progress) in (0_u32..).zip(&self.progress) {
            let make = make(Part {
                number,
                threads: drive.threads,
                seed: SplitMix::seed_of(drive.window.seed, number.into()),
                due: schedule.map(|schedule| schedule.share(number.into(), drive.threads.into())),
                frame,
                end: self.closing.end(),
                budget: budget.clone(),
                progress: Arc::clone(progress),
            });
            let sender = sender.clone();
            let run = move || {
                keep_exact_timers();
                let outcome = make().and_then(|worker| {
                    sleep(Duration::from_nanos(frame.start_ns.saturating_sub(monotonic_ns())));
                    worker.run()
                });
                // The receiver is gone only after the measurement was abandoned.
                let _ = sender.send(outcome);
            };
            thread::Builder::new()
                .name(format!("plumb-load-{number}"))
                .spawn(run)
                .map_err(|cause| PathError::load(format!("start a load thread: {cause}")))?;
        }
        Ok(())
    }

    /// Marks the window's moments as they pass. Returns its opening and its close.
    fn measure(&mut self) -> Result<(Moment, Moment), O::Error> {
        let open_ns = self.closing.frame().open_ns;
        self.wait(|threads| open_ns.min(threads.closing.frame().close_ns))?;
        let opened = self.mark_end(Mark::Opened)?;
        let mut next_ns = open_ns.saturating_add(PROGRESS_NS);
        while !self.wait(|threads| next_ns.min(threads.closing.frame().close_ns))?
            && next_ns < self.closing.frame().close_ns
        {
            self.mark(|threads| Mark::Progress { work: threads.work(), elapsed_ns: next_ns - open_ns })?;
            next_ns = next_ns.saturating_add(PROGRESS_NS);
        }
        Ok((opened, self.mark_end(Mark::Closed)?))
    }

    /// Marks an end of the window. CPU time is read before the mark is sent, because sending takes CPU time.
    fn mark_end(&mut self, mark: Mark) -> Result<Moment, O::Error> {
        let cpu = process_cpu_time(std::process::id()).map_err(PathError::load)?;
        self.mark(|_| mark)?;
        Ok(Moment { cpu, supply: CpuSupply::now() })
    }

    /// How long after the window threads may finish.
    fn patience(&self) -> Span {
        if self.is_interrupted { HASTE } else { PATIENCE }
    }

    fn mark(&mut self, mark: impl FnOnce(&Standing<'_>) -> Mark) -> Result<(), O::Error> {
        let standing = Standing { frame: self.closing.frame(), progress: &self.progress };
        self.watch.mark(mark(&standing), &standing)
    }

    /// Collects the threads' results until a moment, which moves nearer if the window closes early. Returns
    /// whether all threads are done.
    fn wait(&mut self, until_ns: impl Fn(&Self) -> u64) -> Result<bool, O::Error> {
        while self.ran.len() < self.progress.len() {
            let now_ns = monotonic_ns();
            self.watch.look(now_ns)?;
            self.is_interrupted = was_asked_to_stop();
            self.closing.look(now_ns, self.is_interrupted);
            let left_ns = until_ns(self).saturating_sub(now_ns);
            match self.results.recv_timeout(Duration::from_nanos(left_ns.min(self.look_ns))) {
                Ok(outcome) => self.ran.push(outcome?),
                Err(RecvTimeoutError::Timeout) if left_ns > self.look_ns => {}
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "finish the measurement: a load thread ended early";
                    return Err(PathError::load(message.to_owned()).into());
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Counts up every millisecond until its window ends, its own work is done, or the budget is spent.
    struct Counter {
        part: Part,
        accounts: Accounts,
        fails: bool,
    }

    impl Worker for Counter {
        type Tally = (Part, u64);

        fn run(mut self) -> Result<Ran<Self::Tally>, PathError> {
            let mut work = 0;
            let mut now_ns = monotonic_ns();
            assert!(now_ns >= self.part.frame.start_ns, "the start is common to all");
            while now_ns < self.part.frame.close_ns {
                if self.fails {
                    return Err(PathError::new("count: it was told to fail"));
                }
                if self.part.budget.as_ref().is_some_and(|budget| !budget.take()) {
                    break;
                }
                work += 1;
                self.part.progress.set(work);
                sleep(Duration::from_millis(1));
                now_ns = monotonic_ns();
                self.accounts.observe(now_ns, self.part.frame);
                self.part.early_end();
            }
            self.accounts.close();
            let end_ns = now_ns.min(self.part.frame.close_ns);
            Ok(Ran { tally: (self.part, work), end_ns, accounts: self.accounts.ends() })
        }
    }

    fn drive(window_ms: u64) -> Drive {
        let window = Window::at_once(5 * MS, window_ms * MS, 7);
        Drive { threads: 3, window, rate_per_s: None, units: None, look_ns: LOOK_NS }
    }

    /// Drives counters and lets counter number `failing` fail. Asks the process to stop when the window opens,
    /// if requested.
    fn run(
        drive: &Drive,
        failing: Option<u32>,
        is_interrupted: bool,
    ) -> (Result<Driven<<Counter as Worker>::Tally>, PathError>, Vec<Mark>) {
        let mut marks = Vec::new();
        let mut mark = |mark| {
            if is_interrupted {
                plumb_host::signals::ask_to_stop();
            }
            marks.push(mark);
        };
        let driven = drive.run(&mut Marks(&mut mark), |part| {
            let fails = failing == Some(part.number);
            move || Ok(Counter { part, accounts: Accounts::default(), fails })
        });
        (driven, marks)
    }

    #[test]
    fn every_thread_has_its_part_and_the_window_is_that_of_all() {
        let (driven, marks) = run(&Drive { rate_per_s: Some(300.0), ..drive(1900) }, None, false);
        let driven = driven.unwrap();
        let [
            Mark::Agreed { .. },
            Mark::Opened,
            Mark::Progress { work, elapsed_ns: 1_000_000_000 },
            Mark::Closed,
        ] = marks[..]
        else {
            panic!("{marks:?}")
        };
        assert_eq!(driven.window_ns(), 1900 * MS);
        assert!(work > 0 && work <= driven.tallies().map(|(_, work)| work).sum());
        let mut parts: Vec<&Part> = driven.tallies().map(|(part, ..)| part).collect();
        parts.sort_by_key(|part| part.number);
        assert_eq!(parts.iter().map(|part| part.share_of(5)).collect::<Vec<_>>(), [2, 2, 1]);
        let due: Vec<u64> = parts.iter().filter_map(|part| part.due).map(|due| due.due_ns()).collect();
        assert_eq!(due, [0, 3_333_333, 6_666_666], "turns are taken in the order of the threads");
        assert!(parts[0].seed != parts[1].seed && parts.iter().all(|part| part.budget.is_none()));
        let measurement = driven.measurement(work, &Recorder::default());
        assert_eq!((measurement.health.threads, measurement.window_ns), (3, 1900 * MS));
        let cpu_us = (measurement.cpu_user_ns + measurement.cpu_system_ns) as f64 / 1e3 / work as f64;
        assert_eq!(measurement.readings["cpu_load"], plumb_model::Reading::Gauge(cpu_us));
    }

    #[test]
    fn a_budget_ends_the_window_and_so_does_a_schedule() {
        let units = Drive { units: Some(30), ..drive(600_000) };
        let driven = run(&units, None, false).0.unwrap();
        assert_eq!(driven.tallies().map(|(_, work)| work).sum::<u64>(), 30);
        assert!(driven.end_ns() < driven.frame.close_ns);
        let driven = run(&Drive { rate_per_s: Some(1000.0), ..units }, None, false).0.unwrap();
        assert!(driven.tallies().all(|(part, ..)| part.budget.is_none()));
        assert_eq!(driven.frame.close_ns - driven.frame.open_ns, 30 * MS);
    }

    #[test]
    fn an_interrupted_window_closes_at_one_moment_for_all() {
        let (driven, marks) = run(&drive(600_000), None, true);
        let driven = driven.unwrap();
        assert!(marks.ends_with(&[Mark::Closed]) && driven.window_ns() < 600_000 * MS);
        assert!(driven.threads.iter().all(|one| one.end_ns == driven.frame.close_ns));
    }

    #[test]
    fn a_thread_that_fails_ends_the_others() {
        let (failed, _) = run(&drive(600_000), Some(1), false);
        assert_eq!(failed.unwrap_err().to_string(), "count: it was told to fail");
    }

    #[test]
    fn an_interrupted_measurement_does_not_wait_for_a_thread_that_does_not_end() {
        struct Stuck;
        impl Worker for Stuck {
            type Tally = ();
            fn run(self) -> Result<Ran<()>, PathError> {
                loop {
                    std::thread::park();
                }
            }
        }
        let marks = &mut Marks(&mut |_| ());
        plumb_host::signals::ask_to_stop();
        let failed = drive(600_000).run(marks, |_| || Ok(Stuck)).unwrap_err().to_string();
        assert_eq!(failed, "finish the measurement: 3 of 3 load threads still run 500 ms after the window");
    }

    #[test]
    fn a_thread_that_ends_without_a_word_is_the_loads_failure() {
        struct Silent;
        impl Worker for Silent {
            type Tally = ();
            fn run(self) -> Result<Ran<()>, PathError> {
                std::panic::resume_unwind(Box::new(()))
            }
        }
        let marks = &mut Marks(&mut |_| ());
        let failed = drive(600_000).run(marks, |_| || Ok(Silent)).unwrap_err();
        assert_eq!(failed.cause(), plumb_model::FailureCause::Harness);
    }
}
