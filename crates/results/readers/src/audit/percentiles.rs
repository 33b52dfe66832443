//! The order of percentiles within a row or a column of a table.

use crate::audit::figures::Figure;
use crate::audit::headings::Heading;
use crate::audit::tables::Table;
use crate::audit::units::{Dimension, Unit};
use crate::audit::words::digits;

/// By how much approximate percentiles may be out of order.
const ROUNDED: f64 = 0.02;

/// A time at a percentile.
struct Ranked<'t> {
    /// The percentile, from 0 for the minimum to 100 for the maximum.
    rank: f64,
    /// The name without the percentile: `read latency`.
    subject: String,
    /// The heading, as it was written.
    name: String,
    figure: &'t Figure,
    seconds: f64,
}

/// Says which percentile of a table is smaller than a lower one.
pub(crate) fn out_of_order(table: &Table) -> Option<String> {
    let columns = || 0..table.columns.len();
    let in_rows = table.rows.iter().map(|row| {
        let all = columns().filter_map(|at| ranked(&table.columns[at], row.figure(at)?, None));
        (row.name.as_str(), all.collect())
    });
    let in_columns = columns().map(|at| {
        let heading = &table.columns[at];
        let of = |name: &str, figure| ranked(&Heading::new(name), figure, heading.unit.as_ref());
        let all = table.rows.iter().filter_map(|row| of(&row.name, row.figure(at)?));
        (heading.text.as_str(), all.collect())
    });
    in_rows.chain(in_columns).find_map(|(place, all)| disorder(place, all))
}

fn disorder(place: &str, mut all: Vec<Ranked<'_>>) -> Option<String> {
    all.sort_by(|one, other| one.rank.total_cmp(&other.rank));
    let is_wrong = |lower: &Ranked<'_>, higher: &Ranked<'_>| {
        let margin = 1.0 + ROUNDED + lower.figure.rounding() + higher.figure.rounding();
        lower.rank < higher.rank && lower.subject == higher.subject && lower.seconds > higher.seconds * margin
    };
    let pairs =
        all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (one, other)));
    let (lower, higher) = pairs.into_iter().find(|(lower, higher)| is_wrong(lower, higher))?;
    Some(format!(
        "In `{place}`, {} is {} ms and {} is {} ms.",
        lower.name,
        digits(lower.seconds * 1e3),
        higher.name,
        digits(higher.seconds * 1e3)
    ))
}

fn ranked<'t>(heading: &Heading, figure: &'t Figure, unit: Option<&Unit>) -> Option<Ranked<'t>> {
    let unit = heading.unit.as_ref().or(unit);
    let is_time = figure.dimension(unit) == Some(&Dimension::Time);
    let words: Vec<&str> = heading
        .name
        .split(|c: char| !c.is_alphanumeric() && c != '.')
        .filter(|word| !word.is_empty())
        .collect();
    let at = words.iter().position(|word| rank(word).is_some()).filter(|_| is_time)?;
    let subject: Vec<&str> = [&words[..at], &words[at + 1..]].concat();
    Some(Ranked {
        rank: rank(words[at])?,
        subject: subject.join(" ").to_lowercase(),
        name: heading.name.clone(),
        figure,
        seconds: figure.amount(unit),
    })
}

/// The percentile that a word names; `p999` is 99.9.
fn rank(word: &str) -> Option<f64> {
    let word = word.to_lowercase();
    match word.as_str() {
        "min" | "minimum" => return Some(0.0),
        "median" | "med" => return Some(50.0),
        "max" | "maximum" => return Some(100.0),
        _ => {}
    }
    let number = word.strip_prefix('p').or_else(|| word.strip_suffix("th"))?;
    let percent: f64 = number.parse().ok()?;
    let decimals = if number.starts_with("99") && !number.contains('.') { number.len() - 2 } else { 0 };
    Some(percent / 10_f64.powi(decimals as i32)).filter(|percent| (0.0..=100.0).contains(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_percentile() {
        for (word, percent) in [("p50", 50.0), ("P99", 99.0), ("p99.9", 99.9), ("p999", 99.9), ("95th", 95.0)]
        {
            assert!((rank(word).unwrap() - percent).abs() < 1e-9, "{word}");
        }
        assert_eq!((rank("max"), rank("mean"), rank("path"), rank("p")), (Some(100.0), None, None, None));
    }
}
