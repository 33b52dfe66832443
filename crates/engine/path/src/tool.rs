//! A load by an external tool, which is started for each window and whose output is read.
//!
//! Slots, pinning, CPU time, evidence and claims work as with the native load. Values that the tool does not
//! print are absent. Its warm-up is a separate process, so no part of the warm-up is in the numbers. A data
//! path says how its tools are called ([`Tool`]) and which values they print ([`Says`]).

use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::CpuTime;
use plumb_host::demand::{Demand, TreeDemand};
use plumb_host::process::{Command, Exit, Finished, Keep, Written, run_for_output, run_measured, which};
use plumb_host::time::monotonic_ns;
use plumb_model::{Evidence, LoadHealth, Measurement, Metric, Statistic, facts, metric_key, statements};
use plumb_pace::Lateness;
use plumb_readers::ToolRun;

use crate::drive::load_health;
use crate::family::{AnyError, Load, Mark, PathError, SettingsFault, Window};

/// How much of a tool's output is kept, in bytes.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// How long a tool may run beyond its window: to start, to stop, and to wait for outstanding answers. The
/// runner waits longer, so the reason for a timeout comes from here.
const GRACE: Duration = Duration::from_secs(45);
/// How long a tool may take to print its version.
const VERSION: Duration = Duration::from_secs(10);
/// How often a load reports progress to the runner.
const PROGRESS_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A thread that wanted a CPU for less than this share of the time only supervises the others.
const TOOK_PART: f64 = 0.01;

/// The observation that names the tool's version and file.
const DRIVER: &str = "driver";
/// The observation that holds the tool's call.
const OPTIONS: &str = "options of the driver";

/// A tool's program, as known before a run.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The name, which is also its file name.
    pub name: &'static str,
    /// The option that prints its version.
    pub version: &'static str,
    /// A clause that says how to install it.
    pub remedy: &'static str,
}

impl Program {
    /// Finds its file.
    ///
    /// # Errors
    /// When it is not installed.
    pub fn find(&self) -> Result<PathBuf, NotInstalled> {
        which(self.name).ok_or(NotInstalled { program: self.name, remedy: self.remedy })
    }

    /// The first line of its version output that has content.
    #[must_use]
    pub fn version_of(&self, file: &Path) -> String {
        let output = run_for_output(file, [self.version], VERSION);
        let text = output.map(|output| format!("{}\n{}", output.stdout, output.stderr)).unwrap_or_default();
        // A label without a value has no content.
        let says = |line: &&str| !line.is_empty() && !line.ends_with(':');
        let line = text.lines().map(str::trim).find(says).unwrap_or("of unknown version");
        let line = line.trim_start_matches("This is ").split(" <$").next().unwrap_or(line);
        line.split(" Copyright").next().unwrap_or(line).to_owned()
    }
}

/// A program that is not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{program} is not installed; {remedy}")]
pub struct NotInstalled {
    /// The name.
    pub program: &'static str,
    /// A clause that says how to install it.
    pub remedy: &'static str,
}

/// The call of a tool for one window, and the place of its output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The words after its name.
    pub arguments: Vec<String>,
    /// The file that it writes; `None` for standard output.
    pub output: Option<PathBuf>,
    /// Environment variables for it, beside those that every child gets.
    pub environment: Vec<(&'static str, String)>,
    /// Names of environment variables that it inherits from plumb.
    pub inherited: Vec<&'static str>,
    /// The path of the network namespace in which it runs; plumb's own if absent.
    pub netns: Option<PathBuf>,
    /// Parts of the words that differ from slot to slot, such as an address. The record of the call leaves
    /// them out.
    pub passing: Vec<String>,
    /// Whether its standard error belongs to its output.
    pub joins_errors: bool,
}

impl Invocation {
    /// The call as recorded: the same text for every slot.
    fn as_recorded(&self) -> String {
        let all = self.arguments.join(" ");
        self.passing.iter().filter(|part| !part.is_empty()).fold(all, |words, part| words.replace(part, "…"))
    }
}

/// A tool as the load of a data path.
pub trait Tool {
    /// The program.
    fn program(&self) -> Program;

