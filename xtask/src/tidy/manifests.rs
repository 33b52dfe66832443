//! Every crate takes the workspace's lints; a crate that forgets to is judged by none.

use super::violation::Violation;

pub fn check(path: &str, manifest: &str) -> Option<Violation> {
    let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]");
    lines.next();
    let takes_them = lines.take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true");
    let what = "the crate does not take the workspace's lints; add `[lints]` with `workspace = true`";
    (!takes_them).then(|| Violation::new(path, 1, what))
}

/// The line that a manifest names this dependency on; 1 where it is found nowhere, as for a renamed one.
pub fn line_of(manifest: &str, dependency: &str) -> usize {
    let names_it = |line: &str| {
        let rest = line.trim_start().strip_prefix(dependency);
        rest.is_some_and(|rest| rest.starts_with([' ', '=', '.']))
    };
    manifest.lines().position(names_it).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lints_are_the_workspaces() {
        assert_eq!(check("a", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), None);
        for manifest in ["[package]\nname = \"a\"\n", "[lints]\n[dependencies]\nworkspace = true\n"] {
            assert_eq!(check("a", manifest).map(|violation| violation.line), Some(1), "{manifest}");
        }
    }

    #[test]
    fn a_dependency_is_found_by_its_whole_name() {
        let manifest =
            "[dependencies]\nserde_json = \"1\"\nserde = { workspace = true }\nlibc.workspace = true\n";
        let found = ["serde", "serde_json", "libc", "nix"].map(|name| line_of(manifest, name));
        assert_eq!(found, [3, 2, 4, 1]);
    }
}
