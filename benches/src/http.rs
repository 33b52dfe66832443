//! HTTP load: client CPU per request and requests/s against wrk, ab, k6, h2load, oha and a bare loop, on the same nginx.

use std::path::{Path, PathBuf};

use plumb_host::cpu::{available_cpus, split_sides};
use plumb_host::process::{Output, which};

use crate::blocks::{Samples, interleave};
use crate::instructions::per_request;
use crate::results::{Row, table, write_section};
use crate::tool::{Tool, built_plumb, split_arguments};
use crate::{Outcome, bare, echo, nginx, say};

/// Blocks of every row.
const BLOCKS: usize = 6;
/// Seconds of every run.
const SECONDS: u32 = 3;

/// Peers that show where the time goes, and that `plumb` need not beat.
const WITHOUT_TARGET: [&str; 3] = ["k6", bare::NAME, echo::NAME];

/// Blocks of a comparison with an older build, which is a matter of 1%.
const BLOCKS_OF_BUILDS: usize = 16;
const KEEP_ALIVE: &str = "-c 50";
const HANDSHAKES: &str = "-c 20 --reuse none --tls 1.2 --cipher ECDHE-RSA-AES256-GCM-SHA384 --insecure";

/// The connections of HTTP/2, and the streams of each.
const STREAMS: (u32, u32) = (10, 10);

/// Runs the rows and writes their section of RESULTS.md.
pub fn run() -> Outcome {
    let cpus = available_cpus()?;
    let sides = split_sides(&cpus);
    let server = nginx::start(&sides.system)?;
    let (plain, secure) = urls(&server);
    say(&format!("server on cpus {}, tools on cpus {}", sides.system, sides.load));
    let mut rows = Vec::new();

    let mut tools = vec![plumb("plumb", built_plumb()?, KEEP_ALIVE, &plain)];
    tools.extend(wrk(&plain));
    let samples = interleave(&tools, BLOCKS, (&sides.load, Some(server.pid())), 1)?;
    rows.extend(rows_of("keep-alive, plain HTTP, 50 connections", &tools, &samples, 0.75));

    let mut tools = vec![plumb("plumb", built_plumb()?, HANDSHAKES, &secure)];
    tools.extend(ab(&secure));
    tools.extend(k6(&secure));
    let samples = interleave(&tools, BLOCKS, (&sides.load, Some(server.pid())), 2)?;
    rows.extend(rows_of(
        "full handshake per request, TLS 1.2, RSA-2048, 20 connections",
        &tools,
        &samples,
        0.5,
    ));
    let mut settings = settings(&tools);

    let (connections, streams) = STREAMS;
    let flags = format!("-c {connections} --protocol h2 --streams {streams}");
    let h2 = format!("http://127.0.0.1:{}/", server.h2_port);
    let mut tools = vec![plumb("plumb", built_plumb()?, &flags, &h2)];
    tools.extend(h2load(&h2));
    tools.push(bare::tool(&h2, STREAMS, SECONDS)?);
    let samples = interleave(&tools, BLOCKS, (&sides.load, Some(server.pid())), 3)?;
    rows.extend(rows_of("HTTP/2, plain, 10 connections of 10 streams", &tools, &samples, 0.9));
    settings.extend(tools.iter().map(as_run));
    write_section("http", "HTTP load", &rows, &settings)
}

/// Runs the rows of HTTP/3, against oha, and writes their section of RESULTS.md; none where the server or oha is missing.
pub fn run_h3() -> Outcome {
    let sides = split_sides(&available_cpus()?);
    let (Some(server), Some(oha)) = (nginx::start_with_h3(&sides.system)?, which("oha")) else {
        say("no rows of HTTP/3: they need oha, and an nginx with HTTP/3 (scripts/install-tools.sh lab)");
        return Ok(());
    };
    let (mut rows, mut settings) = (Vec::new(), Vec::new());
    let (connections, streams) = STREAMS;
    for (what, page, seed) in [("612 B", "", 4), ("1 MiB", "large", 5)] {
        let url = format!("https://127.0.0.1:{}/{page}", server.h3_port);
        // oha asks for a buffer of this size, too.
        let flags =
            format!("-c {connections} --protocol h3 --streams {streams} --insecure --receive-buffer 8MiB");
        let theirs = format!(
            "--no-tui --output-format json --insecure --http-version 3 -c {connections} -p {streams} -z {SECONDS}s {url}"
        );
        let arguments = split_arguments(&theirs);
        let oha = Tool { name: "oha", program: oha.clone(), arguments, read: read_oha };
        let plumb = plumb("plumb", built_plumb()?, &flags, &url);
        let echo = echo::tool(&plumb, connections, SECONDS, (&sides.load, &sides.system))?;
        let tools = [plumb, oha, echo];
        let samples = interleave(&tools, BLOCKS, (&sides.load, Some(server.pid())), seed)?;
        let what = format!("{connections} connections of {streams} streams, answers of {what}");
        rows.extend(rows_of(&what, &tools, &samples, 0.9));
        settings.extend(tools.iter().map(as_run));
    }
    write_section("http3", "HTTP/3 load", &rows, &settings)
}

