//! Quantities with units: `612 B`, `5 s`, `500 IOPS`, `100 MB/s`, `1 Gbit/s`, `50 IOPS/GB`, `1%`.
//!
//! A number alone is enough in a setting whose unit is obvious: seconds, events per second, bytes. Decimal and binary multiples are
//! kept apart (`kB` is 1,000 bytes, `KiB` is 1,024): a figure with two readings is the most common fault of reports.
//! One table names every unit, so that parsing, printing and error messages cannot disagree.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::name::suggestion;
use crate::number::{self, NumberError};

/// The dimension of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// An amount of data, in bytes.
    Data,
    /// A length of time, in seconds.
    Time,
    /// Data over time, in bytes per second.
    DataRate,
    /// Events over time, per second.
    EventRate,
    /// Events over time per byte of data.
    EventRatePerData,
    /// A share, 1 being the whole.
    Share,
    /// A pure count.
    Count,
}

impl Dimension {
    /// The everyday name, with an example to copy.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Data => "an amount of data such as `612 B` or `4 KiB`",
            Self::Time => "a duration such as `5 s` or `200 us`",
            Self::DataRate => "a data rate such as `100 MB/s` or `10 Gbit/s`",
            Self::EventRate => "a rate such as `500 IOPS` or `1000 /s`",
            Self::EventRatePerData => "a rate per capacity such as `50 IOPS/GB`",
            Self::Share => "a percentage from `0%` to `100%`",
            Self::Count => "a number",
        }
    }

    /// The unit of a setting that is a number alone; `None` where several units would fit.
    #[must_use]
    pub fn obvious_unit(self) -> Option<&'static str> {
        match self {
            Self::Data => Some("B"),
            Self::Time => Some("s"),
            Self::EventRate => Some("/s"),
            Self::DataRate | Self::EventRatePerData | Self::Share | Self::Count => None,
        }
    }
}

/// A unit by its symbol.
#[derive(Debug, Clone, Copy)]
struct UnitRow {
    symbol: &'static str,
    dimension: Dimension,
    /// One of this is ten to this power of base units …
    power: i32,
    /// … times this.
    scale: f64,
}

impl UnitRow {
    /// This many of it in base units; `None` if that is not a whole number, or the digits are not.
    fn whole(&self, digits: &str) -> Option<u64> {
        let number: u64 = digits.replace('_', "").parse().ok()?;
        let power = 10_u64.checked_pow(u32::try_from(self.power).ok()?)?;
        let scale = (self.scale.fract() == 0.0).then_some(self.scale as u64)?;
        number.checked_mul(power)?.checked_mul(scale)
    }
}

const fn row(symbol: &'static str, dimension: Dimension, power: i32, scale: f64) -> UnitRow {
    UnitRow { symbol, dimension, power, scale }
}

const KIB: f64 = 1024.0;

/// Every unit that can be written; the first row of a dimension is its base unit.
const UNITS: &[UnitRow] = &[
    row("B", Dimension::Data, 0, 1.0),
    row("kB", Dimension::Data, 3, 1.0),
    row("MB", Dimension::Data, 6, 1.0),
    row("GB", Dimension::Data, 9, 1.0),
    row("TB", Dimension::Data, 12, 1.0),
    row("KiB", Dimension::Data, 0, KIB),
    row("MiB", Dimension::Data, 0, KIB * KIB),
    row("GiB", Dimension::Data, 0, KIB * KIB * KIB),
    row("TiB", Dimension::Data, 0, KIB * KIB * KIB * KIB),
    row("s", Dimension::Time, 0, 1.0),
    row("ns", Dimension::Time, -9, 1.0),
    row("us", Dimension::Time, -6, 1.0),
    row("µs", Dimension::Time, -6, 1.0),
    row("ms", Dimension::Time, -3, 1.0),
    row("min", Dimension::Time, 0, 60.0),
    row("h", Dimension::Time, 0, 3600.0),
    row("B/s", Dimension::DataRate, 0, 1.0),
    row("kB/s", Dimension::DataRate, 3, 1.0),
    row("MB/s", Dimension::DataRate, 6, 1.0),
    row("GB/s", Dimension::DataRate, 9, 1.0),
    row("TB/s", Dimension::DataRate, 12, 1.0),
    row("KiB/s", Dimension::DataRate, 0, KIB),
    row("MiB/s", Dimension::DataRate, 0, KIB * KIB),
    row("GiB/s", Dimension::DataRate, 0, KIB * KIB * KIB),
    row("bit/s", Dimension::DataRate, 0, 0.125),
    row("kbit/s", Dimension::DataRate, 3, 0.125),
    row("Mbit/s", Dimension::DataRate, 6, 0.125),
    row("Gbit/s", Dimension::DataRate, 9, 0.125),
    row("/s", Dimension::EventRate, 0, 1.0),
    row("1/s", Dimension::EventRate, 0, 1.0),
    row("IOPS", Dimension::EventRate, 0, 1.0),
    row("req/s", Dimension::EventRate, 0, 1.0),
    row("requests/s", Dimension::EventRate, 0, 1.0),
    row("ops/s", Dimension::EventRate, 0, 1.0),
    row("IOPS/B", Dimension::EventRatePerData, 0, 1.0),
    row("IOPS/GB", Dimension::EventRatePerData, -9, 1.0),
    row("IOPS/GiB", Dimension::EventRatePerData, 0, 1.0 / (KIB * KIB * KIB)),
    row("IOPS/TB", Dimension::EventRatePerData, -12, 1.0),
    row("IOPS/TiB", Dimension::EventRatePerData, 0, 1.0 / (KIB * KIB * KIB * KIB)),
    row("%", Dimension::Share, -2, 1.0),
];

