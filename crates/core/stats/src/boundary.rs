//! The boundary of planned looks: how far a t statistic may go before it decides, when every look is known beforehand.
//!
//! A run looks after blocks `first` to `last` and nowhere else. Repeated confidence intervals (Jennison and Turnbull,
//! "Interim Analyses: The Repeated Confidence Interval Approach", Journal of the Royal Statistical Society B 1989) are then
//! right at all these looks at once, whether the run stops early or not. The two-sided p-value that excludes a mean at
//! look n is c·n/last, linear in the information as one of the spending functions of Lan and DeMets (Biometrika 1983) is.
//! c is what makes the probability of ever excluding the true mean equal to α.
//!
//! That probability is computed, not simulated. For independent normal values around the mean under test, with sum S and
//! sum of squares Q, u = S/√(nQ) = sin ψ carries all that the t statistic does: t = √(n − 1)·tan ψ. The next value over √Q
//! is independent of u₁ … uₙ, because Q is independent of the direction of the vector of values, and it is tan φ with a
//! density of φ that is proportional to cosⁿ⁻¹ φ. So u is a Markov chain,
//!
//! ```text
//! √(n+1)·uₙ₊₁ = √n·uₙ·cos φ + sin φ
//! ```
//!
//! and the probability hₙ(u) to cross later follows from hₙ₊₁ by one integral over φ. A path can leave only on the side of
//! zero on which it is: against the sign of u, |uₙ₊₁| is at most 1/√(n+1).

use std::collections::BTreeMap;
use std::f64::consts::FRAC_PI_2;
use std::sync::{Mutex, PoisonError};

use crate::quadrature::integrate;
use crate::student::{norm, tail};
use crate::unusable::is_alpha;

/// Where hₙ is kept, between two of which it is interpolated: enough for four digits of c.
const NODES: usize = 65;

/// Beyond this many blocks c follows from its value for this many: it depends on how large a part of the run is over at the first
/// look, and, weakly, on how many looks there are.
const LONG: usize = 100;

/// c falls a little slower than the number of looks to the negative of this power, so an interval is rather too wide.
const LOOKS_POWER: f64 = 0.1;

/// Beyond this share of its peak the density of φ is 0.
const LN_NEGLIGIBLE: f64 = -32.0;

/// The half-width of the interval at look `blocks`, in units of the blocks' standard deviation, for looks after blocks
/// `first` to `last` and error probability `alpha` over all of them.
///
/// Infinite at any other number of blocks, for fewer than two, and for an `alpha` that is not between 0 and 1.
pub(crate) fn half_width_over_s(blocks: usize, (first, last): (usize, usize), alpha: f64) -> f64 {
    let first = first.max(2);
    if blocks < first || blocks > last || !is_alpha(alpha) {
        return f64::INFINITY;
    }
    let n = blocks as f64;
    let p = constant(first, last, alpha) * n / last as f64;
    ((n - 1.0) / n).sqrt() * critical_angle(blocks, p).tan()
}

/// c, kept once computed, because a run asks for the same few again and again.
fn constant(first: usize, last: usize, alpha: f64) -> f64 {
    static KNOWN: Mutex<BTreeMap<(usize, usize, u64), f64>> = Mutex::new(BTreeMap::new());
    let key = (first, last, alpha.to_bits());
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *known;
    }
    let found = calibrate(first, last, alpha);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found);
    found
}

/// The c at which the true mean is ever excluded with probability `alpha`.
///
/// That probability is nearly a power of c, so the secant in logarithms ends after a few steps.
fn calibrate(first: usize, last: usize, alpha: f64) -> f64 {
    if first == last {
        return alpha;
    }
    if last > LONG {
        let finer = (LONG as f64 / last as f64).powf(LOOKS_POWER);
        return finer * constant((first * LONG / last).max(2), LONG, alpha);
    }
    let excess = |ln_c: f64| crossing_probability(first, last, ln_c.exp()).ln() - alpha.ln();
    // At least α at one look alone, at most the sum over all.
    let (mut before, mut ln_c) = (alpha.ln(), (0.4 * alpha).ln());
    let mut excess_before = excess(before);
    for _ in 0..20 {
        let here = excess(ln_c);
        if here.abs() < 1e-5 || here == excess_before {
            break;
        }
        let next = ln_c - here * (ln_c - before) / (here - excess_before);
        (before, excess_before) = (ln_c, here);
        ln_c = next.min(alpha.ln());
    }
    ln_c.exp()
}

