//! Distributions of times: an HDR histogram of nanoseconds with three significant digits.
//!
//! Histograms are merged, never averaged. The serialised form is a flat list of (step from the previous bin's
//! value, count) pairs, which is small, readable by any language, and independent of the library's own format.
//!
//! A distribution that was read back is kept as its bins, packed: a run holds thousands of them, most of the library's
//! array is empty, and of the sixteen bytes of a (value, count) pair two or three tell something.

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Statistic;

/// The largest time that is kept apart, more than a century: no measurement has a longer one.
const LARGEST_NS: u64 = 1 << 62;

/// Of each value, the library keeps this many bits, so that a bin is at most a thousandth wide.
const KEPT_BITS: u32 = 11;

/// A distribution of nanoseconds.
#[derive(Debug, Clone)]
pub struct Histogram {
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// For recording: the library's array.
    Dense(Hdr<u64>),
    /// For keeping: the serialised form's numbers, each in base 128, lowest digits first, the high bit set on all of its
    /// bytes but the last (DWARF's LEB128).
    Packed(Box<[u8]>),
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.bins().eq(other.bins())
    }
}

fn empty() -> Hdr<u64> {
    let mut dense = Hdr::new_with_bounds(1, 1_000_000, 3)
        .expect("the bounds and digits are constants that the library accepts");
    dense.auto(true);
    dense
}

fn add(dense: &mut Hdr<u64>, value_ns: u64, count: u64) {
    dense
        .record_n(value_ns.min(LARGEST_NS), count)
        .expect("an auto-resizing histogram takes every value up to its largest");
}

impl Histogram {
    /// An empty distribution.
    #[must_use]
    pub fn new() -> Self {
        Self { form: Form::Dense(empty()) }
    }

    /// Adds one value.
    pub fn record(&mut self, value_ns: u64) {
        self.record_many(value_ns, 1);
    }

    /// Adds the same value several times.
    pub fn record_many(&mut self, value_ns: u64, count: u64) {
        add(self.dense_mut(), value_ns, count);
    }

    /// Adds all values of another distribution.
    pub fn merge(&mut self, other: &Self) {
        let dense = self.dense_mut();
        match &other.form {
            Form::Dense(values) => {
                dense.add(values).expect("an auto-resizing histogram takes every value of another");
            }
            Form::Packed(bytes) => Unpacked::new(bytes).for_each(|(value, count)| add(dense, value, count)),
        }
    }

    fn dense_mut(&mut self) -> &mut Hdr<u64> {
        if let Form::Packed(bytes) = &self.form {
            let mut dense = empty();
            Unpacked::new(bytes).for_each(|(value, count)| add(&mut dense, value, count));
            self.form = Form::Dense(dense);
        }
        match &mut self.form {
            Form::Dense(dense) => dense,
            Form::Packed(_) => unreachable!("it was made dense just before"),
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        match &self.form {
            Form::Dense(dense) => dense.len(),
            Form::Packed(bytes) => Unpacked::new(bytes).map(|(_, count)| count).sum(),
        }
    }

    /// One statistic in nanoseconds, `None` for an empty histogram.
    #[must_use]
    pub fn statistic_ns(&self, statistic: Statistic) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        match statistic {
            Statistic::Avg => {
                let share =
                    |(value, of_bin)| Bin::holding(value).middle() as f64 * of_bin as f64 / count as f64;
                Some(self.bins().map(share).sum())
            }
            Statistic::Min => self.bins().next().map(|(value, _)| Bin::holding(value).first as f64),
            Statistic::Max => self.bins().last().map(|(value, _)| Bin::holding(value).last() as f64),
            _ => statistic.quantile().map(|quantile| self.quantile_ns(quantile)),
        }
    }

