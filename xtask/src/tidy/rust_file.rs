//! A Rust file, parsed once for all rules, with the lines that belong to tests marked.

use super::violation::Violation;
use crate::repository::TextFile;
use proc_macro2::TokenStream;
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One parsed file; paths are relative to the repository's root and lines count from 1.
pub struct RustFile {
    pub path: String,
    pub text: String,
    pub tokens: TokenStream,
    pub syntax: syn::File,
    /// True where all of the file is a test, a benchmark or this program.
    pub is_test: bool,
    test_lines: Vec<RangeInclusive<usize>>,
}

impl RustFile {
    pub fn parse(file: &TextFile) -> Result<Self, Violation> {
        let wrong = |error: &dyn std::fmt::Display, line| {
            Violation::new(&file.path, line, format!("not Rust that can be parsed: {error}"))
        };
        let tokens: TokenStream = file
            .text
            .parse()
            .map_err(|error: proc_macro2::LexError| wrong(&error, error.span().start().line))?;
        let syntax: syn::File =
            syn::parse2(tokens.clone()).map_err(|error| wrong(&error, error.span().start().line))?;
        let mut marker = TestMarker { lines: Vec::new() };
        marker.visit_file(&syntax);
        Ok(Self {
            path: file.path.clone(),
            text: file.text.clone(),
            tokens,
            is_test: is_test_path(&file.path) || syntax.attrs.iter().any(is_cfg_test),
            syntax,
            test_lines: marker.lines,
        })
    }

    /// Whether the line belongs to a test: the whole file does, or the item around the line is `#[cfg(test)]`.
    pub fn in_test(&self, line: usize) -> bool {
        self.is_test || self.test_lines.iter().any(|lines| lines.contains(&line))
    }

    /// How many lines the file has without its tests.
    pub fn lines_without_tests(&self) -> usize {
        (1..=self.text.lines().count()).filter(|line| !self.in_test(*line)).count()
    }

    /// The name of the crate's directory, which is under `crates/` or in a group there, where the file is in one.
    pub fn crate_directory(&self) -> Option<&str> {
        let parts: Vec<&str> = self.path.strip_prefix("crates/")?.split('/').collect();
        let inside = parts.iter().position(|part| matches!(*part, "src" | "tests" | "benches"))?;
        Some(parts[inside.checked_sub(1)?])
    }
}

/// Integration tests, benchmarks and this program: not the product.
fn is_test_path(path: &str) -> bool {
    let mut directories: Vec<&str> = path.split('/').collect();
    directories.pop();
    directories.first() == Some(&"xtask")
        || directories.iter().any(|directory| matches!(*directory, "tests" | "benches"))
}

/// `#[cfg(test)]`, or `#[cfg(all(test, …))]`.
pub fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("cfg") && condition_needs_test(list.tokens.clone())
}

fn condition_needs_test(condition: TokenStream) -> bool {
    let Ok(meta) = syn::parse2::<syn::Meta>(condition) else { return false };
    match meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            let parts = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
            syn::parse::Parser::parse2(parts, list.tokens).is_ok_and(|parts| {
                parts.iter().any(|part| matches!(part, syn::Meta::Path(p) if p.is_ident("test")))
            })
        }
        _ => false,
    }
}

struct TestMarker {
    lines: Vec<RangeInclusive<usize>>,
}

impl TestMarker {
    fn mark(&mut self, attributes: &[syn::Attribute], item: &dyn Spanned) {
        if attributes.iter().any(|attribute| is_cfg_test(attribute) || attribute.path().is_ident("test")) {
            let span = item.span();
            self.lines.push(span.start().line..=span.end().line);
        }
    }
}

impl<'ast> Visit<'ast> for TestMarker {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.mark(attributes_of(item), item);
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.mark(&item.attrs, item);
        visit::visit_impl_item_fn(self, item);
    }
}

/// The attributes of the kinds of item that carry `#[cfg(test)]` in practice.
fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// A sample for the rules' tests, as if it were a file of the product.
#[cfg(test)]
pub fn sample(path: &str, text: &str) -> RustFile {
    let file = TextFile { path: path.to_owned(), text: text.to_owned() };
    RustFile::parse(&file).expect("the sample is Rust")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_items_are_marked_with_their_attributes() {
        let file = sample(
            "crates/core/model/src/lib.rs",
            "//! A.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n#[cfg(all(test, unix))]\nfn c() {}\n",
        );
        let marked: Vec<usize> = (1..=8).filter(|line| file.in_test(*line)).collect();
        assert_eq!(marked, [3, 4, 5, 6, 7, 8]);
        assert_eq!(file.lines_without_tests(), 2);
    }

    #[test]
    fn code_for_everything_but_tests_is_no_test() {
        let file = sample(
            "crates/core/model/src/lib.rs",
            "#[cfg(not(test))]\nfn a() {}\n#[cfg(any(test, unix))]\nfn b() {}\n",
        );
        assert_eq!(file.lines_without_tests(), 4);
    }

    #[test]
    fn tests_and_benches_and_xtask_are_no_product() {
        for path in ["tests/run.rs", "crates/cli/tests/run/mod.rs", "benches/http.rs", "xtask/src/main.rs"] {
            assert!(sample(path, "").is_test, "{path}");
        }
        for path in ["crates/core/stats/src/tests_of_fit.rs", "crates/machine/host/src/benches.rs"] {
            assert!(!sample(path, "").is_test, "{path}");
        }
    }

    #[test]
    fn what_does_not_parse_is_a_violation_at_its_line() {
        let file =
            TextFile { path: "crates/a/src/lib.rs".to_owned(), text: "fn a() {}\nfn ( {}\n".to_owned() };
        assert_eq!(RustFile::parse(&file).err().map(|violation| violation.line), Some(2));
    }
}
