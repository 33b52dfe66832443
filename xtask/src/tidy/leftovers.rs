//! Nothing half-done is committed: no notes to oneself. Clippy finds placeholders and debugging macros.

use super::violation::Violation;
use crate::repository::TextFile;

/// Spelled in halves, so that this file does not break its own rule.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Notes to oneself in any text file, as whole words.
pub fn check(file: &TextFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        for note in words.filter(|word| NOTES.contains(word)) {
            let what = format!("`{note}`: do it now, or say in an issue what is missing");
            found.push(Violation::new(&file.path, at + 1, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::violation::lines;
    use super::*;

    #[test]
    fn notes_to_oneself_are_found_as_whole_words() {
        for note in NOTES {
            let text = format!("fn a() {{}}\n// {note}: later\n");
            assert_eq!(lines(&check(&TextFile { path: "a.rs".to_owned(), text })), [2], "{note}");
        }
        let clean = TextFile {
            path: "a.sh".to_owned(),
            text: format!(
                "mktemp -d /tmp/plumb-{0}{0}\n# a {1} list, MY_{1}\n",
                NOTES[2],
                NOTES[0].to_lowercase()
            ),
        };
        assert_eq!(check(&clean).first().map(|violation| violation.line), None);
    }
}