/// How likely independent normal values exclude their true mean at any look, when look n does at p-values up to
/// c·n/`last`.
fn crossing_probability(first: usize, last: usize, c: f64) -> f64 {
    let critical = |n: usize| critical_angle(n, c * n as f64 / last as f64);
    let mut later = Later::none(critical(last).sin());
    for n in (first..last).rev() {
        let bound = critical(n).sin();
        later = Later::before(n, bound, &later);
    }
    let at_first = c * first as f64 / last as f64;
    let angle = critical(first);
    let weight = |psi: f64| psi.cos().powi(power(first) - 1) * later.at(psi.sin());
    let width = negligible_angle(power(first) - 1).min(angle);
    at_first + 2.0 * integrate(0.0, width, weight) / norm(power(first) - 1)
}

/// The probability to cross after look n, as a function of uₙ.
struct Later {
    /// Where crossing begins: u is below this while nothing has crossed.
    bound: f64,
    /// At NODES places from 0 to `bound`; empty where no look is left.
    values: Vec<f64>,
}

impl Later {
    fn none(bound: f64) -> Self {
        Self { bound, values: Vec::new() }
    }

    /// From what holds after look n + 1 to what holds after look n, within the bound of n.
    fn before(n: usize, bound: f64, next: &Self) -> Self {
        let power = power(n + 1) - 1;
        let norm = norm(power);
        let reach = negligible_angle(power);
        let (root, root_next) = ((n as f64).sqrt(), (n as f64 + 1.0).sqrt());
        let value = |node: usize| {
            let a = root * bound * place(node as f64 / (NODES - 1) as f64);
            // √(n+1)·uₙ₊₁ = radius · sin(φ + delta)
            let (radius, delta) = (a.hypot(1.0), a.atan());
            let density = |phi: f64| phi.cos().powi(power);
            let stays = |phi: f64| density(phi) * next.at((a * phi.cos() + phi.sin()) / root_next);
            let edge = next.bound * root_next / radius;
            if edge >= 1.0 {
                return integrate(-reach, reach, stays) / norm;
            }
            let cut = |phi: f64| phi.clamp(-reach, reach);
            let (begin, end) = (cut(edge.asin() - delta), cut(std::f64::consts::PI - edge.asin() - delta));
            (integrate(-reach, begin, stays) + integrate(begin, end, density) + integrate(end, reach, stays))
                / norm
        };
        Self { bound, values: (0..NODES).map(value).collect() }
    }

    /// At `u`, by the cubic through the four nodes around it.
    fn at(&self, u: f64) -> f64 {
        if self.values.is_empty() {
            return 0.0;
        }
        let place = step((u.abs() / self.bound).min(1.0)) * (NODES - 1) as f64;
        let left = (place as usize).saturating_sub(1).min(NODES - 4);
        let [a, b, c, d] = [0, 1, 2, 3].map(|step| self.values[left + step]);
        let x = place - left as f64;
        let (x1, x2, x3) = (x - 1.0, x - 2.0, x - 3.0);
        -a * x1 * x2 * x3 / 6.0 + b * x * x2 * x3 / 2.0 - c * x * x1 * x3 / 2.0 + d * x * x1 * x2 / 6.0
    }
}

/// Where, from 0 to 1, a node is after a share of the steps: the closer to 1, the closer to each other, because hₙ rises there.
fn place(step: f64) -> f64 {
    1.0 - (1.0 - step).powi(2)
}

/// The inverse of [`place`].
fn step(place: f64) -> f64 {
    1.0 - (1.0 - place).sqrt()
}

/// The density of ψₙ is proportional to cos ψ to this power.
fn power(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX) - 1
}

