//! Integrals of smooth functions, by the rule of Gauss and Legendre.

use std::f64::consts::PI;
use std::sync::OnceLock;

/// Points of the rule: exact for polynomials of degree 47.
const POINTS: usize = 24;

/// ∫ `function` from `from` to `to`; 0 where there is nothing between them.
pub(crate) fn integrate(from: f64, to: f64, function: impl Fn(f64) -> f64) -> f64 {
    let half = 0.5 * (to - from);
    if half <= 0.0 {
        return 0.0;
    }
    let middle = from + half;
    half * rule().iter().map(|(place, weight)| weight * function(middle + half * place)).sum::<f64>()
}

/// Places and weights on −1 to 1: the roots of the Legendre polynomial, found by Newton's method.
fn rule() -> &'static [(f64, f64); POINTS] {
    static RULE: OnceLock<[(f64, f64); POINTS]> = OnceLock::new();
    RULE.get_or_init(|| {
        std::array::from_fn(|point| {
            let n = POINTS as f64;
            let mut x = (PI * (point as f64 + 0.75) / (n + 0.5)).cos();
            let mut slope = 1.0;
            for _ in 0..10 {
                let (mut value, mut before) = (1.0, 0.0);
                for degree in 0..POINTS {
                    let k = degree as f64;
                    (value, before) = (((2.0 * k + 1.0) * x * value - k * before) / (k + 1.0), value);
                }
                slope = n * (x * value - before) / (x * x - 1.0);
                x -= value / slope;
            }
            (x, 2.0 / ((1.0 - x * x) * slope * slope))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrals_are_right() {
        for (from, to, function, expected) in [
            (0.0, PI, f64::sin as fn(f64) -> f64, 2.0),
            (0.0, 1.0, f64::exp, 1.0_f64.exp() - 1.0),
            (-1.0, 2.0, |x| x.powi(47), (2.0_f64.powi(48) - 1.0) / 48.0),
            (1.0, 1.0, f64::exp, 0.0),
        ] {
            let found = integrate(from, to, function);
            assert!((found - expected).abs() < 1e-12 * expected.max(1.0), "{found}, not {expected}");
        }
    }
}
