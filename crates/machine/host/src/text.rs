//! Reading the small text files of /proc and /sys.

use std::fs;
use std::path::Path;

use crate::Error;

/// The text of a file without the blanks around it; `None` when there is none, which in /sys is how a
/// kernel says that it does not have a feature.
pub(crate) fn read_trimmed(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The number in a file.
pub(crate) fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read_trimmed(path)?.parse().ok()
}

/// Reads a file that every Linux has, with `parse`.
pub(crate) fn require<T>(path: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Error> {
    let failure = |cause| Error::Read { path: path.into(), cause };
    let bytes = fs::read(path).map_err(failure)?;
    parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| failure(std::io::ErrorKind::InvalidData.into()))
}

/// The value of a line such as `VmRSS:     1024 kB` in bytes.
pub(crate) fn kib_field(text: &str, name: &str) -> Option<u64> {
    colon_field(text, name)?.strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// The value of the first line such as `model name   : Some CPU`.
pub(crate) fn colon_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim()).next()
}

/// The number after a word at the start of a line, such as `nr_throttled 7`.
pub(crate) fn word_field(text: &str, name: &str) -> Option<u64> {
    let fields = text.lines().filter_map(|line| line.split_once(' '));
    fields.filter(|&(key, _)| key == name).find_map(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotal:  2048 kB\nMemTotalX: 1 kB\nmodel name\t: A: B\nMemFree: many kB\nHuge: 9\n";
        assert_eq!(kib_field(text, "MemTotal"), Some(2_097_152));
        assert_eq!(kib_field(text, "Mem"), None);
        assert_eq!(kib_field(text, "MemFree"), None);
        assert_eq!(kib_field(text, "Huge"), None);
        assert_eq!(kib_field("X: 18446744073709551615 kB", "X"), None);
        assert_eq!(colon_field(text, "model name"), Some("A: B"));
        assert_eq!(word_field("nr_periods 5\nnr_throttled 7\nnr_throttled_x 8", "nr_throttled"), Some(7));
        assert_eq!(word_field("nr_throttled\nnr_throttled x", "nr_throttled"), None);
    }

    #[test]
    fn a_file_that_is_not_there_is_nothing_or_named() {
        assert_eq!(read_trimmed("/nowhere/x"), None);
        let message = require("/nowhere/x", |_| Some(())).unwrap_err().to_string();
        assert_eq!(message, "read /nowhere/x: No such file or directory (os error 2)");
        let message = require("/dev/null", |_| None::<()>).unwrap_err().to_string();
        assert_eq!(message, "read /dev/null: invalid data");
    }
}
