//! Times of day as programs write them.

/// Seconds since 1970 of an RFC 3339 time: `2026-11-23T07:00:00.5+01:00`.
#[must_use]
pub fn rfc3339(text: &str) -> Option<f64> {
    rfc3339_us(text).map(|time_us| time_us as f64 / 1e6)
}

/// Microseconds since 1970 of a time such as `2026-03-01T12:00:00.250Z` or `2026-03-01T13:00:00+01:00`.
#[must_use]
pub fn rfc3339_us(text: &str) -> Option<i64> {
    let (date, rest) = text.trim().split_once(['T', 't', ' '])?;
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some()
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || !(1970..=9999).contains(&year)
    {
        return None;
    }
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(number);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let day_s = days_since_1970(year, month, day) * 86_400;
    let whole_s = day_s + hour * 3600 + minute * 60 + second - offset_s(zone)?;
    Some(whole_s * 1_000_000 + fraction_us(fraction)?)
}

fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn fraction_us(text: &str) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = text.chars().chain("000000".chars()).take(6).collect();
    digits.parse().ok()
}

fn offset_s(zone: &str) -> Option<i64> {
    let sign = match zone.chars().next()? {
        'Z' | 'z' => return (zone.len() == 1).then_some(0),
        '-' => -1,
        _ => 1,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `days_from_civil`).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_zones_are_seconds() {
        assert_eq!(rfc3339("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(rfc3339("2000-02-29T12:00:00Z"), Some(951_825_600.0));
        assert_eq!(rfc3339("2026-11-23T08:00:00.5+01:00"), Some(1_795_417_200.5));
        assert_eq!(rfc3339("2026-11-23T06:00:00.5-01:00"), rfc3339("2026-11-23T07:00:00.5Z"));
        for wrong in ["", "2026-11-23", "2026-13-23T00:00:00Z", "2026-11-23T25:00:00Z", "2026-11-23T00:00:00"]
        {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
        }
        assert_eq!(rfc3339_us("2026-03-01T13:00:00.2500009+01:00"), Some(1_772_366_400_250_000));
        assert_eq!(rfc3339_us("2024-02-29T23:59:59-00:30"), Some(1_709_252_999_000_000));
        assert_eq!(rfc3339_us("2026-03-01T00:00Z"), None);
    }
}
