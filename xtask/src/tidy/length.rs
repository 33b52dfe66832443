//! Short functions in short files: a reader should hold one in view and the other in mind.
//!
//! Every line of a function counts, from its signature to its closing brace, comments and blank lines included,
//! since the reader scrolls over those too. A file counts without its tests.

use super::rust_file::RustFile;
use super::violation::Violation;
use syn::visit::{self, Visit};

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut functions = Functions { path: &file.path, found: Vec::new() };
    functions.visit_file(&file.syntax);
    let mut found = functions.found;
    let lines = file.lines_without_tests();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines without tests; at most {FILE_LINES_MAX}: split it along its nouns");
        found.push(Violation::new(&file.path, 1, what));
    }
    found
}

struct Functions<'a> {
    path: &'a str,
    found: Vec<Violation>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.fn_token.span.start().line;
        let last = block.brace_token.span.close().end().line;
        let lines = last - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let name = &signature.ident;
            let what =
                format!("`{name}` has {lines} lines; at most {FUNCTION_LINES_MAX}: give its steps names");
            self.found.push(Violation::new(self.path, first, what));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::lines;
    use super::*;

    /// A function of this many lines, its braces included.
    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_may_have_70_lines() {
        assert_eq!(check(&sample("a.rs", &function(70))), []);
        let found = check(&sample("a.rs", &format!("/// Doc.\n#[inline]\n{}", function(71))));
        assert_eq!(lines(&found), [3]);
        assert!(found[0].what.starts_with("`long` has 71 lines"), "{}", found[0]);
    }

    #[test]
    fn methods_nested_functions_and_tests_are_functions() {
        let long = function(71);
        for text in [
            format!("impl A {{\n{long}}}\n"),
            format!("trait A {{\n{long}}}\n"),
            format!("mod a {{\n{long}}}\n"),
            format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"),
            format!("const A: u8 = {{\n{long}1 }};\n"),
        ] {
            assert_eq!(check(&sample("a.rs", &text)).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_file_may_have_600_lines_without_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// A.\n".repeat(700));
        let lines_of_code = |count| "const _: u8 = 0;\n".repeat(count);
        assert_eq!(check(&sample("a.rs", &format!("{}{tests}", lines_of_code(600)))), []);
        assert_eq!(lines(&check(&sample("a.rs", &format!("{}{tests}", lines_of_code(601))))), [1]);
        assert_eq!(check(&sample("tests/a.rs", &lines_of_code(700))), []);
    }
}
