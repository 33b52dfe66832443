//! `benches/RESULTS.md`: one section a bench, written anew by each run, with the host that it ran on.

use std::fmt::Write;
use std::path::Path;

use plumb_host::cpu::{available_cpus, split_sides};
use plumb_host::facts::HostFacts;
use plumb_stats::Effect;

use crate::Outcome;
use crate::blocks::Samples;
use crate::tool::{Sample, Tool};

/// One comparison with one peer.
pub struct Row {
    pub what: String,
    pub peer: String,
    pub ours_per_s: f64,
    pub theirs_per_s: f64,
    pub ours_cpu_us: f64,
    pub theirs_cpu_us: f64,
    pub ours_busy: f64,
    pub theirs_busy: f64,
    pub cpu_ratio: Option<Effect>,
    pub rate_ratio: Option<Effect>,
    pub target: Option<f64>,
}

impl Row {
    /// The first of some tools, which is ours, beside another one.
    pub fn comparing(
        what: &str,
        tools: &[Tool],
        samples: &Samples<Sample>,
        peer: usize,
        target: Option<f64>,
    ) -> Self {
        Self {
            what: what.to_owned(),
            peer: tools[peer].name.to_owned(),
            ours_per_s: samples.median(0, |sample| sample.requests_per_s),
            theirs_per_s: samples.median(peer, |sample| sample.requests_per_s),
            ours_cpu_us: samples.median(0, |sample| sample.cpu_us_per_request),
            theirs_cpu_us: samples.median(peer, |sample| sample.cpu_us_per_request),
            ours_busy: samples.median(0, |sample| sample.busy),
            theirs_busy: samples.median(peer, |sample| sample.busy),
            cpu_ratio: samples.ratio(0, peer, |sample| sample.cpu_us_per_request),
            rate_ratio: samples.ratio(0, peer, |sample| sample.requests_per_s),
            target,
        }
    }
}

const FILE: &str = "benches/RESULTS.md";

/// Writes a section of rows.
pub fn write_section(key: &str, title: &str, rows: &[Row], notes: &[String]) -> Outcome {
    write_text(key, title, &format!("{}\nSettings:\n\n{}\n", table(rows), notes.join("\n")))
}

/// Rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| load | peer | requests/s ours | theirs | ratio | client CPU/request ours | theirs | ratio | target | busy ours | theirs |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} | {:.0} | {} | {:.2} us | {:.2} us | {} | {} | {:.0}% | {:.0}% |",
            row.what,
            row.peer,
            row.ours_per_s,
            row.theirs_per_s,
            interval(row.rate_ratio),
            row.ours_cpu_us,
            row.theirs_cpu_us,
            interval(row.cpu_ratio),
            row.target.map_or_else(|| "–".to_owned(), |target| format!("≤ {target}")),
            row.ours_busy * 100.0,
            row.theirs_busy * 100.0
        );
    }
    text
}

/// Writes a section of any text.
pub fn write_text(key: &str, title: &str, body: &str) -> Outcome {
    let path = Path::new(FILE);
    let old = std::fs::read_to_string(path).unwrap_or_else(|_| {
        "# Results\n\nWritten by `make bench`. Ratios are ours over theirs with anytime-valid 95% intervals over random \
         palindromic blocks.\n"
            .to_owned()
    });
    let (begin, end) = (format!("<!-- {key} -->"), format!("<!-- end of {key} -->"));
    let section = format!("{begin}\n## {title}\n\n{}\n{body}{end}\n", host()?);
    let new = match (old.find(&begin), old.find(&end)) {
        (Some(from), Some(to)) if from < to => {
            // What follows stays as it is, with its own line break after the end of the section.
            format!("{}{}{}", &old[..from], section.trim_end(), &old[to + end.len()..])
        }
        _ => format!("{old}\n{section}"),
    };
    std::fs::write(path, new).map_err(|error| format!("write {FILE}: {error}"))?;
    crate::say(&section);
    Ok(())
}

fn host() -> Outcome<String> {
    let sides = split_sides(&available_cpus()?);
    let mut text = format!("{}, on this host:\n\n", plumb_host::time::wall_clock_rfc3339());
    for (name, value) in plumb_places::host_lines(&HostFacts::read_now(), &sides) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    Ok(text)
}

/// Three cells of a table: the median of one tool, that of another, and the ratio of the two.
pub fn cells<S: Copy>(
    samples: &Samples<S>,
    (own, peer): (usize, usize),
    value: fn(&S) -> f64,
    (digits, unit): (usize, &str),
) -> String {
    let median = |tool| format!("{:.digits$}{unit}", samples.median(tool, value));
    format!("{} | {} | {}", median(own), median(peer), interval(samples.ratio(own, peer, value)))
}

/// `0.622 [0.601, 0.644]`, as some targets are a matter of 2%.
fn interval(effect: Option<Effect>) -> String {
    effect.map_or_else(|| "–".to_owned(), |e| format!("{:.3} [{:.3}, {:.3}]", e.ratio, e.low, e.high))
}
