//! An error is a type. A caller can only print a text, and cannot tell one failure from another.
//!
//! The texts that are left are counted against the budget (`budget.rs`).

use super::rust_file::RustFile;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// How many times a file has `Result<_, String>` outside its tests.
pub fn count(file: &RustFile) -> usize {
    let mut counter = Counter { file, found: 0 };
    counter.visit_file(&file.syntax);
    counter.found
}

struct Counter<'f> {
    file: &'f RustFile,
    found: usize,
}

impl<'ast> Visit<'ast> for Counter<'_> {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        if has_text_error(segment) && !self.file.in_test(segment.span().start().line) {
            self.found += 1;
        }
        visit::visit_path_segment(self, segment);
    }
}

fn has_text_error(segment: &syn::PathSegment) -> bool {
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    let error = arguments.args.iter().nth(1);
    segment.ident == "Result"
        && matches!(error, Some(syn::GenericArgument::Type(syn::Type::Path(error))) if error.path.is_ident("String"))
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::*;

    #[test]
    fn texts_as_errors_are_counted_wherever_a_type_stands() {
        let text = "//! A.\nfn a() -> Result<(), String> { b.collect::<Result<Vec<_>, String>>() }\n\
                    struct C { d: std::result::Result<\n    u64,\n    String,\n> }\n";
        assert_eq!(count(&sample("crates/a/src/lib.rs", text)), 3);
    }

    #[test]
    fn other_types_and_tests_do_not_count() {
        let text = "//! A.\nfn a() -> Result<String, Error> { Ok(Map::<u64, String>::new()) }\n\
                    #[cfg(test)]\nmod tests { fn b() -> Result<(), String> { Ok(()) } }\n";
        assert_eq!(count(&sample("crates/a/src/lib.rs", text)), 0);
        assert_eq!(count(&sample("crates/a/tests/b.rs", "fn b() -> Result<(), String> { Ok(()) }\n")), 0);
    }
}
