//! Git's description of a work tree.

use std::path::Path;
use std::time::Duration;

use plumb_host::process::run_for_output;
use plumb_model::Source;

use crate::exit::Failure;

/// How long git may take for one step.
const GIT: Duration = Duration::from_secs(300);
/// No subject of a commit is kept longer, in characters.
const SUBJECT_MAX: usize = 200;

/// Runs git in a directory and returns what it printed.
pub fn git(directory: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let failed = |reason: String| Failure::harness(format!("run git {}: {reason}", arguments.join(" ")));
    let directory = directory.to_string_lossy();
    let all = ["-C", &*directory].into_iter().chain(arguments.iter().copied());
    let output = run_for_output("git", all, GIT).map_err(|error| failed(error.to_string()))?;
    if output.exit.is_success() { Ok(output.stdout) } else { Err(failed(output.stderr.trim().to_owned())) }
}

/// The revision of the work tree that a directory is in; `None` outside of work trees and without git.
pub fn source(directory: &Path) -> Option<Source> {
    let line = |arguments: &[&str]| {
        Some(git(directory, arguments).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let revision = line(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
    let subject = line(&["show", "--no-patch", "--format=%s", &revision]);
    Some(Source {
        branch: line(&["symbolic-ref", "--short", "--quiet", "HEAD"]),
        dirty: line(&["status", "--porcelain", "--untracked-files=no"]).is_some(),
        committed_at: line(&["show", "--no-patch", "--format=%cI", &revision]),
        subject: subject.map(|subject| subject.chars().take(SUBJECT_MAX).collect()),
        revision,
    })
}
