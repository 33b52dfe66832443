//! Level shifts in a series of run results: those that are confirmed, and those that are only suspected.
//!
//! Two methods look at the same values. Repeated confidence sequences (`confirmed`) keep a promise about false alarms however
//! often anybody looks, and take several runs for it. E-divisive (`divisive`) sees more and sooner, and keeps no such promise when
//! somebody looks after every run. So the one confirms and the other suspects.

mod confirmed;
mod divisive;
mod residuals;

pub use confirmed::{NotJudgeable, SHIFT_ALPHA, Shift};
pub use divisive::{Suspicion, suspected_shifts};

use crate::unusable::Unusable;

/// How many runs the two methods' places of one shift may lie apart.
const NEARBY_RUNS: usize = 5;

/// The level shifts of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Shifts {
    /// The shifts that are confirmed, in the order of the runs. A longer series has the same ones first, unchanged.
    pub confirmed: Vec<Shift>,
    /// The shifts that are only suspected, in the order of the runs, without those within five runs of a confirmed one. More
    /// runs may add one, move it or take it back.
    pub suspected: Vec<Suspicion>,
    /// Whether a shift was held back because its runs are too much alike to be counted as independent.
    pub judgeable: Result<(), NotJudgeable>,
}

/// The level shifts in `values`, one value a run, in the order of the runs.
///
/// The caller chooses the scale: logarithms where changes multiply, as those of rates and times do, or plain values. All results
/// are on that scale. Nothing is found in fewer than five values, and nothing is confirmed by fewer than ten.
///
/// An error if a value is not finite: a run without a result has no place in the series. The time grows with the square of the
/// number of values; 1,000 take some tens of milliseconds at most.
pub fn shifts(values: &[f64]) -> Result<Shifts, Unusable> {
    let mut suspected = suspected_shifts(values)?;
    let (confirmed, judgeable) = confirmed::search_all(values);
    suspected.retain(|suspicion| confirmed.iter().all(|shift| shift.at.abs_diff(suspicion.at) > NEARBY_RUNS));
    Ok(Shifts { confirmed, suspected, judgeable })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::Interval;
    use proptest::prelude::*;

    /// A value for each run: a level and a deviation that repeats every seven runs and sums to 0.
    fn series(levels: &[(usize, f64)]) -> Vec<f64> {
        const DEVIATIONS: [f64; 7] = [0.3, -0.2, 0.4, -0.5, 0.1, 0.2, -0.3];
        let levels = levels.iter().flat_map(|&(runs, level)| std::iter::repeat_n(level, runs));
        levels.zip(DEVIATIONS.into_iter().cycle()).map(|(level, deviation)| level + deviation).collect()
    }

    fn places(values: &[f64]) -> (Vec<usize>, Vec<usize>) {
        let found = shifts(values).unwrap();
        (
            found.confirmed.iter().map(|shift| shift.at).collect(),
            found.suspected.iter().map(|suspicion| suspicion.at).collect(),
        )
    }

    #[test]
    fn few_runs_show_nothing_and_values_must_be_finite() {
        let nothing = Shifts { confirmed: Vec::new(), suspected: Vec::new(), judgeable: Ok(()) };
        for values in [&[][..], &[1.0], &[1.0, 1.0, 9.0, 9.0]] {
            assert_eq!(shifts(values), Ok(nothing.clone()));
        }
        assert_eq!(shifts(&series(&[(40, 1.0)])), Ok(nothing));
        assert_eq!(shifts(&[1.0, f64::INFINITY]), Err(Unusable::NotFinite(f64::INFINITY)));
        assert!(matches!(shifts(&[f64::NAN]), Err(Unusable::NotFinite(value)) if value.is_nan()));
    }

    #[test]
    fn a_series_without_noise_is_confirmed_by_five_runs_on_either_side() {
        let exactly = |value: f64| Interval { estimate: value, low: value, high: value };
        let values: Vec<f64> = [vec![1.0; 10], vec![1.2; 10]].concat();
        let found = shifts(&values).unwrap();
        let shift = Shift { at: 10, seen: 14, before: exactly(1.0), after: exactly(1.2) };
        assert_eq!((found.confirmed, found.suspected, found.judgeable), (vec![shift], vec![], Ok(())));
        assert_eq!(places(&values[..14]), (vec![], vec![10]), "four runs are only suspect");
    }

    #[test]
    fn every_shift_is_found_once() {
        let values = series(&[(20, 10.0), (20, 14.0), (20, 11.0)]);
        assert_eq!(places(&values), (vec![20, 40], vec![]));
        let found = shifts(&values).unwrap().confirmed;
        for (shift, (before, after)) in found.iter().zip([(10.0, 14.0), (14.0, 11.0)]) {
            assert!(!shift.before.excludes(before) && !shift.after.excludes(after), "{shift:?}");
            assert!(shift.seen >= shift.at + 4, "{shift:?}");
        }
    }

    #[test]
    fn a_shift_that_is_too_young_is_suspected() {
        assert_eq!(places(&series(&[(30, 10.0), (4, 14.0)])), (vec![], vec![30]));
    }

    #[test]
    fn a_series_that_drifts_is_not_judgeable() {
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        let found = shifts(&values).unwrap();
        assert_eq!(found.confirmed, []);
        let why = found.judgeable.unwrap_err();
        assert!(why.correlation > 0.5 && why.bound > 0.5 && why.at < 40, "{why:?}");
        assert!(!found.suspected.is_empty());
    }

    #[test]
    fn a_thousand_runs_are_not_too_many() {
        let values = series(&[(400, 3.0), (300, 4.0), (300, 2.0)]);
        assert_eq!(places(&values).0, [400, 700]);
    }

    proptest! {
        #[test]
        fn more_runs_take_nothing_back(
            noise in prop::collection::vec(-1.0..1.0_f64, 12..70), place in 0.0..1.0_f64, size in 0.0..6.0_f64,
        ) {
            let place = (place * noise.len() as f64) as usize;
            let values: Vec<f64> =
                noise.iter().enumerate().map(|(run, d)| if run < place { *d } else { d + size }).collect();
            let all = shifts(&values).unwrap().confirmed;
            for runs in 0..=values.len() {
                let seen: Vec<Shift> = all.iter().copied().filter(|shift| shift.seen < runs).collect();
                prop_assert_eq!(shifts(&values[..runs]).unwrap().confirmed, seen);
            }
        }

        #[test]
        fn shifts_follow_place_and_scale(
            noise in prop::collection::vec(-1.0..1.0_f64, 12..60), scale in 0.5..20.0_f64, offset in -9.0..9.0_f64,
        ) {
            let half = noise.len() / 2;
            let values: Vec<f64> =
                noise.iter().enumerate().map(|(run, d)| if run < half { *d } else { d + 5.0 }).collect();
            let moved: Vec<f64> = values.iter().map(|value| offset - scale * value).collect();
            prop_assert_eq!(places(&values).0, places(&moved).0);
        }

        #[test]
        fn levels_before_and_after_exclude_each_other(
            noise in prop::collection::vec(-1.0..1.0_f64, 20..60), size in 3.0..9.0_f64,
        ) {
            let half = noise.len() / 2;
            let values: Vec<f64> =
                noise.iter().enumerate().map(|(run, d)| if run < half { *d } else { d + size }).collect();
            for shift in shifts(&values).unwrap().confirmed {
                let [before, after] = [shift.before, shift.after];
                prop_assert!(before.high < after.low || after.high < before.low);
                prop_assert!(before.low <= before.estimate && before.estimate <= before.high);
                prop_assert!(shift.at <= shift.seen && shift.seen < values.len());
            }
        }
    }
}
