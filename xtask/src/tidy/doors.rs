//! `host` is the only door to the machine: no other crate of the product starts a process or opens a file of
//! the kernel's.
//!
//! Clippy's `disallowed_types` says the same of processes with full name resolution; this rule also holds where
//! the crate does not compile. Tests are exempt, they play the outside world.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

const DOOR: &str = "host";
const KERNEL_DIRECTORIES: [&str; 2] = ["/proc", "/sys"];

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
            let what = "`process::Command` outside of crates/host; ask host to start it, so that it is accounted for";
            found.push(Violation::new(&file.path, line, what));
        }
        if let Some(path) = kernel_path(&tail[0]) {
            let what =
                format!("{path:?} is the kernel's; read or write it through a function of crates/host");
            found.push(Violation::new(&file.path, line, what));
        }
    });
    found
}

/// `process::Command`, as a path or inside `use std::process::{…}`.
fn names_command(tail: &[TokenTree]) -> bool {
    let [process, colon, colon_again, name, ..] = tail else { return false };
    tokens::is_ident(process, "process")
        && tokens::is_punct(colon, ':')
        && tokens::is_punct(colon_again, ':')
        && (tokens::is_ident(name, "Command")
            || tokens::group(name, Delimiter::Brace).is_some_and(|group| mentions_command(&group.stream())))
}

fn mentions_command(tokens: &TokenStream) -> bool {
    let mut mentioned = false;
    tokens::each_tail(tokens, &mut |tail| mentioned |= tokens::is_ident(&tail[0], "Command"));
    mentioned
}

/// The text of a string literal that is a path in one of the kernel's directories.
fn kernel_path(tree: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = tree else { return None };
    let text = match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) => text.value(),
        syn::Lit::CStr(text) => text.value().to_string_lossy().into_owned(),
        syn::Lit::ByteStr(bytes) => String::from_utf8(bytes.value()).ok()?,
        _ => return None,
    };
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
        assert_eq!(lines(&check(&sample("crates/runner/src/lib.rs", SAMPLE))), [1, 4, 5, 6]);
        assert_eq!(check(&sample("crates/host/src/lib.rs", SAMPLE)), []);
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
        let text = "use clap::Command;\nfn a() {\n    Command::new(\"b\");\n    c(\"proc/stat\", \"/procedure\");\n}\n";
        assert_eq!(check(&sample("crates/cli/src/lib.rs", text)), []);
    }
}
