//! Processes that an earlier driver may have started, found by a word in their command line that no other
//! process has.

use plumb_host::process::{Detached, has_words, named};

/// The processes with this name prefix and these words in their command line, without this process.
pub(super) fn with_words(name: &str, words: &str) -> Vec<Detached> {
    let pids = named(name).into_iter().filter(|pid| *pid != std::process::id());
    pids.filter(|pid| has_words(*pid, words)).filter_map(Detached::with_pid).collect()
}
