//! The side of the load: the command, run again and again.
//!
//! The time of a run is taken by the kernel's own report of its end, so nothing here is on its clock. What surrounds the
//! runs (`setup`, `prepare`, `cleanup`, reading what they wrote) happens between them.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use plumb_host::cpu::current_thread_cpu_ns;
use plumb_host::memory::own_memory;
use plumb_host::process::{Exit, Finished, Keep, run_measured};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::{LoadHealth, Measurement};
use plumb_path::{Load, Mark, PathError, Place, Window};

use crate::extract::{Extractor, OUTPUT_BYTES_MAX, Source, Stamp};
use crate::line::has_pipeline;
use crate::notes::Notes;
use crate::program::{Identity, Program};
use crate::settings::{CommandSettings, MetricSettings, Shell};
use crate::shell::{self, TAIL_BYTES, ending, go_on, last_words};
use crate::tally::Tally;

/// How often the runner hears that the measurement goes on.
const PROGRESS_NS: u64 = 1_000_000_000;
/// After the window has opened, for the runner to read the counters of the host and of the system: the first run would share a
/// CPU with that.
const SETTLING: Duration = Duration::from_millis(10);

/// After as many failures and no success, no run of the slot will succeed.
const FAILURES_MAX: u64 = 3;

/// The observed property of the program.
pub(crate) const PROGRAM: &str = "program";
/// The shell that ran the command line.
const SHELL: &str = "shell";
/// The observed property of parts whose failure the shell hides.
const UNSEEN_PARTS: &str = "unseen";
/// The program of the first slot, if it has changed.
pub(crate) const PROGRAM_BEFORE: &str = "program in the first slot";

/// A load that runs the settings' command.
///
/// # Errors
/// When a metric cannot be read as the settings say.
pub(crate) fn command_load(
    settings: &CommandSettings,
    has_system: bool,
    place: &Place,
) -> Result<Box<dyn Load>, PathError> {
    let load = &settings.load;
    let extractor = |(name, metric): (&String, &MetricSettings)| {
        Extractor::new(name, metric, load.directory.as_deref())
            .map_err(|error| PathError::load(format!("read the metric {name}: {error}")))
    };
    let extractors = load.metrics.iter().map(extractor).collect::<Result<Vec<Extractor>, PathError>>()?;
    Ok(Box::new(CommandLoad {
        settings: settings.clone(),
        has_system,
        extractors,
        scratch: place.scratch.clone(),
        cpus: place.cpus,
    }))
}

struct CommandLoad {
    settings: CommandSettings,
    has_system: bool,
    extractors: Vec<Extractor>,
    scratch: PathBuf,
    cpus: usize,
}

impl Load for CommandLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let mut pulse = Pulse { mark, work: 0, opened_ns: None, last_ns: monotonic_ns() };
        self.hook("setup", &mut pulse)?;
        let measured = self.runs(window, &mut pulse);
        let cleaned = self.hook("cleanup", &mut pulse);
        let measurement = measured?;
        cleaned.map(|()| measurement)
    }
}

impl CommandLoad {
    /// Runs the command of a key, where the settings have one.
    fn hook(&self, key: &str, pulse: &mut Pulse<'_>) -> Result<(), PathError> {
        let load = &self.settings.load;
        let command = match key {
            "setup" => &load.setup,
            "prepare" => &load.prepare,
            _ => &load.cleanup,
        };
        match command {
            Some(text) => shell::run(key, text, (load, load.timeout), &mut || pulse.beat()),
            None => Ok(()),
        }
    }

