//! Phrases that read as translated, and that a reader takes twice.

use super::violation::Violation;
use crate::repository::TextFile;

/// Spelled in halves, so that this file does not break its own rule. They are looked for without their case.
const PHRASES: [(&str, &str); 3] = [
    (concat!("so ", "many"), "write `this many`, or the number"),
    (concat!("who", "ever"), "name the actor: `the thread that`, `a client that`"),
    (concat!("of our ", "own"), "say whose: `Plumbline's`, or `a separate`"),
];

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
