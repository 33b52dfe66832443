//! `host` is the only door to the machine: no other crate of the product starts a process or opens a file of
//! the kernel's.
//!
//! Clippy's `disallowed_types` says the same of processes with full name resolution; this rule also holds where
//! the crate does not compile. Tests are exempt, they play the outside world.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;
use proc_macro2::{Delimiter, TokenTree};

const DOOR: &str = "host";
/// Libraries whose `process::Command` starts a process.
const STARTERS: [&str; 2] = ["std", "tokio"];
const KERNEL_DIRECTORIES: [&str; 2] = ["/proc", "/sys"];
const OWN_DESCRIPTORS: &str = "/proc/self/fd/";

pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    if file.crate_directory() == Some(DOOR) {
        return found;
    }
    tokens::each_tail(&file.tokens, &mut |tail| {
        let line = tokens::line(&tail[0]);
        if file.in_test(line) {
            return;
        }
        if names_command(tail) {
            let what = "`std::process::Command` outside of crates/machine/host; use host's own, so that it is accounted for and ended with us";
            found.push(Violation::new(&file.path, line, what));
        }
        if let Some(path) = kernel_path(&tail[0]) {
            let what = format!(
                "{path:?} is the kernel's; read or write it through a function of crates/machine/host"
            );
            found.push(Violation::new(&file.path, line, what));
        }
    });
    found
}

/// `std::process::Command`, as a path or through `use std::{…}`. `host` has its own `process::Command`, which is
/// the one to use.
fn names_command(tail: &[TokenTree]) -> bool {
    STARTERS.iter().any(|library| tokens::is_ident(&tail[0], library))
        && path_ends(&tail[1..], &["process", "Command"])
}

/// Whether `tail` goes on with `::` and each of the names in turn, be it inside of braces.
fn path_ends(tail: &[TokenTree], names: &[&str]) -> bool {
    let Some((name, later_names)) = names.split_first() else { return true };
    let [colon, colon_again, next, rest @ ..] = tail else { return false };
    if !(tokens::is_punct(colon, ':') && tokens::is_punct(colon_again, ':')) {
        return false;
    }
    if let Some(group) = tokens::group(next, Delimiter::Brace) {
        let members: Vec<TokenTree> = group.stream().into_iter().collect();
        return (0..members.len())
            .any(|at| tokens::is_ident(&members[at], name) && path_ends(&members[at + 1..], later_names));
    }
    tokens::is_ident(next, name) && path_ends(rest, later_names)
}

/// The text of a string literal that is a path in one of the kernel's directories.
///
/// `/proc/self/fd/…` is a name for what is open already and nothing of the kernel's.
fn kernel_path(tree: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = tree else { return None };
    let text = match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) => text.value(),
        syn::Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
        syn::Lit::ByteStr(bytes) => String::from_utf8(bytes.value()).ok()?,
        _ => return None,
    };
    if text.starts_with(OWN_DESCRIPTORS) {
        return None;
    }
    let is_kernels = KERNEL_DIRECTORIES.iter().any(|directory| {
        text.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    is_kernels.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::lines;
    use super::*;

    const SAMPLE: &str = "use std::process::{Child, Command as Run};\nuse std::process::ExitCode;\n\
        fn a() {\n    std::process::Command::new(\"b\");\n    fs::write(\"/proc/self/oom_score_adj\", \"0\");\n    \
        c(\"/system/d\", \"see /proc/stat\", b\"/sys\");\n}\n";

    #[test]
    fn only_host_starts_processes_and_opens_kernel_files() {
        assert_eq!(lines(&check(&sample("crates/engine/runner/src/lib.rs", SAMPLE))), [1, 4, 5, 6]);
        assert_eq!(check(&sample("crates/machine/host/src/lib.rs", SAMPLE)), []);
    }

    #[test]
    fn every_way_to_name_it_counts() {
        for text in [
            "use std::{io, process::Command};",
            "use std::{process::{Child, Command as Run}, io};",
            "use ::std::process::Command;",
            "use tokio::process::Command;",
            "fn a() { b!(std::process::Command::new(\"c\")) }",
        ] {
            assert_eq!(lines(&check(&sample("crates/paths/http/src/lib.rs", text))), [1], "{text}");
        }
    }

    #[test]
    fn tests_play_the_outside_world() {
        assert_eq!(check(&sample("crates/cli/tests/run.rs", SAMPLE)), []);
        assert_eq!(
            check(&sample("crates/cli/src/lib.rs", &format!("#[cfg(test)]\nmod tests {{\n{SAMPLE}}}\n"))),
            []
        );
    }

    #[test]
    fn other_commands_and_relative_paths_are_fine() {
        let text = "use clap::Command;\nuse plumb_host::process::{Child, Command};\nuse std::{process::ExitCode, io::Command};\n\
                    const A: &str = \"/proc/self/fd/{}\";\nfn a() {\n    Command::new(\"b\");\n    c(\"proc/stat\", \"/procedure\");\n}\n";
        assert_eq!(check(&sample("crates/cli/src/lib.rs", text)), []);
    }
}
