//! Code that measures, or is measured, does not log: a line in a hot loop would be a part of what is measured.
//!
//! `host` logs which processes start and end, `path`, `places` and `runner` the steps of a slot, `tunings` what changes on a host.
//! A data path's own steps are thus in the log without a line of its own.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;

/// Directories of crates whose code may log.
const MAY_LOG: [&str; 5] = ["host", "path", "places", "runner", "tunings"];
/// Beginnings of paths in them that are silent as well.
const SILENT: [&str; 3] = [
    "crates/machine/host/src/epoll.rs",
    "crates/machine/host/src/process/measured.rs",
    "crates/engine/path/src/drive",
];

pub fn check(file: &RustFile) -> Vec<Violation> {
    let is_silent = SILENT.iter().any(|beginning| file.path.starts_with(beginning));
    if !is_silent && file.crate_directory().is_none_or(|name| MAY_LOG.contains(&name)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    tokens::each_tail(&file.tokens, &mut |tail| {
        let line = tokens::line(&tail[0]);
        if tokens::is_ident(&tail[0], "tracing") && !file.in_test(line) {
            let what = format!(
                "`tracing` in code that measures or is measured; log the step around it, in one of the crates {}",
                MAY_LOG.join(", ")
            );
            found.push(Violation::new(&file.path, line, what));
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::lines;
    use super::*;

    const SAMPLE: &str = "use tracing::debug;\nfn a() {\n    tracing::info!(\"b\");\n    let trace = 1;\n}\n";

    #[test]
    fn code_that_measures_does_not_log() {
        for path in [
            "crates/paths/http/src/load/worker.rs",
            "crates/volumes/volumes/src/limiter.rs",
            "crates/engine/path/src/drive/window.rs",
            "crates/machine/host/src/epoll.rs",
        ] {
            assert_eq!(lines(&check(&sample(path, SAMPLE))), [1, 3], "{path}");
        }
    }

    #[test]
    fn the_steps_around_it_may_be_logged() {
        for path in [
            "crates/engine/runner/src/session.rs",
            "crates/machine/host/src/process/child.rs",
            "xtask/src/main.rs",
        ] {
            assert_eq!(check(&sample(path, SAMPLE)), [], "{path}");
        }
    }
}