/// Runs both rows against an older build, and prints them, after the instructions that each build takes.
pub fn run_against(old: &str) -> Outcome {
    let sides = split_sides(&available_cpus()?);
    let server = nginx::start(&sides.system)?;
    let (plain, secure) = urls(&server);
    let h2 = format!("http://127.0.0.1:{}/", server.h2_port);
    let (connections, streams) = STREAMS;
    let of_h2 = format!("-c {connections} --protocol h2 --streams {streams}");
    let many = [10_000, 50_000];
    for row in [(KEEP_ALIVE, &*plain, many), (HANDSHAKES, &*secure, [500, 2_500]), (&*of_h2, &*h2, many)] {
        let count = |program: &Path| per_request(program, row, &sides.load);
        match (count(&built_plumb()?)?, count(Path::new(old))) {
            (_, Err(error)) => say(&format!("{}: the older build could not be counted: {error}", row.0)),
            (Some(new), Ok(Some(old))) => say(&format!(
                "{}: {new:.0} instructions per request in user space, {old:.0} before: x{:.4}",
                row.0,
                new / old
            )),
            _ => say("valgrind is not installed, so no instructions were counted"),
        }
    }
    let mut rows = Vec::new();
    for (what, flags, url) in
        [("keep-alive, plain HTTP", KEEP_ALIVE, &plain), ("full handshakes", HANDSHAKES, &secure)]
    {
        let tools = [plumb("new", built_plumb()?, flags, url), plumb("old", old.into(), flags, url)];
        let samples = interleave(&tools, BLOCKS_OF_BUILDS, (&sides.load, Some(server.pid())), 1)?;
        rows.extend(rows_of(what, &tools, &samples, 1.01));
    }
    say(&table(&rows));
    Ok(())
}

fn urls(server: &nginx::Nginx) -> (String, String) {
    (format!("http://127.0.0.1:{}/", server.plain_port), format!("https://127.0.0.1:{}/", server.tls_port))
}

fn rows_of(what: &str, tools: &[Tool], samples: &Samples, target: f64) -> Vec<Row> {
    (1..tools.len())
        .map(|peer| {
            Row::comparing(
                what,
                tools,
                samples,
                peer,
                (!WITHOUT_TARGET.contains(&tools[peer].name)).then_some(target),
            )
        })
        .collect()
}

fn settings(tools: &[Tool]) -> Vec<String> {
    let mut lines =
        vec!["- wrk: `wrk -t1 -c50`, its one thread on the load's CPU, no script, no --latency".to_owned()];
    lines.extend(tools.iter().map(as_run));
    lines
}

/// A tool's arguments, without the address.
fn as_run(tool: &Tool) -> String {
    let arguments: Vec<&str> =
        tool.arguments.iter().map(String::as_str).filter(|argument| !argument.contains("://")).collect();
    format!("- {}: `{}`", tool.name, arguments.join(" "))
}

fn plumb(name: &'static str, program: PathBuf, flags: &str, url: &str) -> Tool {
    let duration = format!("{SECONDS}s");
    let mut arguments = vec!["http", "--json", "--quiet", "-d", &duration];
    arguments.extend(flags.split(' '));
    arguments.push(url);
    let arguments = arguments.into_iter().map(str::to_owned).collect();
    Tool { name, program, arguments, read: read_plumb }
}

fn read_plumb(output: &Output) -> Option<(f64, f64)> {
    let object: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
    let reqs = &object["metrics"]["http_reqs"];
    let (count, value) = (reqs["count"].as_f64()?, reqs["value"].as_f64()?);
    let resumed = object["observed"]["handshakes_resumed"].as_f64().unwrap_or(0.0);
    (resumed == 0.0 && count > 0.0).then(|| (count, count / value))
}

