//! Why a number cannot enter the statistics.
//!
//! Everything that could turn into NaN is refused where it arrives, so that no verdict can ever rest on one.

/// The one error of this crate: a number that has no meaning where it was given.
///
/// The messages complete "failed to …".
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// NaN or an infinity.
    #[error("use {0}, which is not a finite number")]
    NotFinite(f64),
    /// Zero or less, which has no logarithm.
    #[error("take the logarithm of {0}, which is not above zero")]
    NotPositive(f64),
    /// Less than zero, as a tolerance or a cap.
    #[error("use {0} as a cap or a tolerance, which cannot be below zero")]
    Negative(f64),
    /// An error probability outside the open interval from 0 to 1.
    #[error("use {0} as an error probability, which lies between 0 and 1")]
    Alpha(f64),
}

/// Gives `value` back if it is finite.
pub(crate) fn finite(value: f64) -> Result<f64, Unusable> {
    if value.is_finite() { Ok(value) } else { Err(Unusable::NotFinite(value)) }
}

/// The natural logarithm of `value`, if it has a finite one.
pub(crate) fn log_of(value: f64) -> Result<f64, Unusable> {
    let value = finite(value)?;
    if value > 0.0 { Ok(value.ln()) } else { Err(Unusable::NotPositive(value)) }
}

/// Gives `value` back if it is finite and not below zero.
pub(crate) fn not_negative(value: f64) -> Result<f64, Unusable> {
    let value = finite(value)?;
    if value >= 0.0 { Ok(value) } else { Err(Unusable::Negative(value)) }
}

/// Whether `alpha` is an error probability: strictly between 0 and 1, which NaN is not.
pub(crate) fn is_alpha(alpha: f64) -> bool {
    alpha > 0.0 && alpha < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_complete_failed_to() {
        let all = [
            Unusable::NotFinite(f64::NAN),
            Unusable::NotPositive(0.0),
            Unusable::Negative(-1.5),
            Unusable::Alpha(1.0),
        ];
        let text: Vec<String> = all.iter().map(|each| format!("failed to {each}")).collect();
        assert_eq!(
            text,
            [
                "failed to use NaN, which is not a finite number",
                "failed to take the logarithm of 0, which is not above zero",
                "failed to use -1.5 as a cap or a tolerance, which cannot be below zero",
                "failed to use 1 as an error probability, which lies between 0 and 1",
            ]
        );
    }

    #[test]
    fn logarithms_need_finite_values_above_zero() {
        assert_eq!(log_of(1.0), Ok(0.0));
        assert_eq!(log_of(0.0), Err(Unusable::NotPositive(0.0)));
        assert_eq!(log_of(-2.0), Err(Unusable::NotPositive(-2.0)));
        assert_eq!(log_of(f64::INFINITY), Err(Unusable::NotFinite(f64::INFINITY)));
        assert!(log_of(f64::NAN).is_err());
        assert!(log_of(f64::from_bits(1)).is_ok_and(f64::is_finite));
    }
}
