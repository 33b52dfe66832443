//! Axes: from a value to a place between 0 and 1, and the round numbers to print along the way.
//!
//! Ratios are always placed by their logarithm, since twice and half are equally far from no change. Values are placed by
//! their logarithm when they span more than a few times, else linearly.

use plumb_model::Comparison;

/// From this ratio of largest to smallest value on an axis is logarithmic.
const LOG_FROM: f64 = 3.0;

/// An axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The value at its beginning.
    pub low: f64,
    /// The value at its end.
    pub high: f64,
    log: bool,
}

impl Scale {
    /// An axis of ratios that holds 1 and every comparison's ratio, and as much of their intervals as does not squeeze
    /// the ratios together: a bound that is further than four times from all of them is cut off.
    pub fn of_ratios<'a>(comparisons: impl Iterator<Item = &'a Comparison> + Clone) -> Self {
        let usable = |value: &f64| *value > 0.0 && value.is_finite();
        let points = comparisons.clone().map(|comparison| comparison.ratio).filter(usable);
        let (low, high) = points.fold((1.0_f64, 1.0_f64), |(low, high), x| (low.min(x), high.max(x)));
        let bounds = comparisons.flat_map(|found| [Some(found.low), found.high]).flatten().filter(usable);
        let (near, far) = (low / 4.0, high * 4.0);
        let (low, high) = bounds
            .filter(|bound| (near..=far).contains(bound))
            .fold((low, high), |(low, high), x| (low.min(x), high.max(x)));
        let margin = (high / low).powf(0.05).max(1.02);
        Self { low: low / margin, high: high * margin, log: true }
    }

    /// An axis that holds all of the values; `None` where there is none.
    pub fn of_values(values: impl Iterator<Item = f64>) -> Option<Self> {
        let finite = values.filter(|value| value.is_finite());
        let (low, high) =
            finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        if low > high {
            return None;
        }
        if low > 0.0 && high / low >= LOG_FROM {
            let margin = (high / low).powf(0.06);
            return Some(Self { low: low / margin, high: high * margin, log: true });
        }
        let spread = high - low;
        let margin = if spread > 0.0 { 0.1 * spread } else { 0.1 * high.abs().max(1.0) };
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        Some(Self { low: (low - margin).max(floor), high: high + margin, log: false })
    }

    /// A logarithmic axis between two values above 0, with a little room around them.
    pub fn of_times(low: f64, high: f64) -> Self {
        let margin = (high / low).powf(0.04).max(1.05);
        Self { low: low / margin, high: high * margin, log: true }
    }

    /// An axis of ratios that holds 1 and all of the ratios.
    pub fn of_points(ratios: impl Iterator<Item = f64>) -> Self {
        let usable = ratios.filter(|ratio| *ratio > 0.0 && ratio.is_finite());
        let (low, high) = usable.fold((1.0_f64, 1.0_f64), |(low, high), x| (low.min(x), high.max(x)));
        let margin = (high / low).powf(0.08).max(1.02);
        Self { low: low / margin, high: high * margin, log: true }
    }

    /// A linear axis between two values.
    pub fn even(low: f64, high: f64) -> Self {
        Self { low, high, log: false }
    }

    /// Where a value lies: 0 at the low end, 1 at the high end, held between the two.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    /// Whether a value lies on the axis.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Round values along the axis, at most this many.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if !self.log {
            return self.even_steps(most);
        }
        let decades = [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0], &[1.0, 3.0]];
        let dense = decades.into_iter().map(|steps| self.decades(steps, 1)).find(|ticks| ticks.len() <= most);
        match dense {
            Some(ticks) if ticks.len() >= 3 => ticks,
            // So narrow that even steps lie evenly enough.
            Some(_) => self.even_steps(most),
            // So wide that only powers of ten fit, or every second of them, and so on.
            None => {
                let sparse =
                    (1..).map(|stride| self.decades(&[1.0], stride)).find(|ticks| ticks.len() <= most.max(2));
                sparse.unwrap_or_default()
            }
        }
    }

    /// Each of the `steps` in every `stride`-th decade.
    fn decades(&self, steps: &[f64], stride: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let powers = (first..=last).step_by(stride);
        let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        all.filter(|tick| self.holds(*tick)).collect()
    }

    fn even_steps(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most.max(2) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil() as i64;
        (first..first + 2 * most as i64)
            .map(|at| at as f64 * step)
            .take_while(|tick| *tick <= self.high)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn comparison(ratio: f64, low: f64, high: Option<f64>) -> Comparison {
        Comparison {
            cell: 0,
            metric: String::new(),
            variant: 1,
            ratio,
            low,
            high,
            blocks: 3,
            alpha: 0.05,
            missing: 0,
            autocorrelation: None,
        }
    }

    #[test]
    fn a_wild_bound_does_not_squeeze_the_ratios() {
        let all = [comparison(1.4, 0.001, Some(1e6)), comparison(1.1, 1.0, Some(1.2))];
        let scale = Scale::of_ratios(all.iter());
        assert!(scale.holds(1.4) && scale.holds(1.0) && !scale.holds(1e6), "{scale:?}");
        assert!(scale.place(1e6) >= 1.0 && scale.place(0.0) <= 0.0);
    }

    #[test]
    fn ticks_are_round() {
        let rounded =
            |ticks: Vec<f64>| ticks.iter().map(|tick| (tick * 1e6).round() / 1e6).collect::<Vec<f64>>();
        let ratios = Scale { low: 0.9, high: 9.0, log: true };
        assert_eq!(rounded(ratios.ticks(6)), [1.0, 2.0, 5.0]);
        assert_eq!(rounded(ratios.ticks(8)), [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0]);
        let narrow = Scale { low: 0.93, high: 1.12, log: true };
        assert_eq!(rounded(narrow.ticks(5)), [0.95, 1.0, 1.05, 1.1]);
        let wide = Scale { low: 1.0, high: 2e8, log: true };
        assert_eq!(rounded(wide.ticks(5)), [1.0, 100.0, 1e4, 1e6, 1e8]);
        let values = Scale::of_values([1000.0, 1300.0].into_iter()).unwrap();
        assert_eq!(rounded(values.ticks(4)), [1000.0, 1100.0, 1200.0, 1300.0]);
        assert_eq!(Scale::of_values([f64::NAN].into_iter()), None);
        assert!(Scale::of_values([0.0, 0.0].into_iter()).unwrap().holds(0.0));
    }

    proptest! {
        #[test]
        fn places_stay_on_the_axis_and_keep_their_order(
            values in prop::collection::vec(0.0..1e9_f64, 1..20), x in 0.0..1e9_f64, y in 0.0..1e9_f64,
        ) {
            let scale = Scale::of_values(values.iter().copied()).unwrap();
            let (px, py) = (scale.place(x.min(y)), scale.place(x.max(y)));
            prop_assert!((0.0..=1.0).contains(&px) && px <= py);
            prop_assert!(values.iter().all(|value| scale.holds(*value)));
            let ticks = scale.ticks(6);
            prop_assert!(ticks.len() <= 8 && ticks.iter().all(|tick| scale.holds(*tick)));
        }
    }
}
