//! Functions whose names say what they do: `read_claim`, not `read`.
//!
//! A call is read more often than its function. `table.of(cell, name)` sends a reader to the definition, and `table.slots_of(cell, name)`
//! does not.

use super::rust_file::RustFile;
use super::violation::Violation;
use syn::visit::{self, Visit};

/// Names that say nothing without another word.
const BARE: [&str; 3] = ["of", "read", "words"];

/// Finds the functions with a bare name, in tests too. A method of a trait's implementation has the trait's name.
pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut functions = Functions { found: Vec::new() };
    functions.visit_file(&file.syntax);
    let violation = |ident: syn::Ident| {
        let what =
            format!("`{ident}` does not say what the function does; name it like `slots_of` or `read_claim`");
        Violation::new(&file.path, ident.span().start().line, what)
    };
    functions.found.into_iter().map(violation).collect()
}

struct Functions {
    found: Vec<syn::Ident>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature) {
        if BARE.iter().any(|name| signature.ident == name) {
            self.found.push(signature.ident.clone());
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        for member in item.items.iter().filter(|_| item.trait_.is_none()) {
            if let syn::ImplItem::Fn(method) = member {
                self.add(&method.sig);
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::{NONE, lines};
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        lines(&check(&sample("crates/core/model/src/slot.rs", text)))
    }

    #[test]
    fn functions_methods_and_traits_have_no_bare_names() {
        let text = "fn read() {}\nimpl A {\n    fn of() {\n        fn words() {}\n    }\n}\ntrait B {\n    fn read();\n}\n";
        assert_eq!(found(text), [1, 3, 4, 8]);
    }

    #[test]
    fn the_name_of_a_traits_method_is_the_traits_choice() {
        let text = "impl Read for A {\n    fn read() {}\n}\nfn read_claim() {}\nfn slots_of() {}\nfn in_words() {}\n";
        assert_eq!(found(text), NONE);
    }
}
