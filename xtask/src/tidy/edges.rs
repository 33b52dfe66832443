//! The edges between crates, and from crates to libraries: arrows point down only, and what computes knows no runtime, no
//! file format and no clock.
//!
//! The two tables are the only place that says so; `ARCHITECTURE.md` explains them. Dependencies of tests and
//! build scripts are free.

use super::manifests::line_of;
use super::violation::Violation;
use crate::repository::Package;
use std::collections::BTreeSet;

/// Which crates of this workspace a crate may look at: those that it does look at, and no more. A crate that is not here has
/// no place yet.
const MAY_USE: &[(&str, &[&str])] = &[
    ("plumb-model", &[]),
    ("plumb-stats", &[]),
    ("plumb-pace", &[]),
    ("plumb-background", &[]),
    ("plumb-judge", &["plumb-model", "plumb-stats"]),
    ("plumb-digest", &["plumb-model"]),
    ("plumb-host", &["plumb-digest"]),
    // Only tests link it, and dependencies of tests are free: so no row below names it.
    ("plumb-fuzz", &["plumb-host", "plumb-model"]),
    ("plumb-readers", &["plumb-model"]),
    ("plumb-path", &["plumb-model", "plumb-host", "plumb-pace", "plumb-readers"]),
    ("plumb-command", &["plumb-model", "plumb-stats", "plumb-host", "plumb-path", "plumb-readers"]),
    ("plumb-devices", &["plumb-host"]),
    ("plumb-crypto", &["plumb-model", "plumb-host", "plumb-path", "plumb-devices", "plumb-readers"]),
    ("plumb-h2", &[]),
    ("plumb-h3", &["plumb-h2"]),
    ("plumb-quic", &["plumb-model", "plumb-h3"]),
    ("plumb-ingress", &["plumb-model", "plumb-h2", "plumb-h3", "plumb-quic", "plumb-host", "plumb-devices"]),
    (
        "plumb-http",
        &[
            "plumb-model",
            "plumb-host",
            "plumb-pace",
            "plumb-path",
            "plumb-devices",
            "plumb-h2",
            "plumb-h3",
            "plumb-quic",
            "plumb-ingress",
        ],
    ),
    ("plumb-codec", &["plumb-model", "plumb-host"]),
    ("plumb-migration", &["plumb-model", "plumb-host", "plumb-path", "plumb-codec"]),
    ("plumb-volumes", &["plumb-host"]),
    ("plumb-ontap", &["plumb-background", "plumb-host", "plumb-volumes"]),
    ("plumb-csi", &["plumb-background", "plumb-host", "plumb-volumes"]),
    (
        "plumb-storage",
        &[
            "plumb-model",
            "plumb-stats",
            "plumb-host",
            "plumb-pace",
            "plumb-path",
            "plumb-readers",
            "plumb-volumes",
        ],
    ),
    ("plumb-network", &["plumb-model", "plumb-host", "plumb-pace", "plumb-readers", "plumb-path"]),
    ("plumb-tunings", &["plumb-model", "plumb-host"]),
    ("plumb-kubernetes", &["plumb-model", "plumb-host"]),
    ("plumb-store", &["plumb-model"]),
    ("plumb-history", &["plumb-digest", "plumb-model", "plumb-stats"]),
    ("plumb-report", &["plumb-digest", "plumb-model", "plumb-stats"]),
    ("plumb-export", &["plumb-model", "plumb-stats"]),
    ("plumb-experiment", &["plumb-model", "plumb-host", "plumb-path", "plumb-tunings"]),
    ("plumb-places", &["plumb-model", "plumb-host", "plumb-kubernetes", "plumb-path", "plumb-tunings"]),
    (
        "plumb-runner",
        &[
            "plumb-model",
            "plumb-experiment",
            "plumb-judge",
            "plumb-host",
            "plumb-places",
            "plumb-path",
            "plumb-stats",
            "plumb-store",
            "plumb-tunings",
        ],
    ),
    (
        "plumb-ui",
        &[
            "plumb-background",
            "plumb-model",
            "plumb-judge",
            "plumb-history",
            "plumb-host",
            "plumb-store",
            "plumb-report",
            "plumb-export",
        ],
    ),
    ("plumb-cli", LIBRARIES),
    ("plumb-benches", LIBRARIES),
    ("xtask", &[]),
];

/// Every crate that is not a program: what programs may use.
const LIBRARIES: &[&str] = &[
    "plumb-model",
    "plumb-stats",
    "plumb-judge",
    "plumb-pace",
    "plumb-background",
    "plumb-host",
    "plumb-path",
    "plumb-command",
    "plumb-crypto",
    "plumb-devices",
    "plumb-digest",
    "plumb-h2",
    "plumb-h3",
    "plumb-quic",
    "plumb-ingress",
    "plumb-http",
    "plumb-codec",
    "plumb-migration",
    "plumb-volumes",
    "plumb-ontap",
    "plumb-csi",
    "plumb-storage",
    "plumb-network",
    "plumb-tunings",
    "plumb-kubernetes",
    "plumb-readers",
    "plumb-store",
    "plumb-history",
    "plumb-report",
    "plumb-export",
    "plumb-experiment",
    "plumb-places",
    "plumb-runner",
    "plumb-ui",
];

