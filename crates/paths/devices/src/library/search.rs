//! Where libcrypto_mb may be: a pure list of places, so that the order can be tested without any library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The library's names. PyPI's wheel has the first; Debian's package without its development files has the others,
/// by the number of the interface.
const NAMES: [&str; 4] =
    ["libcrypto_mb.so", "libcrypto_mb.so.13", "libcrypto_mb.so.12", "libcrypto_mb.so.11"];

/// Where `scripts/install-crypto-mb.sh` puts it.
const INSTALLED: &str = "/usr/local/lib/plumbline/crypto-mb";

/// Where else it is found: Intel's own packages, and `pip install` as root.
const WELL_KNOWN: [&str; 4] = [
    INSTALLED,
    "/opt/intel/oneapi/ippcp/latest/lib",
    "/opt/intel/oneapi/ippcp/latest/lib/intel64",
    "/usr/local/lib",
];

/// What of the process' environment says where the library is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// `PLUMB_CRYPTO_MB`: the file or its directory. If set, no other place is searched.
    pub(super) asked: Option<OsString>,
    /// The user's home, where `pip install --user` puts it.
    pub(super) home: Option<OsString>,
    /// Where the Python environments that are active put it: `VIRTUAL_ENV`, `CONDA_PREFIX`.
    pub(super) prefixes: Vec<OsString>,
}

impl Environment {
    pub(super) fn of_this_process() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            asked: set("PLUMB_CRYPTO_MB"),
            home: set("HOME"),
            prefixes: ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(set).collect(),
        }
    }

    /// The place that the user named, if any.
    pub(super) fn asked(&self) -> Option<&Path> {
        self.asked.as_deref().map(Path::new)
    }

    /// Everything to try, in this order. A name without a directory is for the loader to look up. A path need not
    /// exist.
    pub(super) fn candidates(&self) -> Vec<PathBuf> {
        if let Some(asked) = self.asked() {
            let inside = NAMES.iter().map(|name| asked.join(name));
            return std::iter::once(asked.to_owned()).chain(inside).collect();
        }
        let by_loader = NAMES.iter().map(PathBuf::from);
        let of_python = self.prefixes.iter().map(|prefix| Path::new(prefix).join("lib"));
        let of_user = self.home.iter().map(|home| Path::new(home).join(".local/lib"));
        let directories = WELL_KNOWN.iter().map(PathBuf::from).chain(of_python).chain(of_user);
        by_loader
            .chain(directories.flat_map(|directory| NAMES.map(|name| directory.join(name)).into_iter()))
            .collect()
    }
}

/// The libraries of Intel's compiler that PyPI's form needs, in the order in which one needs another.
///
/// They lie in the same directory, where the loader does not look. Once they are loaded it finds them by name.
pub(super) const COMPANIONS: [&str; 4] = ["libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so"];

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(asked: Option<&str>) -> Environment {
        Environment {
            asked: asked.map(OsString::from),
            home: Some("/home/me".into()),
            prefixes: vec!["/venv".into()],
        }
    }

    #[test]
    fn the_loader_comes_first_and_the_users_own_directories_last() {
        let candidates = environment(None).candidates();
        let at = |path: &str| candidates.iter().position(|candidate| candidate == Path::new(path));
        let order = [
            "libcrypto_mb.so",
            "libcrypto_mb.so.12",
            "/usr/local/lib/plumbline/crypto-mb/libcrypto_mb.so",
            "/opt/intel/oneapi/ippcp/latest/lib/libcrypto_mb.so",
            "/usr/local/lib/libcrypto_mb.so",
            "/venv/lib/libcrypto_mb.so.13",
            "/home/me/.local/lib/libcrypto_mb.so",
        ];
        let places: Vec<usize> = order.iter().map(|path| at(path).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn what_the_user_names_is_a_file_or_a_directory_and_the_only_place() {
        let candidates = environment(Some("/x")).candidates();
        assert_eq!(candidates[0], Path::new("/x"));
        assert!(candidates[1..].iter().all(|path| path.parent() == Some(Path::new("/x"))));
        assert_eq!(candidates.len(), 1 + NAMES.len());
    }
}
