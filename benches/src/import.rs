//! How fast `plumb import` reads a gigabyte of k6's points, and how much memory it takes.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use plumb_host::process::{Command, Keep, run_measured};
use plumb_stats::median;

use crate::results::write_text;
use crate::tool::built_plumb;
use crate::{Outcome, say};

/// How large the file is.
const BYTES: usize = 1_000_000_000;
/// How often it is read.
const TIMES: usize = 5;
/// A command that takes longer has hung.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The metrics that k6 writes for each request, with a typical value.
const METRICS: [(&str, &str, f64); 8] = [
    ("http_reqs", "counter", 1.0),
    ("http_req_duration", "trend", 0.424),
    ("http_req_blocked", "trend", 0.011),
    ("http_req_connecting", "trend", 0.0),
    ("http_req_sending", "trend", 0.024),
    ("http_req_waiting", "trend", 0.351),
    ("http_req_receiving", "trend", 0.049),
    ("http_req_failed", "rate", 0.0),
];

/// Measures, and writes the section.
pub fn run() -> Outcome {
    let plumb = built_plumb()?;
    let file = std::env::temp_dir().join(format!("plumb-bench-import-{}.ndjson", std::process::id()));
    let measured = make(&file).map_err(|error| format!("write {}: {error}", file.display()).into());
    let measured = measured.and_then(|requests| measure(Path::new(&plumb), &file, requests));
    let _ = fs::remove_file(&file);
    write_text("import", "A gigabyte of k6's points", &measured?)
}

/// Writes the file; returns how many requests are in it.
fn make(path: &Path) -> std::io::Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    for (name, kind, _) in METRICS {
        let contains = if kind == "trend" { "time" } else { "default" };
        writeln!(
            file,
            r#"{{"type":"Metric","data":{{"name":"{name}","type":"{kind}","contains":"{contains}","thresholds":[],"submetrics":null}},"metric":"{name}"}}"#
        )?;
    }
    let (mut bytes, mut requests) = (0, 0_u64);
    while bytes < BYTES {
        let ms = requests / 10;
        let time =
            format!("2026-03-01T12:{:02}:{:02}.{:03}1234Z", ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        for (name, _, value) in METRICS {
            let value = value * (1.0 + (requests % 97) as f64 / 97.0);
            let line = format!(
                r#"{{"metric":"{name}","type":"Point","data":{{"time":"{time}","value":{value},"tags":{{"expected_response":"true","group":"","method":"GET","name":"http://127.0.0.1:8080/","proto":"HTTP/1.1","scenario":"default","status":"200","url":"http://127.0.0.1:8080/"}}}}}}"#
            );
            writeln!(file, "{line}")?;
            bytes += line.len() + 1;
        }
        requests += 1;
    }
    file.flush()?;
    Ok(requests)
}

fn measure(plumb: &Path, file: &Path, requests: u64) -> Outcome<String> {
    let (mut seconds, mut memory) = (Vec::new(), 0_u64);
    for turn in 1..=TIMES {
        say(&format!("reading, {turn} of {TIMES}"));
        let command = Command::new(plumb).arg("import").arg("--json").arg(file);
        let go_on = ControlFlow::Continue(());
        let done =
            run_measured(command, (Keep::Head(1 << 20), Keep::Head(1 << 20)), TIMEOUT, &mut |_| go_on)?;
        let said = String::from_utf8_lossy(&done.stdout.bytes);
        if !said.contains(&format!("\"count\": {requests}")) {
            return Err(format!("it did not count {requests} requests: {said}").into());
        }
        seconds.push(done.wall_ns as f64 / 1e9);
        memory = memory.max(done.usage.resident_bytes_max);
    }
    let middle = median(&seconds).ok_or("nothing was measured")?;
    Ok(format!(
        "`plumb import` of {:.2} GB, {requests} requests with eight points each: {middle:.2} s ({:.0} MB/s; median of {TIMES}), at most \
         {:.0} MiB of memory.\n",
        BYTES as f64 / 1e9,
        BYTES as f64 / 1e6 / middle,
        memory as f64 / f64::from(1 << 20)
    ))
}
