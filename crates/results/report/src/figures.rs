//! Numbers as people read them: three significant digits, a unit that keeps them short, and never a rounding that
//! turns "almost all" into "all".
//!
//! Everything that a report prints for people goes through here, so that a table, a plot's label and a sentence about
//! the same value show the same digits. JSON does not: it carries the full value.

use std::collections::BTreeSet;

use plumb_model::Unit;

/// A value of a metric with its unit: `12.3k/s`, `4.17 ms`, `99.98%`.
pub fn value(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    match unit {
        Unit::Milliseconds => time_ns(value * 1e6),
        Unit::Microseconds => time_ns(value * 1e3),
        Unit::Seconds => time_ns(value * 1e9),
        Unit::PerSecond => format!("{}/s", scaled(value, &DECIMAL, "")),
        Unit::Bytes => scaled(value, &BYTES, " "),
        Unit::BytesPerSecond => format!("{}/s", scaled(value, &BYTES, " ")),
        Unit::Share => share(value),
        Unit::Count => count(value),
    }
}

const DECIMAL: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
const BYTES: [(f64, &str); 5] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

/// CPUs by their numbers: `CPU 1`, `CPUs 0 and 1`, `CPUs 0-3,8`.
pub fn cpus(cpus: &BTreeSet<u32>) -> String {
    match cpus.iter().collect::<Vec<_>>()[..] {
        [one] => format!("CPU {one}"),
        [one, other] => format!("CPUs {one} and {other}"),
        _ => format!("CPUs {}", ranges(cpus)),
    }
}

/// The numbers of CPUs as the kernel lists them: `0-3,8`.
pub fn ranges(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut().filter(|(_, last)| last.checked_add(1) == Some(*cpu)) {
            Some((_, last)) => *last = *cpu,
            None => ranges.push((*cpu, *cpu)),
        }
    }
    let words = |(first, last): (u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(words).collect::<Vec<String>>().join(",")
}

/// A length of time given in ns: `276 µs`, `4.17 ms`, `1.50 s`. None at all has no unit.
pub fn time_ns(nanoseconds: f64) -> String {
    if nanoseconds == 0.0 { "0".to_owned() } else { scaled(nanoseconds, &TIMES, " ") }
}

/// A value in the largest of the `steps` that leaves at least 1 before the point.
fn scaled(value: f64, steps: &[(f64, &str)], gap: &str) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    // Rounded first, since 999.7 µs are 1.00 ms and not 1000 µs.
    let rounded = to_significant(value, 3);
    let last = steps[steps.len() - 1];
    let (size, symbol) = steps.iter().copied().find(|(size, _)| rounded.abs() >= *size).unwrap_or(last);
    format!("{}{gap}{symbol}", digits(rounded / size))
}

/// `value` to this many significant digits.
fn to_significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let magnitude = value.abs().log10().floor() as i32;
    let factor = 10_f64.powi(digits - 1 - magnitude);
    let rounded = (value * factor).round() / factor;
    if rounded.is_finite() { rounded } else { value }
}

/// A round value of a metric, as the label of an axis: no more digits than it has.
pub fn tick(value: f64, unit: Unit) -> String {
    let text = self::value(value, unit);
    let end = text.find(|c: char| !c.is_ascii_digit() && !".,".contains(c)).unwrap_or(text.len());
    let (number, symbol) = text.split_at(end);
    let short =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{short}{symbol}")
}

/// A ratio as the label of an axis: `×0.5`, `×1`, `×20`.
pub fn ratio_tick(ratio: f64) -> String {
    format!("×{}", (ratio * 1e6).round() / 1e6)
}

/// A number with three significant digits and no exponent; whole thousands get separators.
pub fn digits(value: f64) -> String {
    let rounded = to_significant(value, 3);
    let size = rounded.abs();
    if rounded == 0.0 {
        "0".to_owned()
    } else if size >= 1000.0 {
        count(rounded)
    } else if size >= 100.0 {
        format!("{rounded:.0}")
    } else if size >= 10.0 {
        format!("{rounded:.1}")
    } else if size >= 1.0 {
        format!("{rounded:.2}")
    } else {
        let decimals = (2 - size.log10().floor() as i32).clamp(0, 9) as usize;
        format!("{rounded:.decimals$}")
    }
}

