//! Data paths do not know each other: what two of them need lies below both.
//!
//! Which crates are data paths is read from the code: those that implement `Settings`. The crate that has the trait may have
//! the synthetic one beside it.

use std::collections::BTreeSet;

use super::manifests::line_of;
use super::rust_file::RustFile;
use super::violation::Violation;
use crate::repository::Package;
use syn::spanned::Spanned;

/// The crate that has the trait.
const TRAITS: &str = "path";

/// The files of every data path.
const FILES: [&str; 5] = ["family", "settings", "check", "evidence", "metrics"];

/// The names of the packages that implement `Settings`, as `plumb-http`.
pub fn find(files: &[RustFile]) -> BTreeSet<String> {
    let of_file = |file: &RustFile| {
        let directory = file.crate_directory().filter(|directory| *directory != TRAITS)?;
        file.syntax
            .items
            .iter()
            .any(|item| is_family(item) && !file.in_test(item.span().start().line))
            .then(|| format!("plumb-{directory}"))
    };
    files.iter().filter_map(of_file).collect()
}

fn is_family(item: &syn::Item) -> bool {
    let syn::Item::Impl(implementation) = item else { return false };
    let name = implementation.trait_.as_ref().and_then(|(path, _)| path.segments.last());
    name.is_some_and(|name| name.ident == "Settings")
}

/// Judges the names of the files: a reader of one data path finds the way in every other.
pub fn check_files(files: &[RustFile], data_paths: &BTreeSet<String>) -> Vec<Violation> {
    let missing = |package: &String| {
        let directory = format!("crates/paths/{}/src", package.trim_start_matches("plumb-"));
        let is_missing =
            |name: &&&str| !files.iter().any(|file| file.path == format!("{directory}/{name}.rs"));
        let words = |name: &str| {
            let what = format!("a data path has its {name} in `{directory}/{name}.rs`, as every other has");
            Violation::new(&format!("{directory}/lib.rs"), 1, what)
        };
        FILES.iter().filter(is_missing).map(|name| words(name)).collect::<Vec<_>>()
    };
    data_paths.iter().flat_map(missing).collect()
}

/// Judges what a data path's manifest names.
pub fn check(package: &Package, path: &str, manifest: &str, data_paths: &BTreeSet<String>) -> Vec<Violation> {
    if !data_paths.contains(&package.name) {
        return Vec::new();
    }
    let others = package.dependencies.iter().filter(|it| it.kind.is_none() && data_paths.contains(&it.name));
    let words = |other: &str| {
        let what =
            format!("`{}` and `{other}` are both data paths, which do not know each other", package.name);
        Violation::new(path, line_of(manifest, other), what)
    };
    others.map(|other| words(&other.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::lines;
    use super::*;
    use crate::repository::Dependency;

    #[test]
    fn a_data_path_is_a_crate_that_implements_the_trait() {
        let files = [
            sample(
                "crates/paths/http/src/family.rs",
                "//! A.\nimpl plumb_path::Settings for HttpSettings {}\n",
            ),
            sample("crates/paths/devices/src/lib.rs", "//! A.\nimpl Device for OpenSsl {}\n"),
            sample("crates/engine/path/src/null.rs", "//! A.\nimpl Settings for NullSettings {}\n"),
            sample("crates/engine/runner/src/lib.rs", "//! A.\n#[cfg(test)]\nimpl Settings for Test {}\n"),
        ];
        assert_eq!(find(&files).into_iter().collect::<Vec<_>>(), ["plumb-http"]);
    }

    #[test]
    fn a_data_path_has_the_files_of_the_others() {
        let data_paths: BTreeSet<String> = ["plumb-http".to_owned()].into();
        let mut files: Vec<RustFile> = FILES
            .iter()
            .map(|name| sample(&format!("crates/paths/http/src/{name}.rs"), "//! A.\n"))
            .collect();
        assert_eq!(check_files(&files, &data_paths).len(), 0);
        files.remove(2);
        let found = check_files(&files, &data_paths);
        assert!(found.len() == 1 && found[0].what.contains("crates/paths/http/src/check.rs"), "{found:?}");
    }

    #[test]
    fn a_data_path_names_no_other() {
        let data_paths: BTreeSet<String> = ["plumb-http", "plumb-crypto"].map(str::to_owned).into();
        let uses = |name: &str, kind: Option<&str>| Package {
            name: "plumb-http".to_owned(),
            manifest_path: "Cargo.toml".into(),
            dependencies: vec![Dependency { name: name.to_owned(), kind: kind.map(str::to_owned) }],
            targets: Vec::new(),
        };
        let found = |package: &Package| -> Vec<usize> {
            lines(&check(package, "Cargo.toml", "[dependencies]\nplumb-crypto = {}\n", &data_paths))
        };
        assert_eq!(found(&uses("plumb-crypto", None)), [2]);
        assert_eq!(found(&uses("plumb-crypto", Some("dev"))), Vec::<usize>::new());
        assert_eq!(found(&uses("plumb-devices", None)), Vec::<usize>::new());
    }
}
