//! Blocks of which a value is missing, counted as the worst that they could have been.
//!
//! A slot that failed, or in which nothing completed, is an outcome. Leaving its block out favours the side that has no
//! value: a server that hangs in every third slot is judged by the other two. Nobody knows what a missing value would have
//! been, so the interval holds for every value that it could have been: the worst-case bounds of Manski, "Nonparametric
//! Bounds on Treatment Effects" (American Economic Review 1990), and of Horowitz and Manski (Journal of the American
//! Statistical Association 2000). A logarithm has no smallest value, so one missing block opens a side of the interval,
//! and no claim that needs this side can be decided. The other side stays as the known blocks have it.

use crate::confidence::{Interval, Level};
use crate::forecast::blocks_needed;
use crate::hypothesis::{Decision, Hypothesis};
use crate::moments::Moments;
use crate::serial::Design;
use crate::unusable::log_of;

/// A slot's value, or the bounds of a missing one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// It was measured. Without a logarithm it counts as missing: 0 as [`Value::Lowest`], the rest as [`Value::Unknown`].
    Known(f64),
    /// It is missing, and nothing that was measured is lower: the rate of a server that completed nothing.
    Lowest,
    /// It is missing, and nothing that was measured is higher: the time that its requests took.
    Highest,
    /// It is missing, and may be anything.
    Unknown,
}

impl Value {
    /// The least and the largest logarithm that it may have.
    fn logs(self) -> (f64, f64) {
        match self {
            Self::Known(0.0) => Self::Lowest.logs(),
            Self::Known(value) => log_of(value).map_or_else(|_| Self::Unknown.logs(), |log| (log, log)),
            Self::Lowest => (f64::NEG_INFINITY, f64::NEG_INFINITY),
            Self::Highest => (f64::INFINITY, f64::INFINITY),
            Self::Unknown => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}

/// The blocks of one comparison in their order: logarithms where both sides have values, and what the others leave open.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    design: Design,
    logs: Vec<f64>,
    missing: usize,
    is_low_open: bool,
    is_high_open: bool,
}

impl Sample {
    /// A sample without blocks.
    pub fn new(design: Design) -> Self {
        Self { design, logs: Vec::new(), missing: 0, is_low_open: false, is_high_open: false }
    }

    /// Takes in a block: the two slots of `a` and of `b`, for ln(b/a).
    pub fn push_ratio(&mut self, a: [Value; 2], b: [Value; 2]) {
        let (a, b) = (a.map(Value::logs), b.map(Value::logs));
        // Paired like this, equal slots give exactly 0 in whichever order they come.
        let low = [b[0].0 - a[0].1, b[1].0 - a[1].1];
        let high = [b[0].1 - a[0].0, b[1].1 - a[1].0];
        let is_missing = [a, b].as_flattened().iter().any(|(low, high)| low != high || low.is_infinite());
        if is_missing {
            self.missing += 1;
            // ∞ − ∞ is NaN: such a block may be anything.
            self.is_low_open |= low.iter().any(|low| low.is_nan() || *low == f64::NEG_INFINITY);
            self.is_high_open |= high.iter().any(|high| high.is_nan() || *high == f64::INFINITY);
        } else {
            self.logs.push(0.5 * (low[0] + low[1]));
        }
    }

    /// Takes in a block: the two slots of one variant over a fixed `quantity` above 0 in the same unit.
    pub fn push_against(&mut self, values: [Value; 2], quantity: f64) {
        self.push_ratio([Value::Known(quantity); 2], values);
    }

    /// The logarithms of the blocks that have all values.
    pub fn logs(&self) -> &[f64] {
        &self.logs
    }

    /// How many blocks lack a value.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Whether a missing value leaves the upper side of the interval open, which no further block changes.
    pub fn is_high_open(&self) -> bool {
        self.is_high_open
    }

    /// The interval that the known blocks give by themselves, as if no other had been measured. `None` as in
    /// [`crate::confidence_sequence`].
    ///
    /// It is what the intervals of all looks so far allow together: they are right together, so no later block takes back
    /// what an earlier one decided.
    pub fn known_interval(&self, level: Level) -> Option<Interval> {
        let last = self.design.interval(&self.logs, level)?;
        let looks = (1..self.logs.len()).filter_map(|n| self.design.interval(&self.logs[..n], level));
        looks.chain([last]).reduce(Interval::narrowed)
    }

    /// Whether the blocks' mean has left what earlier looks allow: the effect changed during the run, or chance misled them.
    pub fn has_moved(&self, level: Level) -> bool {
        let mean = self.logs.iter().copied().collect::<Moments>().mean();
        self.known_interval(level).zip(mean).is_some_and(|(interval, mean)| interval.excludes(mean))
    }

    /// The interval for all that the missing values may have been; it contains [`Sample::known_interval`].
    pub fn interval(&self, level: Level) -> Option<Interval> {
        self.known_interval(level).map(|known| self.opened(known))
    }

    /// An interval with the sides open that missing values leave open.
    fn opened(&self, interval: Interval) -> Interval {
        Interval {
            low: if self.is_low_open { f64::NEG_INFINITY } else { interval.low },
            high: if self.is_high_open { f64::INFINITY } else { interval.high },
            ..interval
        }
    }

