//! Experiments that compare the capacities of two servers, which are 1,000/s and 1,111/s.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use plumb_host::process::{Command, output_of};
use plumb_host::scratch::Scratch;
use plumb_host::time::monotonic_ns;
use serde_json::Value;

use super::{Service, serve};
use crate::results::write_text;
use crate::tool::built_plumb;
use crate::{Outcome, say};

/// How long each of the two servers takes.
const TOOK: [Duration; 2] = [Duration::from_micros(1000), Duration::from_micros(900)];
/// The two claims' true ratios.
const TRUTHS: [f64; 2] = [1.0, 1.0 / 0.9];
/// How many experiments are run.
const RUNS: u64 = 2;
/// The claims: of the first server alone, and of both.
const CLAIMS: [&str; 2] = ["slower.capacity >= 1000/s", "faster.capacity >= 1.08 * slower.capacity"];

/// Runs them, and writes their section.
pub fn run() -> Outcome {
    let plumb = built_plumb()?;
    let [slower, faster] = TOOK.map(|took| serve(Service::Constant, took));
    let experiment = experiment([("slower", slower?), ("faster", faster?)], &CLAIMS);
    let mut text = format!(
        "Two servers handle one request at a time. One takes 1 ms per request, the other 0.9 ms. The objective is p99 < 20 ms, and a trial \
         takes 2 s. The table has {RUNS} experiments of 6 blocks, with joint 95% intervals. Service times are constant, so blocks can \
         agree to the last digit.\n\n\
         | run | slower over 1,000/s | error | covered | faster over slower | error | covered | time |\n|---|---|---|---|---|---|---|---|\n",
    );
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-bench-")?;
    for run in 1..=RUNS {
        let line = row(&plumb, &experiment, run, scratch.path())?;
        say(&line);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    write_text("capacities", "Two capacities, compared in an experiment", &text)
}

/// An experiment that searches for the capacities of two servers, of which the first is the baseline.
pub fn experiment([(baseline, port), (other, other_port)]: [(&str, u16); 2], claims: &[&str]) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: known-servers }}\nspec:\n  path: http\n  \
         system: {{ ingress: {{ kind: external, url: \"http://127.0.0.1:{port}/\" }} }}\n  \
         load: {{ connections: 100, capacity: {{ objective: [\"p99 < 20 ms\"], trials: 6, trial: 2 s, step: 4% }} }}\n  \
         baseline: {baseline}\n  variants:\n    {baseline}: {{}}\n    \
         {other}: {{ system: {{ ingress: {{ url: \"http://127.0.0.1:{other_port}/\" }} }} }}\n  \
         blocks: {{ min: 6, max: 6 }}\n  claims: {claims:?}\n"
    )
}

/// Runs an experiment in a new directory below `directory`, and returns its JSON and the seconds that it took.
pub fn run_experiment(plumb: &Path, experiment: &str, run: u64, directory: &Path) -> Outcome<(Value, u64)> {
    let file = directory.join("known-servers.yaml");
    std::fs::write(&file, experiment)?;
    let command = Command::new(plumb).args(["run", "--json", "--quiet", "--seed", &run.to_string()]).args([
        file.as_os_str(),
        "--output".as_ref(),
        directory.join(run.to_string()).as_os_str(),
    ]);
    let began_ns = monotonic_ns();
    let output = output_of(command, "plumb", Duration::from_secs(1200))?;
    let took = Duration::from_nanos(monotonic_ns() - began_ns);
    let found = serde_json::from_str(&output.stdout).map_err(|_| output.stderr)?;
    Ok((found, took.as_secs()))
}

fn row(plumb: &Path, experiment: &str, run: u64, directory: &Path) -> Outcome<String> {
    let (found, took_s) = run_experiment(plumb, experiment, run, directory)?;
    let mut line = format!("| {run} |");
    for (index, truth) in TRUTHS.into_iter().enumerate() {
        let claim = &found["claims"][index];
        let figures = [&claim["ratio"], &claim["low"], &claim["high"]].map(Value::as_f64);
        let [Some(ratio), Some(low), Some(high)] = figures else {
            let _ = write!(line, " {} | – | – |", claim["reason"].as_str().unwrap_or_default());
            continue;
        };
        let is_in = if (low..=high).contains(&truth) { "yes" } else { "no" };
        let half = 50.0 * (high - low) / ratio;
        // Writing to a String cannot fail.
        let _ = write!(line, " ×{ratio:.4} ±{half:.1}% | {:+.1}% | {is_in} |", 100.0 * (ratio / truth - 1.0));
    }
    Ok(format!("{line} {took_s} s |"))
}
