//! An error is a type. A caller can only print a text, and cannot tell one failure from another.

use super::rust_file::RustFile;
use super::violation::Violation;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Refuses `Result<_, String>` outside tests.
pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut search = Search { file, found: Vec::new() };
    search.visit_file(&file.syntax);
    search.found
}

struct Search<'f> {
    file: &'f RustFile,
    found: Vec<Violation>,
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        let line = segment.span().start().line;
        if has_text_error(segment) && !self.file.in_test(line) {
            let what = "`Result<_, String>`: return a type that `thiserror` derives, or an existing error";
            self.found.push(Violation::new(&self.file.path, line, what));
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
    use super::super::violation::{NONE, lines};
    use super::*;

    #[test]
    fn texts_as_errors_are_refused_wherever_a_type_stands() {
        let text = "//! A.\nfn a() -> Result<(), String> { b.collect::<Result<Vec<_>, String>>() }\n\
                    struct C { d: std::result::Result<\n    u64,\n    String,\n> }\n";
        assert_eq!(lines(&check(&sample("crates/a/src/lib.rs", text))), [2, 2, 3]);
    }

    #[test]
    fn other_types_and_tests_do_not_count() {
        let text = "//! A.\nfn a() -> Result<String, Error> { Ok(Map::<u64, String>::new()) }\n\
                    #[cfg(test)]\nmod tests { fn b() -> Result<(), String> { Ok(()) } }\n";
        assert_eq!(lines(&check(&sample("crates/a/src/lib.rs", text))), NONE);
        let test = sample("crates/a/tests/b.rs", "fn b() -> Result<(), String> { Ok(()) }\n");
        assert_eq!(lines(&check(&test)), NONE);
    }
}
