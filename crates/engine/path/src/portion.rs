//! One party's portion of things that several parties divide: load agents, or the threads of one.

use plumb_model::Rate;

use crate::family::SettingsFault;

/// One portion among several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    /// The number of this portion, from 0.
    pub number: u32,
    /// The number of portions, at least 1.
    pub of: u32,
}

impl Portion {
    /// This portion of `whole` things, which are divided as evenly as possible. All portions add up to the whole.
    #[must_use]
    pub fn of_count(self, whole: u64) -> u64 {
        let of = u64::from(self.of.max(1));
        whole / of + u64::from(u64::from(self.number) < whole % of)
    }

    /// As [`Portion::of_count`], of a `u32`.
    #[must_use]
    pub fn of_number(self, whole: u32) -> u32 {
        let of = self.of.max(1);
        whole / of + u32::from(self.number < whole % of)
    }

    /// How many of `whole` things the earlier portions have.
    #[must_use]
    pub fn before(self, whole: u32) -> u32 {
        let of = self.of.max(1);
        self.number * (whole / of) + self.number.min(whole % of)
    }

    /// The part of a rate that belongs to `things` divided in the same way, so that each thing keeps its
    /// rate.
    #[must_use]
    pub fn of_rate(self, whole: Rate, things: u32) -> Rate {
        Rate(whole.0 * f64::from(self.of_number(things)) / f64::from(things.max(1)))
    }

    /// The part of things of which every load agent needs at least one.
    ///
    /// # Errors
    /// When there are fewer things than agents, at `key`.
    pub fn of_at_least(self, whole: u64, key: &str) -> Result<u64, SettingsFault> {
        if whole < u64::from(self.of) {
            let message = format!("{whole} is too few for {} load agents: each needs at least 1", self.of);
            return Err(SettingsFault::new(key, message));
        }
        Ok(self.of_count(whole))
    }

    /// As [`Portion::of_at_least`], of a `u32`.
    ///
    /// # Errors
    /// When there are fewer things than agents, at `key`.
    pub fn of_number_at_least(self, whole: u32, key: &str) -> Result<u32, SettingsFault> {
        self.of_at_least(whole.into(), key)?;
        Ok(self.of_number(whole))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn portions(of: u32) -> impl Iterator<Item = Portion> {
        (0..of).map(move |number| Portion { number, of })
    }

    proptest! {
        #[test]
        fn all_portions_are_the_whole_and_follow_each_other(whole in 0_u32..=u32::MAX, of in 1_u32..100) {
            let mut before = 0;
            for portion in portions(of) {
                prop_assert_eq!(portion.before(whole), before);
                prop_assert_eq!(u64::from(portion.of_number(whole)), portion.of_count(whole.into()));
                prop_assert!(portion.of_number(whole) - whole / of <= 1);
                before += portion.of_number(whole);
            }
            prop_assert_eq!(before, whole);
            let rate: f64 = portions(of).map(|portion| portion.of_rate(Rate(1234.5), whole).0).sum();
            prop_assert!(whole == 0 || (rate - 1234.5).abs() < 1e-9);
        }
    }

    #[test]
    fn fewer_things_than_agents_are_a_fault_at_their_key() {
        let third = Portion { number: 2, of: 3 };
        assert_eq!(third.of_number_at_least(3, "load.flows"), Ok(1));
        assert_eq!(
            third.of_at_least(2, "load.flows").unwrap_err().to_string(),
            "load.flows: 2 is too few for 3 load agents: each needs at least 1"
        );
    }
}
