//! `unsafe` stays in the crates that call C or the kernel. Clippy checks that each block says why it is sound.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;

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
    if file.crate_directory().is_some_and(|name| MAY_BE_UNSAFE.iter().any(|(it, _)| *it == name)) {
        return Vec::new();
    }
    let names: Vec<&str> = MAY_BE_UNSAFE.iter().map(|(name, _)| *name).collect();
    let what =
        format!("`unsafe` outside of the crates {}; put it behind a safe function there", names.join(", "));
    let mut found = Vec::new();
    tokens::each_tail(&file.tokens, &mut |tail| {
        if tokens::is_ident(&tail[0], "unsafe") {
            found.push(Violation::new(&file.path, tokens::line(&tail[0]), what.clone()));
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
    fn unsafe_stays_in_its_crates() {
        let text = "// SAFETY: so.\nunsafe impl Send for A {}\nfn a() {\n    // SAFETY: so.\n    unsafe { b() }\n}\n";
        assert_eq!(check(&sample("crates/machine/host/src/lib.rs", text)), []);
        assert_eq!(lines(&check(&sample("crates/core/model/src/lib.rs", text))), [2, 5]);
        assert_eq!(lines(&check(&sample("xtask/src/main.rs", "#[unsafe(no_mangle)]\nfn a() {}\n"))), [1]);
    }
}
