//! fio: the settings as its options, or a job file, and its report as the path's readings.

use std::path::PathBuf;

use plumb_model::{Bytes, Measurement, Metric, Notice, Reading, Statistic, Unit};
use plumb_path::AnyError;
use plumb_path::tool::{Invocation, Program, Tool};
use plumb_readers::{ToolRun, format_named, only, read_as};
use serde_json::Value;

use super::super::device::Direct;
use super::abilities::has_rate;
use super::job_file::JobFile;
use super::windows;
use crate::metrics::{
    ACHIEVED_DEPTH, METRICS, READ_IOPS, READ_LATENCY, READ_SERVICE, WRITE_IOPS, WRITE_LATENCY, WRITE_SERVICE,
};
use crate::settings::LoadSettings;

/// fio.
pub(super) const FIO: Program =
    Program { name: "fio", version: "--version", remedy: "on Debian: apt install fio" };

/// fio's engine for an NBD export.
const NBD: &str = "nbd";

/// fio as a load: its settings or job file, and its target.
pub(super) struct FioTool {
    pub(super) settings: LoadSettings,
    pub(super) job: Option<JobFile>,
    /// A path, or the address of an NBD export.
    pub(super) address: String,
    pub(super) is_nbd: bool,
    /// Whether the page cache can be passed by.
    pub(super) direct: Direct,
    pub(super) bytes: u64,
    pub(super) notices: Vec<Notice>,
    pub(super) scratch: PathBuf,
}

/// Why what fio reports is not a measurement.
#[derive(Debug, thiserror::Error)]
enum FioError {
    #[error("it reported {_0} groups of jobs, and a slot measures one load")]
    Groups(usize),
    #[error("it changed the size of the target from {before} to {after}; give a smaller `size`")]
    Resized { before: Bytes, after: Bytes },
    #[error("{_0} of its reads and writes were cut short, as if `size` reached beyond the end of the target")]
    CutShort(u64),
}

impl Tool for FioTool {
    fn program(&self) -> Program {
        FIO
    }

    fn invocation(&self, window_ns: u64) -> Result<Invocation, AnyError> {
        // What an earlier run wrote must not be taken for what this one writes.
        let output = self.scratch.join("fio.json");
        windows::clear(&self.scratch);
        let _ = std::fs::remove_file(&output);
        let common = self.common(window_ns);
        let mut arguments = ["--eta=never", "--output-format=json+"].map(str::to_owned).to_vec();
        arguments.push(format!("--output={}", output.display()));
        if !self.settings.access.writes() {
            // A second lock: what was found to be safe for reads must not be written.
            arguments.push("--readonly".to_owned());
        }
        match &self.job {
            Some(job) => {
                let file = self.scratch.join("job.fio");
                std::fs::write(&file, job.with(&common))
                    .map_err(|cause| plumb_host::Error::Write { path: file.clone(), cause })?;
                arguments.extend(self.settings.options.iter().cloned());
                arguments.push(file.display().to_string());
            }
            None => {
                arguments.push("--name=plumb".to_owned());
                let options = common.into_iter().chain(self.options());
                arguments.extend(options.map(|(key, value)| format!("--{key}={value}")));
                arguments.extend(self.settings.options.iter().cloned());
            }
        }
        let passing = vec![self.scratch.display().to_string(), self.address.clone()];
        Ok(Invocation { arguments, output: Some(output), passing, ..Invocation::default() })
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn threads(&self) -> u32 {
        self.settings.jobs
    }

    fn why_failed(&self, output: &str) -> Option<String> {
        let error = report_of(output)?["jobs"]
            .as_array()?
            .iter()
            .find_map(|job| job["error"].as_i64().filter(|it| *it != 0))?;
        let words = std::io::Error::from_raw_os_error(i32::try_from(error).ok()?);
        Some(format!(
            "a job ended with the error {words}, as it does where `size` reaches beyond the end of the target"
        ))
    }

    fn read_run(&self, said: &str) -> Result<ToolRun, AnyError> {
        let format = format_named("fio").ok_or("its format is not known")?;
        let runs = read_as(format, said)?;
        if runs.len() > 1 {
            return Err(FioError::Groups(runs.len()).into());
        }
        let mut run = only(runs)?;
        self.look_at_the_target(said)?;
        let jobs = self.job.is_none().then_some(self.settings.jobs);
        if let Some(jobs) = jobs {
            run.measurement.windows = windows::read_log(&self.scratch, jobs, run.measurement.window_ns)?;
        }
        self.complete(&mut run);
        Ok(run)
    }
}

impl FioTool {
    /// Where it reads and writes, and for how long; the same with and without a job file.
    fn common(&self, window_ns: u64) -> Vec<(&'static str, String)> {
        let on = || "1".to_owned();
        let mut common = if self.is_nbd {
            // An option of an engine is known only after the engine.
            vec![("ioengine", NBD.to_owned()), ("uri", self.address.clone())]
        } else {
            vec![
                // fio takes a colon for the end of a name.
                ("filename", self.address.replace(':', "\\:")),
                ("allow_file_create", "0".to_owned()),
                // Otherwise fio removes a file that is smaller than `size`, to make it anew.
                ("create_on_open", "1".to_owned()),
            ]
        };
        common.extend([
            ("runtime", format!("{}ms", window_ns.div_ceil(1_000_000).max(1))),
            ("time_based", on()),
            ("group_reporting", on()),
            ("lat_percentiles", on()),
            ("clat_percentiles", on()),
        ]);
        common
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let load = &self.settings;
        let mut options = vec![
            ("rw", load.access.name().to_owned()),
            ("bs", load.block_size.0.to_string()),
            ("iodepth", load.depth.to_string()),
            ("numjobs", load.jobs.to_string()),
            ("thread", "1".to_owned()),
            ("direct", u8::from(load.direct && !self.is_nbd).to_string()),
            // Otherwise every window would take the same blocks as the warm-up.
            ("randrepeat", "0".to_owned()),
            ("write_iops_log", windows::prefix(&self.scratch)),
            ("log_avg_msec", "1000".to_owned()),
            ("per_job_logs", "0".to_owned()),
        ];
        if !self.is_nbd {
            options.push(("ioengine", load.engine.name().to_owned()));
        }
        if load.access.reads() && load.access.writes() {
            options.push(("rwmixread", (load.read_share.0 * 100.0).round().to_string()));
        }
        if load.offset.0 > 0 {
            options.push(("offset", load.offset.0.to_string()));
        }
        if load.offset_increment.0 > 0 {
            options.push(("offset_increment", load.offset_increment.0.to_string()));
        }
        options.extend(load.size.map(|size| ("size", size.0.to_string())));
        options.extend(self.rate().map(|rate| ("rate_iops", rate)));
        if load.compressible.0 > 0.0 {
            options.push(("refill_buffers", "1".to_owned()));
            options.push(("buffer_compress_percentage", (load.compressible.0 * 100.0).round().to_string()));
        }
        options
    }

