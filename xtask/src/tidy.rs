//! `cargo xtask tidy`: the house rules as a program.
//!
//! Each rule is a function from what it judges to the [`Violation`]s in it and knows nothing of the others; this
//! file only hands them their material. A rule that clippy has is clippy's (`clippy.toml` and the workspace's lints);
//! those here are about what clippy cannot see: edges between crates, lengths of files, headers, comments and links.

mod budget;
mod cycles;
mod data_paths;
mod doors;
mod edges;
mod leftovers;
mod length;
mod links;
mod manifests;
mod modules;
mod names;
mod prose;
mod quiet;
mod ratchet;
mod repeats;
mod rust_file;
mod text;
mod text_errors;
mod tokens;
mod unsafe_code;
mod violation;
mod words;

use crate::repository::Repository;
use crate::{Error, Outcome};
use rust_file::RustFile;
use std::io::Write;
use violation::Violation;

const RATCHET: &str = "xtask/ratchet.txt";

/// Judges the whole repository and prints every violation, then their number.
pub fn run(arguments: &[String]) -> Result<Outcome, Error> {
    if let Some(argument) = arguments.first() {
        return Err(Error::Usage(format!("`tidy` takes no argument, but there is `{argument}`")));
    }
    let repository = Repository::load()?;
    let mut found = judge(&repository)?;
    let exceptions = repository.texts.iter().find(|file| file.path == RATCHET);
    if let Some(file) = exceptions {
        found = ratchet::apply(file, found);
    }
    found.sort();
    report(&repository, &found)?;
    Ok(if found.is_empty() { Outcome::Clean } else { Outcome::Faulty })
}

fn judge(repository: &Repository) -> Result<Vec<Violation>, Error> {
    let mut found = Vec::new();
    let rust_files = rust_files(repository, &mut found);
    let places = links::Places::new(&repository.paths, &repository.texts);
    found.extend(links::check_contents(&repository.texts));
    for file in &repository.texts {
        found.extend(text::check(file));
        found.extend(leftovers::check(file));
        found.extend(prose::check(file));
        found.extend(prose::check_comments(file));
        found.extend(repeats::check(file));
        found.extend(links::check(file, &places));
    }
    for file in &rust_files {
        found.extend(length::check(file));
        found.extend(words::check(file));
        found.extend(names::check(file));
        found.extend(unsafe_code::check(file));
        found.extend(doors::check(file));
        found.extend(quiet::check(file));
        found.extend(text_errors::check(file));
    }
    let budget = repository.texts.iter().find(|file| file.path == budget::BUDGET);
    found.extend(budget::check(budget, repository.built("plumb-cli")?.len()));
    found.extend(cycles::check(&rust_files));
    let data_paths = data_paths::find(&rust_files);
    found.extend(data_paths::check_files(&rust_files, &data_paths));
    for package in &repository.packages {
        let path = repository.relative(&package.manifest_path);
        let text = repository.texts.iter().find(|file| file.path == path).map_or("", |file| &file.text);
        found.extend(manifests::check(&path, text));
        found.extend(edges::check_direct(package, &path, text));
        found.extend(edges::check_needed(package));
        found.extend(data_paths::check(package, &path, text, &data_paths));
        found.extend(edges::check_linked(&package.name, &path, &repository.linked(&package.name)?));
    }
    Ok(found)
}

/// Parses every Rust file, and says which of them are tests and which no target reaches.
fn rust_files(repository: &Repository, found: &mut Vec<Violation>) -> Vec<RustFile> {
    let mut files = Vec::new();
    for file in repository.texts.iter().filter(|file| file.path.ends_with(".rs")) {
        match RustFile::parse(file) {
            Ok(file) => files.push(file),
            Err(violation) => found.push(violation),
        }
    }
    let roots: Vec<String> = repository
        .packages
        .iter()
        .flat_map(|package| &package.targets)
        .map(|target| repository.relative(&target.src_path))
        .collect();
    let packages: Vec<String> =
        repository.packages.iter().map(|package| repository.relative(&package.manifest_path)).collect();
    let tree = modules::Tree::walk(&roots, &files);
    found.extend(tree.unreached(&files, &packages, &repository.paths));
    for file in &mut files {
        file.is_test |= tree.is_test(&file.path);
    }
    files
}

fn report(repository: &Repository, found: &[Violation]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    for violation in found {
        writeln!(out, "{violation}")?;
    }
    let files = repository.texts.len();
    match found.len() {
        0 => writeln!(out, "tidy: {files} files, no violation")?,
        1 => writeln!(out, "tidy: {files} files, 1 violation")?,
        many => writeln!(out, "tidy: {files} files, {many} violations")?,
    }
    Ok(())
}
