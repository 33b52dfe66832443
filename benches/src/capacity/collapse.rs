//! Experiments with a server that collapses when it is overloaded, beside one that does not.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use plumb_host::scratch::Scratch;

use super::comparison::{experiment, run_experiment};
use super::{COLLAPSE, Service, serve};
use crate::results::write_text;
use crate::tool::built_plumb;
use crate::{Outcome, say};

const RUNS: u64 = 2;
const VARIANTS: [&str; 2] = ["steady", "collapsing"];
const CLAIM: &str = "collapsing.capacity >= 0.95 * steady.capacity";

/// Runs them, and writes their section.
pub fn run() -> Outcome {
    let plumb = built_plumb()?;
    let [steady, collapsing] =
        [Service::Constant, Service::Collapsing].map(|service| serve(service, Duration::from_millis(1)));
    let experiment = experiment([(VARIANTS[0], steady?), (VARIANTS[1], collapsing?)], &[CLAIM]);
    let mut text = format!(
        "Both servers take 1 ms per request. One of them collapses: once its queue is {} ms long, it takes 3 ms per request until the queue is \
         empty. The objective is p99 < 20 ms, and a trial takes 2 s. Capacities have joint 95% intervals over 6 blocks. Recovery is the longest time \
         between a failed trial and a probe at half its rate that met the objective.\n\n\
         | run | server | capacity | 95% interval | recovery | `{CLAIM}` |\n|---|---|---|---|---|---|\n",
        COLLAPSE.as_millis()
    );
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-bench-")?;
    for run in 1..=RUNS {
        let rows = rows(&plumb, &experiment, run, scratch.path())?;
        say(&rows);
        text += &rows;
    }
    write_text("collapse", "The capacity of a server that collapses", &text)
}

fn rows(plumb: &Path, experiment: &str, run: u64, directory: &Path) -> Outcome<String> {
    let (found, _) = run_experiment(plumb, experiment, run, directory)?;
    let verdict = found["claims"][0]["verdict"].as_str().unwrap_or("none");
    let mut rows = String::new();
    for name in VARIANTS {
        let mut known = found["capacities"].as_array().into_iter().flatten();
        let capacity = known.find(|capacity| capacity["variant"] == name).ok_or("no capacity")?;
        let figure =
            |key: &str| capacity[key].as_f64().map_or("–".to_owned(), |figure| format!("{figure:.1}"));
        let [value, low, high, recovery] = ["capacity", "low", "high", "recovery_ms"].map(figure);
        // Writing to a String cannot fail.
        let _ =
            writeln!(rows, "| {run} | {name} | {value}/s | {low} to {high} | {recovery} ms | {verdict} |");
    }
    Ok(rows)
}