    /// The value at a quantile in nanoseconds, 0 where there is none.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> f64 {
        if let Form::Dense(dense) = &self.form {
            return dense.value_at_quantile(quantile) as f64;
        }
        let least = ((quantile * self.count() as f64).ceil() as u64).max(1);
        let mut counted = 0;
        let reached = self.bins().find(|(_, count)| {
            counted += count;
            counted >= least
        });
        reached.map_or(0.0, |(value, _)| Bin::holding(value).last() as f64)
    }

    /// An estimate of what an open loop would have seen: had requests been due every `interval_ns` while one took longer, those
    /// behind it would have waited `interval_ns` less each. The method is that of HdrHistogram's
    /// `copyCorrectedForCoordinatedOmission` (Gil Tene).
    ///
    /// A value of more than a thousand intervals is spread in a thousand steps.
    #[must_use]
    pub fn with_omitted(&self, interval_ns: u64) -> Self {
        const STEPS_MAX: u64 = 1000;
        let mut all = Self::new();
        for (value_ns, count) in self.bins() {
            all.record_many(value_ns, count);
            if interval_ns == 0 || value_ns <= interval_ns {
                continue;
            }
            let omitted = value_ns / interval_ns;
            let stride = omitted.div_ceil(STEPS_MAX);
            let step_ns = interval_ns.saturating_mul(stride);
            let mut left_ns = value_ns.saturating_sub(step_ns);
            while left_ns >= interval_ns {
                all.record_many(left_ns, count.saturating_mul(stride));
                left_ns = left_ns.saturating_sub(step_ns);
            }
        }
        all
    }

    /// The same histogram in the form of one that was read: small, and walked in as many steps as it has bins.
    #[must_use]
    pub fn packed(&self) -> Self {
        Self { form: Form::Packed(self.to_bytes().into()) }
    }

    /// The packed form, for keeping: the serialised form's numbers in base 128 (LEB128).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut packed, mut previous) = (Vec::new(), 0);
        for (value, count) in self.bins() {
            pack(&mut packed, value - previous);
            pack(&mut packed, count);
            previous = value;
        }
        packed
    }

    /// The distribution of a packed form.
    ///
    /// # Errors
    /// When the bytes are none, in words.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let (mut left, mut numbers) = (bytes, Vec::new());
        while !left.is_empty() {
            // A number of 64 bits has at most ten bytes, and the tenth has one bit of it.
            let length = left.iter().position(|byte| byte & 0x80 == 0).ok_or("its last number is cut")? + 1;
            let (number, rest) = left.split_at(length);
            if length > 10 || (length == 10 && number[9] > 1) {
                return Err("a number of it is too large");
            }
            numbers.extend(Unpacked::new(number).number());
            left = rest;
        }
        Self::from_flat(&numbers)
    }

    /// The distribution of the serialised form's numbers.
    fn from_flat(flat: &[u64]) -> Result<Self, &'static str> {
        let mut packed = Vec::with_capacity(3 * flat.len() / 2);
        let (mut value, mut total) = (0_u64, 0_u64);
        for pair in flat.chunks(2) {
            let &[step, count] = pair else { return Err("a histogram has an odd number of values") };
            value = value.checked_add(step).ok_or("a histogram's value overflows")?;
            total = total.checked_add(count).ok_or("a histogram's count overflows")?;
            pack(&mut packed, step);
            pack(&mut packed, count);
        }
        Ok(Self { form: Form::Packed(packed.into_boxed_slice()) })
    }

    /// Every bin that holds something, as (value in ns, count), ascending.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (dense, packed) = match &self.form {
            Form::Dense(dense) => (Some(dense), None),
            Form::Packed(bytes) => (None, Some(Unpacked::new(bytes))),
        };
        let recorded = dense.into_iter().flat_map(|dense| dense.iter_recorded());
        let recorded = recorded.map(|bin| (bin.value_iterated_to(), bin.count_at_value()));
        recorded.chain(packed.into_iter().flatten())
    }
}

/// The values that the library does not tell apart.
struct Bin {
    first: u64,
    width: u64,
}

impl Bin {
    fn holding(value: u64) -> Self {
        let dropped = (u64::BITS - value.leading_zeros()).saturating_sub(KEPT_BITS);
        Self { first: value >> dropped << dropped, width: 1 << dropped }
    }

    fn middle(&self) -> u64 {
        self.first.saturating_add(self.width / 2)
    }

    fn last(&self) -> u64 {
        self.first.saturating_add(self.width - 1)
    }
}

/// Appends a number in base 128.
fn pack(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The bins of the packed form, as (value in ns, count).
struct Unpacked<'a> {
    numbers: std::slice::Iter<'a, u8>,
    value: u64,
}

impl<'a> Unpacked<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { numbers: bytes.iter(), value: 0 }
    }

    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = *self.numbers.next()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }
}