    /// fio has a rate for each job and direction.
    fn rate(&self) -> Option<String> {
        let load = &self.settings;
        let each = load.rate?.0 / f64::from(load.jobs);
        // Both are whole, as `check` sees to.
        let of = |share: f64| (each * share).round().to_string();
        Some(if load.access.reads() && load.access.writes() {
            format!("{},{}", of(load.read_share.0), of(1.0 - load.read_share.0))
        } else {
            of(1.0)
        })
    }

    /// A `size` above that of a file extends it, or has fio read behind its end, which takes no storage.
    fn look_at_the_target(&self, said: &str) -> Result<(), FioError> {
        let bytes =
            std::fs::metadata(&self.address).ok().filter(std::fs::Metadata::is_file).map(|it| it.len());
        if let Some(bytes) = bytes.filter(|bytes| *bytes != self.bytes) {
            return Err(FioError::Resized { before: Bytes(self.bytes), after: Bytes(bytes) });
        }
        match cut_short(said) {
            0 => Ok(()),
            count => Err(FioError::CutShort(count)),
        }
    }

    /// Names readings as this path does, and notes what fio says that it did.
    fn complete(&self, run: &mut ToolRun) {
        let has_rate = has_rate(&self.settings, self.job.as_ref());
        let measurement = &mut run.measurement;
        measurement.notices.extend(self.notices.iter().cloned());
        if let Some(depth) = depth(measurement) {
            measurement.readings.insert(ACHIEVED_DEPTH.name.to_owned(), Reading::Gauge(depth));
        }
        if has_rate {
            // fio's clock starts when a request is handed over, not when it was due.
            for (from, to) in [(READ_LATENCY, READ_SERVICE), (WRITE_LATENCY, WRITE_SERVICE)] {
                if let Some(reading) = measurement.readings.remove(from.name) {
                    measurement.readings.insert(to.name.to_owned(), reading);
                }
            }
        }
        let option = |name: &str| run.options.get(name).map(String::as_str);
        let direct = match (self.is_nbd, option("direct")) {
            (true, _) => Direct::Remote.name(),
            (false, Some("1")) => self.direct.name(),
            (false, _) => Direct::No.name(),
        };
        let engine = option("ioengine").unwrap_or("psync").to_owned();
        let size = Bytes(self.bytes).to_string();
        let mut seen = vec![("direct", direct.to_owned()), ("engine", engine), ("size", size)];
        if self.job.is_some() {
            let common = self.common(0);
            let is_own = |name: &str| common.iter().all(|(key, _)| *key != name);
            let own = run.options.iter().filter(|(name, _)| is_own(name));
            let words: Vec<String> = own.map(|(name, value)| format!("{name}={value}")).collect();
            seen.push(("options in the job file", words.join(" ")));
        }
        for (property, value) in seen {
            measurement.observed.insert(property.to_owned(), [(value, u64::from(self.settings.jobs))].into());
        }
    }
}

/// The report, which begins behind what fio says before.
fn report_of(said: &str) -> Option<Value> {
    serde_json::from_str(&said[said.find('{')?..]).ok()
}

/// How many reads and writes fio got less of than it asked for.
fn cut_short(said: &str) -> u64 {
    let document = report_of(said);
    let jobs = document.as_ref().and_then(|document| document["jobs"].as_array());
    let of_job = |job: &Value| -> u64 {
        ["/read/short_ios", "/write/short_ios"].iter().filter_map(|at| job.pointer(at)?.as_u64()).sum()
    };
    jobs.map_or(0, |jobs| jobs.iter().map(of_job).sum())
}

/// How many were in flight on the mean, by Little's law: how many a second, times how long each took.
fn depth(measurement: &Measurement) -> Option<f64> {
    let of = |iops: Metric, latency: Metric| {
        let per_s = measurement.readings.get(iops.name)?.number(None, Unit::PerSecond)?;
        let mean_us =
            measurement.readings.get(latency.name)?.number(Some(Statistic::Avg), Unit::Microseconds)?;
        Some(per_s * mean_us / 1e6)
    };
    let sides = [of(READ_IOPS, READ_LATENCY), of(WRITE_IOPS, WRITE_LATENCY)];
    sides.iter().any(Option::is_some).then(|| sides.into_iter().flatten().sum())
}
