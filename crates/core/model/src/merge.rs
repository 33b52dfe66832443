//! Sums of what several threads, windows or agents counted and timed.
//!
//! A type that is summed field by field is declared in [`merged!`](crate::merged): no field can be left out of the sum. A
//! field that does not add up says so by its type, [`Smallest`] or [`Largest`].

use std::collections::BTreeMap;

use crate::Histogram;

/// Counts and times that are summed.
pub trait Merge {
    /// Adds those of another thread, window or agent.
    fn add(&mut self, other: &Self);

    /// Both together.
    #[must_use]
    fn and(mut self, other: &Self) -> Self
    where
        Self: Sized,
    {
        self.add(other);
        self
    }
}

/// Declares a struct and sums it field by field.
#[macro_export]
macro_rules! merged {
    ($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$field_about:meta])* $field_seen:vis $field:ident: $of:ty),* $(,)?
    }) => {
        $(#[$about])*
        $seen struct $name {
            $($(#[$field_about])* $field_seen $field: $of),*
        }

        impl $crate::Merge for $name {
            fn add(&mut self, other: &Self) {
                $(self.$field.add(&other.$field);)*
            }
        }
    };
}

impl Merge for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl Merge for f64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }
}

/// Whether it was so anywhere.
impl Merge for bool {
    fn add(&mut self, other: &Self) {
        *self |= other;
    }
}

impl Merge for Histogram {
    fn add(&mut self, other: &Self) {
        self.merge(other);
    }
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, one)| sum.add(one));
    }
}

/// Element by element; the sum is as long as the longer list.
impl<T: Merge + Default> Merge for Vec<T> {
    fn add(&mut self, other: &Self) {
        self.resize_with(self.len().max(other.len()), T::default);
        self.iter_mut().zip(other).for_each(|(sum, one)| sum.add(one));
    }
}

impl<K: Ord + Clone, V: Merge + Default> Merge for BTreeMap<K, V> {
    fn add(&mut self, other: &Self) {
        for (key, one) in other {
            self.entry(key.clone()).or_default().add(one);
        }
    }
}

/// The smallest of some values; `u64::MAX` without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Smallest(pub u64);

impl Default for Smallest {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl Smallest {
    /// Takes a value into account.
    #[inline]
    pub fn note(&mut self, value: u64) {
        self.0 = self.0.min(value);
    }
}

impl Merge for Smallest {
    fn add(&mut self, other: &Self) {
        self.note(other.0);
    }
}

/// The largest of some values; 0 without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Largest(pub u64);

impl Largest {
    /// Takes a value into account.
    #[inline]
    pub fn note(&mut self, value: u64) {
        self.0 = self.0.max(value);
    }
}

impl Merge for Largest {
    fn add(&mut self, other: &Self) {
        self.note(other.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    merged! {
        /// A field of every kind that can be summed.
        #[derive(Debug, Clone, Default, PartialEq)]
        struct Everything {
            count: u64,
            weight: f64,
            was_odd: bool,
            times: Histogram,
            sides: [u64; 2],
            steps: Vec<u64>,
            kinds: BTreeMap<String, u64>,
            shortest: Smallest,
            longest: Largest,
        }
    }

    impl Everything {
        fn recording(values: &[u64]) -> Self {
            let mut all = Self::default();
            values.iter().for_each(|value| all.record(*value));
            all
        }

        fn record(&mut self, value: u64) {
            self.count += value;
            self.weight += value as f64;
            self.was_odd |= value % 2 == 1;
            self.times.record(value);
            self.sides[(value % 2) as usize] += 1;
            let step = (value % 7) as usize;
            self.steps.resize(self.steps.len().max(step + 1), 0);
            self.steps[step] += 1;
            *self.kinds.entry((value % 5).to_string()).or_default() += 1;
            self.shortest.note(value);
            self.longest.note(value);
        }
    }

    proptest! {
        #[test]
        fn a_sum_is_what_one_thread_would_have_recorded(
            one in prop::collection::vec(0_u64..1 << 40, 0..20),
            other in prop::collection::vec(0_u64..1 << 40, 0..20),
        ) {
            let mut sum = Everything::recording(&one);
            sum.add(&Everything::recording(&other));
            prop_assert_eq!(sum, Everything::recording(&[one, other].concat()));
        }
    }
}
