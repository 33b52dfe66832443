//! One word per concept: a word of the glossary names one type, and every type's name says something.
//!
//! A second `Slot` or `Plan` beside the experiment's makes a reader ask which one a sentence means.

use super::rust_file::RustFile;
use super::violation::Violation;
use syn::visit::{self, Visit};

/// The crate that has the words of experiments.
const WORDS_CRATE: &str = "model";
const WORDS: [&str; 13] = [
    "Cell",
    "Claim",
    "Comparison",
    "Evidence",
    "Judgement",
    "Measurement",
    "Metric",
    "Plan",
    "Run",
    "Slot",
    "Span",
    "Variant",
    "Verdict",
];

/// Names that mean something only beside another word, such as `MetricKind`.
const VAGUE: [&str; 8] = ["Every", "Info", "Item", "Kind", "Making", "Own", "Seen", "Yield"];

/// The file format has `spec:`; everything below it is settings.
const SYNONYM: &str = "Spec";

pub fn check(file: &RustFile) -> Vec<Violation> {
    let Some(directory) = file.crate_directory() else { return Vec::new() };
    let judge = |(name, line): (String, usize)| {
        let stem = name.strip_suffix(SYNONYM).filter(|stem| !stem.is_empty());
        let what = if directory != WORDS_CRATE && WORDS.contains(&name.as_str()) {
            format!("`{name}` is the type of `{WORDS_CRATE}`; call this one what sets it apart")
        } else if VAGUE.contains(&name.as_str()) {
            format!("`{name}` says nothing alone; say of what, as in `Metric{name}`")
        } else {
            format!("`{name}`: the word is settings; call it `{}Settings`", stem?)
        };
        Some(Violation::new(&file.path, line, what))
    };
    types(file).into_iter().filter_map(judge).collect()
}

/// The names of the types that a file defines outside of tests, with their lines.
fn types(file: &RustFile) -> Vec<(String, usize)> {
    let mut types = Types { file, found: Vec::new() };
    types.visit_file(&file.syntax);
    types.found
}

struct Types<'a> {
    file: &'a RustFile,
    found: Vec<(String, usize)>,
}

impl<'ast> Visit<'ast> for Types<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let ident = match item {
            syn::Item::Enum(item) => Some(&item.ident),
            syn::Item::Struct(item) => Some(&item.ident),
            syn::Item::Trait(item) => Some(&item.ident),
            syn::Item::Type(item) => Some(&item.ident),
            syn::Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        if let Some(ident) = ident {
            let line = ident.span().start().line;
            if !self.file.in_test(line) {
                self.found.push((ident.to_string(), line));
            }
        }
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::{NONE, lines};
    use super::*;

    #[test]
    fn a_word_of_the_glossary_is_no_other_type() {
        let text = "enum Other {}\nstruct Slot;\nstruct SlotTable;\n#[cfg(test)]\nstruct Plan;\n";
        assert_eq!(lines(&check(&sample("crates/paths/http/src/load.rs", text))), [2]);
        assert_eq!(lines(&check(&sample("crates/core/model/src/slot.rs", text))), NONE);
    }

    #[test]
    fn a_type_says_of_what_it_is_the_kind_and_settings_are_settings() {
        let text = "pub enum Kind {}\npub enum MetricKind {}\npub struct LoadSpec;\npub struct Spec;\n";
        let found = check(&sample("crates/core/model/src/metric.rs", text));
        assert_eq!(lines(&found), [1, 3]);
        assert!(found[1].what.contains("`LoadSettings`"), "{found:?}");
    }
}
