//! One run of one load generator: its requests, and the CPU time of its whole process.

use crate::Outcome;
use std::path::PathBuf;
use std::time::Duration;

use plumb_host::cpu::{CpuSet, process_cpu_time, tree_cpu_time};
use plumb_host::process::{Command, Output, Stream};

/// How long a tool may take to end after it has closed its output.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one run of a tool came to.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Requests completed per second of the tool's own run time.
    pub requests_per_s: f64,
    /// CPU time of the tool's process, user and system, per request.
    pub cpu_us_per_request: f64,
    /// CPU time of the process per second of the run, both as above.
    pub busy: f64,
}

/// Arguments, from the way in which they are typed.
pub fn split_arguments(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The `plumb` that was built together with this program.
pub fn built_plumb() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.with_file_name("plumb");
    if program.exists() {
        Ok(program)
    } else {
        Err(format!("{} is not built; run `cargo build --release`", program.display()).into())
    }
}

/// A load generator with its best settings for a row.
pub struct Tool {
    /// What it is called in the table.
    pub name: &'static str,
    /// The program.
    pub program: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// Reads (requests, seconds) from its output.
    pub read: fn(&Output) -> Option<(f64, f64)>,
}

impl Tool {
    /// Runs it once, pinned to `cpus`. The server is a child of this process too, and what it uses is not the tool's.
    pub fn run(&self, cpus: &CpuSet, server_pid: Option<u32>) -> Outcome<Sample> {
        let own = std::process::id();
        let children_ns = || -> Outcome<u64> {
            let tree = tree_cpu_time(own)?;
            let alone = process_cpu_time(own)?;
            let server = server_pid.map(tree_cpu_time).transpose()?;
            let server = server.unwrap_or_default();
            Ok(tree.total_ns().saturating_sub(alone.total_ns()).saturating_sub(server.total_ns()))
        };
        let before_ns = children_ns()?;
        let output = self.output(cpus)?;
        let cpu_ns = children_ns()?.saturating_sub(before_ns);
        let (requests, seconds) = (self.read)(&output).ok_or_else(|| {
            format!("{} printed nothing that could be read:\n{}\n{}", self.name, output.stdout, output.stderr)
        })?;
        Ok(Sample {
            requests_per_s: requests / seconds,
            cpu_us_per_request: as_f64(cpu_ns) / 1e3 / requests,
            busy: as_f64(cpu_ns) / 1e9 / seconds,
        })
    }

    /// Runs it once, pinned to `cpus`.
    pub fn output(&self, cpus: &CpuSet) -> Outcome<Output> {
        let spawn = Command::new(&self.program)
            .args(&self.arguments)
            .stdout(Stream::Piped)
            .stderr(Stream::Piped)
            .pin(cpus.clone())
            .own_group()
            .spawn();
        let mut child = spawn?;
        let (out, err) = (child.take_stdout(), child.take_stderr());
        let reader = std::thread::spawn(move || read_all(err));
        let stdout = read_all(out);
        let stderr = reader.join().unwrap_or_default();
        match child.wait_timeout(PATIENCE) {
            Ok(Some(exit)) => Ok(Output { exit, stdout, stderr }),
            Ok(None) => Err(format!("{} did not end", self.name).into()),
            Err(error) => Err(error.into()),
        }
    }
}

fn read_all(stream: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // What cannot be read is missing from the text, and the caller says so.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn as_f64(value_ns: u64) -> f64 {
    value_ns as f64
}