    /// Warms up, and measures one window.
    fn runs(&self, window: Window, pulse: &mut Pulse<'_>) -> Result<Measurement, PathError> {
        let load = &self.settings.load;
        if window.warmup_ns > 0 {
            let end_ns = monotonic_ns().saturating_add(window.warmup_ns);
            self.run(pulse)?;
            while monotonic_ns() < end_ns {
                self.run(pulse)?;
            }
        }
        // A shortened window is one that tries the variant out.
        let runs_max = load.runs.filter(|_| window.window_ns >= load.duration.0);
        let mut tally = Tally::default();
        let opened_ns = pulse.open();
        let own_cpu_ns = current_thread_cpu_ns();
        let end_ns = opened_ns.saturating_add(window.window_ns);
        sleep(SETTLING);
        loop {
            self.one(&mut tally, pulse)?;
            let is_enough = runs_max.map_or(monotonic_ns() >= end_ns, |runs| tally.tried() >= runs);
            let is_hopeless = tally.work() == 0 && tally.tried() >= FAILURES_MAX;
            if is_enough || is_hopeless {
                break;
            }
        }
        let own_cpu_ns = current_thread_cpu_ns().saturating_sub(own_cpu_ns);
        let window_ns = pulse.close(opened_ns);
        if tally.work() == 0 {
            return Err(PathError::new(format!("run `{}`: {}", load.command, tally.why_none())));
        }
        let health = self.health((own_cpu_ns, tally.cpu_ns()), window_ns);
        let mut measurement = Measurement { health, ..tally.into_measurement(window_ns) };
        self.observe_program(&mut measurement)?;
        Ok(measurement)
    }

    /// One run, and what is made of it.
    fn one(&self, tally: &mut Tally, pulse: &mut Pulse<'_>) -> Result<(), PathError> {
        let before: Vec<Stamp> = self.extractors.iter().map(Extractor::stamp).collect();
        let finished = self.run(pulse)?;
        let load = &self.settings.load;
        let kind = ending(finished.exit, finished.is_overdue, load.timeout);
        let is_accepted = matches!(finished.exit, Exit::Code(code) if load.exit.accept(code));
        if !is_accepted || finished.is_overdue {
            tally.fail(&kind, last_words(&finished.stderr));
            return Ok(());
        }
        tally.succeed(&kind, &finished, own_memory()?.resident_bytes_max);
        for (extractor, before) in self.extractors.iter().zip(before) {
            let value = extractor.extract(&finished.stdout, &finished.stderr, before);
            tally.take_value(&extractor.name, value);
        }
        pulse.work = tally.work();
        let _ = pulse.beat();
        Ok(())
    }

    fn run(&self, pulse: &mut Pulse<'_>) -> Result<Finished, PathError> {
        self.hook("prepare", pulse)?;
        let load = &self.settings.load;
        // `setup` and `prepare` may have made it only now.
        let program = Program::from_settings(load)
            .map_err(|missing| PathError::new(format!("run `{}`: {missing}", load.command)))?;
        let reads = |source| self.extractors.iter().any(|extractor| extractor.source == source);
        let stdout = if reads(Source::Stdout) { Keep::Head(OUTPUT_BYTES_MAX) } else { Keep::Nothing };
        let stderr =
            if reads(Source::Stderr) { Keep::Head(OUTPUT_BYTES_MAX) } else { Keep::Tail(TAIL_BYTES) };
        let command = program.command(load)?;
        let timeout = load.timeout.duration();
        let finished = run_measured(command, (stdout, stderr), timeout, &mut |_| pulse.beat())?;
        // Otherwise the next run would begin, only to be killed too.
        match go_on() {
            ControlFlow::Continue(()) => Ok(finished),
            ControlFlow::Break(()) => Err(PathError::new(format!("run `{}`: it was stopped", load.command))),
        }
    }

    /// Beside a system, a command that uses all its CPUs may be the limit. Without one, it is what is measured.
    fn health(&self, (own_ns, runs_ns): (u64, u64), window_ns: u64) -> LoadHealth {
        let share = |cpu_ns: u64, cpus: usize| {
            (cpu_ns as f64 / (window_ns.max(1) as f64 * cpus.max(1) as f64)).min(1.0)
        };
        let of_runs = if self.has_system { share(runs_ns, self.cpus) } else { 0.0 };
        let busiest_thread = share(own_ns, 1).max(of_runs);
        LoadHealth { threads: 1, busiest_thread, wanted: busiest_thread, ..LoadHealth::default() }
    }

