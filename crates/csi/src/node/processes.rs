//! Processes that an earlier driver may have started, found by a word of their command lines that no other process has.

use plumb_host::process::{Detached, has_words, named};

/// The processes whose name begins so, and whose command line has these words. This process is none of them.
pub(super) fn with_words(name: &str, words: &str) -> Vec<Detached> {
    let pids = named(name).into_iter().filter(|pid| *pid != std::process::id());
    pids.filter(|pid| has_words(*pid, words)).filter_map(Detached::of).collect()
}
