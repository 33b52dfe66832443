//! Rules on plain text: a header in every Rust file, spaces only, and no trace of where the text was written.

use super::violation::Violation;
use crate::repository::TextFile;

/// The directory that a checkout may lie in on some machine; no file of the project may depend on one.
const WORKPLACE: &str = concat!("/wo", "rk/");

pub fn check(file: &TextFile) -> Vec<Violation> {
    let mut found = workplace(file);
    if file.path.ends_with(".rs") {
        found.extend(header(file));
        found.extend(white_space(file));
    }
    found
}

fn header(file: &TextFile) -> Option<Violation> {
    let first = file.text.lines().next().unwrap_or("");
    let says_something = first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty());
    let what = "the file does not open with `//!`; say in the first line what it is for";
    (!says_something).then(|| Violation::new(&file.path, 1, what))
}

fn white_space(file: &TextFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        if line.contains('\t') {
            found.push(Violation::new(
                &file.path,
                at + 1,
                "a tab; indent with spaces, write `\\t` in a literal",
            ));
        }
        if line.ends_with(char::is_whitespace) {
            found.push(Violation::new(&file.path, at + 1, "white space at the end of the line; remove it"));
        }
    }
    found
}

fn workplace(file: &TextFile) -> Vec<Violation> {
    let names_it = |line: &str| {
        line.match_indices(WORKPLACE).any(|(at, _)| {
            // A directory of that name within another one is none of ours: its path goes on to the left.
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "_-.~".contains(c))
        })
    };
    let what =
        format!("a path in `{WORKPLACE}` exists on one machine only; name a path relative to the repository");
    file.text
        .lines()
        .enumerate()
        .filter(|(_, line)| names_it(line))
        .map(|(at, _)| Violation::new(&file.path, at + 1, what.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::violation::{NONE, lines};
    use super::*;

    fn check_text(path: &str, text: &str) -> Vec<usize> {
        lines(&check(&TextFile { path: path.to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn a_rust_file_opens_with_what_it_is_for() {
        assert_eq!(check_text("a.rs", "//! What it is for.\n"), NONE);
        for text in ["", "//!\n//! Late.\n", "// No.\n", "\n//! Late.\n", "fn a() {}\n"] {
            assert_eq!(check_text("a.rs", text), [1], "{text:?}");
        }
        assert_eq!(check_text("a.sh", "set -e\n"), NONE);
    }

    #[test]
    fn white_space_is_single_spaces_inside_lines() {
        assert_eq!(check_text("a.rs", "//! A.\nfn a() {}\n"), NONE);
        assert_eq!(check_text("a.rs", "//! A.\n\tfn a() {}\nfn b() {} \n"), [2, 3]);
        assert_eq!(check_text("Makefile", "all:\n\ttrue \n"), NONE);
    }

    #[test]
    fn the_workplace_is_not_named() {
        assert_eq!(check_text("a.md", &format!("see\n`{WORKPLACE}main`\n")), [2]);
        assert_eq!(check_text("a.sh", &format!("cd {WORKPLACE}\n")), [1]);
        assert_eq!(check_text("a.md", &format!("/usr/src{WORKPLACE} and ./my{WORKPLACE}\n")), NONE);
    }
}
