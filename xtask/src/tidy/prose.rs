//! Phrases that read as translated, and that a reader takes twice.
//!
//! Some of them are counted by crate, because there are many: `xtask/ratchet.txt` has the counts, and they only fall.

use super::violation::Violation;
use crate::repository::TextFile;

/// Spelled in halves, so that this file does not break its own rule. They are looked for without their case.
const PHRASES: [(&str, &str); 3] = [
    (concat!("so ", "many"), "write `this many`, or the number"),
    (concat!("who", "ever"), "name the actor: `the thread that`, `a client that`"),
    (concat!("of our ", "own"), "say whose: `Plumbline's`, or `a separate`"),
];

/// How a doc comment does not begin: it begins with the noun that the item is, or the verb of what it does.
const BEGINNINGS: [&str; 2] = [concat!("Wh", "at "), concat!("It", "s ")];

/// Phrases that no comment has.
const IN_COMMENTS: [&str; 3] = [concat!("is ", "no "), concat!("is ", "due"), concat!("of its ", "own")];

/// Finds what is counted in the comments of a Rust file. The violations are the crate's.
pub fn check_comments(file: &TextFile) -> Vec<Violation> {
    let Some(place) = file.path.strip_suffix(".rs").and_then(|path| Some(path.split_once("/src/")?.0)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut is_in_doc = false;
    for (at, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_in_doc = false;
            continue;
        };
        let doc = comment.strip_prefix(['/', '!']);
        let text = doc.unwrap_or(comment).trim_start();
        let begins = BEGINNINGS.iter().filter(|word| doc.is_some() && !is_in_doc && text.starts_with(**word));
        let lower = text.to_lowercase() + " ";
        let has = IN_COMMENTS.iter().filter(|phrase| lower.contains(**phrase));
        let begins = begins.map(|word| {
            format!("a doc comment begins with `{}`; begin with the noun or the verb", word.trim())
        });
        let has =
            has.map(|phrase| format!("`{phrase}` reads as translated; put it as a native speaker would"));
        let violation = |what| Violation::new(place, 1, format!("{}:{}: {what}", file.path, at + 1));
        found.extend(begins.chain(has).map(violation));
        is_in_doc = doc.is_some();
    }
    found
}

pub fn check(file: &TextFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        for (phrase, remedy) in PHRASES.into_iter().filter(|(phrase, _)| lower.contains(phrase)) {
            found.push(Violation::new(&file.path, at + 1, format!("`{phrase}`: {remedy}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::violation::{NONE, lines};
    use super::*;

    #[test]
    fn comments_are_counted_by_crate() {
        let [what, its] = BEGINNINGS;
        let text = format!(
            "//! {what}it is.\n\n/// The end. {what}\n/// {its}end.\nfn a() {{}}\n    /// {its}name.\n    // It {}one.\n",
            IN_COMMENTS[0]
        );
        let file = TextFile { path: "crates/core/a/src/b.rs".to_owned(), text };
        let found = check_comments(&file);
        assert!(found.iter().all(|found| found.path == "crates/core/a"), "{found:?}");
        let lines: Vec<&str> = found.iter().filter_map(|found| found.what.split(':').nth(1)).collect();
        assert_eq!(lines, ["1", "6", "7"]);
    }

    fn found(text: String) -> Vec<usize> {
        lines(&check(&TextFile { path: "docs/a.md".to_owned(), text }))
    }

    #[test]
    fn a_phrase_is_found_wherever_it_stands() {
        for (phrase, _) in PHRASES {
            let capital = phrase[..1].to_uppercase() + &phrase[1..];
            assert_eq!(
                found(format!("One.\n{capital} stood here,\nand {phrase} here.\n")),
                [2, 3],
                "{phrase}"
            );
        }
        assert_eq!(found("So far, many of them have their own.\n".to_owned()), NONE);
    }
}