    /// Notes which program ran, and what a reader must know of it.
    fn observe_program(&self, measurement: &mut Measurement) -> Result<(), PathError> {
        let settings = &self.settings;
        let program = Program::from_settings(&settings.load)
            .map_err(|missing| PathError::new(format!("find the program after its runs: {missing}")))?;
        let mut notes = Notes::read_from(&self.scratch)?;
        let identity = Identity::of_file(&program.file, notes.known(settings)).map_err(PathError::new)?;
        let mut observe = |property: &str, value: String| {
            measurement.observed.insert(property.to_owned(), [(value, measurement.work)].into());
        };
        observe(PROGRAM, identity.in_words());
        if settings.load.shell == Shell::Sh {
            observe(SHELL, program.name().to_owned());
            if program.name() == "sh" && has_pipeline(&settings.load.command) {
                observe(UNSEEN_PARTS, "earlier parts of the pipeline".to_owned());
            }
        }
        notes.note(&self.scratch, settings, &program, identity.clone())?;
        if let Some(first) = notes.first(settings).filter(|first| !first.is_same(&identity)) {
            observe(PROGRAM_BEFORE, first.in_words());
        }
        measurement.notices.extend(notes.twin(settings));
        Ok(())
    }
}

/// Tells the runner that the measurement goes on.
struct Pulse<'a> {
    mark: &'a mut dyn FnMut(Mark),
    work: u64,
    opened_ns: Option<u64>,
    last_ns: u64,
}