/// The ψ beyond which, on both sides together, ψₙ is with probability `p`.
fn critical_angle(n: usize, p: f64) -> f64 {
    let power = power(n) - 1;
    let norm = norm(power);
    let (mut low, mut high, mut at) = (0.0, FRAC_PI_2, 0.0);
    // By Newton's method for the logarithm, which has no turning point, and by bisection where that leaves the bounds.
    for _ in 0..60 {
        let beyond = tail(power, at);
        let excess = (beyond * 2.0 / norm / p).ln();
        if excess > 0.0 {
            low = at
        } else {
            high = at
        }
        let newton = at + excess * beyond / at.cos().powi(power);
        let next = if (low..=high).contains(&newton) { newton } else { 0.5 * (low + high) };
        if (next - at).abs() <= f64::EPSILON * at {
            break;
        }
        at = next;
    }
    at
}

/// Beyond which angle cosᵏ is negligible.
fn negligible_angle(power: i32) -> f64 {
    (LN_NEGLIGIBLE / f64::from(power.max(1))).exp().acos()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From four million simulated paths each.
    #[test]
    fn constants_are_those_of_simulated_paths() {
        for (first, last, alpha, expected) in
            [(6, 12, 0.05, 0.02239), (6, 20, 0.05, 0.01734), (6, 12, 0.01, 0.00374), (6, 20, 0.01, 0.00277)]
        {
            let c = constant(first, last, alpha);
            assert!(
                (c / expected - 1.0).abs() < 0.01,
                "looks {first} to {last}, {alpha}: {c}, not {expected}"
            );
        }
    }

    #[test]
    fn half_widths_are_those_of_simulated_paths() {
        const HALF_WIDTHS: [(usize, f64, usize, f64); 15] = [
            (12, 0.05, 6, 1.600),
            (12, 0.05, 8, 1.134),
            (12, 0.05, 10, 0.906),
            (12, 0.05, 12, 0.766),
            (20, 0.05, 6, 1.930),
            (20, 0.05, 8, 1.335),
            (20, 0.05, 10, 1.056),
            (20, 0.05, 12, 0.890),
            (20, 0.05, 20, 0.583),
            (12, 0.01, 6, 2.443),
            (12, 0.01, 8, 1.625),
            (12, 0.01, 10, 1.265),
            (12, 0.01, 12, 1.057),
            (20, 0.01, 6, 2.920),
            (20, 0.01, 20, 0.768),
        ];
        for (last, alpha, blocks, expected) in HALF_WIDTHS {
            let half = half_width_over_s(blocks, (6, last), alpha);
            assert!((half / expected - 1.0).abs() < 0.01, "6 to {last}, {alpha}, {blocks}: {half}");
        }
    }

    /// Beyond 100 blocks c is extrapolated, so it is checked against the computed probability.
    #[test]
    fn many_looks_err_a_little_less_than_they_may() {
        for (first, last, alpha) in [(6, 200, 0.05), (6, 300, 0.001), (20, 300, 0.05)] {
            let ever = crossing_probability(first, last, constant(first, last, alpha)) / alpha;
            assert!((0.85..=1.0).contains(&ever), "{first} to {last}, {alpha}: {ever}");
        }
    }

    #[test]
    fn one_look_has_students_interval() {
        // t with 5 degrees of freedom, two-sided 95%: 2.5706 (any table).
        let half = half_width_over_s(6, (6, 6), 0.05);
        assert!((half - 2.570_582 / 6.0_f64.sqrt()).abs() < 1e-5, "{half}");
    }

    #[test]
    fn a_smaller_alpha_and_more_looks_are_wider() {
        let mut before = 0.0;
        for alpha in [0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005] {
            let half = half_width_over_s(9, (6, 20), alpha);
            assert!(half > before, "{alpha}: {half}");
            before = half;
        }
        let half = |last: usize| half_width_over_s(6, (6, last), 0.05);
        assert!(half(6) < half(7) && half(7) < half(12) && half(12) < half(20) && half(20) < half(60));
    }

    #[test]
    fn there_is_no_interval_where_nobody_was_to_look() {
        for (blocks, looks, alpha) in [
            (5, (6, 12), 0.05),
            (13, (6, 12), 0.05),
            (1, (1, 12), 0.05),
            (8, (6, 12), 0.0),
            (8, (6, 12), 1.0),
            (8, (6, 12), f64::NAN),
        ] {
            assert!(half_width_over_s(blocks, looks, alpha).is_infinite(), "{blocks} {looks:?} {alpha}");
        }
    }
}
