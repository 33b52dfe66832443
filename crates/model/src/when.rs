//! Times of day as programs write them.

/// Seconds since 1970 of an RFC 3339 time: `2026-11-23T07:00:00.5+01:00`.
#[must_use]
pub fn rfc3339(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut of_date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (of_date.next()??, of_date.next()??, of_date.next()??);
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone_at);
    let mut of_clock = clock.split(':');
    let hour: f64 = of_clock.next()?.parse().ok()?;
    let minute: f64 = of_clock.next()?.parse().ok()?;
    let second: f64 = of_clock.next()?.parse().ok()?;
    let is_sound = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && (0.0..24.0).contains(&hour)
        && (0.0..60.0).contains(&minute)
        && (0.0..61.0).contains(&second);
    let days = days_since_1970(year, month, day);
    is_sound.then_some(days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second - offset_s(zone)?)
}

fn offset_s(zone: &str) -> Option<f64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let (sign, rest) = (if zone.starts_with('-') { -1.0 } else { 1.0 }, zone.get(1..)?);
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then(|| sign * f64::from(hours * 3600 + minutes * 60))
}

/// Days from 1970-01-01, by Howard Hinnant's `days_from_civil`.
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
    }
}
