//! Whether a system met an objective with what it had saved up, as a volume saves credits for a burst, until that was spent.
//!
//! A steady system fails a trial at a given rate as likely early as late. Suppose that it fails one at the rate x with the
//! probability q, and that m trials at x or above met the objective before n at x or below all failed. The probability of these
//! outcomes is at most (1 − q)ᵐ · qⁿ, which is greatest for q = n/(m + n): for m = 2 and n = 5 it is 1.5%.
//! `docs/capacity-method.md` has the simulations.

/// The least number of trials that met the objective before.
const MET_MIN: usize = 2;
/// The least number of trials that failed afterwards.
const FAILED_MIN: usize = 5;

/// The rates that a system met before and after it had spent what it had saved up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// The highest rate that met the objective before.
    pub at_first: f64,
    /// The highest rate that has met it since.
    pub since: f64,
}

impl Spent {
    /// The least ratio of the rates before and after.
    pub const RATIO_MIN: f64 = 1.25;

    /// Looks at trials in their order, each a rate with whether it met the objective. `known` is the capacity that still earlier
    /// trials found, which stands for enough of them that met it.
    pub fn find(known: Option<f64>, trials: &[(f64, bool)]) -> Option<Self> {
        let met = trials.iter().filter(|(_, is_met)| *is_met).map(|(rate, _)| *rate);
        let mut thresholds: Vec<f64> = met.chain(known).collect();
        // The higher the threshold, the fewer trials count as those of before.
        thresholds.sort_by(|one, other| other.total_cmp(one));
        thresholds.into_iter().find_map(|threshold| Self::at(threshold, known, trials))
    }

    /// The same where the trials at `threshold` or above met the objective before.
    fn at(threshold: f64, known: Option<f64>, trials: &[(f64, bool)]) -> Option<Self> {
        let is_met_above = |(rate, is_met): &(f64, bool)| *is_met && *rate >= threshold;
        let is_failed_below = |(rate, is_met): &(f64, bool)| !is_met && *rate <= threshold;
        let known = known.filter(|rate| *rate >= threshold);
        let spent_at = trials.iter().rposition(is_met_above).map_or(0, |last| last + 1);
        let (before, after) = trials.split_at(spent_at);
        let met = || before.iter().filter(|trial| is_met_above(trial));
        let is_enough = known.is_some() || met().count() >= MET_MIN;
        let failed = after.iter().filter(|trial| is_failed_below(trial)).count();
        if !is_enough || failed < FAILED_MIN || before.iter().any(is_failed_below) {
            return None;
        }
        let at_first = met().map(|(rate, _)| *rate).chain(known).reduce(f64::max)?;
        let since = after.iter().filter(|(_, is_met)| *is_met).map(|(rate, _)| *rate).reduce(f64::max)?;
        (threshold >= Self::RATIO_MIN * since).then_some(Self { at_first, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trials that met the objective, and then those of a staircase down to 500, which meets it.
    fn bursting(met: &[f64]) -> Vec<(f64, bool)> {
        let failed = [900.0, 850.0, 800.0, 700.0, 600.0];
        let failed = failed.map(|rate| (rate, false));
        met.iter().map(|rate| (*rate, true)).chain(failed).chain([(500.0, true), (550.0, false)]).collect()
    }

    #[test]
    fn rates_that_were_met_and_then_all_fail_show_that_something_was_spent() {
        let expected = Some(Spent { at_first: 1100.0, since: 500.0 });
        assert_eq!(Spent::find(None, &bursting(&[1000.0, 1100.0, 950.0])), expected);
        // A failure above them says nothing.
        let higher = [&[(1200.0, false)][..], &bursting(&[1000.0, 1100.0, 950.0])].concat();
        assert_eq!(Spent::find(None, &higher), expected);
        // An earlier estimate stands for trials.
        let known = Some(Spent { at_first: 1000.0, since: 500.0 });
        assert_eq!(Spent::find(Some(1000.0), &bursting(&[])), known);
    }

    #[test]
    fn too_few_trials_or_too_small_a_fall_show_nothing() {
        assert_eq!(Spent::find(None, &bursting(&[1000.0])), None);
        assert_eq!(Spent::find(None, &bursting(&[1000.0, 1100.0, 950.0])[..7]), None, "four failures");
        assert_eq!(Spent::find(None, &bursting(&[1000.0, 1100.0, 950.0])[..8]), None, "nothing met since");
        // What failed before may fail again, and what is met again was not spent.
        let failed_before = [&[(850.0, false)][..], &bursting(&[1000.0, 1100.0, 950.0])].concat();
        assert_eq!(Spent::find(None, &failed_before), None);
        let met_again = [&bursting(&[1000.0, 1100.0, 950.0])[..], &[(1000.0, true)]].concat();
        assert_eq!(Spent::find(None, &met_again), None);
        let small = [&bursting(&[1000.0, 1100.0, 950.0])[..], &[(800.0, true)]].concat();
        assert_eq!(Spent::find(None, &small), None);
        assert_eq!(Spent::find(Some(1000.0), &[]), None);
    }
}
