//! The hash of long content: a program's file, a run.
//!
//! This is a separate crate because it has to be optimised in every profile. The library's functions are generic, so the crate
//! that calls them compiles them; without optimisation a hash of `plumb`'s own file takes half a second to two seconds, at the
//! start of every run. The same goes for the JSON of a run, with its hundreds of histograms.

use std::io::{self, ErrorKind, Read};

use plumb_model::Run;
use serde::Serialize;
use twox_hash::XxHash3_128;

/// How many bytes are read at a time.
const CHUNK: usize = 1 << 20;

/// XXH3 of everything that can be read, with 128 bits, as 32 hexadecimal digits.
///
/// # Errors
/// When reading fails.
pub fn xxh3_128(content: &mut dyn Read) -> io::Result<String> {
    let mut hasher = XxHash3_128::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(format!("{:032x}", hasher.finish_128())),
            Ok(count) => hasher.write(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// [`xxh3_128`] of a value's JSON.
///
/// # Panics
/// When a map in the value has keys that are no texts.
#[must_use]
pub fn of_json(value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).expect("hashed types have texts as keys");
    format!("{:032x}", XxHash3_128::oneshot(&json))
}

/// The digest of a run: the hash of its whole content.
#[must_use]
pub fn of_run(run: &Run) -> String {
    of_json(&run.content())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives at most this many bytes at a time, after an interruption each.
    struct Slow<'a>(&'a [u8], usize, bool);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(ErrorKind::Interrupted.into());
            }
            let count = self.1.min(buffer.len()).min(self.0.len());
            self.0.read(&mut buffer[..count])
        }
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::PermissionDenied.into())
        }
    }

    #[test]
    fn known_content_has_the_published_hash() {
        // From the reference implementation: `xxhsum -H2 /dev/null`.
        assert_eq!(xxh3_128(&mut &b""[..]).unwrap(), "99aa06d3014798d86001c324468d497f");
        assert_eq!(xxh3_128(&mut Broken).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_do_not_matter(content: Vec<u8>, piece in 1_usize..300) {
            let whole = format!("{:032x}", XxHash3_128::oneshot(&content));
            proptest::prop_assert_eq!(xxh3_128(&mut Slow(&content, piece, false)).unwrap(), whole);
        }
    }
}
