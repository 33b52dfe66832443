//! Versions of programs.

use std::fmt;

/// A version in three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub [u32; 3]);

impl Version {
    /// The first three numbers in what a program says of its version, such as `nginx version: nginx/1.22.1`.
    pub(super) fn find_in(words: &str) -> Option<Self> {
        let word = words.split([' ', '/', '-', '+', '~']).find(|word| word.split('.').count() >= 3)?;
        let mut numbers = word.trim_start_matches('v').split('.').map_while(|number| number.parse().ok());
        Some(Self([numbers.next()?, numbers.next()?, numbers.next()?]))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, patch]) = self;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_a_version_wherever_they_stand() {
        let read = |words| Version::find_in(words).map(|version| version.to_string()).unwrap_or_default();
        assert_eq!(read("nginx version: nginx/1.22.1"), "1.22.1");
        assert_eq!(read("nginx version: openresty/1.25.3.1"), "1.25.3");
        assert_eq!(read("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/"), "2.6.12");
        assert_eq!(read("v2.6.2 h1:abc="), "2.6.2");
        assert_eq!(read("nginx"), "");
        assert!(Version([1, 9, 15]) < Version([1, 25, 1]));
    }
}
