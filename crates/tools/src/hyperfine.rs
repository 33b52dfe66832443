//! hyperfine: the JSON of `--export-json`, in seconds.
//!
//! Each command is a run of its own, made after the others: the order of commands and the time of day are the same thing.

use plumb_model::{Histogram, Reading, Statistic};
use serde_json::Value;

use crate::json::{documents, items, number, positive, scalar};
use crate::metrics::{MEMORY_MAX, SYSTEM_TIME, USER_TIME, WALL_TIME};
use crate::tool_run::{ToolRun, seconds_to_ns};

pub(crate) fn is(text: &str) -> bool {
    let (found, _) = documents(text);
    found.iter().any(|value| {
        let first = items(value, "/results").first();
        first.is_some_and(|first| first.get("command").is_some() && first.get("mean").is_some())
    })
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let (found, _) = documents(text);
    let results: Vec<&Value> = found.iter().flat_map(|value| items(value, "/results")).collect();
    if results.is_empty() {
        return Err("it has no `results`".to_owned());
    }
    let is_several = results.len() > 1;
    let read = |result: &&Value| {
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

fn command(result: &Value) -> Result<ToolRun, String> {
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
        let mut histogram = Histogram::new();
        times.iter().for_each(|seconds| histogram.record(seconds_to_ns(*seconds)));
        run.trend(&WALL_TIME, histogram);
        run.worked(Some(times.iter().sum()), Some(times.len() as u64));
    }
    if run.metrics.is_empty() {
        return Err("a result has neither `times` nor a `mean`".to_owned());
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
        run.read(&MEMORY_MAX, Reading::Gauge(mean));
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
        run.warn(format!("{failed} of {} runs failed, and their times are among the others", exits.len()));
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
