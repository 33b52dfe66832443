//! Where the libraries of engines and providers are.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};

use super::error::OffloadError;
use super::extension::Extension;

/// How long `openssl version` may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where distributions and OpenSSL's own build put them, beside what `openssl version` says.
const ENGINE_DIRECTORIES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu/engines-3",
    "/usr/lib/aarch64-linux-gnu/engines-3",
    "/usr/lib64/engines-3",
    "/usr/local/lib64/engines-3",
    "/usr/lib/x86_64-linux-gnu/engines-1.1",
    "/usr/lib64/engines-1.1",
];
const PROVIDER_DIRECTORIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/ossl-modules",
    "/usr/lib/aarch64-linux-gnu/ossl-modules",
    "/usr/lib64/ossl-modules",
    "/usr/local/lib64/ossl-modules",
];

/// Whether a text can stand in configuration files: a name, or an absolute path of a library, without any letter that
/// means something to one of them.
pub(in crate::system) fn is_name_or_path(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-+".contains(letter);
    match text.strip_prefix('/') {
        Some(path) => {
            path.chars().all(|letter| is_plain(letter) || letter == '/')
                && path.chars().next_back().is_some_and(is_plain)
        }
        None => !text.is_empty() && text.chars().all(is_plain),
    }
}

/// The variable of the environment that says where OpenSSL is to look (openssl-env(7)).
pub(super) fn variable(extension: Extension) -> &'static str {
    match extension {
        Extension::Engine => "OPENSSL_ENGINES",
        Extension::Provider => "OPENSSL_MODULES",
    }
}

/// The name and the library of what was asked for by its name or path.
pub(super) fn find(extension: Extension, asked: &str) -> Result<(String, PathBuf), OffloadError> {
    if asked.contains('/') {
        let (library, name) = (PathBuf::from(asked), stem(asked));
        if !library.is_file() {
            return Err(OffloadError::NoFile { word: extension.word(), library });
        }
        return Ok((name, library));
    }
    let directories = directories(extension);
    let found =
        directories.iter().map(|directory| directory.join(format!("{asked}.so"))).find(|file| file.is_file());
    found.map(|library| (asked.to_owned(), library)).ok_or_else(|| OffloadError::NotInstalled {
        word: extension.word(),
        name: asked.to_owned(),
        directories,
    })
}

/// The name in a name or a path.
pub(super) fn stem(asked: &str) -> String {
    let asked = Path::new(asked);
    // A name has no extension, and may have a dot all the same.
    let stem = if asked.is_absolute() { asked.file_stem() } else { Some(asked.as_os_str()) };
    stem.unwrap_or_default().to_string_lossy().into_owned()
}

/// Where to look, the likeliest first. Directories that are not there are only named when there is none at all.
fn directories(extension: Extension) -> Vec<PathBuf> {
    let told = env::var_os(variable(extension)).map(PathBuf::from);
    let usual: &[&str] = match extension {
        Extension::Engine => &ENGINE_DIRECTORIES,
        Extension::Provider => &PROVIDER_DIRECTORIES,
    };
    let mut all: Vec<PathBuf> = Vec::new();
    for directory in told.into_iter().chain(by_openssl(extension)).chain(usual.iter().map(PathBuf::from)) {
        if !all.contains(&directory) {
            all.push(directory);
        }
    }
    let there: Vec<PathBuf> = all.iter().filter(|directory| directory.is_dir()).cloned().collect();
    if there.is_empty() { all } else { there }
}

/// The directory that the command `openssl` reports, if it is installed.
fn by_openssl(extension: Extension) -> Option<PathBuf> {
    let flag = match extension {
        Extension::Engine => "-e",
        Extension::Provider => "-m",
    };
    let output = run_for_output(which("openssl")?, ["version", flag], PATIENCE).ok()?;
    quoted(&output.stdout).map(|directory| Path::new(directory).to_owned())
}

/// From `ENGINESDIR: "/usr/lib/x86_64-linux-gnu/engines-3"`.
fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1).filter(|directory| directory.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_paths_are_told_from_what_would_break_a_file() {
        for good in ["qatengine", "a-b_c.1", "/opt/x/lib+.so"] {
            assert!(is_name_or_path(good), "{good}");
        }
        for bad in [
            "", "/", "/opt/", "a/b", "../a", "a b", "/a b.so", "/a#b", "$HOME", "a\"b", "a\nb", "ä", "/a;b",
            "a,b",
        ] {
            assert!(!is_name_or_path(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_path_is_taken_as_it_is_and_its_stem_is_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("my.engine.so");
        std::fs::write(&file, "").unwrap();
        let found = find(Extension::Engine, file.to_str().unwrap()).unwrap();
        assert_eq!(found, ("my.engine".to_owned(), file));
        assert_eq!(stem("a.b"), "a.b");
        let missing = find(Extension::Provider, "/nonexistent/x.so").unwrap_err().to_string();
        assert_eq!(missing, "there is no provider library /nonexistent/x.so");
    }

    #[test]
    fn openssl_says_its_directories_in_quotes() {
        assert_eq!(quoted("ENGINESDIR: \"/usr/lib/engines-3\"\n"), Some("/usr/lib/engines-3"));
        assert_eq!(quoted("ENGINESDIR: \"N/A\""), None);
        assert_eq!(quoted("no such flag"), None);
    }

    proptest! {
        #[test]
        fn what_is_accepted_holds_nothing_that_means_something_to_a_configuration_file(text in "\\PC{0,40}") {
            let harmless = !text.contains(|letter: char| " \t\n\"'\\$#;{}[]=".contains(letter));
            prop_assert!(!is_name_or_path(&text) || harmless);
        }
    }
}