/// A number of things with separators; small halves, as medians have them, keep their digit.
pub fn count(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let tenths = if value.abs() < 100.0 { (value.abs() * 10.0).round() } else { 10.0 * value.abs().round() };
    let whole = format!("{:.0}", (tenths / 10.0).trunc());
    let mut text = String::from(if value < 0.0 && tenths > 0.0 { "−" } else { "" });
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let tenth = tenths % 10.0;
    if tenth > 0.0 {
        text.push_str(&format!(".{tenth:.0}"));
    }
    text
}

/// A share of one in percent. Only 1 is 100% and only 0 is 0%: a share between keeps as many digits as it takes to
/// differ from both.
pub fn share(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value <= 0.0 || value == 1.0 {
        return format!("{:.0}%", value * 100.0);
    }
    let percent = value * 100.0;
    let distance = percent.min((100.0 - percent).abs());
    let decimals = if distance < 0.01 { (-distance.log10().floor()).clamp(2.0, 14.0) as usize } else { 2 };
    format!("{percent:.decimals$}%")
}

/// A share of noise or of CPU time, to a tenth of a percent: these are counters of ticks and have no more digits.
pub fn share_coarse(value: f64) -> String {
    if value.is_finite() { format!("{:.1}%", value * 100.0) } else { "–".to_owned() }
}

/// A ratio with its interval: `×1.42 [1.35, 1.50]`, with as many decimals as the interval's width deserves.
pub fn effect(ratio: f64, low: f64, high: Option<f64>) -> String {
    let decimals = ratio_decimals(ratio, low, high);
    match high.filter(|high| high.is_finite()) {
        Some(high) => format!("×{ratio:.decimals$} [{low:.decimals$}, {high:.decimals$}]"),
        None if low > 0.0 => format!("×{ratio:.decimals$} [{low:.decimals$}, ∞)"),
        None => format!("×{ratio:.decimals$} [0, ∞)"),
    }
}

/// A ratio alone, with the decimals that [`effect`] gives it.
pub fn ratio(ratio: f64, low: f64, high: Option<f64>) -> String {
    let decimals = ratio_decimals(ratio, low, high);
    format!("×{ratio:.decimals$}")
}

/// Two significant digits of the interval's width and of its lower bound, as far as that does not give the ratio itself
/// more digits than it deserves; three of the ratio without an interval.
fn ratio_decimals(ratio: f64, low: f64, high: Option<f64>) -> usize {
    let width = high.map(|high| high - low).filter(|width| width.is_finite() && *width > 0.0);
    let for_digits = |value: f64, digits: i32| digits - 1 - value.abs().max(1e-9).log10().floor() as i32;
    let of_ratio = for_digits(ratio, 3);
    let decimals = match width {
        Some(width) => for_digits(width, 2).min(of_ratio + 2).max(for_digits(low, 2).min(of_ratio)),
        None => of_ratio,
    };
    let least = if ratio < 10.0 { 2 } else { i32::from(ratio < 100.0) };
    decimals.clamp(least, 6) as usize
}

/// A length of time in seconds as people say it: `42 s`, `3 min 12 s`, `1 h 04 min`.
pub fn duration_s(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".to_owned();
    }
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{} s", digits(seconds)),
        10..120 => format!("{whole} s"),
        120..7200 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// `1 block`, `2 blocks`.
pub fn plural(count: usize, noun: &str) -> String {
    several(count as f64, noun)
}

/// [`plural`] of a median: `1 request`, `1.5 requests`.
pub fn several(number: f64, noun: &str) -> String {
    let digits = count(number);
    let ending = if digits == "1" { "" } else { "s" };
    format!("{digits} {noun}{ending}")
}