/// Libraries that some crates must not link, neither themselves nor through others.
struct Ban {
    /// Names; one that ends in `*` stands for every name that begins so.
    libraries: &'static [&'static str],
    /// The crates that must do without, named in the same way.
    crates: &'static [&'static str],
    /// How far the ban reaches.
    reach: Reach,
    reason: &'static str,
}

#[derive(PartialEq)]
enum Reach {
    /// Whatever the crate links.
    Linked,
    /// What the crate's own manifest names. For libraries that another one brings along and the crate never sees.
    Named,
}

/// The crates that compute: slices and values in, numbers and values out.
const COMPUTES: &[&str] = &["plumb-model", "plumb-stats", "plumb-pace", "plumb-judge"];

/// Whatever measures, serves what is measured, or decides about it: all but the REST interface, the page, the CSI driver, the history
/// and the program around them.
const MEASURES: &[&str] = &[
    "plumb-model",
    "plumb-stats",
    "plumb-judge",
    "plumb-pace",
    "plumb-digest",
    "plumb-host",
    "plumb-path",
    "plumb-experiment",
    "plumb-readers",
    "plumb-tunings",
    "plumb-command",
    "plumb-crypto",
    "plumb-devices",
    "plumb-h2",
    "plumb-h3",
    "plumb-quic",
    "plumb-ingress",
    "plumb-http",
    "plumb-codec",
    "plumb-migration",
    "plumb-network",
    "plumb-volumes",
    "plumb-storage",
    "plumb-store",
    "plumb-report",
    "plumb-export",
    "plumb-fuzz",
    "xtask",
];

const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "async-executor", "mio"];

const BANS: &[Ban] = &[
    Ban {
        libraries: RUNTIMES,
        crates: MEASURES,
        reach: Reach::Linked,
        reason: "load generators and systems are plain event loops and threads, without an async runtime",
    },
    Ban {
        libraries: RUNTIMES,
        // They link those of the REST interface, the page, the CSI driver, the cluster's client and Postgres' client, and have no use
        // for one themselves.
        crates: &["plumb-history", "plumb-places", "plumb-runner", "plumb-cli", "plumb-benches"],
        reach: Reach::Named,
        reason: "only `plumb-background`, `plumb-ontap`, `plumb-ui`, `plumb-csi` and `plumb-kubernetes` have an async runtime",
    },
    Ban {
        libraries: &[
            "libc",
            "rustix",
            "nix",
            "linux-raw-sys",
            "socket2",
            "openssl*",
            "aws-lc*",
            "ring",
            "rustls*",
        ],
        crates: COMPUTES,
        reach: Reach::Linked,
        reason: "it computes and does no I/O",
    },
    Ban {
        libraries: &["getrandom", "chrono", "time"],
        crates: COMPUTES,
        reach: Reach::Linked,
        reason: "time and randomness are given to it, so that every result can be computed again",
    },
    Ban {
        libraries: &["saphyr*", "serde_yaml*", "serde-saphyr", "toml*", "csv*", "ciborium", "bincode"],
        crates: COMPUTES,
        reach: Reach::Linked,
        reason: "the in-memory type is not the file format: `store` and `experiment` convert",
    },
    Ban {
        libraries: &["serde_json"],
        crates: COMPUTES,
        // schemars, which describes the model's types, holds its schemas as JSON values.
        reach: Reach::Named,
        reason: "the in-memory type is not the file format: `store` converts",
    },
];

/// Judges what a package's own manifest names.
pub fn check_direct(package: &Package, path: &str, manifest: &str) -> Vec<Violation> {
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == package.name) else {
        let what = format!(
            "`{}` has no place among the crates; give it a row in xtask/src/tidy/edges.rs",
            package.name
        );
        return vec![Violation::new(path, 1, what)];
    };
    let mut found = Vec::new();
    for dependency in package.dependencies.iter().filter(|dependency| dependency.kind.is_none()) {
        let name = dependency.name.as_str();
        let line = line_of(manifest, name);
        if is_ours(name) && !allowed.contains(&name) {
            let what = format!("`{}` must not know `{name}`; it may use {}", package.name, list(allowed));
            found.push(Violation::new(path, line, what));
        }
        if let Some(ban) = ban(&package.name, name, Reach::Named) {
            let what = format!("`{}` must not use `{name}`: {}", package.name, ban.reason);
            found.push(Violation::new(path, line, what));
        }
    }
    found
}

