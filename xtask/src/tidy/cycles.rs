//! Files and folders of a crate do not import each other in a circle: each can then be read after those that it uses.
//!
//! A file imports another where it names something that the other defines: `crate::`, `super::` and `self::` are followed
//! through modules and re-exports to the definition. Declaring a module and handing on its names (`mod`, `pub use`) is not an
//! import, and neither is anything in a test.
//!
//! A module with the folder of its children is one room for everything outside it. Inside, its own file is one of the rooms.

use super::rust_file::RustFile;
use super::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};
use syn::Item;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// How many re-exports a name may go through.
const REEXPORTS: usize = 8;

/// The circles that stay: the file under which each is reported, and why it stays.
const EXPLAINED: [(&str, &str); 0] = [];

pub fn check(files: &[RustFile]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&RustFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test) {
        if let Some(name) = file.crate_directory() {
            crates.entry(name).or_default().push(file);
        }
    }
    crates.values().flat_map(|files| circles(files)).filter(|found| !is_explained(found)).collect()
}

fn is_explained(found: &Violation) -> bool {
    EXPLAINED.iter().any(|(path, _)| *path == found.path)
}

/// A room as another sees it: the module that both are in, and the child there. Without a child, it is that module's own file.
type Room<'a> = (&'a [String], Option<&'a String>);

/// The imports of rooms by others, each with the two files of one such import.
type Doors<'a> = BTreeMap<Room<'a>, BTreeMap<Room<'a>, (usize, usize)>>;

fn circles(files: &[&RustFile]) -> Vec<Violation> {
    let house = House::from_files(files);
    let modules: Vec<ModulePath> =
        files.iter().map(|file| module_path(&file.path).unwrap_or_default()).collect();
    let mut doors = Doors::new();
    for from in 0..files.len() {
        for to in house.imports(from) {
            let (near, far) = rooms(&modules[from], &modules[to]);
            doors.entry(near).or_default().entry(far).or_insert((from, to));
        }
    }
    let reach: BTreeMap<Room<'_>, BTreeSet<Room<'_>>> =
        doors.keys().map(|room| (*room, reached(*room, &doors))).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (room, others) in &reach {
        if others.contains(room) && seen.insert(*room) {
            let is_both_ways = |other: &&Room<'_>| reach.get(*other).is_some_and(|back| back.contains(room));
            let members: BTreeSet<Room<'_>> = others.iter().filter(is_both_ways).copied().collect();
            seen.extend(&members);
            found.push(violation(files, &doors, &members));
        }
    }
    found
}

/// The rooms in which two files are, seen from the module that both are in.
fn rooms<'a>(from: &'a [String], to: &'a [String]) -> (Room<'a>, Room<'a>) {
    let shared = from.iter().zip(to).take_while(|(one, two)| one == two).count();
    ((&from[..shared], from.get(shared)), (&to[..shared], to.get(shared)))
}

fn violation(files: &[&RustFile], doors: &Doors<'_>, members: &BTreeSet<Room<'_>>) -> Violation {
    let inside = |from| doors[from].iter().filter(|(to, _)| members.contains(*to)).map(|(_, files)| *files);
    let imports: Vec<(usize, usize)> = members.iter().flat_map(inside).collect();
    let arrow = |(from, to): &(usize, usize)| format!("\n    {} -> {}", files[*from].path, files[*to].path);
    let what = format!(
        "{} files or folders import each other in a circle; move what both need to a file below them:{}",
        members.len(),
        imports.iter().map(arrow).collect::<String>()
    );
    Violation::new(&files[imports[0].0].path, 1, what)
}

/// Every room that can be reached from one by an import or more.
fn reached<'a>(from: Room<'a>, doors: &Doors<'a>) -> BTreeSet<Room<'a>> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        let next = doors.get(&at).into_iter().flat_map(BTreeMap::keys);
        waiting.extend(next.filter(|room| reached.insert(**room)));
    }
    reached
}

type ModulePath = Vec<String>;

/// A module: the file that has its text, and its names.
#[derive(Default)]
struct Module {
    file: usize,
    items: BTreeSet<String>,
    /// What `use` brings in, by the name that it has here.
    aliases: BTreeMap<String, Vec<String>>,
    /// The paths that `use …::*` names.
    globs: Vec<Vec<String>>,
}

