//! A history of ten thousand runs, and the page over it: how large it is, and how long an answer takes.
//!
//! Real runs of the null path, each copied many times with another time of its start, so that every copy is a run of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use plumb_host::process::{Child, Command, Stream, run_for_output};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_stats::median;
use serde_json::Value;

use crate::results::write_text;
use crate::tool::built_plumb;
use crate::{Outcome, say};

/// How many runs there are.
const RUNS: usize = 10_000;
/// How many of them were measured.
const MEASURED: usize = 100;
/// How often each answer is timed.
const TIMES: usize = 15;
/// After this long a command hangs.
const TIMEOUT: Duration = Duration::from_secs(600);
const EXPERIMENT: &str = "\
apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata: { name: many }
spec:
  path: \"null\"
  load: { duration: 10 ms, warmup: 0 s }
  baseline: a
  variants:
    a: { system: { throughput: 1000, noise: 5% } }
    b: { system: { throughput: 1500, noise: 5% } }
  blocks: { min: 6, max: 12 }
  claims: [b.throughput >= 1.3 * a.throughput]
";

/// Measures, and writes the section.
pub fn run() -> Outcome {
    let plumb = built_plumb()?;
    let folder = std::env::temp_dir().join(format!("plumb-bench-history-{}", std::process::id()));
    let runs = folder.join("runs");
    fs::create_dir_all(&runs).map_err(|error| format!("make {}: {error}", runs.display()))?;
    let measured = measure(Path::new(&plumb), &folder, &runs);
    let _ = fs::remove_dir_all(&folder);
    write_text("history", "A history of 10,000 runs, and the page over it", &measured?)
}

fn measure(plumb: &Path, folder: &Path, runs: &Path) -> Outcome<String> {
    say(&format!("{MEASURED} runs, and copies of them"));
    make_runs(plumb, folder, runs).map_err(|error| format!("make runs: {error}"))?;
    let database = folder.join("history.db").display().to_string();
    let all: Vec<String> =
        (0..RUNS).map(|number| runs.join(number.to_string()).display().to_string()).collect();
    let begun_ns = monotonic_ns();
    let mut add = vec!["history", "add", "--database", &database];
    add.extend(all.iter().map(String::as_str));
    output(plumb, &add)?;
    let added_ms = ms_since(begun_ns) / RUNS as f64;
    let bytes = fs::metadata(&database)?.len();
    let mut text = format!(
        "{RUNS} runs of the null path, {MEASURED} of them measured and the others copies with other times. One run is added in \
         {added_ms:.1} ms (all in one command), and takes {:.1} KB in SQLite. Times are medians of {TIMES}; a command's is that of its \
         whole process, a page's that of its request over loopback.\n\n| what | ms | slowest |\n|---|---|---|\n",
        bytes as f64 / 1e3 / RUNS as f64
    );
    for command in ["list", "list --limit 0", "trend many", "trend many --metric throughput"] {
        let arguments: Vec<&str> =
            ["history"].into_iter().chain(command.split(' ')).chain(["--database", &database]).collect();
        row(&mut text, &format!("`plumb history {command}`"), || output(plumb, &arguments).map(|_| ()))?;
    }
    let page = Page::start(plumb, runs, &database)?;
    let first = page.timed("/")?;
    let _ = writeln!(
        text,
        "| the page's first list, which reads runs for 30 ms and the others afterwards | {first:.1} | |"
    );
    let begun_ns = monotonic_ns();
    while page.get("/")?.contains("being read") {
        sleep(Duration::from_millis(500));
    }
    let read_ms = ms_since(begun_ns);
    let _ = writeln!(text, "| until it has read all runs, behind the requests | {read_ms:.0} | |");
    // Folders are looked at again after a rest, by the next request.
    sleep(Duration::from_secs(10));
    let again = page.timed("/")?;
    let _ = writeln!(text, "| the list of runs, when the folder is looked at again | {again:.1} | |");
    let series = page.link("/history?experiment=many", "/series/")?;
    for (what, path) in [
        ("the list of runs", "/"),
        ("its last page", "/?page=200"),
        ("a search, sorted", "/?q=many&sort=slots"),
        ("a run's report", &page.link("/", "/runs/")?),
        ("recorded runs of an experiment", "/history?experiment=many"),
        ("a series of 10,000 points, with its shifts", &series),
        ("hosts", "/hosts"),
        ("`/metrics`", "/metrics"),
    ] {
        row(&mut text, what, || page.get(path).map(|_| ()))?;
    }
    Ok(text)
}