/// Judges what the table lets a package use and its manifest does not name: an edge that nobody needs is not a decision that
/// anybody made. Programs may use every library.
pub fn check_needed(package: &Package) -> Vec<Violation> {
    let rows = MAY_USE.iter().filter(|(name, allowed)| *name == package.name && *allowed != LIBRARIES);
    let is_named = |name: &str| package.dependencies.iter().any(|it| it.kind.is_none() && it.name == name);
    let unneeded = rows.flat_map(|(_, allowed)| *allowed).filter(|name| !is_named(name));
    let words = |name: &&str| {
        let what = format!("`{}` may use `{name}` and does not; take it out of its row", package.name);
        Violation::new("xtask/src/tidy/edges.rs", 1, what)
    };
    unneeded.map(words).collect()
}

/// Judges what a package links, given the names of everything that it does.
pub fn check_linked(package: &str, path: &str, linked: &BTreeSet<String>) -> Vec<Violation> {
    let banned = |library: &String| {
        let ban = ban(package, library, Reach::Linked)?;
        let what = format!(
            "`{package}` must not link `{library}`: {}; `cargo tree --edges normal --package {package} --invert {library}` \
             shows through what it does",
            ban.reason
        );
        Some(Violation::new(path, 1, what))
    };
    linked.iter().filter_map(banned).collect()
}

fn ban(package: &str, library: &str, reach: Reach) -> Option<&'static Ban> {
    BANS.iter()
        .find(|ban| ban.reach == reach && is_one_of(package, ban.crates) && is_one_of(library, ban.libraries))
}

fn is_one_of(name: &str, patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *pattern,
    })
}

fn is_ours(name: &str) -> bool {
    name.starts_with("plumb-") || name == "xtask"
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        return "no crate of the workspace".to_owned();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::violation::lines;
    use super::*;
    use crate::repository::Dependency;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: (*name).to_owned(), kind: kind.map(str::to_owned) })
            .collect();
        Package {
            name: name.to_owned(),
            manifest_path: "Cargo.toml".into(),
            dependencies,
            targets: Vec::new(),
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn arrows_point_down_only() {
        let manifest = "[dependencies]\nplumb-model = {}\nplumb-runner = {}\n";
        let up = package("plumb-path", &[("plumb-model", None), ("plumb-runner", None)]);
        assert_eq!(lines(&check_direct(&up, "Cargo.toml", manifest)), [3]);
        let down = package("plumb-path", &[("plumb-model", None), ("serde", None)]);
        assert_eq!(check_direct(&down, "Cargo.toml", manifest), []);
    }

    #[test]
    fn an_edge_that_nobody_needs_is_not_in_the_table() {
        let both = package("plumb-judge", &[("plumb-model", None), ("plumb-stats", None)]);
        assert_eq!(check_needed(&both), []);
        let one = package("plumb-judge", &[("plumb-model", None), ("plumb-stats", Some("dev"))]);
        let found = check_needed(&one);
        assert!(found.len() == 1 && found[0].what.contains("`plumb-stats`"), "{found:?}");
        assert_eq!(check_needed(&package("plumb-cli", &[])), []);
    }

    #[test]
    fn tests_may_look_anywhere() {
        let package = package("plumb-model", &[("plumb-stats", Some("dev")), ("serde_json", Some("dev"))]);
        assert_eq!(check_direct(&package, "Cargo.toml", ""), []);
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        assert_eq!(check_direct(&package("plumb-new", &[]), "Cargo.toml", "").len(), 1);
    }

    #[test]
    fn what_computes_links_nothing_that_reaches_outside() {
        let linked = names(&["plumb-model", "serde", "serde_json", "saphyr-parser", "libc", "tokio"]);
        let found: Vec<String> = check_linked("plumb-model", "Cargo.toml", &linked)
            .into_iter()
            .map(|violation| violation.what)
            .collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("`libc`")
                && found[1].contains("`saphyr-parser`")
                && found[2].contains("`tokio`")
        );
        assert_eq!(check_linked("plumb-runner", "Cargo.toml", &names(&["libc", "saphyr-parser"])), []);
        assert_eq!(check_direct(&package("plumb-model", &[("serde_json", None)]), "Cargo.toml", "").len(), 1);
    }

    #[test]
    fn the_table_has_no_cycle_and_names_only_crates_that_it_has() {
        // Rows stand below what they use, so a cycle cannot be written.
        for (at, (name, allowed)) in MAY_USE.iter().enumerate() {
            for used in *allowed {
                let found = MAY_USE[..at].iter().any(|(earlier, _)| earlier == used);
                assert!(found, "`{name}` uses `{used}`, which has no row above it");
            }
        }
    }

    #[test]
    fn no_crate_that_measures_links_a_runtime() {
        let free = [
            "plumb-background",
            "plumb-ontap",
            "plumb-csi",
            "plumb-kubernetes",
            "plumb-history",
            "plumb-places",
            "plumb-runner",
            "plumb-ui",
            "plumb-cli",
            "plumb-benches",
        ];
        for (name, _) in MAY_USE {
            let is_banned = !check_linked(name, "Cargo.toml", &names(&["tokio"])).is_empty();
            assert_eq!(is_banned, !free.contains(name), "{name}");
        }
    }
}
