//! Which file is a module of which: to know the files that are tests only, and those that nothing compiles.
//!
//! The compiler is silent about a file that no `mod` names, so such files rot unseen.

use super::rust_file::{RustFile, is_cfg_test};
use super::tokens;
use super::violation::Violation;
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::Item;

/// Every file that some target reaches; the value says whether tests alone do.
pub struct Tree {
    reached: BTreeMap<String, bool>,
}

/// A module declaration that leaves its text to another file.
struct Child {
    /// The paths that the compiler looks at, one of which exists.
    candidates: Vec<String>,
    is_test: bool,
}

impl Tree {
    /// Follows `mod` declarations and `include!`s from the roots, which are the targets' first files.
    pub fn walk(roots: &[String], files: &[RustFile]) -> Self {
        let by_path: BTreeMap<&str, &RustFile> =
            files.iter().map(|file| (file.path.as_str(), file)).collect();
        let mut reached = BTreeMap::new();
        let mut waiting: Vec<(String, bool, bool)> =
            roots.iter().map(|root| (root.clone(), true, false)).collect();
        while let Some((path, is_root, is_test)) = waiting.pop() {
            let Some(file) = by_path.get(path.as_str()) else { continue };
            // A file that was seen as a test is seen again where the product reaches it too.
            if reached.get(&path).is_some_and(|seen_as_test| !seen_as_test || is_test) {
                continue;
            }
            reached.insert(path.clone(), is_test);
            for child in children(file, is_root) {
                let found =
                    child.candidates.iter().find(|candidate| by_path.contains_key(candidate.as_str()));
                waiting.extend(found.map(|found| (found.clone(), false, is_test || child.is_test)));
            }
        }
        Self { reached }
    }

    /// Whether the file is reached, and by tests alone.
    pub fn is_test(&self, path: &str) -> bool {
        self.reached.get(path).copied().unwrap_or(false)
    }

    /// The files of the workspace that no target reaches. Packages outside of the workspace have their own trees.
    pub fn unreached(
        &self,
        files: &[RustFile],
        workspace_manifests: &[String],
        paths: &BTreeSet<String>,
    ) -> Vec<Violation> {
        let what = "no `mod` and no target names this file, so nothing compiles it; name it or remove it";
        files
            .iter()
            .filter(|file| !self.reached.contains_key(&file.path))
            .filter(|file| {
                let manifest = nearest_manifest(&file.path, paths);
                manifest.is_none_or(|manifest| {
                    manifest == "Cargo.toml" || workspace_manifests.contains(&manifest)
                })
            })
            .map(|file| Violation::new(&file.path, 1, what))
            .collect()
    }
}

fn nearest_manifest(path: &str, paths: &BTreeSet<String>) -> Option<String> {
    let mut directory = parent(path);
    loop {
        let manifest = join(directory, "Cargo.toml");
        if paths.contains(&manifest) {
            return Some(manifest);
        }
        if directory.is_empty() {
            return None;
        }
        directory = parent(directory);
    }
}

fn children(file: &RustFile, is_root: bool) -> Vec<Child> {
    let directory = parent(&file.path);
    let stem = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or_default();
    let own = if is_root || stem == "mod" { directory.to_owned() } else { join(directory, stem) };
    let mut children = Vec::new();
    declared(&file.syntax.items, directory, &own, false, &mut children);
    tokens::each_tail(&file.tokens, &mut |tail| {
        if let Some(included) = included(tail) {
            children.push(Child { candidates: vec![join(directory, &included)], is_test: false });
        }
    });
    children
}

/// Modules declared in `items`. `beside` is where a `#[path]` starts from, `own` where the others are looked for.
fn declared(items: &[Item], beside: &str, own: &str, in_test: bool, children: &mut Vec<Child>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let is_test = in_test || module.attrs.iter().any(is_cfg_test);
        let name = module.ident.to_string();
        let below = join(own, name.trim_start_matches("r#"));
        if let Some((_, items)) = &module.content {
            declared(items, &below, &below, is_test, children);
            continue;
        }
        let candidates = match module.attrs.iter().find_map(path_attribute) {
            Some(path) => vec![join(beside, &path)],
            None => vec![format!("{below}.rs"), format!("{below}/mod.rs")],
        };
        children.push(Child { candidates, is_test });
    }
}