impl Iterator for Unpacked<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.value += self.number()?;
        Some((self.value, self.number()?))
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut flat = Vec::new();
        let mut previous = 0;
        for (value, count) in self.bins() {
            flat.extend([value - previous, count]);
            previous = value;
        }
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_flat(&Vec::<u64>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_histogram_survives_its_serialised_form(values in prop::collection::vec(0_u64..LARGEST_NS, 0..200)) {
            let mut histogram = Histogram::new();
            for value in &values {
                histogram.record(*value);
            }
            let text = serde_json::to_string(&histogram).unwrap();
            let back: Histogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.count(), values.len() as u64);
            for statistic in Statistic::ALL {
                let (a, b) = (histogram.statistic_ns(statistic), back.statistic_ns(statistic));
                prop_assert_eq!(a, b);
            }
            let Form::Dense(dense) = &histogram.form else { unreachable!("it was recorded") };
            prop_assume!(!values.is_empty());
            prop_assert_eq!(back.statistic_ns(Statistic::Avg), Some(dense.mean()));
            prop_assert_eq!(back.statistic_ns(Statistic::Min), Some(dense.min() as f64));
            prop_assert_eq!(back.statistic_ns(Statistic::Max), Some(dense.max() as f64));
        }

        #[test]
        fn the_packed_form_comes_back_and_no_bytes_do_harm(
            values in prop::collection::vec(0_u64..LARGEST_NS, 0..100),
            garbage in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            prop_assert_eq!(&Histogram::from_bytes(&histogram.to_bytes()).unwrap(), &histogram);
            if let Ok(read) = Histogram::from_bytes(&garbage) {
                prop_assert_eq!(Histogram::from_bytes(&read.to_bytes()).unwrap(), read);
            }
        }

        #[test]
        fn merging_equals_recording_together(
            left in prop::collection::vec(0_u64..1 << 40, 1..50),
            right in prop::collection::vec(0_u64..1 << 40, 1..50),
        ) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|value| histogram.record(*value));
                histogram
            };
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let together = of(&[left, right].concat());
            for statistic in Statistic::ALL {
                prop_assert_eq!(merged.statistic_ns(statistic), together.statistic_ns(statistic));
            }
        }
    }

    #[test]
    fn the_largest_numbers_survive_packing() {
        for bins in [vec![(u64::MAX, 1)], vec![(0, u64::MAX)], vec![(127, 128), (255, 16_384)], vec![]] {
            let mut flat = Vec::new();
            let mut previous = 0;
            for (value, count) in &bins {
                flat.extend([value - previous, *count]);
                previous = *value;
            }
            let histogram: Histogram = serde_json::from_value(flat.into()).unwrap();
            assert_eq!(histogram.bins().collect::<Vec<_>>(), bins);
            assert_eq!(Histogram::from_bytes(&histogram.to_bytes()).unwrap(), histogram);
        }
    }

    #[test]
    fn garbage_is_refused() {
        for text in ["[1]", "[18446744073709551615,1,1,1]", "[1,18446744073709551615,1,1]", "\"x\""] {
            assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
        }
        for bytes in
            [&[1][..], &[1, 0x80], &[0xff; 30], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 1]]
        {
            assert!(Histogram::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn times_above_an_hour_are_kept() {
        let mut histogram = Histogram::new();
        let day_ns = 86_400_000_000_000_u64;
        histogram.record(day_ns);
        histogram.record(u64::MAX);
        let first = histogram.statistic_ns(Statistic::Min).unwrap();
        assert!((first / day_ns as f64 - 1.0).abs() < 1e-3, "{first}");
        assert!(histogram.statistic_ns(Statistic::Max).unwrap() > 4e18);
    }

    #[test]
    fn a_value_is_kept_to_three_digits() {
        let mut histogram = Histogram::new();
        histogram.record(123_456_789);
        let median = histogram.statistic_ns(Statistic::Med).unwrap();
        assert!((median / 123_456_789.0 - 1.0).abs() < 1e-3, "{median}");
    }

    #[test]
    fn a_stall_stands_for_the_requests_that_it_held_up() {
        let mut closed = Histogram::new();
        closed.record_many(1_000_000, 800);
        closed.record(200_000_000);
        let open = closed.with_omitted(1_000_000);
        assert_eq!(open.count(), 1000, "199 more were due in the 200 ms");
        assert!(closed.quantile_ns(0.99) < 1.01e6);
        assert!((open.quantile_ns(0.99) / 190e6 - 1.0).abs() < 0.01, "{}", open.quantile_ns(0.99));
        assert_eq!(closed.with_omitted(0), closed);
        let mut hour = Histogram::new();
        hour.record(3_600_000_000_000);
        let spread = hour.with_omitted(10_000).count();
        assert!((359_000_000..=361_000_000).contains(&spread), "{spread}");
    }
}
