//! The static table (RFC 7541, appendix A).

/// Names and values; the first has index 1.
const TABLE: [(&str, &str); LENGTH] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The number of entries.
pub(super) const LENGTH: usize = 61;

/// The entry with an index from 1 on.
pub(super) fn get(index: usize) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = TABLE.get(index.checked_sub(1)?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

/// The index of a name, or 0, and whether that entry has the value too.
pub(super) fn find(name: &[u8], value: &[u8]) -> (usize, bool) {
    let mut found = 0;
    for (at, entry) in TABLE.iter().enumerate() {
        if entry.0.as_bytes() != name {
            // Entries of one name stand together.
            if found > 0 {
                break;
            }
            continue;
        }
        if entry.1.as_bytes() == value {
            return (at + 1, true);
        }
        found = if found == 0 { at + 1 } else { found };
    }
    (found, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_where_they_are() {
        for index in 1..=LENGTH {
            let (name, value) = get(index).unwrap();
            assert_eq!(find(name, value), (index, true));
        }
        assert_eq!(find(b":status", b"302"), (8, false));
        assert_eq!(find(b":method", b"PUT"), (2, false));
        assert_eq!(find(b"www-authenticate", b"x"), (61, false));
        assert_eq!(find(b"x-mine", b""), (0, false));
        assert_eq!((get(0), get(62)), (None, None));
    }
}
