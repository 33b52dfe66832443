//! Yes or no in an exact proportion, for choices such as "30% of the connections resume a session".
//!
//! The error is carried from choice to choice, as when a grey picture is drawn in black dots: any number of choices
//! in a row holds the share to within one choice, which coin tosses do not.

/// One, in fixed point.
const WHOLE: u64 = 1 << 32;

/// A stream of choices of which a fixed share is yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proportion {
    share: u64,
    owed: u64,
}

impl Proportion {
    /// Choices of which `share` (0 to 1) are yes. `seed` decides where in the pattern the stream begins, so that
    /// threads with different seeds do not choose in step.
    #[must_use]
    pub fn new(share: f64, seed: u64) -> Self {
        let share = (share.clamp(0.0, 1.0) * WHOLE as f64).round() as u64;
        Self { share, owed: seed % WHOLE }
    }

    /// The next choice.
    pub fn choose(&mut self) -> bool {
        self.owed += self.share;
        let yes = self.owed >= WHOLE;
        if yes {
            self.owed -= WHOLE;
        }
        yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn none_and_all_are_exact() {
        for seed in [0, 1, u64::MAX] {
            let (mut none, mut all) = (Proportion::new(0.0, seed), Proportion::new(1.0, seed));
            assert!((0..1000).all(|_| !none.choose() && all.choose()));
        }
    }

    #[test]
    fn what_is_no_share_is_none_or_all() {
        assert_eq!(Proportion::new(f64::NAN, 0).share, 0);
        assert_eq!(Proportion::new(7.0, 0).share, WHOLE);
    }

    proptest! {
        #[test]
        fn every_stretch_holds_the_share(share in 0.0..=1.0_f64, seed: u64, skip in 0..100_usize, length in 1..500_usize) {
            let mut proportion = Proportion::new(share, seed);
            (0..skip).for_each(|_| { proportion.choose(); });
            let yes = (0..length).filter(|_| proportion.choose()).count();
            let exact = share * length as f64;
            prop_assert!((yes as f64 - exact).abs() <= 1.0 + 1e-6, "{yes} of {length} for {share}");
        }
    }
}
