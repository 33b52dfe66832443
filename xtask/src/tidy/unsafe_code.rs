//! `unsafe` stays in the crates that call C or the kernel, and each block says why it is sound.
//!
//! Clippy's `undocumented_unsafe_blocks` checks the comment where the crate compiles; this rule also sees code
//! that is configured out and blocks inside macro calls.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;
use proc_macro2::{Delimiter, TokenTree};

/// Directories of crates, each with the reason it is here.
const MAY_BE_UNSAFE: [(&str, &str); 10] = [
    ("host", "it calls the kernel"),
    ("http", "its event loop calls the kernel, and OpenSSL"),
    ("quic", "it asks the kernel for the figures of a socket"),
    ("ingress", "a handshake finds the coroutine that it runs in"),
    ("devices", "it calls libcrypto_mb, which it loads at run time"),
    ("codec", "it calls codecs in C"),
    ("migration", "it maps guest memory and watches it through the kernel"),
    ("storage", "its engines hand memory to the kernel"),
    ("network", "it sends and receives batches of messages in one call"),
    ("fuzz", "its allocator counts what tests allocate"),
];

pub fn check(file: &RustFile) -> Vec<Violation> {
    let source: Vec<&str> = file.text.lines().collect();
    let allowed = file.crate_directory().is_some_and(|name| MAY_BE_UNSAFE.iter().any(|(it, _)| *it == name));
    let mut found = Vec::new();
    tokens::each_tail(&file.tokens, &mut |tail| {
        let [keyword, rest @ ..] = tail else { return };
        if !tokens::is_ident(keyword, "unsafe") {
            return;
        }
        let line = tokens::line(keyword);
        if !allowed {
            let names: Vec<&str> = MAY_BE_UNSAFE.iter().map(|(name, _)| *name).collect();
            let what = format!(
                "`unsafe` outside of the crates {}; put it behind a safe function there",
                names.join(", ")
            );
            found.push(Violation::new(&file.path, line, what));
        } else if makes_a_promise(rest) && !has_safety_comment(&source, line) {
            let what = "no `// SAFETY:` above it; say why the promise that `unsafe` makes is kept";
            found.push(Violation::new(&file.path, line, what));
        }
    });
    found
}

/// A block or an `unsafe impl` promises something; `unsafe fn` and `unsafe trait` ask for a promise.
fn makes_a_promise(after_keyword: &[TokenTree]) -> bool {
    let Some(next) = after_keyword.first() else { return false };
    tokens::group(next, Delimiter::Brace).is_some() || tokens::is_ident(next, "impl")
}

/// Looks for the comment on the line itself or above it, past attributes and the statement's own earlier lines.
fn has_safety_comment(source: &[&str], line: usize) -> bool {
    if source[line - 1].contains("SAFETY:") {
        return true;
    }
    let mut in_comment = false;
    for above in source[..line - 1].iter().rev().map(|above| above.trim()) {
        if above.starts_with("//") {
            if above.contains("SAFETY:") {
                return true;
            }
            in_comment = true;
        } else if in_comment || above.is_empty() || above.ends_with([';', '{', '}', ',']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::lines;
    use super::*;

    #[test]
    fn unsafe_stays_in_its_crates() {
        let text = "// SAFETY: so.\nunsafe impl Send for A {}\nfn a() {\n    // SAFETY: so.\n    unsafe { b() }\n}\n";
        assert_eq!(check(&sample("crates/machine/host/src/lib.rs", text)), []);
        assert_eq!(lines(&check(&sample("crates/core/model/src/lib.rs", text))), [2, 5]);
        assert_eq!(lines(&check(&sample("xtask/src/main.rs", "#[unsafe(no_mangle)]\nfn a() {}\n"))), [1]);
    }

    #[test]
    fn each_promise_is_justified() {
        let text = "unsafe impl Send for A {}\n\nfn a() {\n    // Not that word.\n    unsafe { b() };\n    \
                    assert!(unsafe { c() });\n    // SAFETY: of another statement.\n    d();\n    unsafe { e() }\n}\n";
        assert_eq!(lines(&check(&sample("crates/machine/host/src/lib.rs", text))), [1, 5, 6, 9]);
    }

    #[test]
    fn the_comment_may_stand_above_the_statement_and_its_attributes() {
        let text = "fn a() {\n    // SAFETY: so,\n    // and so.\n    #[expect(x, reason = \"y\")]\n    let a =\n        \
                    unsafe { b() };\n    // SAFETY: so.\n    assert_eq!(\n        unsafe { c() }, 1\n    );\n\
                        d(unsafe { e() }); // SAFETY: so.\n}\n";
        assert_eq!(check(&sample("crates/paths/http/src/lib.rs", text)), []);
    }

    #[test]
    fn declarations_ask_for_a_promise_and_make_none() {
        let text = "/// # Safety\n/// So.\npub unsafe fn a() {}\npub unsafe trait B {}\nunsafe extern \"C\" { fn c(); }\n";
        assert_eq!(check(&sample("crates/machine/host/src/lib.rs", text)), []);
    }
}
