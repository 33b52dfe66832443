//! A test runs once. A test that runs something again because of what it printed hides what it should show.
//!
//! The rule knows the names of helpers for that, and nextest's option. It cannot recognise a loop by its purpose.

use super::violation::Violation;
use crate::repository::TextFile;

/// Spelled in halves, so that this file does not break its own rule.
const HELPERS: [&str; 6] = [
    concat!("unless", "_busy"),
    concat!("is_too", "_busy"),
    concat!("retry_", "test"),
    concat!("until_", "green"),
    concat!("flaky", "_test"),
    concat!("BU", "SY"),
];
const REMEDY: &str = "assert what does not depend on the machine's speed, and run once";

pub fn check(file: &TextFile) -> Vec<Violation> {
    let is_test = file.path.contains("/tests/") || file.path.starts_with("scripts/");
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        if is_test {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for helper in words.filter(|word| HELPERS.contains(word)) {
                found.push(Violation::new(&file.path, at + 1, format!("`{helper}`: {REMEDY}")));
            }
        }
        let setting = line.split('#').next().unwrap_or_default();
        let repeats = setting.split_once('=').filter(|(key, _)| key.trim() == "retries");
        if file.path == ".config/nextest.toml" && repeats.is_some_and(|(_, value)| value.trim() != "0") {
            found.push(Violation::new(&file.path, at + 1, format!("`retries` is not 0: {REMEDY}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::violation::lines;
    use super::*;

    fn found(path: &str, text: String) -> Vec<usize> {
        lines(&check(&TextFile { path: path.to_owned(), text }))
    }

    #[test]
    fn helpers_that_repeat_are_found_in_tests_and_scripts_alone() {
        for helper in HELPERS {
            let text = format!("fn a() {{}}\nlet b = {helper}(c);\n");
            for path in ["crates/cli/tests/e2e/common.rs", "scripts/test.sh"] {
                assert_eq!(found(path, text.clone()), [2], "{path}: {helper}");
            }
            assert_eq!(found("crates/paths/http/src/load/worker.rs", text), [0; 0]);
        }
    }

    #[test]
    fn nextest_repeats_nothing() {
        let text = |retries: &str| format!("# retries = 1\n[profile.default]\nretries = {retries}\n");
        assert_eq!(found(".config/nextest.toml", text("0")), [0; 0]);
        assert_eq!(found(".config/nextest.toml", text("2")), [3]);
        assert_eq!(found(".config/nextest.toml", text("{ backoff = \"fixed\", count = 1 }")), [3]);
    }
}