/// Sizes as fio writes them, where a size is expected: powers of 1,024, as fio reads them without its `kb_base`.
const SHORT_SIZES: &[UnitRow] = &[
    row("k", Dimension::Data, 0, KIB),
    row("K", Dimension::Data, 0, KIB),
    row("M", Dimension::Data, 0, KIB * KIB),
    row("G", Dimension::Data, 0, KIB * KIB * KIB),
    row("T", Dimension::Data, 0, KIB * KIB * KIB * KIB),
];

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not begin with a number.
    #[error("`{text}` does not begin with a number; expected {expected}")]
    NoNumber {
        /// The text as written.
        text: String,
        /// The correct form.
        expected: &'static str,
    },
    /// The number has no unit.
    #[error("`{text}` has no unit; expected {expected}")]
    NoUnit {
        /// The text as written.
        text: String,
        /// The correct form.
        expected: &'static str,
    },
    /// No unit has this symbol.
    #[error("`{unit}` is not a unit; {hint}")]
    UnknownUnit {
        /// The symbol that was written.
        unit: String,
        /// A nearby symbol, or the ones there are.
        hint: String,
    },
    /// The number has a comma, which means thousands to one reader and a fraction to another.
    #[error("`{text}` has a comma: {hint}")]
    Comma {
        /// The text as written.
        text: String,
        /// The text to write instead.
        hint: String,
    },
    /// The unit measures something else.
    #[error("`{text}` is {found}; expected {expected}")]
    WrongDimension {
        /// The text as written.
        text: String,
        /// The quantity that it measures.
        found: &'static str,
        /// The correct form.
        expected: &'static str,
    },
    /// The number is negative, too large, or not finite.
    #[error("`{text}` is out of range; expected {expected}")]
    OutOfRange {
        /// The text as written.
        text: String,
        /// The correct form.
        expected: &'static str,
    },
}

/// A number with its dimension, in base units (bytes, seconds, bytes/s, 1/s, 1/(s·byte), shares of one).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// The amount in base units.
    pub value: f64,
    /// The amount exactly, if it was written as a whole number of a unit: an `f64` has only 53 bits.
    pub whole: Option<u64>,
    /// The measured quantity.
    pub dimension: Dimension,
}

