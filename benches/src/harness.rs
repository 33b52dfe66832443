//! The harness itself: time to the first output, time not spent measuring, memory of the runner.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use plumb_host::process::{Command, Stream};
use plumb_host::time::monotonic_ns;

use crate::Outcome;
use crate::results::write_text;
use crate::tool::built_plumb;

/// Measures the three and writes their section of RESULTS.md.
pub fn run() -> Outcome {
    let program = built_plumb()?;
    let scratch = plumb_host::scratch::Scratch::create(&std::env::temp_dir(), "plumb-bench-")?;
    let first_ms: Vec<f64> =
        (0..20).map(|_| first_output_ms(&program, scratch.path())).collect::<Result<_, _>>()?;
    let first_ms = plumb_stats::median(&first_ms).unwrap_or(f64::NAN);
    let directory = scratch.path().join("full");
    let watched = full_run(&program, &directory)?;
    let text = format!(
        "| what | value | target |\n|---|---|---|\n\
         | `plumb run` to its first output, median of 20 | {first_ms:.1} ms | ≤ 50 ms |\n\
         | resident memory of the runner, highest, over a run of {:.0} s | {:.1} MiB | ≤ 50 MiB |\n\
         | time not spent measuring in that run | {:.1}% | ≤ 10% |\n",
        watched.seconds,
        watched.resident_mib,
        watched.idle_share * 100.0
    );
    write_text("harness", "The harness", &text)
}

fn first_output_ms(program: &std::path::Path, scratch: &std::path::Path) -> Outcome<f64> {
    let directory = scratch.join(format!("first-{}", monotonic_ns()));
    let begun_ns = monotonic_ns();
    let mut child = Command::new(program)
        .args(["run", "tls-offload", "--quick", "--output"])
        .arg(&directory)
        .stderr(Stream::Piped)
        .spawn()?;
    let mut line = String::new();
    if let Some(stderr) = child.take_stderr() {
        BufReader::new(stderr).read_line(&mut line)?;
    }
    let took_ms = Duration::from_nanos(monotonic_ns() - begun_ns).as_secs_f64() * 1e3;
    child.terminate(Duration::from_secs(3))?;
    Ok(took_ms)
}

struct Watched {
    seconds: f64,
    resident_mib: f64,
    idle_share: f64,
}

/// A full run of `tls-offload` on the embedded ingress, ten minutes of it.
fn full_run(program: &std::path::Path, directory: &std::path::Path) -> Outcome<Watched> {
    let begun_ns = monotonic_ns();
    let mut child = Command::new(program)
        .args(["run", "tls-offload", "--blocks", "12", "--quiet", "--output"])
        .arg(directory)
        .spawn()?;
    let mut resident_kib: u64 = 0;
    while child.wait_timeout(Duration::from_secs(1))?.is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.pid())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        resident_kib = resident_kib.max(kib);
    }
    let seconds = Duration::from_nanos(monotonic_ns() - begun_ns).as_secs_f64();
    let slots = std::fs::read_to_string(directory.join("slots.jsonl"))?;
    let measured_s: f64 = slots
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|slot| slot["slot"]["outcome"]["measured"]["measurement"]["window_ns"].as_f64())
        .sum::<f64>()
        / 1e9;
    let resident_mib = f64::from(u32::try_from(resident_kib).unwrap_or(u32::MAX)) / 1024.0;
    Ok(Watched { seconds, resident_mib, idle_share: 1.0 - measured_s / seconds })
}
