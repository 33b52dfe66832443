//! Numbers in cells: with a unit, a `±`, or separators that can be read in two ways.

use std::fmt;

use crate::audit::units::{Dimension, Unit, multiplier, unit};

/// A number in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// The number, multiplied by its `k` or `M`.
    pub(crate) value: f64,
    /// The largest error from rounding: half of the last digit.
    half_step: f64,
    /// The unit after the number.
    pub(crate) unit: Option<Unit>,
    /// The number after `±`, in the same unit.
    pub(crate) spread: Option<f64>,
}

impl Figure {
    /// The largest error from rounding, as a share of the value.
    pub(crate) fn rounding(&self) -> f64 {
        if self.value == 0.0 { 0.0 } else { self.half_step / self.value.abs() }
    }

    /// The value in the base unit of its dimension; a figure without a unit has the heading's.
    pub(crate) fn amount(&self, heading: Option<&Unit>) -> f64 {
        self.value * self.unit.as_ref().or(heading).map_or(1.0, |unit| unit.scale)
    }

    /// The dimension of its unit, or else of the heading's.
    pub(crate) fn dimension<'a>(&'a self, heading: Option<&'a Unit>) -> Option<&'a Dimension> {
        self.unit.as_ref().or(heading).map(|unit| &unit.dimension)
    }
}

/// The content of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// Words, or an empty cell.
    Text,
    /// A number.
    Figure(Figure),
    /// A text with digits that is not a single number.
    NotOne,
    /// A number whose separator can be read in two ways.
    Ambiguous(Readings),
}

impl Content {
    pub(crate) fn figure(&self) -> Option<&Figure> {
        match self {
            Self::Figure(figure) => Some(figure),
            Self::Text | Self::NotOne | Self::Ambiguous(_) => None,
        }
    }
}

/// The two numbers that a cell may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Readings(String, String);

impl fmt::Display for Readings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} or {}", self.0, self.1)
    }
}

/// The meaning of the separators in a table's numbers, as far as its unambiguous numbers tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Separators {
    has_decimal_dot: bool,
    has_decimal_comma: bool,
    has_thousands_comma: bool,
}

impl Separators {
    /// Learns the separators from all cells of a table.
    pub(crate) fn seen_in<'t>(cells: impl Iterator<Item = &'t str>) -> Self {
        let mut found = Self::default();
        for number in cells.flat_map(numbers) {
            let groups: Vec<&str> = number.split(',').collect();
            let (_, behind_dot) = number.split_once('.').unwrap_or((number, ""));
            let is_thousands = has_thousands(&groups);
            found.has_decimal_dot |= !behind_dot.is_empty() && (behind_dot.len() != 3 || groups.len() > 1);
            found.has_decimal_comma |= groups.len() == 2 && !is_thousands;
            found.has_thousands_comma |= is_thousands && (groups.len() > 2 || !behind_dot.is_empty());
        }
        found
    }

    /// The number with a decimal dot and without separators of thousands.
    ///
    /// # Errors
    /// Both readings, if there are two.
    fn resolve(self, number: &str) -> Result<String, Readings> {
        let groups: Vec<&str> = number.split(',').collect();
        let (as_decimal, as_thousands) = (number.replacen(',', ".", 1), number.replace(',', ""));
        let is_dot_clear = self.has_decimal_dot || !self.has_decimal_comma;
        match groups.len() {
            1 if is_dot_clear || !number.contains('.') => Ok(number.to_owned()),
            1 => Err(Readings(number.to_owned(), number.replace('.', ""))),
            _ if has_thousands(&groups) && self.has_thousands() => Ok(as_thousands),
            2 if self.has_decimal_comma && !self.has_decimal_dot && !self.has_thousands_comma => {
                Ok(as_decimal)
            }
            _ => Err(Readings(as_decimal, as_thousands)),
        }
    }

    fn has_thousands(self) -> bool {
        (self.has_thousands_comma || self.has_decimal_dot) && !self.has_decimal_comma
    }
}

/// Whether every group after the first has three digits.
fn has_thousands(groups: &[&str]) -> bool {
    let behind = |group: &&str| group.split('.').next().is_some_and(|digits| digits.len() == 3);
    groups.len() > 1
        && (1..=3).contains(&groups[0].len())
        && groups[0] != "0"
        && groups[1..].iter().all(behind)
}

/// The numbers of a cell, with their separators.
fn numbers(cell: &str) -> impl Iterator<Item = &str> {
    let parts = cell.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    parts.map(|part| part.trim_matches([',', '.'])).filter(|part| !part.is_empty())
}

/// Reads a cell.
pub(crate) fn cell(text: &str, separators: Separators) -> Content {
    let text = text.trim_matches(|c: char| c.is_whitespace() || "*_`".contains(c));
    if !text.contains(|c: char| c.is_ascii_digit()) {
        return Content::Text;
    }
    match figure(text, separators) {
        Ok(Some(figure)) => Content::Figure(figure),
        Ok(None) => Content::NotOne,
        Err(readings) => Content::Ambiguous(readings),
    }
}