impl Pulse<'_> {
    /// Reports progress about once a second. Returns whether to go on.
    fn beat(&mut self) -> ControlFlow<()> {
        let now_ns = monotonic_ns();
        if now_ns.saturating_sub(self.last_ns) >= PROGRESS_NS {
            self.last_ns = now_ns;
            let elapsed_ns = self.opened_ns.map_or(0, |opened_ns| now_ns.saturating_sub(opened_ns));
            (self.mark)(Mark::Progress { work: self.work, elapsed_ns });
        }
        go_on()
    }

    /// The window opens; returns when.
    fn open(&mut self) -> u64 {
        let opened_ns = monotonic_ns();
        self.opened_ns = Some(opened_ns);
        (self.mark)(Mark::Opened);
        opened_ns
    }

    /// The window closes; returns how long it was.
    fn close(&mut self, opened_ns: u64) -> u64 {
        let closed_ns = monotonic_ns();
        (self.mark)(Mark::Closed);
        closed_ns.saturating_sub(opened_ns)
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::{Better, NoticeKind, Reading, Span};
    use plumb_path::Settings;

    use super::*;
    use crate::metrics::METRICS;
    use crate::settings::{Exits, Shell};

    const MS: u64 = 1_000_000;

    fn settings(script: &str) -> CommandSettings {
        let mut settings = CommandSettings::default();
        settings.load.command = script.to_owned();
        settings.load.shell = Shell::Sh;
        settings.load.warmup = Span(0);
        settings
    }

    fn measure(settings: &CommandSettings, window_ms: u64) -> Result<Measurement, PathError> {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 };
        let mut load = settings.load(&serde_json::Value::Null, &place).unwrap();
        let window = Window::at_once(settings.load.warmup.0, window_ms * MS, 1);
        load.measure(window, &mut |_| ())
    }

    #[test]
    fn every_declared_metric_is_read_and_no_other() {
        let mut declared = settings("head -c 268435456 /dev/zero | tail -c 268435456 | wc -c");
        let regex = Some("([0-9]+)".to_owned());
        let (from, pointer, unit) = ("stdout".to_owned(), None, Some("B".to_owned()));
        let (format, value) = (None, None);
        let metric = MetricSettings { from, regex, pointer, format, value, unit, better: Better::Higher };
        declared.load.metrics.insert("copied".to_owned(), metric);
        declared.load.runs = Some(2);
        declared.load.duration = Span(MS);
        let measurement = measure(&declared, 1).unwrap();
        let mut expected: Vec<&str> =
            METRICS.iter().map(|metric| metric.name).filter(|name| *name != "cpu_system").collect();
        expected.push("copied");
        expected.sort_unstable();
        assert_eq!(measurement.readings.keys().collect::<Vec<_>>(), expected, "{:?}", measurement.notices);
        assert_eq!(measurement.readings["copied"], Reading::Gauge(268_435_456.0));
        let Reading::Gauge(memory_bytes) = measurement.readings["memory_max"] else { panic!() };
        // `tail` holds all of it, which is more than this process has ever held.
        assert!((268e6..330e6).contains(&memory_bytes), "{memory_bytes}");
        assert_eq!((measurement.work, measurement.attempts.failed), (2, 0));
        let evidence = crate::evidence::evidence(&declared, &measurement);
        assert!(evidence.iter().all(|evidence| evidence.holds), "{evidence:?}");
    }

    #[test]
    fn memory_below_that_of_the_starter_is_left_out() {
        let mut small = settings("true");
        small.load.shell = Shell::None;
        // The kernel would say that it took as much as this process ever did.
        let ballast = std::hint::black_box(vec![1_u8; 64 << 20]);
        let measurement = measure(&small, 1).unwrap();
        assert_eq!(measurement.readings.get("memory_max"), None, "{}", ballast.len());
        assert!(measurement.notices.iter().any(|notice| notice.kind == NoticeKind::MemoryHidden));
    }

    #[test]
    fn hooks_run_in_their_order_and_prepare_before_each_run() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let say = |word: &str| Some(format!("echo {word} >> {}", log.display()));
        let mut hooked = settings(&say("run").unwrap());
        (hooked.load.setup, hooked.load.prepare, hooked.load.cleanup) =
            (say("setup"), say("prepare"), say("cleanup"));
        (hooked.load.runs, hooked.load.duration, hooked.load.warmup) = (Some(2), Span(MS), Span(1));
        measure(&hooked, 1).unwrap();
        let said = std::fs::read_to_string(&log).unwrap();
        let words: Vec<&str> = said.lines().collect();
        assert_eq!(words, ["setup", "prepare", "run", "prepare", "run", "prepare", "run", "cleanup"]);
        hooked.load.command = "exit 1".to_owned();
        std::fs::remove_file(&log).unwrap();
        assert!(measure(&hooked, 1).is_err());
        assert!(std::fs::read_to_string(&log).unwrap().ends_with("cleanup\n"), "also after a failure");
        hooked.load.setup = Some("echo no >&2; exit 9".to_owned());
        let failed = measure(&hooked, 1).unwrap_err().to_string();
        assert_eq!(failed, "run the `setup` command `echo no >&2; exit 9`: exit code 9; its last words: no");
    }

    #[test]
    fn other_exit_codes_signals_and_late_ends_are_failures() {
        let place = tempfile::tempdir().unwrap();
        let flag = place.path().join("flag");
        let script = |bad: &str| format!("if [ -e {0} ]; then rm {0}; {bad}; fi; touch {0}", flag.display());
        for (bad, kind, timeout) in [
            ("exit 3", "exit code 3", Span(60_000 * MS)),
            ("kill -9 $$", "signal 9", Span(60_000 * MS)),
            ("sleep 600", "no end within 3 s", Span(3000 * MS)),
        ] {
            let _ = std::fs::remove_file(&flag);
            let mut failing = settings(&script(bad));
            (failing.load.runs, failing.load.duration, failing.load.timeout) = (Some(2), Span(MS), timeout);
            let measurement = measure(&failing, 1).unwrap();
            assert_eq!(measurement.errors.get(kind), Some(&1), "{bad}: {:?}", measurement.errors);
            assert_eq!((measurement.work, measurement.attempts.tried), (1, 2));
        }
        let mut always = settings("echo broken >&2; exit 3");
        let failed = measure(&always, 1).unwrap_err().to_string();
        assert_eq!(failed, "run `echo broken >&2; exit 3`: exit code 3; its last words: broken");
        always.load.exit = Exits::Any;
        assert_eq!(measure(&always, 1).unwrap().work, 1);
    }

    #[test]
    fn runs_get_the_variables_and_the_directory_that_are_set() {
        let place = tempfile::tempdir().unwrap();
        let mut dressed = settings("test \"$PLACE\" = \"$(pwd -P)\" && test -z \"$CARGO_PKG_NAME\"");
        let directory = place.path().canonicalize().unwrap();
        dressed.load.env.insert("PLACE".to_owned(), directory.display().to_string());
        dressed.load.directory = Some(directory);
        assert_eq!(measure(&dressed, 1).unwrap().work, 1);
        dressed.load.inherit = vec!["CARGO_PKG_NAME".to_owned()];
        assert!(measure(&dressed, 1).is_err(), "it is set while tests run");
    }
}
