//! Which build of this program, or of another, runs: a hash of its file, because a version number lasts for months.

use std::fs::File;
use std::path::Path;

use crate::Error;

/// This program's file: the one that was started, even if another file has its name by now.
#[must_use]
pub fn own_program() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// XXH3 of this program's file with 128 bits, as 32 hexadecimal digits. This is the file that was started, even if another
/// file has its name by now.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn own_build() -> Result<String, Error> {
    file_digest(own_program())
}

/// XXH3 of a file's content with 128 bits, as 32 hexadecimal digits.
///
/// # Errors
///
/// When it cannot be read.
pub fn file_digest(path: &Path) -> Result<String, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let mut file = File::open(path).map_err(failed)?;
    plumb_digest::xxh3_128(&mut file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_the_same_whenever_it_is_asked_for() {
        let build = own_build().unwrap();
        assert_eq!(build.len(), 32);
        assert_eq!(own_build().unwrap(), build);
    }
}
