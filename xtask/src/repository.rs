//! What the repository holds, asked of git and cargo: the files, the packages, and what each package links.
//!
//! Git is asked for the files, not the file system, so that a build directory or a run's output is never judged
//! and an untracked new file is. Cargo is asked for the graph, so that features and targets are resolved by the
//! program that resolves them in the build.

#![expect(clippy::disallowed_types, reason = "xtask drives git and cargo and is not part of the product")]

use crate::Error;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file; `path` is relative to the repository's root, with `/` between its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextFile {
    pub path: String,
    pub text: String,
}

/// The repository as the rules see it.
pub struct Repository {
    pub root: PathBuf,
    /// Every file that is tracked or could be, as text or not, relative to the root.
    pub paths: BTreeSet<String>,
    /// Those among them that are UTF-8.
    pub texts: Vec<TextFile>,
    pub packages: Vec<Package>,
}

/// One package of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<Target>,
}

/// One line of a package's dependency tables; `kind` is `None` for a normal dependency.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    pub kind: Option<String>,
}

/// One library, binary, test, bench or build script.
#[derive(Debug, Deserialize)]
pub struct Target {
    pub src_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

impl Repository {
    /// Reads all of it, from wherever inside the repository the program was started.
    pub fn load() -> Result<Self, Error> {
        let root = PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?.trim());
        let listing = git(&root, &["ls-files", "--cached", "--others", "--exclude-standard", "-z"])?;
        let mut paths = BTreeSet::new();
        let mut texts = Vec::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // A file that is deleted but not yet committed as deleted is still listed.
            if !root.join(path).is_file() {
                continue;
            }
            paths.insert(path.to_owned());
            let bytes = std::fs::read(root.join(path))
                .map_err(|source| Error::Read { path: path.to_owned(), source })?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.push(TextFile { path: path.to_owned(), text });
            }
        }
        let packages = packages(&root)?;
        Ok(Self { root, paths, texts, packages })
    }

    /// An absolute path as the rules print it.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// The names of every package that `package` links, itself included, directly or through others. What runs
    /// at compile time only (procedural macros, build scripts) is not in it.
    pub fn linked(&self, package: &str) -> Result<BTreeSet<String>, Error> {
        let tree = self.tree(package, "normal,no-proc-macro", &[])?;
        Ok(tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// The names and versions of every package that a build of `package` compiles, itself included, with those that run at
    /// compile time only. Always for x86-64, so that the number does not depend on the machine.
    pub fn built(&self, package: &str) -> Result<BTreeSet<String>, Error> {
        let tree = self.tree(package, "normal,build", &["--target", "x86_64-unknown-linux-gnu"])?;
        let name_and_version = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        Ok(tree.lines().filter(|line| line.contains(" v")).map(name_and_version).collect())
    }

    fn tree(&self, package: &str, edges: &str, more: &[&str]) -> Result<String, Error> {
        let mut arguments = vec!["tree", "--package", package, "--edges", edges];
        arguments.extend(["--prefix", "none", "--format", "{p}"]);
        arguments.extend(more);
        output_of(&self.root, "cargo", &arguments)
    }
}

fn git(directory: &Path, arguments: &[&str]) -> Result<String, Error> {
    // A checkout may belong to another user, as one that is mounted into a container does, and git then refuses.
    // A user of this program already runs the checkout's code.
    let mut all = vec!["-c", "safe.directory=*"];
    all.extend(arguments);
    output_of(directory, "git", &all)
}

fn packages(root: &Path) -> Result<Vec<Package>, Error> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    let json = output_of(root, "cargo", &arguments)?;
    serde_json::from_str::<Metadata>(&json)
        .map(|metadata| metadata.packages)
        .map_err(|error| Error::Output { command: "cargo metadata".to_owned(), reason: error.to_string() })
}

fn output_of(directory: &Path, program: &str, arguments: &[&str]) -> Result<String, Error> {
    let command = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
        .map_err(|source| Error::Start { command: command(), source })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Run { command: command(), stderr });
    }
    String::from_utf8(output.stdout)
        .map_err(|error| Error::Output { command: command(), reason: error.to_string() })
}
