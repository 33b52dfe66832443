//! The part of this process's environment that a child process gets.
//!
//! An environment holds secrets (tokens of CI, passwords for other programs). It also holds switches of libraries that would
//! change one run and not another without a trace. So this list names the variables that children get.

use std::ffi::{OsStr, OsString};

/// Variables that every child gets: where programs, libraries, certificates and temporary files are, and the language.
const NAMES: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
];

/// Groups of variables: the rest of the language, and switches of plumb itself.
const PREFIXES: [&str; 2] = ["LC_", "PLUMB_"];

/// The variables of this process that a child gets.
pub(super) fn passed_on() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_passed_on(name))
}

fn is_passed_on(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_passed_on() {
        for name in ["PATH", "LC_ALL", "LANG", "PLUMB_STATE_DIR", "SSL_CERT_FILE"] {
            assert!(is_passed_on(name.as_ref()), "{name}");
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "LD_PRELOAD",
            "OPENSSL_CONF",
            "OPENSSL_ia32cap",
            "PATHS",
        ] {
            assert!(!is_passed_on(name.as_ref()), "{name}");
        }
    }
}