/// ` (load.connections=20)`, or nothing for a plan with one cell.
pub fn in_cell(cell: &str) -> String {
    if cell.is_empty() { String::new() } else { format!(" ({cell})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpus_are_listed_as_the_kernel_does() {
        let words = |list: &[u32]| cpus(&list.iter().copied().collect());
        let found = [&[1][..], &[0, 1], &[0, 1, 2, 3, 8]].map(words);
        assert_eq!(found, ["CPU 1", "CPUs 0 and 1", "CPUs 0-3,8"]);
    }

    #[test]
    fn values_carry_three_digits_and_a_unit_that_keeps_them_short() {
        let cases = [
            (12_345.6, Unit::PerSecond, "12.3k/s"),
            (523.697, Unit::PerSecond, "524/s"),
            (5.237, Unit::PerSecond, "5.24/s"),
            (999_999.0, Unit::PerSecond, "1.00M/s"),
            (4.1689, Unit::Milliseconds, "4.17 ms"),
            (0.27687, Unit::Milliseconds, "277 µs"),
            (0.9997, Unit::Milliseconds, "1.00 ms"),
            (1500.0, Unit::Milliseconds, "1.50 s"),
            (83.26, Unit::Microseconds, "83.3 µs"),
            (2.0, Unit::Seconds, "2.00 s"),
            (0.0, Unit::Milliseconds, "0"),
            (422e6, Unit::Bytes, "422 MB"),
            (612.0, Unit::Bytes, "612 B"),
            (21_000_000.0, Unit::BytesPerSecond, "21.0 MB/s"),
            (10_474.0, Unit::Count, "10,474"),
            (10_474.4, Unit::Count, "10,474"),
            (12.5, Unit::Count, "12.5"),
            (f64::NAN, Unit::Count, "–"),
            (f64::INFINITY, Unit::Milliseconds, "–"),
        ];
        for (number, unit, expected) in cases {
            assert_eq!(value(number, unit), expected);
        }
    }

    #[test]
    fn labels_of_axes_have_no_idle_digits() {
        let cases = [
            (5.0, Unit::Milliseconds, "5 ms"),
            (0.5, Unit::Milliseconds, "500 µs"),
            (1250.0, Unit::PerSecond, "1.25k/s"),
        ];
        for (number, unit, expected) in cases {
            assert_eq!(tick(number, unit), expected);
        }
        assert_eq!((tick(0.0, Unit::Share), ratio_tick(0.1 + 0.2)), ("0%".to_owned(), "×0.3".to_owned()));
    }

    #[test]
    fn a_share_is_whole_only_if_it_is() {
        let cases = [
            (1.0, "100%"),
            (0.0, "0%"),
            (0.9998, "99.98%"),
            (0.999_999, "99.9999%"),
            (0.000_01, "0.001%"),
            (0.5, "50.00%"),
            (20_947.0 / 20_948.0, "99.995%"),
        ];
        for (number, expected) in cases {
            assert_eq!(share(number), expected);
        }
    }

    #[test]
    fn a_ratio_has_the_decimals_that_its_interval_deserves() {
        assert_eq!(effect(1.4213, 1.35, Some(1.4987)), "×1.42 [1.35, 1.50]");
        assert_eq!(effect(1.0012, 1.0003, Some(1.0021)), "×1.0012 [1.0003, 1.0021]");
        assert_eq!(effect(12.34, 9.1, Some(16.2)), "×12.3 [9.1, 16.2]");
        assert_eq!(effect(123.4, 91.0, Some(162.0)), "×123 [91, 162]");
        assert_eq!(effect(0.177, 0.0434, Some(0.703)), "×0.177 [0.043, 0.703]");
        assert_eq!(effect(1.42, 0.0, None), "×1.42 [0, ∞)");
        assert_eq!(effect(0.0212, 0.0207, Some(0.0218)), "×0.0212 [0.0207, 0.0218]");
        assert_eq!(ratio(1.4213, 1.35, Some(1.4987)), "×1.42");
    }

    #[test]
    fn durations_are_spelt_as_people_say_them() {
        let cases = [(0.25, "0.250 s"), (42.4, "42 s"), (192.0, "3 min 12 s"), (7_440.0, "2 h 04 min")];
        for (seconds, expected) in cases {
            assert_eq!(duration_s(seconds), expected);
        }
        assert_eq!(
            (plural(1, "block"), plural(1200, "slot")),
            ("1 block".to_owned(), "1,200 slots".to_owned())
        );
    }

    proptest! {
        #[test]
        fn a_share_between_is_never_called_all_or_nothing(yes in 1_u64..1 << 40, no in 1_u64..1 << 40) {
            let text = share(yes as f64 / (yes + no) as f64);
            prop_assert!(text != "100%" && text != "0%" && text != "100.00%" && text != "0.00%", "{}", text);
        }

        #[test]
        fn no_number_breaks_a_figure(number in proptest::num::f64::ANY, low in 0.0..1e12_f64) {
            for unit in [Unit::Milliseconds, Unit::PerSecond, Unit::Bytes, Unit::Share, Unit::Count] {
                prop_assert!(!value(number, unit).is_empty());
            }
            prop_assert!(effect(number, low, None).starts_with('×'));
        }

        #[test]
        fn three_digits_stay_near_the_value(number in 1e-3..1e12_f64) {
            prop_assert!((to_significant(number, 3) / number - 1.0).abs() <= 0.005_001);
        }
    }
}
