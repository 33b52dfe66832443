//! Exceptions that may only shrink: `xtask/ratchet.txt` grants a file a number of violations.
//!
//! The number must be exact. With more, all of them are shown; with fewer, the number itself is the violation, so
//! that what was gained is not lost again.

use super::violation::Violation;
use crate::repository::TextFile;
use std::collections::BTreeMap;

/// Takes the granted violations out of `found`, and adds those that the ratchet itself gives rise to.
pub fn apply(ratchet: &TextFile, found: Vec<Violation>) -> Vec<Violation> {
    let mut by_path: BTreeMap<String, Vec<Violation>> = BTreeMap::new();
    for violation in found {
        by_path.entry(violation.path.clone()).or_default().push(violation);
    }
    let mut wrong = Vec::new();
    for (at, line) in ratchet.text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut complain = |what: String| wrong.push(Violation::new(&ratchet.path, at + 1, what));
        let Some((path, granted)) = parse(line) else {
            complain(format!("`{line}` is not an exception; write `path: number`, the number above zero"));
            continue;
        };
        let actual = by_path.get(path).map_or(0, Vec::len);
        if actual <= granted {
            by_path.remove(path);
        }
        if actual < granted {
            complain(format!("`{path}` has {actual} violations now, not {granted}; lower the number"));
        }
    }
    by_path.into_values().flatten().chain(wrong).collect()
}

fn parse(line: &str) -> Option<(&str, usize)> {
    let (path, number) = line.split_once(": ")?;
    let number = number.trim().parse().ok()?;
    (number > 0).then_some((path.trim(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_text(text: &str, found: &[(&str, usize)]) -> Vec<String> {
        let ratchet = TextFile { path: "ratchet.txt".to_owned(), text: text.to_owned() };
        let found = found.iter().map(|(path, line)| Violation::new(path, *line, "wrong")).collect();
        apply(&ratchet, found)
            .iter()
            .map(|violation| format!("{}:{}", violation.path, violation.line))
            .collect()
    }

    #[test]
    fn what_is_granted_is_silent() {
        assert_eq!(apply_text("# Why.\n\na.rs: 2\n", &[("a.rs", 1), ("a.rs", 5)]), [""; 0]);
        assert_eq!(apply_text("", &[]), [""; 0]);
    }

    #[test]
    fn more_than_granted_shows_all() {
        assert_eq!(
            apply_text("a.rs: 1\n", &[("a.rs", 1), ("a.rs", 5), ("b.rs", 2)]),
            ["a.rs:1", "a.rs:5", "b.rs:2"]
        );
    }

    #[test]
    fn fewer_than_granted_must_be_written_down() {
        assert_eq!(apply_text("b.rs: 3\na.rs: 2\n", &[("a.rs", 1)]), ["ratchet.txt:1", "ratchet.txt:2"]);
    }

    #[test]
    fn a_line_that_grants_nothing_is_wrong() {
        assert_eq!(
            apply_text("a.rs\nb.rs: 0\nc.rs: many\n", &[]),
            ["ratchet.txt:1", "ratchet.txt:2", "ratchet.txt:3"]
        );
    }
}
