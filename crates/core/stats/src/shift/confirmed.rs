//! Confirmed shifts: confidence sequences that exclude each other.
//!
//! This is the repeated confidence sequence of Shekhar and Ramdas ("Reducing sequential change detection to sequential
//! estimation", ICML 2024, arXiv 2309.09111). One anytime-valid sequence for the level starts at every run. While the level stays
//! what it is, all of them hold it at once, except where one of them errs, with probability α each. So an empty intersection says
//! that the level changed: two of the sequences exclude each other. Over n runs that is wrong with a probability of at most n·α,
//! and far more seldom in fact, because sequences that begin at neighbouring runs err together.
//!
//! That holds for independent normal values. A shift is therefore not confirmed before the intervals of the levels before and
//! after it exclude each other too. These take their spread from all runs since the last shift, so that a few runs that
//! happen to agree do not decide, and are widened by what `residuals` finds of correlation. They are at 99%: the strict α is that of
//! the alarm, and a second one at the same α would cost a shift of 2 standard deviations five runs of delay.

use super::residuals::Residuals;
use crate::confidence::{Interval, ROUNDING, half_width_over_s};
use crate::moments::Moments;

/// The probability with which each confidence sequence may ever miss the level.
pub const SHIFT_ALPHA: f64 = 0.001;

/// The probability with which the interval of a level may miss it.
const LEVEL_ALPHA: f64 = 0.01;

/// A level shift that is confirmed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The index of the first run at the new level. An estimate: where the means before and after differ most, of the runs since
    /// the last confirmed shift up to the one at which this one was seen.
    pub at: usize,
    /// The index of the run that confirmed it: the search knew no later one.
    pub seen: usize,
    /// The level from the last confirmed shift to this one, at 99%, in the values' unit.
    pub before: Interval,
    /// The level from this shift to the run that confirmed it, at 99%. The two intervals exclude each other.
    pub after: Interval,
}

/// A shift would be confirmed if the runs were independent, and they are too much alike for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NotJudgeable {
    /// The index of the first run at what may be a new level.
    pub at: usize,
    /// The lag-1 correlation of the runs about the two levels, without the bias of its estimate.
    pub correlation: f64,
    /// The correlation that has to be allowed for, as so few runs may show too little of it.
    pub bound: f64,
}

/// The finding of the runs from some start on.
enum Found {
    Shift(Shift),
    HeldBack(NotJudgeable),
    Nothing,
}

/// Half-widths of sequences by the number of runs, in units of their standard deviation.
struct HalfWidths {
    alarm: Vec<f64>,
    level: Vec<f64>,
}

/// All shifts in `values`, and whether one was held back since the last of them.
pub(super) fn search_all(values: &[f64]) -> (Vec<Shift>, Result<(), NotJudgeable>) {
    let up_to = |alpha| (0..=values.len()).map(|runs| half_width_over_s(runs, alpha)).collect();
    let half_widths = HalfWidths { alarm: up_to(SHIFT_ALPHA), level: up_to(LEVEL_ALPHA) };
    let mut shifts: Vec<Shift> = Vec::new();
    loop {
        let from = shifts.last().map_or(0, |shift| shift.at);
        match search(values, from, &half_widths) {
            Found::Shift(shift) => shifts.push(shift),
            Found::HeldBack(why) => return (shifts, Err(why)),
            Found::Nothing => return (shifts, Ok(())),
        }
    }
}

/// The first shift after run `from`. It looks after every run, and uses no later one.
fn search(values: &[f64], from: usize, half_widths: &HalfWidths) -> Found {
    let mut sequences: Vec<Moments> = Vec::new();
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut found = Found::Nothing;
    for (seen, &value) in values.iter().enumerate().skip(from) {
        sequences.push(Moments::default());
        for sequence in &mut sequences {
            sequence.push(value);
            let half_width = half_widths.alarm[sequence.count()];
            if let (true, Some(mean), Some(s)) =
                (half_width.is_finite(), sequence.mean(), sequence.standard_deviation())
            {
                low = low.max(mean - half_width * s);
                high = high.min(mean + half_width * s);
            }
        }
        if exceeds(low, high) {
            found = judge(values, from, seen, half_widths);
        }
        if matches!(found, Found::Shift(_)) {
            break;
        }
    }
    found
}

/// The result of the likeliest split of the runs `from` to `seen`.
fn judge(values: &[f64], from: usize, seen: usize, half_widths: &HalfWidths) -> Found {
    let runs = &values[from..=seen];
    let Some(split) = likeliest_split(runs) else { return Found::Nothing };
    let residuals = Residuals::about_levels(runs, split);
    let levels = |widening: f64| {
        [&runs[..split], &runs[split..]].map(|part| {
            let half_width = half_widths.level[part.len()];
            let half =
                if half_width.is_finite() { widening * half_width * residuals.spread } else { f64::INFINITY };
            let estimate = part.iter().copied().collect::<Moments>().mean().unwrap_or(f64::NAN);
            Interval { estimate, low: estimate - half, high: estimate + half }
        })
    };
    let at = from + split;
    let [before, after] = levels(residuals.widening());
    if apart(before, after) {
        return Found::Shift(Shift { at, seen, before, after });
    }
    let [before, after] = levels(1.0);
    if apart(before, after) {
        let (correlation, bound) = (residuals.correlation, residuals.bound());
        return Found::HeldBack(NotJudgeable { at, correlation, bound });
    }
    Found::Nothing
}

/// Where the means before and after differ most, in units of their standard error: the split that leaves the least squares.
///
/// `None` for fewer than four runs, because each side needs two.
fn likeliest_split(runs: &[f64]) -> Option<usize> {
    let means = |values: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
        let mut moments = Moments::default();
        values
            .map(|value| {
                moments.push(value);
                moments.mean().unwrap_or(f64::NAN)
            })
            .collect()
    };
    let n = runs.len();
    let (first, last) = (means(&mut runs.iter().copied()), means(&mut runs.iter().rev().copied()));
    let between = |&split: &usize| {
        let difference = first[split - 1] - last[n - split - 1];
        (split * (n - split)) as f64 * difference * difference
    };
    (2..n.saturating_sub(1)).max_by(|a, b| between(a).total_cmp(&between(b)))
}

/// Whether two intervals exclude each other, by more than rounding.
fn apart(one: Interval, other: Interval) -> bool {
    exceeds(one.low, other.high) || exceeds(other.low, one.high)
}

/// Whether `one` is above `other` by more than rounding. Two infinities are not.
fn exceeds(one: f64, other: f64) -> bool {
    one - other > ROUNDING * (1.0 + one.abs())
}