    /// How many more blocks would probably decide `claim` at `level`; 0 if it is decided.
    ///
    /// `None` as in [`blocks_needed`], and where the claim would be decided towards a side that missing values leave open,
    /// since no further block closes it.
    pub fn blocks_needed(&self, claim: &Hypothesis, level: Level) -> Option<usize> {
        let interval = self.interval(level)?;
        if claim.judge(&interval) != Decision::Undecided {
            return Some(0);
        }
        let estimate = interval.estimate;
        let exact = Interval { estimate, low: estimate, high: estimate };
        let is_decidable = claim.judge(&self.opened(exact)) != Decision::Undecided;
        blocks_needed(&self.logs, self.design, claim, level).filter(|_| is_decidable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hypothesis::Direction;
    use crate::looks::Looks;
    use Value::{Highest, Known, Lowest, Unknown};

    const LEVEL: Level = Level { alpha: 0.05, looks: Looks::From { first: 1 } };

    /// Six blocks in which b is twice a, and one with these slots; which sides of the interval are open.
    fn open(a: [Value; 2], b: [Value; 2]) -> (bool, bool) {
        let mut sample = Sample::new(Design::Paired);
        for _ in 0..6 {
            sample.push_ratio([Known(1.0); 2], [Known(2.0); 2]);
        }
        sample.push_ratio(a, b);
        assert_eq!((sample.logs().len(), sample.missing()), (6, 1));
        let (known, interval) = (sample.known_interval(LEVEL).unwrap(), sample.interval(LEVEL).unwrap());
        assert_eq!((known.low, known.high), (2.0_f64.ln(), 2.0_f64.ln()));
        assert_eq!(interval.estimate, known.estimate);
        (interval.low == f64::NEG_INFINITY, interval.high == f64::INFINITY)
    }

    #[test]
    fn a_missing_value_opens_the_side_that_leaving_it_out_would_favour() {
        let good = [Known(1.0); 2];
        assert_eq!(open(good, [Known(2.0), Lowest]), (true, false));
        assert_eq!(open(good, [Highest, Known(2.0)]), (false, true));
        assert_eq!(open([Lowest, Known(1.0)], good), (false, true));
        assert_eq!(open([Known(1.0), Highest], good), (true, false));
        assert_eq!(open(good, [Known(2.0), Unknown]), (true, true));
        assert_eq!(open([Lowest; 2], [Lowest; 2]), (true, true));
        assert_eq!(open([Lowest; 2], [Highest; 2]), (false, true));
    }

    #[test]
    fn what_has_no_logarithm_is_missing() {
        let good = [Known(1.0); 2];
        assert_eq!(open(good, [Known(0.0), Known(1.0)]), (true, false));
        assert_eq!(open(good, [Known(-1.0), Known(1.0)]), (true, true));
        assert_eq!(open(good, [Known(f64::NAN), Known(1.0)]), (true, true));
        assert_eq!(open(good, [Known(f64::INFINITY), Known(1.0)]), (true, true));
    }

    #[test]
    fn a_constant_is_a_side_without_missing_values() {
        let mut sample = Sample::new(Design::Alone);
        sample.push_against([Known(100.0), Known(400.0)], 200.0);
        assert!(sample.logs()[0].abs() < 1e-14 && sample.missing() == 0);
        sample.push_against([Highest, Known(400.0)], 200.0);
        assert_eq!((sample.logs().len(), sample.missing()), (1, 1));
    }

    #[test]
    fn no_block_makes_up_for_one_without_a_value() {
        let mut sample = Sample::new(Design::Paired);
        for b in [2.0, 2.2, 1.8, 2.1, 1.9, 2.0] {
            sample.push_ratio([Known(1.0); 2], [Known(b); 2]);
        }
        let claim = |factor| Hypothesis::ratio(Direction::AtLeast, factor).unwrap();
        assert!(sample.blocks_needed(&claim(1.9), LEVEL).is_some_and(|more| more > 0));
        sample.push_ratio([Known(1.0); 2], [Lowest; 2]);
        assert_eq!(sample.blocks_needed(&claim(1.9), LEVEL), None);
        assert!(sample.blocks_needed(&claim(2.1), LEVEL).is_some_and(|more| more > 0));
    }

    #[test]
    fn an_estimate_stays_within_what_earlier_looks_allow_and_says_when_it_would_not() {
        let mut sample = Sample::new(Design::Paired);
        for b in [1.30, 1.31, 1.29, 1.30, 1.32, 1.28] {
            sample.push_ratio([Known(1.0); 2], [Known(b); 2]);
        }
        assert!(!sample.has_moved(LEVEL));
        let early = sample.known_interval(LEVEL).unwrap();
        for _ in 0..6 {
            sample.push_ratio([Known(1.0); 2], [Known(1.05); 2]);
        }
        let late = sample.known_interval(LEVEL).unwrap();
        assert!(sample.has_moved(LEVEL));
        assert_eq!((late.estimate, late.low), (early.low, early.low), "the mean of all is below");
    }

    #[test]
    fn nothing_known_gives_no_interval() {
        let mut sample = Sample::new(Design::Paired);
        assert_eq!(sample.interval(LEVEL), None);
        sample.push_ratio([Known(1.0); 2], [Lowest; 2]);
        assert_eq!((sample.interval(LEVEL), sample.missing()), (None, 1));
    }
}