    /// The name in messages.
    fn name(&self) -> &'static str {
        self.program().name
    }

    /// The call that runs it for this long.
    ///
    /// # Errors
    /// The reason why it cannot be called.
    fn invocation(&self, window_ns: u64) -> Result<Invocation, AnyError>;

    /// The metrics of the data path, which its readings are named by.
    fn metrics(&self) -> &'static [Metric];

    /// How many CPUs it can keep busy.
    fn threads(&self) -> u32;

    /// Whether it also runs before the window. A tool that decides its own running time may warm up itself.
    fn warms_up(&self) -> bool {
        true
    }

    /// How long it runs to measure a window of this length.
    fn lasts_ns(&self, window_ns: u64) -> u64 {
        window_ns
    }

    /// The share of its CPU time that can make the tool the limit. The rest belongs to the measured work.
    fn own_share(&self, _: CpuTime) -> f64 {
        1.0
    }

    /// Whether this exit code means a complete run.
    fn is_whole(&self, code: i32) -> bool {
        code == 0
    }

    /// The text to read, if it is not the tool's own output.
    ///
    /// # Errors
    /// When the text cannot be had.
    fn results(&self, said: String) -> Result<String, AnyError> {
        Ok(said)
    }

    /// Reads its output as a run.
    ///
    /// # Errors
    /// When the output holds nothing that can be read.
    fn read_run(&self, said: &str) -> Result<ToolRun, AnyError> {
        Ok(plumb_readers::read_one(said)?)
    }

    /// The reason for a failure, from its output file, if it reports none elsewhere.
    fn why_failed(&self, _: &str) -> Option<String> {
        None
    }

    /// Adds the data path's own knowledge to a measurement.
    fn complete(&self, _: &mut Measurement) {}
}

/// The window rounded to whole seconds, at least one: most tools take no fractions.
#[must_use]
pub fn whole_seconds(span_ns: u64) -> u64 {
    ((span_ns + SECOND_NS / 2) / SECOND_NS).max(1)
}

/// The metrics and statistics that a tool prints; a metric that is not a trend has no statistics.
pub type Says = &'static [(&'static str, &'static [Statistic])];

/// Why a load by this program has no such value, and a remedy; `None` if it has one, or if there is no such
/// metric.
#[must_use]
pub fn lacks(
    program: &str,
    metrics: &[Metric],
    (says, remedy): (Says, &str),
    (metric, statistic): (&str, Option<Statistic>),
) -> Option<String> {
    metrics.iter().find(|known| known.name == metric)?;
    let has = |(name, statistics): &(&str, &[Statistic])| {
        *name == metric && statistic.is_none_or(|statistic| statistics.contains(&statistic))
    };
    let is_known = ["cpu_load", "cpu_system"].contains(&metric) || says.iter().any(has);
    (!is_known).then(|| format!("{program} does not say {}: {remedy}", metric_key(metric, statistic)))
}

/// The fault of a load by a tool that is to be divided over several load agents.
#[must_use]
pub fn undivided() -> SettingsFault {
    let message = "a tool does not begin at a given moment, as several load agents have to; use the native driver, or name one \
                   place for the load";
    SettingsFault::new("load.driver", message)
}

statements! {
    DRIVEN_BY = "driver": "driver of the load", "{program}", "{seen}";
}

/// The evidence of which tool drove the load; `word` occurs in the tool's own version text.
#[must_use]
pub fn evidence(measurement: &Measurement, program: &str, word: &str) -> Option<Evidence> {
    let seen = measurement.observed.get(DRIVER)?.keys().next()?;
    let holds = seen.to_lowercase().contains(&word.to_lowercase());
    Some(DRIVEN_BY.evidence(holds, facts![program, seen = seen.as_str()]))
}

/// A load that a tool drives.
#[derive(Debug)]
pub struct DrivenLoad<T> {
    tool: T,
    file: PathBuf,
    driver: String,
}

