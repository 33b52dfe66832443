//! Every link in a Markdown file to a file of the repository leads to one, and to a heading that is in it.
//!
//! Links to the web are left alone: whether they answer is not ours to decide. Code, fenced or quoted, has no links.
//! The pages under `docs/` are also a book, which has nothing but them: they link to each other only, and its table of contents
//! names all of them.

use super::modules::join;
use super::violation::Violation;
use crate::repository::TextFile;
use std::collections::{BTreeMap, BTreeSet};

/// Where the pages of the book are.
const BOOK: &str = "docs/";
/// The table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Everything that a link may lead to.
#[derive(Debug)]
pub struct Places<'a> {
    /// All files of the repository, relative to its root.
    paths: &'a BTreeSet<String>,
    /// The anchors of the headings of each Markdown file.
    anchors: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Places<'a> {
    pub fn new(paths: &'a BTreeSet<String>, texts: &'a [TextFile]) -> Self {
        let pages = texts.iter().filter(|file| is_markdown(&file.path));
        Self { paths, anchors: pages.map(|file| (file.path.as_str(), anchors(&file.text))).collect() }
    }
}

fn is_markdown(path: &str) -> bool {
    path.ends_with(".md")
}

pub fn check(file: &TextFile, places: &Places<'_>) -> Vec<Violation> {
    if !is_markdown(&file.path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, line) in prose(&file.text) {
        let faults =
            targets(&without_code(line)).into_iter().filter_map(|target| fault(&target, &file.path, places));
        found.extend(faults.map(|what| Violation::new(&file.path, at + 1, what)));
    }
    found
}

/// Pages of the book that its table of contents does not name, which no reader of it would find.
pub fn check_contents(texts: &[TextFile]) -> Vec<Violation> {
    let Some(summary) = texts.iter().find(|file| file.path == SUMMARY) else { return Vec::new() };
    let listed: BTreeSet<String> = prose(&summary.text)
        .flat_map(|(_, line)| targets(line))
        .map(|target| join(BOOK.trim_end_matches('/'), &target))
        .collect();
    let pages = texts.iter().filter(|file| is_markdown(&file.path) && file.path.starts_with(BOOK));
    let missing = pages.filter(|file| file.path != SUMMARY && !listed.contains(&file.path));
    let what = format!("the book leaves the page out; name it in {SUMMARY}");
    missing.map(|file| Violation::new(&file.path, 1, what.clone())).collect()
}

/// The lines that are not code, with their numbers from 0.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = None;
    text.lines().enumerate().filter(move |(_, line)| {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => return true,
        }
        false
    })
}

/// The anchors of a page's headings, as GitHub and mdbook make them: small letters, digits, `-` and `_`, spaces as `-`, and a
/// number behind one that was there before.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let level = line.chars().take_while(|c| *c == '#').count();
        let Some(heading) = line.get(level..).and_then(|rest| rest.strip_prefix(' ')).filter(|_| level > 0)
        else {
            continue;
        };
        let anchor: String = without_targets(heading)
            .trim()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .flat_map(char::to_lowercase)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|it| !anchors.contains(it));
        anchors.extend(free);
    }
    anchors
}

/// A heading without the targets of its links, which are not part of its text.
fn without_targets(heading: &str) -> String {
    let mut pieces = heading.split("](");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once(')').map_or(piece, |(_, rest)| rest))
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

/// What is wrong with a target, if anything.
fn fault(target: &str, page: &str, places: &Places<'_>) -> Option<String> {
    let has_scheme =
        target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    if has_scheme {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = path.split('?').next().unwrap_or("");
    let directory = page.rsplit_once('/').map_or("", |(directory, _)| directory);
    let path = match (path.strip_prefix('/'), path.is_empty() && !anchor.is_empty()) {
        (_, true) => page.to_owned(),
        (Some(from_root), _) => join("", from_root),
        (None, _) => join(directory, path),
    };
    if !exists(&path, places.paths) {
        return Some(format!(
            "the link to `{target}` leads to no file of the repository; correct or remove it"
        ));
    }
    if page.starts_with(BOOK) && !path.starts_with(BOOK) {
        return Some(format!("the link to `{target}` leads out of the book; name the file as code instead"));
    }
    let headings = places.anchors.get(path.as_str()).filter(|_| !anchor.is_empty())?;
    let what = || format!("the link to `{target}` leads to no heading of {path}; correct it");
    (!headings.contains(anchor)).then(what)
}

fn exists(path: &str, paths: &BTreeSet<String>) -> bool {
    let within = format!("{path}/");
    // The empty path is the repository itself.
    path.is_empty()
        || paths.contains(path)
        || paths.range(within.clone()..).next().is_some_and(|p| p.starts_with(&within))
}

#[cfg(test)]
mod tests {
    use super::super::violation::{NONE, lines};
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn check_text(path: &str, text: &str) -> Vec<usize> {
        let paths =
            ["README.md", "notes/a.md", "notes/b/c.png", "docs/x.md", "docs/y.md"].map(str::to_owned).into();
        let heads = "# The part\n## `plumb run`: [what](x.md) it does\n## Twice\n## Twice\n```sh\n# no heading\n```\n";
        let texts = [file("README.md", heads), file("docs/y.md", heads), file(path, text)];
        lines(&check(&texts[2], &Places::new(&paths, &texts)))
    }

    #[test]
    fn links_to_files_and_directories_resolve() {
        let text = "[a](a.md) ![b](<b/c.png> \"title\") [c](b/) [d](../README.md#the-part) [e](/notes) [f](..)\n\
                    [g](#here) [h](https://example.com/x) [i](mailto:a@example.com)\n[j]: a.md\n<img src=\"b/c.png\">\n# Here\n";
        assert_eq!(check_text("notes/a.md", text), NONE);
    }

    #[test]
    fn broken_links_are_found() {
        let text = "[a](b.md)\n[b](a.md) [c](c.png)\n[d]: nowhere.md\n<a href=\"x\">\n[e](../../README.md)\n[f]()\n[g](a.m)\n";
        let found = check_text("notes/a.md", text);
        assert_eq!(found, [1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn an_anchor_names_a_heading() {
        let text = "[a](README.md#the-part) [b](README.md#plumb-run-what-it-does) [c](README.md#twice-1)\n\
                    [d](README.md#The-part)\n[e](README.md#no-heading)\n[f](README.md#twice-2)\n[g](#gone)\n";
        assert_eq!(check_text("CONTRIBUTING.md", text), [2, 3, 4, 5]);
    }

    #[test]
    fn a_page_of_the_book_links_to_pages_of_the_book() {
        assert_eq!(check_text("docs/x.md", "[a](y.md#twice)\n[b](../README.md)\n[c](y.md#thrice)\n"), [2, 3]);
    }

    #[test]
    fn the_table_of_contents_has_every_page() {
        let summary = |text: &str| {
            let texts =
                [file("docs/x.md", ""), file("docs/b/y.md", ""), file(SUMMARY, text), file("README.md", "")];
            check_contents(&texts).len()
        };
        assert_eq!(summary("- [x](x.md)\n  - [y](b/y.md)\n"), 0);
        assert_eq!(summary("- [x](x.md)\n```text\n[y](b/y.md)\n```\n"), 1);
    }

    #[test]
    fn code_has_no_links() {
        assert_eq!(check_text("README.md", "```rust\n[a](b)\n```\n`[a](b)` and ``[c](d)``\n[e](f)\n"), [5]);
        assert_eq!(check_text("src/lib.rs", "[a](b)\n"), NONE);
    }
}
