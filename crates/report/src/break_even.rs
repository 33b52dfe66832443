//! From which concurrency on a treatment pays: the one sentence that a matrix over connections (or a queue's depth, or
//! channels) is run for.
//!
//! A treatment pays at a level if the interval of the main metric lies on its better side there. It pays *from* a level
//! on if it does so there and at every level above. That an interval reaches across no change is not a proof that nothing
//! changed, so such a level is called unproven. Levels at which the load was the limit, or neighbours had the CPU, say
//! nothing about the treatment and are named as left out.

use std::collections::BTreeMap;

use plumb_model::{Better, Cell, Comparison};

use crate::figures;
use crate::rows::Row;
use crate::view::{Change, View};

/// The last parts of those keys that say how much is in flight at once.
const CONCURRENCY: [&str; 6] = ["connections", "in_flight", "depth", "channels", "flows", "jobs"];

/// Up to this share of load-bound slots a level still counts, as for claims.
const LOAD_BOUND_SHARE_MAX: f64 = 0.10;

/// What is known of a treatment over all levels, with the matrix' other keys held.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<'a> {
    pub variant: usize,
    /// The values of the matrix' other keys.
    pub others: BTreeMap<String, String>,
    /// Ascending; at least two of them can be used.
    pub points: Vec<Point<'a>>,
}

/// One level.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<'a> {
    /// As the experiment has it: `20`.
    pub level: String,
    pub number: f64,
    pub change: Change,
    pub comparison: &'a Comparison,
    /// Whether the treatment's effect can be read from it.
    pub usable: bool,
}

/// The answers of a run: by treatment and by the matrix' other keys.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakEven<'a> {
    /// The matrix' key: `load.connections`.
    pub axis: String,
    pub row: Row<'a>,
    pub series: Vec<Series<'a>>,
}

/// Where a series begins to pay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer<'s> {
    /// At this level and at all above.
    From(&'s str),
    /// At these levels, but not at all levels above.
    At(&'s str, &'s str),
    /// At no level.
    Nowhere,
    /// At no level so far, and some are not decided.
    Open,
}

impl Series<'_> {
    fn usable(&self) -> impl DoubleEndedIterator<Item = &Point<'_>> {
        self.points.iter().filter(|point| point.usable)
    }

    /// Where it begins to pay.
    pub fn answer(&self) -> Answer<'_> {
        let pays = |point: &&Point<'_>| point.change == Change::Better;
        let from = self.usable().rev().take_while(pays).last();
        match (from, self.usable().find(pays), self.usable().rfind(pays)) {
            (Some(from), Some(first), _) if from.level == first.level => Answer::From(&from.level),
            (_, Some(first), Some(last)) => Answer::At(&first.level, &last.level),
            _ if self.usable().any(|point| point.change == Change::Open) => Answer::Open,
            _ => Answer::Nowhere,
        }
    }

    /// The rest of a sentence that begins with the treatment's name.
    fn words(&self, axis: &str, with_levels: bool) -> String {
        let levels: Vec<&str> = self.usable().map(|point| point.level.as_str()).collect();
        let range = match (levels.first(), levels.last()) {
            (Some(first), Some(last)) => format!("{first} to {last} {axis}"),
            _ => axis.to_owned(),
        };
        let answer = match self.answer() {
            Answer::From(level) if levels.first() == Some(&level) => {
                format!("pays from {range}, at every level measured")
            }
            Answer::From(level) => format!("pays from {level} {axis} on"),
            Answer::At(first, last) if first == last => {
                format!("pays at {first} {axis}, but not from there on")
            }
            Answer::At(first, last) => {
                format!("pays at {first} and at {last} {axis}, but not at every level between and above")
            }
            Answer::Nowhere => format!("does not pay within {range}"),
            Answer::Open => format!("is not decided within {range}"),
        };
        if !with_levels {
            return answer;
        }
        let points: Vec<String> = self.points.iter().map(Point::words).collect();
        format!("{answer} ({})", points.join("; "))
    }
}

impl Point<'_> {
    fn words(&self) -> String {
        let found = self.comparison;
        let effect = figures::effect(found.ratio, found.low, found.high);
        let note = match self.change {
            _ if !self.usable => ", left out: the load or a neighbour was the limit",
            Change::Unclear => ", unproven",
            Change::Open => ", too few blocks",
            Change::Better | Change::Worse | Change::Different => "",
        };
        format!("at {} {effect}{note}", self.level)
    }
}

