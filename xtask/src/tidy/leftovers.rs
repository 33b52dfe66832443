//! Nothing half-done is committed: no notes to oneself, no placeholder and no debugging macros.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;
use crate::repository::TextFile;
use proc_macro2::TokenTree;

/// Spelled in halves, so that this file does not break its own rule.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const MACROS: [(&str, &str); 3] =
    [("todo", "write what is missing"), ("unimplemented", "write what is missing"), ("dbg", "remove it")];

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

/// Placeholder and debugging macros, also inside other macros' calls.
pub fn check_macros(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    tokens::each_tail(&file.tokens, &mut |tail| {
        let [name, bang, TokenTree::Group(_), ..] = tail else { return };
        if !tokens::is_punct(bang, '!') {
            return;
        }
        for (banned, remedy) in MACROS {
            if tokens::is_ident(name, banned) {
                let what = format!("`{banned}!` has no place in a commit; {remedy}");
                found.push(Violation::new(&file.path, tokens::line(name), what));
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
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

    #[test]
    fn placeholders_are_found_inside_other_macros_too() {
        let file = sample(
            "a.rs",
            "fn a() {\n    todo!()\n}\nfn b() {\n    assert!(dbg!(1) == unimplemented! {});\n}\n",
        );
        assert_eq!(lines(&check_macros(&file)), [2, 5, 5]);
    }

    #[test]
    fn names_that_only_look_like_placeholders_are_fine() {
        let file = sample(
            "a.rs",
            "fn a(todo: u8, dbg: u8) -> bool {\n    todo != (dbg) && \"todo!()\".is_empty()\n}\n",
        );
        assert_eq!(check_macros(&file), []);
    }
}
