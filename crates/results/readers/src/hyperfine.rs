//! hyperfine: the JSON of `--export-json`, in seconds.
//!
//! Each command is a separate run, made after the others: the order of commands and the time of day are the same thing.

use plumb_model::{Histogram, NoticeKind, Reading, Statistic};
use serde_json::{Value, json};

use crate::figure::{Unreadable, printed};
use crate::json::{documents, items, number, objects, positive, scalar};
use crate::metrics::{MEMORY_MAX, SYSTEM_TIME, USER_TIME, WALL_TIME};
use crate::text::{after, time_ns};
use crate::tool_run::{ToolRun, seconds_to_ns};

pub(crate) fn is(text: &str) -> bool {
    let found = documents(text).found;
    found.iter().any(|value| {
        let first = items(value, "/results").first();
        first.is_some_and(|first| first.get("command").is_some() && first.get("mean").is_some())
    })
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let found = objects(text)?;
    let results: Vec<Value> = found.iter().flat_map(|value| items(value, "/results")).cloned().collect();
    each(&results)
}

pub(crate) fn is_text(text: &str) -> bool {
    after(text, "Benchmark ").is_some_and(|rest| rest.contains(':'))
        && (after(text, "Time (mean").is_some() || after(text, "Time (abs").is_some())
}

/// Whether the last command has its range, or its only time.
pub(crate) fn is_whole_text(text: &str) -> bool {
    let last = text.rsplit("Benchmark ").next().unwrap_or_default();
    if after(last, "Summary").is_some() {
        return last.contains(" faster than ") || last.contains(" times slower than ");
    }
    after(last, "Time (abs").is_some() || after(last, "Range (").is_some_and(|rest| rest.ends_with("runs"))
}

/// hyperfine prints a summary only below several commands.
pub(crate) fn is_open_text(text: &str) -> bool {
    after(text, "Summary").is_none()
}

/// Turns hyperfine's text into the object of `--export-json`.
pub(crate) fn read_text(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut results = Vec::new();
    for part in crate::door::parts(text, |line| line.starts_with("Benchmark ").then_some("Benchmark")) {
        let Some((_, part)) = part.text.split_once("Benchmark ") else { continue };
        let Some((head, body)) = part.split_once('\n') else { continue };
        let Some((_, name)) = head.split_once(": ") else { continue };
        let Some((_, times)) = after(body, "Time (").and_then(|rest| rest.split_once("):")) else { continue };
        let (times, own) = times.split_once('[').unwrap_or((times, ""));
        let mut pair = times.split('±');
        let of_cpu = |label: &str| {
            printed(
                own.split_once(label).and_then(|(_, rest)| rest.split([']']).next()?.split(", ").next()),
                seconds,
            )
        };
        let range = after(body, "Range (").and_then(|rest| rest.split_once("):"));
        let mut ends = range.map_or("", |(_, rest)| rest).split('…').map(without_runs);
        results.push(json!({
            "command": name.trim(), "mean": printed(pair.next(), seconds)?, "stddev": printed(pair.next(), seconds)?,
            "min": printed(ends.next(), seconds)?, "max": printed(ends.next(), seconds)?,
            "user": of_cpu("User:")?, "system": of_cpu("System:")?,
        }));
    }
    each(&results)
}

/// Strips the count from `59.1 ms    57 runs`.
fn without_runs(text: &str) -> &str {
    let time = text.trim().strip_suffix("runs").and_then(|rest| rest.trim_end().rsplit_once(' '));
    time.map_or(text, |(time, _)| time)
}

fn seconds(text: &str) -> Option<f64> {
    time_ns(text.trim()).map(|ns| ns / 1e9)
}

/// The beginning of the table of `--export-markdown`.
pub(crate) const MARKDOWN_HEAD: &[&str] = &["| Command | Mean ["];

pub(crate) fn is_markdown(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(MARKDOWN_HEAD[0]))
}

/// Turns the table of `--export-markdown` into the object of `--export-json`.
pub(crate) fn read_markdown(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let head = text.lines().find(|line| line.starts_with(MARKDOWN_HEAD[0])).unwrap_or_default();
    let unit = head.split(['[', ']']).nth(1).unwrap_or_default();
    let rows = text.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let mut results = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_end().trim_end_matches('|').rsplit('|').collect();
        // The command may have bars, which are escaped.
        let [_, max, min, mean, name @ ..] = cells.as_slice() else {
            return Err(Unreadable::Row(row));
        };
        let name = name.iter().rev().skip(1).copied().collect::<Vec<_>>().join("|").replace("\\|", "|");
        let mut pair = mean.split('±');
        let of = |cell: &str| seconds(&format!("{} {unit}", cell.trim()));
        results.push(json!({
            "command": name.trim().trim_matches('`'), "mean": printed(pair.next(), of)?, "stddev": printed(pair.next(), of)?,
            "min": printed(Some(min), of)?, "max": printed(Some(max), of)?,
        }));
    }
    each(&results)
}