impl<T: Tool> DrivenLoad<T> {
    /// A load by the tool that is installed on this host.
    ///
    /// # Errors
    /// When the tool is not installed.
    pub fn new(tool: T) -> Result<Self, PathError> {
        let program = tool.program();
        let file =
            program.find().map_err(|missing| PathError::load(format!("find {}: {missing}", program.name)))?;
        plumb_host::limits::raise_open_files_limit();
        let driver = format!("{} ({})", program.version_of(&file), file.display());
        Ok(Self { tool, file, driver })
    }

    /// Runs the tool for the warm-up of a window, if the window has one.
    ///
    /// # Errors
    /// When the tool fails.
    pub fn warm_up(&self, window: Window) -> Result<(), PathError> {
        if window.warmup_ns > 0 && self.tool.warms_up() {
            self.run(window.warmup_ns, &mut || ())?;
        }
        Ok(())
    }

    /// Runs the tool for this long, and reads its output.
    fn run(&self, window_ns: u64, while_running: &mut dyn FnMut()) -> Result<Ran, PathError> {
        let failed = |reason: AnyError| PathError::new(format!("run {}: {reason}", self.tool.name()));
        let invocation = self.tool.invocation(window_ns).map_err(failed)?;
        let mut command = Command::new(&self.file).args(&invocation.arguments).inherit(&invocation.inherited);
        for (name, value) in &invocation.environment {
            command = command.env(name, value);
        }
        if let Some(netns) = &invocation.netns {
            let opened = File::open(netns);
            let opened =
                opened.map_err(|error| failed(format!("open its network namespace: {error}").into()))?;
            command = command.network(&opened)?;
        }
        let timeout = Duration::from_nanos(self.tool.lasts_ns(window_ns)) + GRACE;
        let keep = (Keep::Head(OUTPUT_BYTES_MAX), Keep::Tail(OUTPUT_BYTES_MAX));
        let mut demand = TreeDemand::of_next();
        let finished = run_measured(command, keep, timeout, &mut |pid| {
            demand.look(pid);
            while_running();
            ControlFlow::Continue(())
        })?;
        let is_whole = matches!(finished.exit, Exit::Code(code) if self.tool.is_whole(code));
        if !is_whole || finished.is_overdue {
            let output = invocation.output.as_deref().and_then(|path| std::fs::read_to_string(path).ok());
            let why = output.and_then(|output| self.tool.why_failed(&output));
            return Err(failed(complaint(&finished, timeout, why).into()));
        }
        let output = match &invocation.output {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| failed(format!("read its output: {error}").into()))?,
            None if invocation.joins_errors => {
                format!("{}\n{}", text(&finished.stdout), text(&finished.stderr))
            }
            None => text(&finished.stdout),
        };
        let run = self.tool.results(output).and_then(|said| self.tool.read_run(&said)).map_err(failed)?;
        Ok(Ran { finished, run, options: invocation.as_recorded(), demands: demand.demands() })
    }

    /// The tool's readings under the data path's metric names, with the CPU time of its process.
    fn measurement(&self, ran: Ran) -> Measurement {
        let Ran { finished, run, options, demands } = ran;
        let ToolRun { mut measurement, .. } = run;
        let is_known = |name: &String| self.tool.metrics().iter().any(|metric| metric.name == name);
        measurement.readings.retain(|name, _| is_known(name));
        if measurement.window_ns == 0 {
            measurement.window_ns = finished.wall_ns;
        }
        if measurement.attempts.tried == 0 {
            measurement.attempts.tried = measurement.work;
        }
        measurement.cpu_user_ns = finished.usage.cpu.user_ns;
        measurement.cpu_system_ns = finished.usage.cpu.system_ns;
        measurement.read_cpu_load();
        measurement.health = self.health(&finished, demands);
        for (property, value) in [(DRIVER, self.driver.clone()), (OPTIONS, options)] {
            measurement.observed.insert(property.to_owned(), [(value, measurement.work)].into());
        }
        self.tool.complete(&mut measurement);
        measurement
    }

    /// The load of the tool's threads, and how long they waited for a CPU. A run that was too short to sample
    /// its threads only has the sum of their CPU time.
    fn health(&self, finished: &Finished, demands: Vec<Demand>) -> LoadHealth {
        let own_share = self.tool.own_share(finished.usage.cpu);
        let took_part = demands.into_iter().filter(|demand| demand.wanted >= TOOK_PART);
        let own = |demand: Demand| match own_share {
            1.0.. => demand,
            share => demand.beside_measured(demand.ran * share, 0.0),
        };
        let health = load_health(took_part.map(own), &Lateness::default());
        if health.threads > 0 {
            return health;
        }
        let threads = self.tool.threads();
        let cpu_ns = finished.usage.cpu.total_ns() as f64;
        let busy =
            (cpu_ns / (finished.wall_ns.max(1) as f64 * f64::from(threads.max(1)))).min(1.0) * own_share;
        LoadHealth { threads, busiest_thread: busy, wanted: busy, ..LoadHealth::default() }
    }
}