/// A crate's modules.
struct House<'a> {
    files: &'a [&'a RustFile],
    modules: BTreeMap<ModulePath, Module>,
}

impl<'a> House<'a> {
    fn from_files(files: &'a [&'a RustFile]) -> Self {
        let mut house = Self { files, modules: BTreeMap::new() };
        for (at, file) in files.iter().enumerate() {
            if let Some(path) = module_path(&file.path) {
                house.add(at, path, &file.syntax.items);
            }
        }
        house
    }

    fn add(&mut self, file: usize, path: ModulePath, items: &[Item]) {
        let mut module = Module { file, ..Module::default() };
        for item in items {
            if self.files[file].in_test(item.span().start().line) {
                continue;
            }
            match item {
                Item::Use(item) => {
                    each_use(&item.tree, &mut Vec::new(), &mut |full, name| match name {
                        Some(name) => drop(module.aliases.insert(name, full)),
                        None => module.globs.push(full),
                    });
                }
                Item::Mod(item) => {
                    if let Some((_, items)) = &item.content {
                        let inner = path.iter().cloned().chain([item.ident.to_string()]).collect();
                        self.add(file, inner, items);
                    }
                }
                item => module.items.extend(defined(item)),
            }
        }
        self.modules.insert(path, module);
    }

    /// The files whose definitions a file names.
    fn imports(&self, file: usize) -> BTreeSet<usize> {
        let Some(module) = module_path(&self.files[file].path) else { return BTreeSet::new() };
        let mut names = Names { file: self.files[file], module, found: Vec::new() };
        names.visit_file(&self.files[file].syntax);
        let defined =
            names.found.iter().filter_map(|(module, path)| self.definition(module, path, REEXPORTS));
        defined.filter(|other| *other != file).collect()
    }

    /// The file that defines what `path` names, as seen from a module.
    fn definition(&self, module: &[String], path: &[String], depth: usize) -> Option<usize> {
        let (mut at, mut rest) = self.start(module, path)?;
        loop {
            let (name, later) = rest.split_first()?;
            let child: ModulePath = at.iter().cloned().chain([name.clone()]).collect();
            if !later.is_empty() && self.modules.contains_key(&child) {
                (at, rest) = (child, later);
                continue;
            }
            let here = self.modules.get(&at)?;
            if here.items.contains(name) {
                return Some(here.file);
            }
            let depth = depth.checked_sub(1)?;
            if let Some(alias) = here.aliases.get(name) {
                let full: Vec<String> = alias.iter().chain(later).cloned().collect();
                return self.definition(&at, &full, depth);
            }
            return here.globs.iter().find_map(|glob| {
                let full: Vec<String> = glob.iter().chain(rest).cloned().collect();
                self.definition(&at, &full, depth)
            });
        }
    }

    /// The module at which the search for a path begins, and what is left of the path; `None` for another crate's.
    fn start<'p>(&self, module: &[String], path: &'p [String]) -> Option<(ModulePath, &'p [String])> {
        let (first, rest) = path.split_first()?;
        let mut at = module.to_vec();
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((at, rest)),
            "super" => {
                at.pop();
                let mut rest = rest;
                while let Some(later) = rest.strip_prefix(&["super".to_owned()]) {
                    at.pop();
                    rest = later;
                }
                Some((at, rest))
            }
            name => {
                let here = self.modules.get(&at)?;
                let child: ModulePath = at.iter().cloned().chain([name.to_owned()]).collect();
                let is_here = self.modules.contains_key(&child)
                    || here.items.contains(name)
                    || here.aliases.get(name).is_some_and(|alias| alias.first() != Some(first));
                is_here.then_some((at, path))
            }
        }
    }
}