fn wrk(url: &str) -> Option<Tool> {
    let arguments = ["-t1", "-c50", &format!("-d{SECONDS}s"), url].map(str::to_owned).to_vec();
    Some(Tool { name: "wrk", program: which("wrk")?, arguments, read: read_wrk })
}

/// `  1209331 requests in 4.00s, 989.10MB read`
fn read_wrk(output: &Output) -> Option<(f64, f64)> {
    let line = output.stdout.lines().find(|line| line.contains(" requests in "))?;
    let (count, rest) = line.trim().split_once(" requests in ")?;
    let seconds = rest.split(',').next()?;
    Some((count.parse().ok()?, seconds.strip_suffix('s')?.parse().ok()?))
}

fn h2load(url: &str) -> Option<Tool> {
    let (connections, streams) = STREAMS;
    let arguments = split_arguments(&format!("-t 1 -c {connections} -m {streams} -D {SECONDS} {url}"));
    Some(Tool { name: "h2load", program: which("h2load")?, arguments, read: read_h2load })
}

/// `finished in 3.00s, 50402.33 req/s, 40.95MB/s` and `requests: 151207 total, …, 151207 succeeded, …`
fn read_h2load(output: &Output) -> Option<(f64, f64)> {
    let rest = |key: &str| output.stdout.lines().find_map(|line| line.strip_prefix(key));
    let seconds = rest("finished in ")?.split(',').next()?;
    let done = rest("requests: ")?.split(',').find_map(|part| part.trim().strip_suffix(" succeeded"))?;
    Some((done.parse().ok()?, seconds.strip_suffix('s')?.parse().ok()?))
}

fn read_oha(output: &Output) -> Option<(f64, f64)> {
    let object: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
    let done = object["statusCodeDistribution"]["200"].as_f64()?;
    // Whole answers only.
    let is_whole =
        [nginx::PAGE_BYTES, nginx::LARGE_BYTES].contains(&object["summary"]["sizePerRequest"].as_u64()?);
    // Its own time includes that for which it waits at its end.
    is_whole.then_some((done, f64::from(SECONDS)))
}

fn ab(url: &str) -> Option<Tool> {
    let seconds = SECONDS.to_string();
    let arguments = [
        "-q",
        "-d",
        "-S",
        "-c",
        "20",
        "-t",
        &seconds,
        "-n",
        "100000000",
        "-f",
        "TLS1.2",
        "-Z",
        "ECDHE-RSA-AES256-GCM-SHA384",
        url,
    ];
    let arguments = arguments.map(str::to_owned).to_vec();
    Some(Tool { name: "ab", program: which("ab")?, arguments, read: read_ab })
}

fn read_ab(output: &Output) -> Option<(f64, f64)> {
    let value = |key: &str| -> Option<f64> {
        let line = output.stdout.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((value("Complete requests:")?, value("Time taken for tests:")?))
}

fn k6(url: &str) -> Option<Tool> {
    let program = which("k6").or_else(|| {
        let path = PathBuf::from(std::env::var_os("HOME")?).join("go/bin/k6");
        path.exists().then_some(path)
    })?;
    let script = std::env::temp_dir().join("plumb-bench-k6.js");
    let text = format!(
        "import http from 'k6/http';\n\
         export const options = {{ vus: 20, duration: '{SECONDS}s', noConnectionReuse: true, insecureSkipTLSVerify: true,\n\
         discardResponseBodies: true, tlsVersion: {{ min: 'tls1.2', max: 'tls1.2' }},\n\
         tlsCipherSuites: ['TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384'] }};\n\
         export default function () {{ http.get('{url}'); }}\n"
    );
    std::fs::write(&script, text).ok()?;
    let arguments = ["run", "--quiet", "--no-usage-report", "--summary-mode=compact"].map(str::to_owned);
    let mut arguments = arguments.to_vec();
    arguments.push(script.display().to_string());
    Some(Tool { name: "k6", program, arguments, read: read_k6 })
}

/// `    http_reqs......................: 4000   999.1/s`
fn read_k6(output: &Output) -> Option<(f64, f64)> {
    let line = output.stdout.lines().find(|line| line.trim_start().starts_with("http_reqs"))?;
    let mut values = line.split_once(':')?.1.split_whitespace();
    let count: f64 = values.next()?.parse().ok()?;
    let rate: f64 = values.next()?.strip_suffix("/s")?.parse().ok()?;
    Some((count, count / rate))
}