impl<T: Tool> Load for DrivenLoad<T> {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        self.warm_up(window)?;
        mark(Mark::Opened);
        let (opened_ns, mut told_ns) = (monotonic_ns(), monotonic_ns());
        let measured = self.run(window.window_ns, &mut || {
            let now_ns = monotonic_ns();
            if now_ns - told_ns >= PROGRESS_NS {
                told_ns = now_ns;
                mark(Mark::Progress { work: 0, elapsed_ns: now_ns - opened_ns });
            }
        });
        mark(Mark::Closed);
        Ok(self.measurement(measured?))
    }
}

/// A complete run of the tool.
struct Ran {
    finished: Finished,
    run: ToolRun,
    options: String,
    /// The demand of each thread that was sampled.
    demands: Vec<Demand>,
}

fn text(written: &Written) -> String {
    String::from_utf8_lossy(&written.bytes).into_owned()
}

/// How the tool ended, and the reason that it wrote.
fn complaint(finished: &Finished, timeout: Duration, reported: Option<String>) -> String {
    let end = if finished.is_overdue {
        format!(
            "was stopped, as it did not end within {} s, which are 45 s more than its window",
            timeout.as_secs()
        )
    } else {
        finished.exit.to_string()
    };
    let said = format!("{}\n{}", text(&finished.stdout), text(&finished.stderr));
    match reason(&said).or(reported) {
        Some(reason) => format!("it {end} and wrote: {reason}"),
        None => format!("it {end} and wrote nothing"),
    }
}

/// Words that mark a line as the reason for a failure. The last line is often only the usage, or says that a
/// job was dropped.
const REASONS: [&str; 12] = [
    "error",
    "fail",
    "invalid",
    "unable",
    "cannot",
    "can't",
    "could not",
    "unrecognized",
    "unknown",
    "no such",
    "refused",
    "not ",
];
/// Further lines repeat the first ones in other words.
const REASONS_MAX: usize = 3;

/// The first lines that look like a reason; the last line if none does.
fn reason(said: &str) -> Option<String> {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut found: Vec<&str> = Vec::new();
    for line in lines() {
        let lower = line.to_lowercase();
        if REASONS.iter().any(|word| lower.contains(word)) && !found.contains(&line) {
            found.push(line);
        }
    }
    found.truncate(REASONS_MAX);
    if found.is_empty() { lines().next_back().map(str::to_owned) } else { Some(found.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failure_is_what_the_tool_said_of_it() {
        let of_fio = "fio: failed parsing rw=foo\nfio: job x dropped\n";
        assert_eq!(reason(of_fio).as_deref(), Some("fio: failed parsing rw=foo"));
        let of_ab = "ab: invalid option -- 'y'\nUsage: ab [options] url\n    -n requests     Number\n";
        assert_eq!(reason(of_ab).as_deref(), Some("ab: invalid option -- 'y'"));
        assert_eq!(reason("starting\n\nout of luck\n\n").as_deref(), Some("out of luck"));
        assert_eq!(reason(" \n"), None);
    }

    #[test]
    fn the_record_of_a_call_is_the_same_for_every_slot() {
        let invocation = Invocation {
            arguments: ["-d", "1s", "http://127.0.0.1:4711/x"].map(str::to_owned).to_vec(),
            passing: vec!["127.0.0.1:4711".to_owned(), String::new()],
            ..Invocation::default()
        };
        assert_eq!(invocation.as_recorded(), "-d 1s http://…/x");
    }
}
