//! Ratios between comparable figures: one metric, one dimension, and one named difference.

use std::fmt;

use plumb_model::Better;

use crate::audit::finding::Output;
use crate::audit::loads::{Main, is_repeated, main};
use crate::audit::rule::Rule;
use crate::audit::sameness::comparable;
use crate::audit::series::{Layout, Point, Series};
use crate::audit::tables::Table;
use crate::audit::words::rounded;

/// More runs are raw data rather than a comparison of alternatives.
const RUNS_MAX: usize = 200;

/// A figure divided by a comparable one.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// The rule that allows it.
    pub rule: Rule,
    /// The line of the figure that was divided, from 1.
    pub line: usize,
    /// The metric of both figures, such as `latency`.
    pub metric: String,
    /// The row, column or run of the figure that was divided.
    pub of: String,
    /// The row, column or run of the other figure.
    pub over: String,
    /// The setting of both, such as `concurrency 64`; may be empty.
    pub at: String,
    /// The ratio.
    pub value: f64,
    /// The number of digits that the figures support.
    digits: i32,
    /// Which direction is an improvement.
    pub better: Better,
    /// The ratio's limitation, as a clause.
    pub caveat: String,
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { String::new() } else { format!(" at {}", self.at) };
        let value = rounded(self.value, self.digits);
        let direction = match self.better {
            Better::Neither => "",
            Better::Higher => " (higher is better)",
            Better::Lower => " (lower is better)",
        };
        let Self { metric, of, over, line, caveat, .. } = self;
        write!(out, "{metric} of {of} (line {line}) over {over}{at}: ×{value}{direction} — {caveat}")
    }
}

/// The ratios that a table supports. Each point is divided by its first alternative.
pub(crate) fn of_table(table: &Table, layout: &Layout) -> Vec<Ratio> {
    if !layout.is_choice {
        return Vec::new();
    }
    // If a table has the total time of a job, a rate within the job does not measure the whole job.
    let has_total_time = table.column(&["total", "time"]).is_some();
    let is_divisible = |series: &&Series| match series.better {
        Better::Neither => false,
        Better::Lower => true,
        Better::Higher => !(series.is_column && has_total_time),
    };
    let series = layout.comparisons().filter(is_divisible);
    series.flat_map(|series| of_series(table, layout, series)).collect()
}

fn of_series(table: &Table, layout: &Layout, series: &Series) -> Vec<Ratio> {
    let others = series.points.iter().enumerate().filter_map(|(at, point)| {
        let first = series.points[..at].iter().find(|first| layout.apart(first, point).is_none())?;
        let is_positive = first.amount > 0.0 && point.amount > 0.0;
        is_positive.then(|| Ratio {
            rule: if series.is_column { Rule::RatioOfRows } else { Rule::RatioOfColumns },
            line: point.line,
            metric: series.what.clone(),
            of: point.name().to_owned(),
            over: first.name().to_owned(),
            at: at_words(table, series),
            value: point.amount / first.amount,
            digits: supported(first, point),
            better: series.better,
            caveat: caveat(first, point),
        })
    });
    others.collect()
}

/// The setting of a series, or else of the whole table, if its first heading is one, such as `8 Channels`.
fn at_words(table: &Table, series: &Series) -> String {
    let is_setting = table.corner.starts_with(|c: char| c.is_ascii_digit());
    if series.at.is_empty() && is_setting { table.corner.clone() } else { series.at.clone() }
}

/// The number of digits that a ratio of two rounded figures supports, and more if it would seem to be 1 and is not.
fn supported(first: &Point, point: &Point) -> i32 {
    let moved = first.figure.rounding() + point.figure.rounding();
    let digits = if moved <= 0.0 { 4 } else { (1 - moved.log10().ceil() as i32).clamp(2, 4) };
    let ratio = point.amount / first.amount;
    let off = (ratio - 1.0).abs();
    if off <= moved {
        return digits;
    }
    let decimals = -off.log10().floor() as i32;
    digits.max(decimals + i32::from(ratio > 1.0)).min(4)
}

fn caveat(first: &Point, point: &Point) -> String {
    let share = |point: &Point| point.figure.spread.map(|spread| spread / point.figure.value * 100.0);
    match (share(point), share(first)) {
        (Some(of), Some(over)) => {
            format!("a point estimate from cells with ± {}% and ± {}%", rounded(of, 2), rounded(over, 2))
        }
        _ => "a point estimate, one number per cell".to_owned(),
    }
}

/// Ratios of runs of a tool to the first run with the same settings.
pub(crate) fn of_runs(outputs: &[Output]) -> Vec<Ratio> {
    let known: Vec<(&Output, Main)> =
        outputs.iter().take(RUNS_MAX).filter_map(|output| Some((output, main(output)?))).collect();
    let others = known.iter().enumerate().filter_map(|(at, (output, of))| {
        let (first, over) = known[..at].iter().find(|(first, over)| {
            over.name == of.name && over.unit == of.unit && comparable(first, output)
        })?;
        (of.value > 0.0 && over.value > 0.0).then(|| Ratio {
            rule: Rule::RatioOfRuns,
            line: output.line,
            metric: of.name_with_statistic(),
            of: run_words(output, first),
            over: format!("{} (line {})", run_words(first, output), first.line),
            at: String::new(),
            value: of.value / over.value,
            digits: 4,
            better: of.better,
            caveat: if is_repeated(output) {
                format!("a ratio of {}'s means, without an interval", output.run.tool)
            } else {
                format!("a point estimate from one {} run each, without an interval", output.run.tool)
            },
        })
    });
    others.collect()
}

/// Names a run by what tells it from another: a heading, a caption, a label or a host. Otherwise it is "the run".
fn run_words(output: &Output, other: &Output) -> String {
    let host = output.run.options.get("url").or_else(|| output.run.options.get("host")).map(String::as_str);
    let name = output.names(other).first().copied().or(host);
    name.map_or_else(|| "the run".to_owned(), |name| format!("\"{name}\""))
}