fn path_attribute(attribute: &syn::Attribute) -> Option<String> {
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) = &pair.value else { return None };
    pair.path.is_ident("path").then(|| path.value())
}

/// The argument of `include!("…")`, where `tail` begins with one.
fn included(tail: &[TokenTree]) -> Option<String> {
    let [name, bang, arguments, ..] = tail else { return None };
    if !tokens::is_ident(name, "include") || !tokens::is_punct(bang, '!') {
        return None;
    }
    let arguments = tokens::group(arguments, Delimiter::Parenthesis)?.stream();
    syn::parse2::<syn::LitStr>(arguments).ok().map(|path| path.value())
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// `directory/path` with its `.` and `..` taken out.
pub fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // One that leads out of the repository is kept, so that it is not found.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::*;

    fn walk(root: &str, files: &[RustFile]) -> Tree {
        Tree::walk(&[root.to_owned()], files)
    }

    fn unreached(tree: &Tree, files: &[RustFile], other: &[&str]) -> Vec<String> {
        let mut paths: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
        paths.extend(["Cargo.toml".to_owned(), "crates/a/Cargo.toml".to_owned()]);
        paths.extend(other.iter().map(|path| (*path).to_owned()));
        let found = tree.unreached(files, &["crates/a/Cargo.toml".to_owned()], &paths);
        found.into_iter().map(|violation| violation.path).collect()
    }

    #[test]
    fn a_file_that_no_module_names_is_dead() {
        let files = [
            sample("crates/a/src/lib.rs", "mod b;\nmod c { mod d; }\n#[path = \"x/y.rs\"]\nmod e;\n"),
            sample("crates/a/src/b.rs", "mod f;\ninclude!(\"../table.rs\");\n"),
            sample("crates/a/src/b/f.rs", ""),
            sample("crates/a/src/c/d/mod.rs", ""),
            sample("crates/a/src/x/y.rs", ""),
            sample("crates/a/table.rs", "const A: u8 = 0;"),
        ];
        assert_eq!(unreached(&walk("crates/a/src/lib.rs", &files), &files, &[]), [""; 0]);
        let dead = sample("crates/a/src/f.rs", "");
        let files: Vec<RustFile> = files.into_iter().chain([dead]).collect();
        assert_eq!(unreached(&walk("crates/a/src/lib.rs", &files), &files, &[]), ["crates/a/src/f.rs"]);
    }

    #[test]
    fn a_package_outside_of_the_workspace_has_its_own_tree() {
        let files = [sample("crates/a/src/lib.rs", ""), sample("fuzz/fuzz_targets/b.rs", "")];
        let tree = walk("crates/a/src/lib.rs", &files);
        assert_eq!(unreached(&tree, &files, &["fuzz/Cargo.toml"]), [""; 0]);
        assert_eq!(unreached(&tree, &files, &[]), ["fuzz/fuzz_targets/b.rs"]);
    }

    #[test]
    fn a_file_that_only_tests_reach_is_a_test() {
        let files = [
            sample(
                "crates/a/src/lib.rs",
                "#[cfg(test)]\nmod tests;\nmod b;\n#[cfg(test)]\n#[path = \"b.rs\"]\nmod c;\n",
            ),
            sample("crates/a/src/tests.rs", "mod samples;\n"),
            sample("crates/a/src/tests/samples.rs", ""),
            sample("crates/a/src/b.rs", ""),
        ];
        let tree = walk("crates/a/src/lib.rs", &files);
        let tests: Vec<bool> = files.iter().map(|file| tree.is_test(&file.path)).collect();
        assert_eq!(tests, [false, true, true, false]);
    }

    #[test]
    fn paths_are_joined_and_normalised() {
        assert_eq!(join("a/b", "../c/./d.rs"), "a/c/d.rs");
        assert_eq!(join("", "a"), "a");
        assert_eq!(join("a", "../../b"), "../b");
    }
}