impl Quantity {
    /// Reads a number and its unit, whatever the dimension.
    ///
    /// # Errors
    /// When the number or the unit is missing, the unit is unknown, or the number is negative or not finite.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::parse_for(text, None, None)
    }

    /// Reads a quantity of one dimension. Only a rate of events may be a number alone: `p95 < 5` is in milliseconds to
    /// one reader and in seconds to another.
    ///
    /// # Errors
    /// As [`Quantity::parse`], and when the unit measures something else.
    pub fn parse_as(text: &str, dimension: Dimension) -> Result<Self, QuantityError> {
        let bare = dimension.obvious_unit().filter(|_| dimension == Dimension::EventRate);
        Self::parse_in(text, dimension, bare)
    }

    /// Reads a setting of one dimension; a number alone is in its [obvious unit](Dimension::obvious_unit).
    ///
    /// # Errors
    /// As [`Quantity::parse_as`].
    pub fn parse_setting(text: &str, dimension: Dimension) -> Result<Self, QuantityError> {
        Self::parse_in(text, dimension, dimension.obvious_unit())
    }

    fn parse_in(text: &str, dimension: Dimension, bare: Option<&'static str>) -> Result<Self, QuantityError> {
        let quantity = Self::parse_for(text, Some(dimension), bare)?;
        if quantity.dimension == dimension {
            return Ok(quantity);
        }
        Err(QuantityError::WrongDimension {
            text: text.trim().to_owned(),
            found: quantity.dimension.describe(),
            expected: dimension.describe(),
        })
    }

    fn parse_for(
        text: &str,
        due: Option<Dimension>,
        bare: Option<&'static str>,
    ) -> Result<Self, QuantityError> {
        let expected = due.map_or("a quantity such as `5 s` or `612 B`", Dimension::describe);
        let trimmed = text.trim();
        let (digits, symbol) = split_number(trimmed);
        let owned = || trimmed.to_owned();
        if digits.is_empty() {
            return Err(QuantityError::NoNumber { text: owned(), expected });
        }
        let Some(symbol) = Some(symbol).filter(|symbol| !symbol.is_empty()).or(bare) else {
            // The number's own mistake comes first: `1,0` needs a point before it needs a unit.
            return Err(number(trimmed, digits, 0, expected)
                .map_or_else(|error| error, |_| QuantityError::NoUnit { text: owned(), expected }));
        };
        let short = SHORT_SIZES.iter().filter(|_| due == Some(Dimension::Data));
        let unit = UNITS.iter().chain(short).find(|unit| unit.symbol == symbol).ok_or_else(|| {
            QuantityError::UnknownUnit { unit: symbol.to_owned(), hint: unit_hint(symbol, due) }
        })?;
        let value = number(trimmed, digits, unit.power, expected)? * unit.scale;
        if !value.is_finite() || value < 0.0 {
            return Err(QuantityError::OutOfRange { text: owned(), expected });
        }
        Ok(Self { value, whole: unit.whole(digits), dimension: unit.dimension })
    }
}

/// Reads the digits at the beginning of `text`, times ten to the power of `power`.
fn number(text: &str, digits: &str, power: i32, expected: &'static str) -> Result<f64, QuantityError> {
    number::decimal(digits, power).map_err(|error| match error {
        NumberError::NotANumber => QuantityError::NoNumber { text: text.to_owned(), expected },
        NumberError::Comma(hint) => QuantityError::Comma { text: text.to_owned(), hint },
    })
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .char_indices()
        .find(|&(index, character)| {
            let exponent_sign = index > 0 && matches!(text.as_bytes()[index - 1], b'e' | b'E');
            let exponent = index > 0
                && matches!(character, 'e' | 'E')
                && text[index + 1..].starts_with(|next: char| next.is_ascii_digit() || next == '-');
            !(character.is_ascii_digit()
                || matches!(character, '.' | '_' | ',')
                || (character == '-' && (index == 0 || exponent_sign))
                || (character == '+' && (index == 0 || exponent_sign))
                || exponent)
        })
        .map_or(text.len(), |(index, _)| index);
    // "1/s" is the number 1 and the unit "/s", which this split yields by itself.
    (&text[..end], text[end..].trim_start())
}

/// Words that people write for a unit.
const SPELT_OUT: &[(&str, &str)] = &[
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("m", "min"),
    ("mins", "min"),
    ("minutes", "min"),
    ("hours", "h"),
    ("bytes", "B"),
    ("percent", "%"),
    ("rps", "/s"),
];

fn unit_hint(symbol: &str, due: Option<Dimension>) -> String {
    if symbol == "KB" {
        return "write `kB` for 1,000 bytes or `KiB` for 1,024".to_owned();
    }
    if matches!(symbol, "Gbps" | "Mbps" | "kbps" | "GBps" | "MBps") {
        return "write `Gbit/s` for bits or `GB/s` for bytes".to_owned();
    }
    let fitting = || UNITS.iter().filter(|unit| due.is_none_or(|due| unit.dimension == due));
    let spelt_out =
        SPELT_OUT.iter().find(|(word, _)| word.eq_ignore_ascii_case(symbol)).map(|(_, unit)| *unit);
    let same_letters =
        || fitting().find(|unit| unit.symbol.eq_ignore_ascii_case(symbol)).map(|unit| unit.symbol);
    match spelt_out.or_else(same_letters) {
        Some(unit) => format!("did you mean `{unit}`?"),
        None => suggestion(symbol, fitting().map(|unit| unit.symbol)),
    }
}