fn each(results: &[Value]) -> Result<Vec<ToolRun>, Unreadable<'static>> {
    if results.is_empty() {
        return Err("it has no time of any command".into());
    }
    let is_several = results.len() > 1;
    let read = |result: &Value| {
        let mut run = command(result)?;
        if is_several {
            run.warn(
                "hyperfine measured its commands one after the other, so a drift of the machine looks like a difference \
                 between them",
            );
        }
        Ok(run)
    };
    results.iter().map(read).collect()
}

fn command(result: &Value) -> Result<ToolRun, Unreadable<'static>> {
    let mut run = ToolRun::new("hyperfine", "command", "runs");
    let name = scalar(result, "/command").ok_or("a result has no `command`")?;
    run.option("command", name.clone());
    run.label = Some(name);
    for (name, value) in result.get("parameters").and_then(Value::as_object).into_iter().flatten() {
        run.options_from([(format!("parameter {name}").as_str(), scalar(value, ""))]);
    }
    let times: Vec<f64> = items(result, "/times").iter().filter_map(|time| positive(time, "")).collect();
    if times.is_empty() {
        let ns = |name: &str| positive(result, name).map(|seconds| seconds * 1e9);
        let known = [
            (Statistic::Avg, ns("/mean")),
            (Statistic::Med, ns("/median")),
            (Statistic::Min, ns("/min")),
            (Statistic::Max, ns("/max")),
        ];
        run.summary(&WALL_TIME, None, known);
        run.remedy(&WALL_TIME, "hyperfine --export-json has every time, unless something took `times` out");
        run.worked(None, None);
    } else {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        run.sum(
            ["seconds in the mean", "the mean of all its times"],
            positive(result, "/mean"),
            Some(mean),
            0.01,
        );
        let mut histogram = Histogram::new();
        times.iter().for_each(|seconds| histogram.record(seconds_to_ns(*seconds)));
        run.trend(&WALL_TIME, histogram);
        run.worked(Some(times.iter().sum()), Some(times.len() as u64));
    }
    if run.metrics.is_empty() {
        return Err("a result has neither `times` nor a `mean`".into());
    }
    let mean = |name: &str| [(Statistic::Avg, positive(result, name).map(|seconds| seconds * 1e9))];
    run.summary(&USER_TIME, None, mean("/user"));
    run.summary(&SYSTEM_TIME, None, mean("/system"));
    for metric in [&USER_TIME, &SYSTEM_TIME] {
        run.remedy(metric, "hyperfine keeps only the mean of CPU times; `plumb command` keeps every one");
    }
    read_memory(&mut run, result);
    read_exits(&mut run, result);
    read_spread(&mut run, result, &times);
    Ok(run)
}

fn read_memory(run: &mut ToolRun, result: &Value) {
    let bytes: Vec<f64> =
        items(result, "/memory_usage_byte").iter().filter_map(|it| positive(it, "")).collect();
    if !bytes.is_empty() {
        let mean = bytes.iter().sum::<f64>() / bytes.len() as f64;
        run.add_reading(&MEMORY_MAX, Reading::Gauge(mean));
        run.warn(
            "hyperfine's memory may be its own: Linux hands the size of the parent on to a child, so a small program shows the \
             size of hyperfine",
        );
    }
}

fn read_exits(run: &mut ToolRun, result: &Value) {
    let exits = items(result, "/exit_codes");
    let mut failed = 0;
    for exit in exits {
        match exit.as_i64() {
            Some(0) => {}
            Some(code) => {
                run.error(&format!("exit code {code}"), 1);
                failed += 1;
            }
            None => {
                run.error("ended by a signal", 1);
                failed += 1;
            }
        }
    }
    run.measurement.attempts.tried = exits.len() as u64;
    run.measurement.attempts.failed = failed;
    if failed > 0 {
        run.warn(
            NoticeKind::FailuresIncluded
                .with([failed as f64, failed as f64 / exits.len() as f64])
                .about(["runs"]),
        );
    }
}

/// The standard deviation describes one run of hyperfine, and says nothing of the next.
fn read_spread(run: &mut ToolRun, result: &Value, times: &[f64]) {
    match number(result, "/stddev") {
        None if times.len() == 1 => {
            run.warn("hyperfine made one run, so nothing is known of how much runs differ")
        }
        _ => {}
    }
    if number(result, "/mean").is_some_and(|mean| mean < 0.005) {
        run.warn(
            "runs of less than 5 ms: without --shell=none, hyperfine subtracts the time of an empty shell, which varies as much",
        );
    }
}
