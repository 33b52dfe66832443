//! Every link in a Markdown file to a file of the repository leads to one.
//!
//! Links to the web are left alone: whether they answer is not ours to decide. Code, fenced or quoted, has no links.

use super::modules::join;
use super::violation::Violation;
use crate::repository::TextFile;
use std::collections::BTreeSet;

/// `paths` are all files of the repository, relative to its root.
pub fn check(file: &TextFile, paths: &BTreeSet<String>) -> Vec<Violation> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    let directory = file.path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut found = Vec::new();
    let mut fence = None;
    for (at, line) in file.text.lines().enumerate() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let broken = targets(&without_code(line))
                    .into_iter()
                    .filter(|target| !resolves(target, directory, paths));
                found.extend(broken.map(|target| {
                    let what = format!(
                        "the link to `{target}` leads to no file of the repository; correct or remove it"
                    );
                    Violation::new(&file.path, at + 1, what)
                }));
            }
        }
    }
    found
}

/// The line with every quoted piece of code taken out. As many backticks close a piece as opened it.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let ticks: String = rest[at..].chars().take_while(|c| *c == '`').collect();
        kept.push_str(&rest[..at]);
        rest = &rest[at + ticks.len()..];
        if let Some(end) = rest.find(&ticks) {
            rest = &rest[end + ticks.len()..];
        }
    }
    kept + rest
}

/// What the line links to: `[a](target)`, `[a]: target`, and the `href` and `src` of HTML in Markdown.
fn targets(line: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for (opening, closing) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"')] {
        for (at, _) in line.match_indices(opening) {
            let rest = &line[at + opening.len()..];
            targets.push(rest[..rest.find(closing).unwrap_or(rest.len())].to_owned());
        }
    }
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    targets.extend(definition.map(|(_, target)| target.to_owned()));
    // A title may follow, and angle brackets may stand around the target.
    let bare =
        |target: &String| target.split_whitespace().next().unwrap_or("").trim_matches(['<', '>']).to_owned();
    targets.iter().map(bare).collect()
}

fn resolves(target: &str, directory: &str, paths: &BTreeSet<String>) -> bool {
    let has_scheme =
        target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    let path = target.split(['#', '?']).next().unwrap_or("");
    if has_scheme || (path.is_empty() && target.starts_with('#')) {
        return true;
    }
    let path = match path.strip_prefix('/') {
        Some(from_root) => join("", from_root),
        None => join(directory, path),
    };
    let within = format!("{path}/");
    // The empty path is the repository itself.
    path.is_empty()
        || paths.contains(&path)
        || paths.range(within.clone()..).next().is_some_and(|p| p.starts_with(&within))
}

#[cfg(test)]
mod tests {
    use super::super::violation::{NONE, lines};
    use super::*;

    fn check_text(path: &str, text: &str) -> Vec<usize> {
        let paths = ["README.md", "docs/a.md", "docs/b/c.png"].map(str::to_owned).into();
        lines(&check(&TextFile { path: path.to_owned(), text: text.to_owned() }, &paths))
    }

    #[test]
    fn links_to_files_and_directories_resolve() {
        let text = "[a](a.md) ![b](<b/c.png> \"title\") [c](b/) [d](../README.md#part) [e](/docs) [f](..)\n\
                    [g](#here) [h](https://example.com/x) [i](mailto:a@example.com)\n[j]: a.md\n<img src=\"b/c.png\">\n";
        assert_eq!(check_text("docs/a.md", text), NONE);
    }

    #[test]
    fn broken_links_are_found() {
        let text = "[a](b.md)\n[b](a.md) [c](c.png)\n[d]: nowhere.md\n<a href=\"x\">\n[e](../../README.md)\n[f]()\n[g](a.m)\n";
        let found = check_text("docs/a.md", text);
        assert_eq!(found, [1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(check_text("README.md", "```rust\n[a](b)\n```\n`[a](b)` and ``[c](d)``\n[e](f)\n"), [5]);
        assert_eq!(check_text("src/lib.rs", "[a](b)\n"), NONE);
    }
}
