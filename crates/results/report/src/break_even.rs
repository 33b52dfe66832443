//! From which concurrency on a treatment pays, in sentences.

use plumb_model::finding::{BreakEven, Change, Pays, Point, Series};

use crate::figures;
use crate::view::View;

/// The last part of the key: `connections`.
pub fn axis_word(found: &BreakEven) -> String {
    found.axis.rsplit('.').next().unwrap_or_default().replace('_', " ")
}

/// One sentence per treatment, with the effect at each level.
pub fn sentences(view: &View<'_>, found: &BreakEven) -> Vec<String> {
    let mut sentences: Vec<(usize, String)> = Vec::new();
    for series in &found.series {
        let words = format!("{}{}", place(found, series), break_even_in_words(series, &axis_word(found)));
        match sentences.iter_mut().find(|(variant, _)| *variant == series.variant) {
            Some((_, sentence)) => *sentence = format!("{sentence}; {words}"),
            None => sentences.push((series.variant, words)),
        }
    }
    let whole = |(variant, sentence)| format!("{}, by {}: {sentence}.", view.name(variant), found.metric);
    sentences.into_iter().map(whole).collect()
}

/// `with key=rsa-2048 it `, of the keys that tell a treatment's series apart.
fn place(found: &BreakEven, series: &Series) -> String {
    let label = label(found, series);
    if label.is_empty() { "it ".to_owned() } else { format!("with {label} it ") }
}

/// `key=rsa-2048`: the other keys in which series differ.
pub fn label(found: &BreakEven, series: &Series) -> String {
    let differs = |key: &str, value: &str| {
        found.series.iter().any(|one| one.others.get(key).is_some_and(|other| other != value))
    };
    let parts = series.others.iter().filter(|(key, value)| differs(key, value));
    let short = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let words: Vec<String> = parts.map(|(key, value)| format!("{}={value}", short(key))).collect();
    words.join(", ")
}

/// The rest of a sentence that begins with the treatment's name.
fn break_even_in_words(series: &Series, axis: &str) -> String {
    let levels: Vec<&str> = series.usable().map(|point| point.level.as_str()).collect();
    let range = match (levels.first(), levels.last()) {
        (Some(first), Some(last)) => format!("{first} to {last} {axis}"),
        _ => axis.to_owned(),
    };
    let answer = match &series.pays {
        Pays::From(level) if levels.first() == Some(&level.as_str()) => {
            format!("pays from {range}, at every level measured")
        }
        Pays::From(level) => format!("pays from {level} {axis} on"),
        Pays::At(first, last) if first == last => {
            format!("pays at {first} {axis}, but not from there on")
        }
        Pays::At(first, last) => {
            format!("pays at {first} and at {last} {axis}, but not at every level between and above")
        }
        Pays::Nowhere => format!("does not pay within {range}"),
        Pays::Open => format!("is not decided within {range}"),
    };
    let points: Vec<String> = series.points.iter().map(point_words).collect();
    format!("{answer} ({})", points.join("; "))
}

fn point_words(point: &Point) -> String {
    let found = &point.comparison;
    let effect = figures::effect(found.ratio, found.low, found.high);
    let note = match point.change {
        _ if !point.usable => ", left out: the load or a neighbour was the limit",
        Change::Unclear => ", unproven",
        Change::Open => ", too few blocks",
        Change::Better | Change::Worse | Change::Different => "",
    };
    format!("at {} {effect}{note}", point.level)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
            if found.metric == key && found.variant == 1 {
                (found.ratio, found.low, found.high) = ratios[found.cell];
            }
        }
        for summary in &mut judgement.variants {
            (summary.load_bound, summary.crowded) = (0, 0);
        }
        judgement.findings = plumb_judge::findings(&run.header.plan, &run.slots, &judgement);
        (run, judgement)
    }

    fn sentence((run, judgement): &(Run, Judgement)) -> String {
        let view = View::new(run, judgement);
        let found = judgement.findings.break_even.as_ref().expect("the matrix is over connections");
        sentences(&view, found).into_iter().find(|sentence| sentence.starts_with("threads")).unwrap()
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
        made.1.findings = plumb_judge::findings(&made.0.header.plan, &made.0.slots, &made.1);
        insta::assert_snapshot!(sentence(&made), @"threads, by http_reqs: it pays from 20 connections on (at 1 ×1.00 [0.95, 1.06], unproven; at 20 ×2.10 [1.80, 2.40]; at 100 ×0.80 [0.70, 0.90], left out: the load or a neighbour was the limit).");
    }

    #[test]
    fn without_levels_there_is_no_answer() {
        let (_, judgement) = Scenario::tls_offload().run();
        assert_eq!(judgement.findings.break_even, None);
    }
}