impl<'a> BreakEven<'a> {
    /// What a run says; `None` where its matrix has no concurrency, or its main metric no better side.
    pub fn of(view: &View<'a>) -> Option<Self> {
        let row = view.main_row().filter(|row| row.metric.better != Better::Neither)?;
        let cells = &view.plan().cells;
        let is_level = |key: &&String| {
            let last = key.rsplit('.').next().unwrap_or_default();
            let mut levels = cells.iter().filter_map(|cell| cell.values.get(*key));
            CONCURRENCY.contains(&last) && levels.all(|level| level.parse::<f64>().is_ok())
        };
        let axis = cells.first()?.values.keys().find(is_level)?.clone();
        let mut series: Vec<Series<'a>> = Vec::new();
        for variant in view.others().filter(|variant| !view.variants()[*variant].control) {
            for (at, cell) in cells.iter().enumerate() {
                let Some(point) = point(view, row, &axis, (at, cell), variant) else { continue };
                let mut others = cell.values.clone();
                others.remove(&axis);
                match series.iter_mut().find(|found| found.variant == variant && found.others == others) {
                    Some(found) => found.points.push(point),
                    None => series.push(Series { variant, others, points: vec![point] }),
                }
            }
        }
        for found in &mut series {
            found.points.sort_by(|left, right| left.number.total_cmp(&right.number));
        }
        series.retain(|found| found.usable().count() >= 2);
        (!series.is_empty()).then_some(Self { axis, row, series })
    }

    /// The last part of the key: `connections`.
    pub fn axis_word(&self) -> String {
        self.axis.rsplit('.').next().unwrap_or_default().replace('_', " ")
    }

    /// One sentence per treatment, with its index in the plan; with the effect at each level where no figure shows it.
    pub fn sentences(&self, view: &View<'_>, with_levels: bool) -> Vec<(usize, String)> {
        let mut sentences: Vec<(usize, String)> = Vec::new();
        for series in &self.series {
            let words = format!("{}{}", self.place(series), series.words(&self.axis_word(), with_levels));
            match sentences.iter_mut().find(|(variant, _)| *variant == series.variant) {
                Some((_, sentence)) => *sentence = format!("{sentence}; {words}"),
                None => sentences.push((series.variant, words)),
            }
        }
        for (variant, sentence) in &mut sentences {
            *sentence = format!("{}, by {}: {sentence}.", view.name(*variant), self.row.key());
        }
        sentences
    }

    /// `with key=rsa-2048 it `, of the keys that tell a treatment's series apart.
    fn place(&self, series: &Series<'_>) -> String {
        let label = self.label(series);
        if label.is_empty() { "it ".to_owned() } else { format!("with {label} it ") }
    }

    /// `key=rsa-2048`: the other keys in which series differ.
    pub fn label(&self, series: &Series<'_>) -> String {
        let differs = |key: &str, value: &str| {
            self.series.iter().any(|found| found.others.get(key).is_some_and(|other| other != value))
        };
        let parts = series.others.iter().filter(|(key, value)| differs(key, value));
        let short = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let words: Vec<String> = parts.map(|(key, value)| format!("{}={value}", short(key))).collect();
        words.join(", ")
    }
}

