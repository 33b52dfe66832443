//! HTTP/3: client CPU per request and requests/s against oha, on the same Caddy.

use std::time::Duration;

use plumb_host::cpu::{available_cpus, split_sides};
use plumb_host::process::{Output, run_for_output, which};

use crate::blocks::interleave;
use crate::http::{BLOCKS, SECONDS, as_run, plumb, rows_of};
use crate::results::write_section;
use crate::tool::{Tool, built_plumb, split_arguments};
use crate::{Outcome, caddy};

const CONNECTIONS: u32 = 10;

/// Runs the rows and writes their section of RESULTS.md.
pub fn run() -> Outcome {
    let sides = split_sides(&available_cpus()?);
    let server = caddy::start(&sides.system)?;
    let (mut rows, mut settings) = (Vec::new(), Vec::new());
    let size = caddy::FILE_BYTES >> 10;
    for (what, path, streams) in [
        ("10 connections of 10 streams".to_owned(), "", 10),
        (format!("answers of {size} KiB, 10 connections of 1 stream"), "file", 1),
    ] {
        let url = format!("https://127.0.0.1:{}/{path}", server.port);
        let flags = format!("-c {CONNECTIONS} --protocol h3 --streams {streams} --insecure");
        let tools = [plumb("plumb", built_plumb()?, &flags, &url), oha(&url, streams)?];
        let samples = interleave(&tools, BLOCKS, (&sides.load, Some(server.pid())), 4)?;
        rows.extend(rows_of(&what, &tools, &samples, 1.0));
        settings.extend(tools.iter().map(as_run));
    }
    write_section("http3", "HTTP/3 load", &rows, &settings)
}

/// oha, which speaks HTTP/3 if it was built so.
fn oha(url: &str, streams: u32) -> Outcome<Tool> {
    const REMEDY: &str = "no oha with HTTP/3 is installed: cargo install oha --features http3";
    let program = which("oha").ok_or(REMEDY)?;
    let version = run_for_output(&program, ["--help"], Duration::from_secs(10))?;
    if !version.stdout.contains("http3") {
        return Err(REMEDY.into());
    }
    let arguments = split_arguments(&format!(
        "-z {SECONDS}s -c {CONNECTIONS} -p {streams} --http-version 3 --insecure --no-tui --output-format json {url}"
    ));
    Ok(Tool { name: "oha", program, arguments, read: read_oha })
}

/// `{"summary": {"total": 3.0, …}, …, "statusCodeDistribution": {"200": 12345}, …}`
fn read_oha(output: &Output) -> Option<(f64, f64)> {
    let object: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
    let done = object["statusCodeDistribution"]["200"].as_f64()?;
    Some((done, object["summary"]["total"].as_f64()?))
}
