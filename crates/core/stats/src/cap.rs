//! Claims that a capped metric stays below its cap.
//!
//! A mean hides a burst, so such a claim looks at every window of every slot. One window above refutes it. No number of
//! windows proves "never": what a clean record supports is a bound on how often a window could be above, and that is what
//! is stated.

use crate::hypothesis::Decision;
use crate::unusable::{Unusable, finite, is_alpha, not_negative};

/// The decision about a cap by the windows of all slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CapJudgement {
    /// Refuted by one window above the limit, undecided without windows, otherwise holds.
    pub verdict: Decision,
    /// The cap with its tolerance, cap·(1 + tolerance), in the metric's unit.
    pub limit: f64,
    /// How many windows were looked at.
    pub windows: usize,
    /// How many of them were above the limit.
    pub violations: usize,
    /// The highest window, in the metric's unit; `None` without windows.
    pub highest: Option<f64>,
    /// With no violation, the upper bound at confidence 1 − α on the share of windows that are above the limit, from 0 to
    /// 1; `None` once there was a violation.
    pub violating_share_max: Option<f64>,
}

/// Judges "never above `cap`" by `windows`, all in the metric's unit; a `tolerance` of 0.01 allows 1% above the cap.
///
/// The bound is the exact one-sided one of Clopper and Pearson (Biometrika 1934) for no violation in n windows, 1 − α^(1/n),
/// for windows that violate independently of each other. It may be looked at after every window: for a share p to be
/// missed at any n, the first ln α / ln(1 − p) windows must all have been clean, which has probability α at most.
///
/// Errors name a window, cap or tolerance that is not finite, a cap or tolerance below zero, or an `alpha` not between 0
/// and 1.
pub fn judge_cap(windows: &[f64], cap: f64, tolerance: f64, alpha: f64) -> Result<CapJudgement, Unusable> {
    if !is_alpha(alpha) {
        return Err(Unusable::Alpha(alpha));
    }
    let limit = finite(not_negative(cap)? * (1.0 + not_negative(tolerance)?))?;
    let mut violations = 0;
    let mut highest: Option<f64> = None;
    for &window in windows {
        violations += usize::from(finite(window)? > limit);
        highest = Some(highest.map_or(window, |so_far| so_far.max(window)));
    }
    let verdict = match (windows.len(), violations) {
        (0, _) => Decision::Undecided,
        (_, 0) => Decision::Holds,
        _ => Decision::Refuted,
    };
    let violating_share_max = (violations == 0).then(|| clean_share_max(windows.len(), alpha));
    Ok(CapJudgement { verdict, limit, windows: windows.len(), violations, highest, violating_share_max })
}

/// 1 − α^(1/n), which is 1 for no windows, kept exact where it is small.
fn clean_share_max(windows: usize, alpha: f64) -> f64 {
    -(alpha.ln() / windows as f64).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn clean_windows_hold_with_the_exact_bound() {
        let judgement = judge_cap(&[480.0, 500.0, 504.9, 10.0], 500.0, 0.01, 0.05).unwrap();
        assert_eq!((judgement.verdict, judgement.windows, judgement.violations), (Decision::Holds, 4, 0));
        assert_eq!(judgement.highest, Some(504.9));
        // 1 − .05^(1/4); the familiar "rule of three" gives about 3/n for many windows.
        assert!((judgement.violating_share_max.unwrap() - 0.527_129_1).abs() < 1e-7);
        let many = judge_cap(&[1.0; 300], 500.0, 0.01, 0.05).unwrap();
        assert!((many.violating_share_max.unwrap() - 0.009_936_1).abs() < 1e-7);
    }

    #[test]
    fn one_window_above_the_tolerance_refutes() {
        let mut windows = vec![499.0; 100];
        windows[57] = 505.1;
        let judgement = judge_cap(&windows, 500.0, 0.01, 0.05).unwrap();
        assert_eq!((judgement.verdict, judgement.violations), (Decision::Refuted, 1));
        assert_eq!((judgement.highest, judgement.violating_share_max), (Some(505.1), None));
    }

    #[test]
    fn no_windows_decide_nothing() {
        let judgement = judge_cap(&[], 500.0, 0.01, 0.05).unwrap();
        assert_eq!((judgement.verdict, judgement.highest), (Decision::Undecided, None));
        assert_eq!(judgement.violating_share_max, Some(1.0));
    }

    #[test]
    fn a_window_that_is_no_number_is_an_error_not_a_pass() {
        assert!(matches!(judge_cap(&[1.0, f64::NAN], 5.0, 0.0, 0.05), Err(Unusable::NotFinite(_))));
        assert_eq!(judge_cap(&[1.0], -5.0, 0.0, 0.05), Err(Unusable::Negative(-5.0)));
        assert_eq!(judge_cap(&[1.0], 5.0, -0.1, 0.05), Err(Unusable::Negative(-0.1)));
        assert_eq!(judge_cap(&[1.0], 5.0, 0.1, 1.0), Err(Unusable::Alpha(1.0)));
        assert!(judge_cap(&[1.0], f64::MAX, 1.0, 0.05).is_err());
    }

    proptest! {
        #[test]
        fn at_the_bound_a_clean_record_has_probability_alpha(windows in 1..5000_usize, alpha in 0.001..0.5_f64) {
            let share = clean_share_max(windows, alpha);
            prop_assert!((0.0..1.0).contains(&share));
            prop_assert!(((1.0 - share).powi(windows as i32) - alpha).abs() < 1e-9);
            prop_assert!(clean_share_max(windows + 1, alpha) < share);
        }
    }
}