fn point<'a>(
    view: &View<'a>,
    row: Row<'a>,
    axis: &str,
    (at, cell): (usize, &Cell),
    variant: usize,
) -> Option<Point<'a>> {
    if !view.is_measured(at, variant) || !view.is_measured(at, view.plan().baseline) {
        return None;
    }
    let level = cell.values.get(axis)?.clone();
    let comparison = view.comparison(at, variant, row)?;
    let is_sound = |variant: usize| {
        view.summary(at, variant).is_none_or(|found| {
            let bound = f64::from(found.load_bound) > LOAD_BOUND_SHARE_MAX * f64::from(found.slots);
            !bound && (found.crowded == 0 || 2 * found.crowded < found.slots)
        })
    };
    Some(Point {
        number: level.parse().ok()?,
        level,
        change: Change::of(comparison, row.metric.better),
        comparison,
        usable: is_sound(variant) && is_sound(view.plan().baseline),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Scenario;
    use plumb_model::{Judgement, Run};

    /// The scenario over connections and keys, with the ratios of the first treatment set.
    fn run(ratios: &[(f64, f64, Option<f64>)]) -> (Run, Judgement) {
        let mut scenario = Scenario::tls_offload();
        let levels = ["1", "20", "100"];
        scenario.cells = (0..ratios.len())
            .map(|at| {
                let key = if at < 3 { "rsa-2048" } else { "rsa-4096" };
                BTreeMap::from([
                    ("load.connections".to_owned(), levels[at % 3].to_owned()),
                    ("system.ingress.key".to_owned(), key.to_owned()),
                ])
            })
            .collect();
        scenario.blocks = 2;
        let (run, mut judgement) = scenario.run();
        let key = View::new(&run, &judgement).main_row().unwrap().key();
        for found in &mut judgement.comparisons {
            if found.metric == key && found.variant == "threads" {
                (found.ratio, found.low, found.high) = ratios[found.cell];
            }
        }
        for summary in &mut judgement.variants {
            (summary.load_bound, summary.crowded) = (0, 0);
        }
        (run, judgement)
    }

    fn sentence((run, judgement): &(Run, Judgement)) -> String {
        let view = View::new(run, judgement);
        let found = BreakEven::of(&view).expect("the matrix is over connections");
        let threads = run.header.plan.variants.iter().position(|variant| variant.name == "threads").unwrap();
        found.sentences(&view, true).into_iter().find(|(variant, _)| *variant == threads).unwrap().1
    }

    const EVEN: (f64, f64, Option<f64>) = (1.0, 0.95, Some(1.06));
    const GAIN: (f64, f64, Option<f64>) = (2.1, 1.8, Some(2.4));
    const LOSS: (f64, f64, Option<f64>) = (0.8, 0.7, Some(0.9));
    const OPEN: (f64, f64, Option<f64>) = (1.4, 0.0, None);

    #[test]
    fn one_sentence_says_from_where_a_treatment_pays() {
        insta::assert_snapshot!(sentence(&run(&[EVEN, GAIN, GAIN])), @"threads, by http_reqs: it pays from 20 connections on (at 1 ×1.00 [0.95, 1.06], unproven; at 20 ×2.10 [1.80, 2.40]; at 100 ×2.10 [1.80, 2.40]).");
        insta::assert_snapshot!(sentence(&run(&[GAIN, GAIN, GAIN])), @"threads, by http_reqs: it pays from 1 to 100 connections, at every level measured (at 1 ×2.10 [1.80, 2.40]; at 20 ×2.10 [1.80, 2.40]; at 100 ×2.10 [1.80, 2.40]).");
        insta::assert_snapshot!(sentence(&run(&[LOSS, EVEN, EVEN])), @"threads, by http_reqs: it does not pay within 1 to 100 connections (at 1 ×0.80 [0.70, 0.90]; at 20 ×1.00 [0.95, 1.06], unproven; at 100 ×1.00 [0.95, 1.06], unproven).");
        insta::assert_snapshot!(sentence(&run(&[LOSS, GAIN, LOSS])), @"threads, by http_reqs: it pays at 20 connections, but not from there on (at 1 ×0.80 [0.70, 0.90]; at 20 ×2.10 [1.80, 2.40]; at 100 ×0.80 [0.70, 0.90]).");
        insta::assert_snapshot!(sentence(&run(&[OPEN, OPEN, OPEN])), @"threads, by http_reqs: it is not decided within 1 to 100 connections (at 1 ×1.40 [0, ∞), too few blocks; at 20 ×1.40 [0, ∞), too few blocks; at 100 ×1.40 [0, ∞), too few blocks).");
        insta::assert_snapshot!(sentence(&run(&[EVEN, GAIN, GAIN, LOSS, EVEN, GAIN])), @"threads, by http_reqs: with key=rsa-2048 it pays from 20 connections on (at 1 ×1.00 [0.95, 1.06], unproven; at 20 ×2.10 [1.80, 2.40]; at 100 ×2.10 [1.80, 2.40]); with key=rsa-4096 it pays from 100 connections on (at 1 ×0.80 [0.70, 0.90]; at 20 ×1.00 [0.95, 1.06], unproven; at 100 ×2.10 [1.80, 2.40]).");
    }

    #[test]
    fn a_level_at_which_the_load_was_the_limit_is_left_out() {
        let mut made = run(&[EVEN, GAIN, LOSS]);
        for summary in made.1.variants.iter_mut().filter(|summary| summary.cell == 2) {
            summary.load_bound = summary.slots;
        }
        insta::assert_snapshot!(sentence(&made), @"threads, by http_reqs: it pays from 20 connections on (at 1 ×1.00 [0.95, 1.06], unproven; at 20 ×2.10 [1.80, 2.40]; at 100 ×0.80 [0.70, 0.90], left out: the load or a neighbour was the limit).");
    }

    #[test]
    fn without_levels_there_is_no_answer() {
        let (run, judgement) = Scenario::tls_offload().run();
        assert_eq!(BreakEven::of(&View::new(&run, &judgement)), None);
    }
}
