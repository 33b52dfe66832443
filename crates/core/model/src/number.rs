//! Decimal numbers as people write them, read exactly.
//!
//! A multiple of ten belongs to the digits, not to a multiplication afterwards: `99.9 * 0.01` is above `0.999`, and a
//! claim of 99.9% was then refuted by exactly 999 of 1,000. Commas are refused, because `1,000` is a thousand to one
//! reader and one to another.

/// Why a text is not a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// Something in it is neither a digit nor in its right place.
    NotANumber,
    /// It has a comma; the text says what to write instead.
    Comma(String),
}

/// Reads a number and multiplies it by ten to the power of `shift`, rounding once.
pub(crate) fn decimal(text: &str, shift: i32) -> Result<f64, NumberError> {
    if text.contains(',') {
        return Err(NumberError::Comma(without_comma(text)));
    }
    let digits = without_underscores(text).ok_or(NumberError::NotANumber)?;
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.parse::<i32>().map_err(|_| NumberError::NotANumber)?)
        }
        None => (digits.as_str(), 0),
    };
    // Rust reads `inf` and `nan` as numbers, too.
    if !mantissa.contains(|character: char| character.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    let exact = format!("{mantissa}e{}", exponent.saturating_add(shift));
    exact.parse().map_err(|_| NumberError::NotANumber)
}

/// `1_000` as `1000`; `None` where an underscore is not between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let is_right = |(at, _): (usize, &str)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    text.match_indices('_').all(is_right).then(|| text.replace('_', ""))
}

/// The number that a comma may stand for.
fn without_comma(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let groups: Vec<&str> = whole.trim_start_matches(['-', '+']).split(',').collect();
    let is_group = |group: &&str| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit());
    let starts = (1..=3).contains(&groups[0].len()) && !groups[0].starts_with('0');
    let is_grouped = starts && groups[1..].iter().all(is_group) && !fraction.contains(',');
    let point = text.replace(',', ".");
    let plain = text.replace(',', "");
    match (is_grouped, groups.len(), fraction) {
        (true, 2, "") => format!("write `{plain}` for thousands, or `{point}` for a fraction"),
        (true, ..) => format!("write `{plain}`"),
        (false, 2, "") => format!("write a decimal point: `{point}`"),
        _ => "write a decimal point, and nothing between thousands, as in `1234.5`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_power_of_ten_is_part_of_the_digits() {
        assert_eq!(decimal("99.9", -2), Ok(0.999));
        assert_eq!(decimal("1e3", -3), Ok(1.0));
        assert_eq!(decimal("-2.5E-1", 0), Ok(-0.25));
        assert_eq!(decimal("1_000", 0), Ok(1000.0));
        for text in ["", "-", ".", "inf", "nan", "1e", "_1", "1__0", "1_", "1._5", "e5", "1.2.3"] {
            assert_eq!(decimal(text, 0), Err(NumberError::NotANumber), "{text}");
        }
    }

    #[test]
    fn a_comma_is_an_error_that_says_what_to_write() {
        let hint = |text: &str| match decimal(text, 0) {
            Err(NumberError::Comma(hint)) => hint,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(hint("1,0"), "write a decimal point: `1.0`");
        assert_eq!(hint("0,500"), "write a decimal point: `0.500`");
        assert_eq!(hint("1,000"), "write `1000` for thousands, or `1.000` for a fraction");
        assert_eq!(hint("12,345,678.5"), "write `12345678.5`");
        let general = "write a decimal point, and nothing between thousands, as in `1234.5`";
        for text in ["1.234,5", "1,,0", ",", "1,00,000"] {
            assert!([general, "write a decimal point: `.`"].contains(&hint(text).as_str()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_double_is_read_back(number in proptest::num::f64::NORMAL) {
            prop_assert_eq!(decimal(&number.to_string(), 0), Ok(number));
        }
    }
}