/// A number with the spread after its `±`, if any; `None` if the text is not a single number.
fn figure(text: &str, separators: Separators) -> Result<Option<Figure>, Readings> {
    let halves = ["±", "+/-", "+-"].iter().find_map(|sign| text.split_once(sign));
    let Some((left, right)) = halves else { return single(text, separators) };
    // In `(252.8 ± 4.3) ms` the unit follows both numbers.
    let (left, right) = (left.trim().trim_start_matches('('), right.trim().replacen(')', "", 1));
    let (Some(value), Some(spread)) = (single(left, separators)?, single(&right, separators)?) else {
        return Ok(None);
    };
    let unit = value.unit.clone().or_else(|| spread.unit.clone());
    let is_one_unit = value.unit.is_none() || spread.unit.is_none() || value.unit == spread.unit;
    Ok(is_one_unit.then(|| Figure { unit, spread: Some(spread.value.abs()), ..value }))
}

/// A number without a spread.
fn single(text: &str, separators: Separators) -> Result<Option<Figure>, Readings> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix(['-', '−']) {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(digits.len());
    let (number, behind) = digits.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with([',', '.']) {
        return Ok(None);
    }
    let Some((factor, unit)) = scaled(behind) else { return Ok(None) };
    let number = separators.resolve(number)?;
    let Ok(value) = number.parse::<f64>() else { return Ok(None) };
    let decimals = number.split_once('.').map_or(0, |(_, behind)| behind.len());
    let half_step = 10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX)) / 2.0 * factor;
    Ok(Some(Figure { value: sign * value * factor, half_step, unit, spread: None }))
}

/// The factor and the unit after a number: `K IOPS`, `GB/s`, `%`, or nothing.
fn scaled(text: &str) -> Option<(f64, Option<Unit>)> {
    let text = text.trim();
    if text.is_empty() {
        return Some((1.0, None));
    }
    if let Some(known) = unit(text) {
        return Some((1.0, Some(known)));
    }
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    if let Some(factor) = multiplier(first) {
        if rest.trim().is_empty() {
            return Some((factor, None));
        }
        if let Some(known) = unit(rest) {
            return Some((factor, Some(known)));
        }
    }
    let is_word = text.len() <= 6 && text.chars().all(|c| c.is_alphabetic() || c == '/');
    let is_factor = text.eq_ignore_ascii_case("x");
    (is_word && !is_factor)
        .then(|| (1.0, Some(Unit { dimension: Dimension::Other(text.to_owned()), scale: 1.0 })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_and_rounding(text: &str) -> Option<(f64, f64)> {
        let content = cell(text, Separators::seen_in(std::iter::once(text)));
        content.figure().map(|figure| (figure.amount(None), figure.rounding()))
    }

    #[test]
    fn a_figure_has_a_unit_and_an_error_from_rounding() {
        assert_eq!(value_and_rounding("25.0"), Some((25.0, 0.05 / 25.0)));
        assert_eq!(value_and_rounding("0.05 us").map(|(_, rounding)| rounding), Some(0.005 / 0.05));
        assert_eq!(value_and_rounding("1.1 GB/s").map(|(value, _)| value), Some(1.1e9));
        assert_eq!(value_and_rounding("90K IOPS"), Some((90_000.0, 500.0 / 90_000.0)));
        assert_eq!(value_and_rounding("**540 MB/s**").map(|(value, _)| value), Some(5.4e8));
        assert_eq!(value_and_rounding("1,234,567"), Some((1_234_567.0, 0.5 / 1_234_567.0)));
        assert_eq!(value_and_rounding("1,234.5").map(|(value, _)| value), Some(1234.5));
        for text in ["HOST", "3 of 4 runs failed", "15.3k/10.9k", "1.55x", "~12", "1m30s", ""] {
            assert_eq!(value_and_rounding(text), None, "{text}");
        }
    }

    #[test]
    fn the_number_after_plus_minus_is_the_spread() {
        for text in ["252.8 ± 4.3", "252.8 +/- 4.3 ms", "(252.8 ± 4.3) ms", "252.8 ms ± 4.3 ms"] {
            let Content::Figure(figure) = cell(text, Separators::default()) else { panic!("{text}") };
            assert_eq!((figure.value, figure.spread), (252.8, Some(4.3)), "{text}");
            assert_eq!(figure.unit, if text.contains("ms") { unit("ms") } else { None }, "{text}");
        }
        assert_eq!(cell("252.8 ms ± 4.3 us", Separators::default()), Content::NotOne);
    }

    #[test]
    fn a_comma_that_means_two_things_is_not_read() {
        let of = |cells: &[&str]| {
            let separators = Separators::seen_in(cells.iter().copied());
            let value = |text: &&str| cell(text, separators).figure().map(|figure| figure.value);
            cells.iter().map(value).collect::<Vec<Option<f64>>>()
        };
        assert_eq!(of(&["9.41", "3,27"]), [Some(9.41), None]);
        assert_eq!(of(&["1,234", "17"]), [None, Some(17.0)]);
        assert_eq!(of(&["1,234", "17.5"]), [Some(1234.0), Some(17.5)]);
        assert_eq!(of(&["9,41", "3,27"]), [Some(9.41), Some(3.27)]);
        assert_eq!(of(&["9,41", "1.234"]), [Some(9.41), None]);
        assert_eq!(of(&["0,125", "9,4"]), [Some(0.125), Some(9.4)]);
        let Content::Ambiguous(readings) = cell("3,27", Separators::default()) else { panic!() };
        assert_eq!(readings.to_string(), "3.27 or 327");
    }
}