crate::named! {
    /// The unit in which a metric's values are kept and printed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Unit: symbol {
        /// Milliseconds.
        Milliseconds = "ms",
        /// Microseconds.
        Microseconds = "us",
        /// Seconds.
        Seconds = "s",
        /// Events per second.
        PerSecond = "1/s",
        /// Bytes.
        Bytes = "B",
        /// Bytes per second.
        BytesPerSecond = "B/s",
        /// Shares of one.
        Share = "share",
        /// A pure number.
        Count = "count",
    }
}

impl Unit {
    /// The dimension of the unit.
    #[must_use]
    pub fn dimension(self) -> Dimension {
        match self {
            Self::Milliseconds | Self::Microseconds | Self::Seconds => Dimension::Time,
            Self::PerSecond => Dimension::EventRate,
            Self::Bytes => Dimension::Data,
            Self::BytesPerSecond => Dimension::DataRate,
            Self::Share => Dimension::Share,
            Self::Count => Dimension::Count,
        }
    }

    /// How many of this unit one base unit is: a value in base units times this is a value in this unit.
    #[must_use]
    pub fn per_base(self) -> f64 {
        match self {
            Self::Milliseconds => 1e3,
            Self::Microseconds => 1e6,
            Self::Seconds
            | Self::PerSecond
            | Self::Bytes
            | Self::BytesPerSecond
            | Self::Share
            | Self::Count => 1.0,
        }
    }
}

/// Defines a field type that is written as a text with a unit.
macro_rules! quantity_type {
    ($(#[$doc:meta])* $name:ident($inner:ty), $dimension:expr, $example:literal, $from:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);

        impl $name {
            /// Reads the text form.
            ///
            /// # Errors
            /// When the text is not a quantity of this dimension.
            pub fn parse(text: &str) -> Result<Self, QuantityError> {
                let from: fn(Quantity) -> Option<$inner> = $from;
                let quantity = Quantity::parse_setting(text, $dimension)?;
                from(quantity).map(Self).ok_or_else(|| QuantityError::OutOfRange {
                    text: text.trim().to_owned(),
                    expected: $dimension.describe(),
                })
            }
        }

        impl std::str::FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let show: fn($inner) -> String = $show;
                formatter.write_str(&show(self.0))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let dimension: Dimension = $dimension;
                let mut schema = schemars::json_schema!({
                    "type": "string",
                    "description": dimension.describe(),
                    "examples": [$example]
                });
                if dimension.obvious_unit().is_some() {
                    schema.insert("type".to_owned(), vec!["string", "number"].into());
                }
                schema
            }
        }
    };
}

fn whole(value: f64) -> Option<u64> {
    (0.0..1.8e19).contains(&value).then(|| value.round() as u64)
}

fn with_symbol(value: u64, steps: &[(u64, &str)]) -> String {
    let exact = steps.iter().find(|(size, _)| value >= *size && value.is_multiple_of(*size));
    match exact {
        Some((size, symbol)) => format!("{} {symbol}", value / size),
        None => {
            let (size, symbol) =
                steps.iter().find(|(size, _)| value >= *size).unwrap_or(&steps[steps.len() - 1]);
            format!("{} {symbol}", value as f64 / *size as f64)
        }
    }
}

fn show_bytes(value: u64) -> String {
    let binary = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    let decimal = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match decimal.iter().find(|(size, _)| value >= *size && value.is_multiple_of(*size)) {
        Some((size, symbol)) => format!("{} {symbol}", value / size),
        None if value.is_multiple_of(1 << 10) && value > 0 => with_symbol(value, &binary),
        None => format!("{value} B"),
    }
}

fn show_span(value: u64) -> String {
    let steps = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    if value == 0 { "0 s".to_owned() } else { with_symbol(value, &steps) }
}