/// The module that a file of a crate is: `crates/a/src/b/c.rs` is `b::c`. `None` for what is not in `src`.
fn module_path(path: &str) -> Option<ModulePath> {
    let inner = path.strip_prefix("crates/")?.split_once("/src/")?.1.strip_suffix(".rs")?;
    let mut parts: ModulePath = inner.split('/').map(str::to_owned).collect();
    let is_root = parts.len() == 1 && matches!(parts[0].as_str(), "lib" | "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    Some(parts)
}

/// Calls `each` with every full path of a `use` and the name it has then; `None` for `*`.
fn each_use(
    tree: &syn::UseTree,
    before: &mut Vec<String>,
    each: &mut dyn FnMut(Vec<String>, Option<String>),
) {
    let full = |before: &[String], ident: &syn::Ident| -> Vec<String> {
        let ident = (ident != "self").then(|| ident.to_string());
        before.iter().cloned().chain(ident).collect()
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            each_use(&path.tree, before, each);
            before.pop();
        }
        syn::UseTree::Name(name) => {
            let full = full(before, &name.ident);
            let last = full.last().cloned();
            each(full, last);
        }
        syn::UseTree::Rename(name) => each(full(before, &name.ident), Some(name.rename.to_string())),
        syn::UseTree::Glob(_) => each(before.clone(), None),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| each_use(tree, before, each)),
    }
}

/// The name that an item defines for others to use.
fn defined(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Collects the paths that a file names, each with the module it stands in.
struct Names<'a> {
    file: &'a RustFile,
    module: ModulePath,
    found: Vec<(ModulePath, Vec<String>)>,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !self.file.in_test(item.span().start().line) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.file.in_test(item.span().start().line) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) {
            let (found, module) = (&mut self.found, &self.module);
            each_use(&item.tree, &mut Vec::new(), &mut |full, _| found.push((module.clone(), full)));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.found.push((self.module.clone(), names));
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<RustFile> =
            files.iter().map(|(path, text)| sample(&format!("crates/a/src/{path}"), text)).collect();
        check(&files).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn files_that_name_each_other_are_a_circle() {
        let circle = found(&[
            ("b.rs", "use crate::c::C;\npub struct B(C);\n"),
            ("c.rs", "pub struct C;\nfn c() { super::b::B; }\n"),
            ("d.rs", "use crate::b::B;\n"),
        ]);
        assert_eq!(circle.len(), 1, "{circle:?}");
        assert!(
            circle[0].starts_with("2 files or folders")
                && circle[0].contains("src/c.rs -> crates/a/src/b.rs"),
            "{circle:?}"
        );
    }

    #[test]
    fn a_folder_is_one_room() {
        let folders = [
            ("b/mod.rs", "pub mod c;\npub mod d;\n"),
            ("b/c.rs", "use crate::e::f::F;\n"),
            ("b/d.rs", "pub struct D;\n"),
            ("e/mod.rs", "pub mod f;\npub mod g;\n"),
            ("e/f.rs", "pub struct F;\n"),
            ("e/g.rs", "use crate::b::d::D;\n"),
        ];
        let circle = found(&folders);
        assert_eq!(circle.len(), 1, "{circle:?}");
        assert!(circle[0].contains("b/c.rs -> crates/a/src/e/f.rs"), "{circle:?}");
        assert_eq!(found(&folders[..5]), [""; 0]);
    }

    #[test]
    fn a_name_is_followed_to_its_definition() {
        let through_the_root = found(&[
            ("lib.rs", "mod b;\nmod c;\npub use b::{B, helper as other};\n"),
            ("b.rs", "pub struct B;\npub fn helper() { crate::c::c(); }\n"),
            ("c.rs", "use crate::other;\npub fn c() {}\n"),
        ]);
        assert_eq!(through_the_root.len(), 1, "{through_the_root:?}");
        let of_a_module = found(&[
            ("b/mod.rs", "mod c;\npub struct B;\nfn b() { c::c(); }\n"),
            ("b/c.rs", "use crate::b;\npub fn c(_: b::B) {}\n"),
        ]);
        assert_eq!(of_a_module.len(), 1, "{of_a_module:?}");
    }

    #[test]
    fn handing_names_on_and_tests_are_not_imports() {
        assert_eq!(
            found(&[
                ("lib.rs", "mod b;\npub use b::B;\npub struct Root;\n"),
                (
                    "b.rs",
                    "use crate::Root;\npub struct B(Root);\n#[cfg(test)]\nmod tests { use crate::c::C; }\n"
                ),
                ("c.rs", "use crate::B;\nuse std::c::C;\npub struct C;\n"),
            ]),
            [""; 0]
        );
    }
}