fn ms_since(begun_ns: u64) -> f64 {
    (monotonic_ns() - begun_ns) as f64 / 1e6
}

/// Times something.
fn row(text: &mut String, what: &str, mut once: impl FnMut() -> Outcome) -> Outcome {
    let mut took_ms = Vec::new();
    for _ in 0..TIMES {
        let begun_ns = monotonic_ns();
        once()?;
        took_ms.push(ms_since(begun_ns));
    }
    let slowest = took_ms.iter().copied().fold(0.0, f64::max);
    let line = format!("| {what} | {:.1} | {slowest:.1} |", median(&took_ms).unwrap_or_default());
    say(&line);
    text.push_str(&line);
    text.push('\n');
    Ok(())
}

/// What a command prints. The code of a trend says whether there is a shift, so only its output counts.
fn output(plumb: &Path, arguments: &[&str]) -> Outcome<String> {
    let output = run_for_output(plumb, arguments, TIMEOUT)?;
    if output.stdout.is_empty() {
        return Err(format!("{}: {}", arguments[..2].join(" "), output.stderr).into());
    }
    Ok(output.stdout)
}

fn make_runs(plumb: &Path, folder: &Path, runs: &Path) -> std::io::Result<()> {
    let file = folder.join("many.yaml");
    fs::write(&file, EXPERIMENT)?;
    for number in 0..RUNS {
        let to = runs.join(number.to_string());
        if number < MEASURED {
            let arguments =
                ["run".as_ref(), file.as_os_str(), "--quiet".as_ref(), "--output".as_ref(), to.as_os_str()];
            run_for_output(plumb, arguments, TIMEOUT).map_err(std::io::Error::other)?;
            continue;
        }
        let from = runs.join((number % MEASURED).to_string());
        fs::create_dir(&to)?;
        for same in ["slots.jsonl", "end.json", "experiment.yaml"] {
            fs::hard_link(from.join(same), to.join(same))?;
        }
        let mut header: Value = serde_json::from_str(&fs::read_to_string(from.join("run.json"))?)?;
        let minutes = number % 60;
        let (hours, days) = (number / 60 % 24, number / 1440 + 1);
        header["started_at"] = format!("2026-01-{days:02}T{hours:02}:{minutes:02}:00.000Z").into();
        fs::write(to.join("run.json"), header.to_string())?;
    }
    Ok(())
}

/// A page that is served.
struct Page {
    process: Child,
    authority: String,
    token: String,
}

impl Page {
    fn start(plumb: &Path, runs: &Path, database: &str) -> Outcome<Self> {
        let mut process = Command::new(plumb)
            .args(["ui", "--database", database])
            .arg(runs)
            .stdout(Stream::Piped)
            .stderr(Stream::Null)
            .spawn()?;
        let mut url = String::new();
        let output = process.take_stdout().ok_or("the page has no output")?;
        BufReader::new(output).read_line(&mut url)?;
        let address = url.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/?token="));
        let (authority, token) = address.ok_or("the page says no address")?;
        Ok(Self { authority: authority.to_owned(), token: token.to_owned(), process })
    }

    fn get(&self, path: &str) -> Outcome<String> {
        let (authority, token) = (&self.authority, &self.token);
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(authority)?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
            )?;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let answer = ask().map_err(|error| format!("get {path}: {error}"))?;
        if answer.starts_with("HTTP/1.1 200") {
            Ok(answer)
        } else {
            Err(format!("get {path}: {answer:.300}").into())
        }
    }

    fn timed(&self, path: &str) -> Outcome<f64> {
        let begun_ns = monotonic_ns();
        self.get(path)?;
        Ok(ms_since(begun_ns))
    }

    /// The first link of a page that begins so.
    fn link(&self, path: &str, begin: &str) -> Outcome<String> {
        let page = self.get(path)?;
        let link = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let first = link.filter(|link| link.starts_with(begin)).map(str::to_owned).next();
        first.ok_or_else(|| format!("{path} has no link to {begin}").into())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.terminate(Duration::from_secs(5));
    }
}
