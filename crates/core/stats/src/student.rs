//! Student's t distribution, by integrals of powers of the cosine.
//!
//! With f degrees of freedom, t = √f · tan ψ, and the density of ψ is proportional to cosᶠ⁻¹ ψ.

use std::f64::consts::FRAC_PI_2;

/// The probability that |t| is at least this large, with that many degrees of freedom. It is 0 where it is below about 10⁻¹⁵.
pub(crate) fn p_value(t: f64, freedom: usize) -> f64 {
    let power = i32::try_from(freedom).unwrap_or(i32::MAX) - 1;
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    (2.0 * tail(power, angle) / norm(power)).min(1.0)
}

/// ∫ cosᵏ from `angle` to π/2, for k of at least 0.
pub(crate) fn tail(power: i32, angle: f64) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let (mut sum, mut k) = if power % 2 == 0 { (FRAC_PI_2 - angle, 0) } else { (1.0 - sine, 1) };
    while k < power {
        k += 2;
        sum = (f64::from(k - 1) * sum - cosine.powi(k - 1) * sine) / f64::from(k);
    }
    sum.max(0.0)
}

/// ∫ cosᵏ from −π/2 to π/2.
pub(crate) fn norm(power: i32) -> f64 {
    2.0 * tail(power, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles from tables of Student's distribution.
    #[test]
    fn p_values_are_those_of_tables() {
        for (t, freedom, p) in [
            (12.706, 1, 0.05),
            (4.303, 2, 0.05),
            (2.571, 5, 0.05),
            (2.228, 10, 0.05),
            (3.169, 10, 0.01),
            (4.587, 10, 0.001),
            (3.551, 48, 0.000_874),
            (1.962, 1000, 0.05),
        ] {
            let found = p_value(t, freedom);
            assert!((found / p - 1.0).abs() < 0.01, "t {t} with {freedom}: {found}, not {p}");
            assert_eq!(p_value(-t, freedom), found);
        }
        assert_eq!(p_value(0.0, 7), 1.0);
        assert_eq!(p_value(f64::INFINITY, 7), 0.0);
    }
}