quantity_type!(
    /// An amount of data in bytes.
    Bytes(u64), Dimension::Data, "612 B", |data| data.whole.or_else(|| whole(data.value)), show_bytes
);
quantity_type!(
    /// A length of time in nanoseconds.
    Span(u64), Dimension::Time, "5 s", |time| whole(time.value * 1e9), show_span
);
quantity_type!(
    /// Events per second.
    Rate(f64), Dimension::EventRate, "500 /s", |rate| Some(rate.value), |value| format!("{value} /s")
);
quantity_type!(
    /// Bytes per second.
    ByteRate(f64), Dimension::DataRate, "100 MB/s", |rate| Some(rate.value), |value| {
        match [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")].iter().find(|(size, _)| value >= *size) {
            Some((size, symbol)) => format!("{} {symbol}", value / size),
            None => format!("{value} B/s"),
        }
    }
);
quantity_type!(
    /// Events per second for each byte of a capacity.
    CapacityRate(f64), Dimension::EventRatePerData, "50 IOPS/GB", |rate| Some(rate.value), |value| {
        format!("{} IOPS/GB", (value * 1e15).round() / 1e6)
    }
);
quantity_type!(
    /// A share of one, written in percent.
    Percent(f64), Dimension::Share, "5%", |share| Some(share.value).filter(|share| *share <= 1.0), |value| format!("{}%", (value * 1e8).round() / 1e6)
);

impl ByteRate {
    /// The rate in bytes and in bits, so that the one is not taken for the other: `1.25 GB/s (10 Gbit/s)`.
    #[must_use]
    pub fn with_bits(self) -> String {
        let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
        let scaled = |value: f64, unit: &str| match value {
            _ if value >= 1e9 => format!("{} G{unit}/s", rounded(value / 1e9)),
            _ if value >= 1e6 => format!("{} M{unit}/s", rounded(value / 1e6)),
            _ => format!("{} k{unit}/s", rounded(value / 1e3)),
        };
        format!("{} ({})", scaled(self.0, "B"), scaled(self.0 * 8.0, "bit"))
    }
}

/// Whole nanoseconds, unlike the quantities that are fractions.
impl Eq for Span {}

impl Span {
    /// The length in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The length as the standard library's type.
    #[must_use]
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_size_loses_a_byte() {
        let bytes = |text: &str| Bytes::parse(text).map(|bytes| bytes.0).ok();
        assert_eq!(bytes("9223372036854775807 B"), Some(i64::MAX as u64));
        assert_eq!(bytes("9_007_199_254_740_993B"), Some((1 << 53) + 1));
        assert_eq!(bytes("18446744073709551615 B"), Some(u64::MAX));
        assert_eq!(bytes("9007199254741 kB"), Some(9_007_199_254_741_000));
        assert_eq!(
            (bytes("1.5 KiB"), bytes("1e3 B"), bytes("18446744073709551616 B")),
            (Some(1536), Some(1000), None)
        );
    }

    #[test]
    fn every_form_of_the_documents_is_read() {
        let cases = [
            ("612 B", 612.0, Dimension::Data),
            ("4KiB", 4096.0, Dimension::Data),
            ("5 s", 5.0, Dimension::Time),
            ("200 us", 200e-6, Dimension::Time),
            ("500 IOPS", 500.0, Dimension::EventRate),
            ("1000 /s", 1000.0, Dimension::EventRate),
            ("1000/s", 1000.0, Dimension::EventRate),
            ("100 MB/s", 100e6, Dimension::DataRate),
            ("1 Gbit/s", 125e6, Dimension::DataRate),
            ("1.25 GB/s", 1.25e9, Dimension::DataRate),
            ("50 IOPS/GB", 50e-9, Dimension::EventRatePerData),
            ("1%", 0.01, Dimension::Share),
            ("1e3 ms", 1.0, Dimension::Time),
            ("10_000 B", 10_000.0, Dimension::Data),
        ];
        for (text, value, dimension) in cases {
            let quantity = Quantity::parse(text).unwrap();
            assert!((quantity.value - value).abs() <= value * 1e-12, "{text}: {}", quantity.value);
            assert_eq!(quantity.dimension, dimension, "{text}");
        }
    }

    #[test]
    fn sizes_may_be_written_as_fio_writes_them() {
        for (text, bytes) in
            [("4k", 4 << 10), ("4K", 4 << 10), ("64M", 64 << 20), ("2 G", 2 << 30), ("1T", 1 << 40)]
        {
            assert_eq!(text.parse::<Bytes>().map(|size| size.0), Ok(bytes), "{text}");
        }
        assert!("64M".parse::<ByteRate>().is_err() && Quantity::parse("64M").is_err());
    }

