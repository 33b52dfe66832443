//! C libraries that few machines have, loaded at run time so that everything else works without them.

use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

use super::CodecError;

/// A library by the names that it has had, newest first, and what to do where it is not there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) names: &'static [&'static str],
    pub(super) install: &'static str,
}

/// A loaded library; its functions stay valid for as long as this lives.
#[derive(Debug)]
pub(super) struct Library {
    wanted: Wanted,
    handle: Handle,
}

impl Library {
    /// Loads the first that is there.
    pub(super) fn load(wanted: Wanted) -> Result<Self, CodecError> {
        let mut reason = String::new();
        for name in wanted.names {
            // SAFETY: loading runs the initialisers of a library that the machine's owner installed under that name.
            // They are those of compression libraries, which set up tables.
            match unsafe { Handle::open(Some(*name), RTLD_NOW | RTLD_LOCAL) } {
                Ok(handle) => return Ok(Self { wanted, handle }),
                Err(error) if reason.is_empty() => reason = cause(&error, name),
                Err(_) => {}
            }
        }
        Err(wanted.missing(reason))
    }

    /// A function by its name, which ends in a zero byte.
    ///
    /// # Safety
    /// `T` must be the type of that function.
    pub(super) unsafe fn function<T: Copy>(&self, name: &str) -> Result<T, CodecError> {
        // SAFETY: the caller promises the type.
        let found = unsafe { self.handle.get::<T>(name.as_bytes()) };
        found
            .map(|function| *function)
            .map_err(|_| self.wanted.missing(format!("it has no function {}", name.trim_end_matches('\0'))))
    }
}

impl Wanted {
    pub(super) fn missing(self, reason: impl Into<String>) -> CodecError {
        CodecError::Missing {
            library: self.names.first().copied().unwrap_or("a library"),
            reason: reason.into(),
            install: self.install,
        }
    }
}

/// The loader's own words without what this program's library puts around them.
fn cause(error: &libloading::Error, name: &str) -> String {
    use std::error::Error;
    let words = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    words.strip_prefix(&format!("{name}: ")).unwrap_or(&words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_says_what_to_install() {
        let wanted = Wanted { names: &["libnonexistent.so.1"], install: "install libnonexistent1" };
        let error = Library::load(wanted).unwrap_err().to_string();
        assert!(error.starts_with("load libnonexistent.so.1: "), "{error}");
        assert!(error.ends_with("; install libnonexistent1"), "{error}");
    }

    #[test]
    fn a_library_without_the_function_is_not_that_library() {
        let wanted = Wanted { names: &["libnonexistent.so.1", "libc.so.6"], install: "install another" };
        let library = Library::load(wanted).unwrap();
        // SAFETY: the function does not exist, so the call returns an error and no pointer of that type.
        let error = unsafe { library.function::<fn()>("plumb_nonexistent\0") }.unwrap_err().to_string();
        assert!(error.contains("it has no function plumb_nonexistent; install another"), "{error}");
    }
}
