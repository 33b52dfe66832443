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

/// What a series says about level shifts.
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
/// number of values; 1,000 take a few milliseconds.
pub fn shifts(values: &[f64]) -> Result<Shifts, Unusable> {
    let mut suspected = suspected_shifts(values)?;
    let (confirmed, judgeable) = confirmed::search_all(values);
    suspected.retain(|suspicion| {
        confirmed.iter().all(|shift| shift.at.abs_diff(suspicion.at) > NEARBY_RUNS)
    });
    Ok(Shifts { confirmed, suspected, judgeable })
}
