//! Times of day as programs write them.

/// Seconds since 1970 of an RFC 3339 time: `2026-11-23T07:00:00.5+01:00`.
#[must_use]
pub fn rfc3339(text: &str) -> Option<f64> {
    rfc3339_us(text).map(|time_us| time_us as f64 / 1e6)
}

/// Microseconds since 1970 of a time such as `2026-03-01T12:00:00.250Z` or `2026-03-01T13:00:00+01:00`.
#[must_use]
pub fn rfc3339_us(text: &str) -> Option<i64> {
    text.trim().parse().ok().map(jiff::Timestamp::as_microsecond)
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
        assert_eq!(rfc3339_us("2026-03-01T00:00"), None, "no zone");
    }
}
