//! A load by another tool: it is started for each window, and its output is read.
//!
//! Slots, pinning, CPU time, evidence and claims are those of the native load. What the tool cannot do is refused, and what it does not
//! say is absent. Its warm-up is a separate process, so no part of it is in the numbers.

mod abilities;
mod arguments;

use std::path::PathBuf;
use std::time::Duration;

use plumb_host::process::{Command, Exit, Finished, Keep, run_for_output, run_measured, which};
use plumb_host::time::monotonic_ns;
use plumb_model::{LoadHealth, Measurement, Reading};
use plumb_path::{Load, Mark, PathError, Window};
use plumb_tools::ToolRun;

use self::arguments::Invocation;
use crate::metrics::METRICS;
use crate::settings::{Driver, LoadSettings};
use crate::target::Target;
use crate::url::Url;

pub(crate) use self::abilities::{check, lacks};

/// How much of a tool's output is kept, in bytes.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// How long a tool may take beyond its window, to start, to stop, and for answers that are under way.
const GRACE: Duration = Duration::from_secs(60);
/// How long a tool may take to say its version.
const VERSION: Duration = Duration::from_secs(10);
/// k6 ends with this code where a threshold of its script was crossed. The run is whole.
const THRESHOLD_CROSSED: i32 = 99;
/// How often the runner hears that the measurement goes on.
const PROGRESS_NS: u64 = 1_000_000_000;

/// What a window observed of the tool.
pub(crate) const DRIVER: &str = "driver";

/// Whether this host has the tool.
///
/// # Errors
/// One sentence that says what to install.
pub(crate) fn feasible(driver: Driver) -> Result<(), String> {
    match driver.program().filter(|program| which(program).is_none()) {
        None => Ok(()),
        Some(program) => Err(format!("{program} is not installed; {}", remedy(program))),
    }
}

fn remedy(program: &str) -> &'static str {
    match program {
        "ab" => "on Debian: apt install apache2-utils",
        "h2load" => "on Debian: apt install nghttp2-client",
        "wrk" => "on Debian: apt install wrk",
        _ => "see grafana.com/docs/k6, or: go install go.k6.io/k6@latest",
    }
}

/// A load that a tool drives against a target.
///
/// # Errors
/// When the tool or the URL cannot be used.
pub(crate) fn driven_load(
    settings: &LoadSettings,
    target: &Target,
    scratch: PathBuf,
) -> Result<Box<dyn Load>, PathError> {
    let failed = |reason: String| PathError::Load(reason);
    let url = Url::parse(&target.url).map_err(failed)?;
    let program = settings.driver.program().unwrap_or_default();
    let file = which(program).ok_or_else(|| {
        PathError::Load(format!("find {program}: it is not installed; {}", remedy(program)))
    })?;
    plumb_host::limits::raise_open_files_limit();
    let version = version(settings.driver, &file);
    let driver = format!("{version} ({})", file.display());
    Ok(Box::new(DrivenLoad { settings: settings.clone(), url, file, scratch, driver }))
}

/// The first line that says a version; each tool has another option for it, and wrk says it beside its usage.
fn version(driver: Driver, file: &std::path::Path) -> String {
    let option = match driver {
        Driver::Ab => "-V",
        Driver::Wrk => "-v",
        Driver::H2load | Driver::Native => "--version",
        Driver::K6 => "version",
    };
    let output = run_for_output(file, [option], VERSION);
    let text = output.map(|output| format!("{}\n{}", output.stdout, output.stderr)).unwrap_or_default();
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("of unknown version");
    let line = line.trim_start_matches("This is ").split(" <$").next().unwrap_or(line);
    line.split(" Copyright").next().unwrap_or(line).to_owned()
}

struct DrivenLoad {
    settings: LoadSettings,
    url: Url,
    file: PathBuf,
    scratch: PathBuf,
    driver: String,
}

impl Load for DrivenLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        if window.warmup_ns > 0 {
            self.run(window.warmup_ns, &mut || ())?;
        }
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
        let (finished, tool_run) = measured?;
        Ok(self.measurement(&finished, tool_run))
    }
}

impl DrivenLoad {
    /// Runs the tool for so long, and reads what it said.
    fn run(&self, window_ns: u64, while_running: &mut dyn FnMut()) -> Result<(Finished, ToolRun), PathError> {
        let failed = |reason: String| PathError::new(format!("run {}: {reason}", self.name()));
        let invocation =
            Invocation::new(&self.settings, &self.url, window_ns, &self.scratch).map_err(failed)?;
        let command = Command::new(&self.file).args(&invocation.arguments).inherit(["K6_BROWSER_ENABLED"]);
        let timeout = Duration::from_nanos(window_ns) + GRACE;
        let keep = (Keep::Head(OUTPUT_BYTES_MAX), Keep::Tail(OUTPUT_BYTES_MAX));
        let finished = run_measured(command, keep, timeout, while_running)?;
        let is_whole = match finished.exit {
            Exit::Code(code) => code == 0 || self.settings.driver == Driver::K6 && code == THRESHOLD_CROSSED,
            Exit::Signal(_) => false,
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !is_whole || finished.is_overdue {
            let said = text(&finished.stderr.bytes);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            let what = if finished.is_overdue {
                "did not end in time".to_owned()
            } else {
                finished.exit.to_string()
            };
            return Err(failed(format!("it {what}; its last words: {}", last.trim())));
        }
        let output = match &invocation.output {
            Some(path) => {
                std::fs::read_to_string(path).map_err(|error| failed(format!("read its output: {error}")))?
            }
            None => text(&finished.stdout.bytes),
        };
        let mut runs = plumb_tools::read(&output).map_err(|error| failed(error.to_string()))?;
        let run = runs.pop().ok_or_else(|| failed("it printed no result".to_owned()))?;
        Ok((finished, run))
    }

    fn name(&self) -> &'static str {
        self.settings.driver.program().unwrap_or_default()
    }

    /// The tool's readings under the path's metric names, with the CPU time that its process took.
    fn measurement(&self, finished: &Finished, run: ToolRun) -> Measurement {
        let ToolRun { mut measurement, .. } = run;
        let is_known = |name: &String| METRICS.iter().any(|metric| metric.name == name);
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
        measurement.health = self.health(finished);
        measurement.observed.insert(DRIVER.to_owned(), [(self.driver.clone(), measurement.work)].into());
        if let Some(Reading::Summary { .. }) = measurement.readings.get("http_req_duration") {
            measurement.warnings.push(format!(
                "{} gives statistics without their distribution, so those of several slots cannot be merged",
                self.name()
            ));
        }
        measurement
    }

    /// How busy the tool was. Of its threads only the sum is known, so an uneven load looks less busy than it is.
    fn health(&self, finished: &Finished) -> LoadHealth {
        let threads = match self.settings.driver {
            Driver::Ab => 1,
            _ => self.settings.threads,
        };
        let cpu_ns = (finished.usage.cpu.user_ns + finished.usage.cpu.system_ns) as f64;
        let busy = (cpu_ns / (finished.wall_ns.max(1) as f64 * f64::from(threads))).min(1.0);
        LoadHealth { threads, busiest_thread: busy, wanted: busy, ..LoadHealth::default() }
    }
}