    #[test]
    fn a_wrong_text_says_what_would_be_right() {
        let message = |text: &str| Span::parse(text).unwrap_err().to_string();
        assert_eq!(message("5 sec"), "`sec` is not a unit; did you mean `s`?");
        assert_eq!(
            message("5 MB"),
            "`5 MB` is an amount of data such as `612 B` or `4 KiB`; expected a duration such as `5 s` or `200 us`"
        );
        assert_eq!(
            message("fast"),
            "`fast` does not begin with a number; expected a duration such as `5 s` or `200 us`"
        );
        let percent = |text: &str| Percent::parse(text).unwrap_err().to_string();
        assert_eq!(percent("5"), "`5` has no unit; expected a percentage from `0%` to `100%`");
        assert_eq!(percent("150%"), "`150%` is out of range; expected a percentage from `0%` to `100%`");
        assert_eq!(message("-5 s"), "`-5 s` is out of range; expected a duration such as `5 s` or `200 us`");
        assert_eq!(
            Bytes::parse("1 KB").unwrap_err().to_string(),
            "`KB` is not a unit; write `kB` for 1,000 bytes or `KiB` for 1,024"
        );
        assert_eq!(
            ByteRate::parse("10 Gbps").unwrap_err().to_string(),
            "`Gbps` is not a unit; write `Gbit/s` for bits or `GB/s` for bytes"
        );
    }

    #[test]
    fn a_comma_is_refused_and_the_message_says_what_to_write() {
        let message = |text: &str| Span::parse(text).unwrap_err().to_string();
        assert_eq!(message("1,0 ms"), "`1,0 ms` has a comma: write a decimal point: `1.0`");
        assert_eq!(
            message("1,000 ms"),
            "`1,000 ms` has a comma: write `1000` for thousands, or `1.000` for a fraction"
        );
        assert_eq!(message("1,0"), "`1,0` has a comma: write a decimal point: `1.0`");
        assert!(Rate::parse("12,345,678.5 /s").is_err());
        assert!(Percent::parse("99,9%").is_err());
    }

    #[test]
    fn a_number_alone_is_in_the_obvious_unit_and_is_printed_with_it() {
        let shown = |text: &str| Rate::parse(text).map(|rate| rate.to_string());
        assert_eq!([shown("100"), shown("1e3")], [Ok("100 /s".to_owned()), Ok("1000 /s".to_owned())]);
        let shown = |text: &str| Span::parse(text).map(|span| span.to_string());
        assert_eq!([shown("5"), shown(" 0.5 ")], [Ok("5 s".to_owned()), Ok("500 ms".to_owned())]);
        assert_eq!(Bytes::parse("612").map(|size| size.to_string()), Ok("612 B".to_owned()));
        assert!(Rate::parse("1,0").is_err() && Span::parse("1.2.3").is_err() && Span::parse(".").is_err());
        assert!(Span::parse("").is_err() && Span::parse("-5").is_err());
        assert!(ByteRate::parse("100").is_err() && Percent::parse("5").is_err());
    }

    #[test]
    fn a_rate_is_said_in_bytes_and_in_bits() {
        assert_eq!(ByteRate(1e9).with_bits(), "1 GB/s (8 Gbit/s)");
        assert_eq!(ByteRate(1.25e9).with_bits(), "1.25 GB/s (10 Gbit/s)");
        assert_eq!(ByteRate(125e6).with_bits(), "125 MB/s (1 Gbit/s)");
        assert_eq!(ByteRate(2e3).with_bits(), "2 kB/s (16 kbit/s)");
    }

    #[test]
    fn a_bound_on_a_measured_value_needs_its_unit() {
        let wrong = Quantity::parse_as("5", Dimension::Time).unwrap_err().to_string();
        assert_eq!(wrong, "`5` has no unit; expected a duration such as `5 s` or `200 us`");
        assert!(Quantity::parse_as("500", Dimension::EventRate).is_ok());
    }

    #[test]
    fn a_percentage_is_the_nearest_double_to_its_share() {
        for tenths in 1..=999_u32 {
            let percent = Percent::parse(&format!("{}.{}%", tenths / 10, tenths % 10)).unwrap();
            assert_eq!(percent, Percent(f64::from(tenths) / 1000.0), "{tenths} tenths of a percent");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(bytes in 0_u64..1 << 50, span_ns in 0_u64..1 << 50) {
            prop_assert_eq!(Bytes::parse(&Bytes(bytes).to_string()).unwrap(), Bytes(bytes));
            let back = Span::parse(&Span(span_ns).to_string()).unwrap();
            prop_assert!(back.0.abs_diff(span_ns) <= 1);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = Quantity::parse(&text);
        }
    }
}
