//! Two revisions of a git repository, checked out side by side and built.
//!
//! Their directories differ by one word of the same length, because the length of a path alone can move a program's speed
//! (Mytkowicz, Diwan, Hauswirth and Sweeney, "Producing Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{Command, Exit, Signal, Stream};
use plumb_host::scratch::Scratch;
use plumb_host::signals::Interrupts;

use super::directory::{PREFIX, SIDES, mark, remove_work_trees, sweep};
use crate::commands::git::git;
use crate::exit::{Failure, INTERRUPTED};
use crate::output;

/// How often a build is looked at, for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// How long an interrupted build has to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// How much of a failed build's output is shown.
const LINES_SHOWN: usize = 20;

/// The work trees; they are removed on drop.
pub struct Trees {
    scratch: Scratch,
    revisions: [Revision; 2],
    /// Dropped last, so the lock lasts until the directory is gone.
    _journal: File,
}

/// The commit of a name such as `main`.
#[derive(Debug, Clone)]
pub struct Revision {
    /// As it was given.
    pub name: String,
    /// The commit, in full.
    pub commit: String,
}

impl Revision {
    fn resolve(name: &str) -> Result<Self, Failure> {
        let text = git(Path::new("."), &["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")])
            .map_err(|_| {
                let is_shallow = git(Path::new("."), &["rev-parse", "--is-shallow-repository"]);
                let remedy = match is_shallow.is_ok_and(|answer| answer.trim() == "true") {
                    true => ", which has only the newest part of its history; `git fetch --unshallow` fetches the rest",
                    false => "",
                };
                Failure::usage(format!("`{name}` names no commit of the git repository here{remedy}"))
            })?;
        Ok(Self { name: name.to_owned(), commit: text.trim().to_owned() })
    }

    /// `main (1a2b3c4d)`, or the commit alone where that was given.
    pub fn name_with_commit(&self) -> String {
        let short = self.commit.get(..8).unwrap_or(&self.commit);
        if self.commit.starts_with(&self.name) {
            short.to_owned()
        } else {
            format!("{} ({short})", self.name)
        }
    }
}

impl Trees {
    /// Checks both revisions out.
    pub fn check_out(base: &str, head: &str) -> Result<Self, Failure> {
        let revisions = [Revision::resolve(base)?, Revision::resolve(head)?];
        if head == "HEAD"
            && !git(Path::new("."), &["status", "--porcelain", "--untracked-files=no"])?.trim().is_empty()
        {
            output::message("warning: changes that are not committed are not part of HEAD");
        }
        let [one, other] = &revisions;
        if one.commit == other.commit {
            output::message(&format!(
                "warning: {base} and {head} are the same commit, so equal builds are compared"
            ));
        }
        let parent = std::env::temp_dir();
        for path in sweep(&parent) {
            output::message(&format!("removed {}, which a killed gate had left", path.display()));
        }
        let scratch = Scratch::create(&parent, PREFIX).map_err(Failure::harness)?;
        let marked = std::env::current_dir().and_then(|here| mark(scratch.path(), &here));
        let journal =
            marked.map_err(|error| Failure::harness(format!("write the gate's journal: {error}")))?;
        let trees = Self { scratch, revisions, _journal: journal };
        for (side, revision) in SIDES.iter().zip(&trees.revisions) {
            let path = trees.path(side);
            git(
                Path::new("."),
                &["worktree", "add", "--detach", "--quiet", &path.to_string_lossy(), &revision.commit],
            )?;
        }
        Ok(trees)
    }

    /// Where a side is.
    pub fn path(&self, side: &str) -> PathBuf {
        self.scratch.path().join(side)
    }

    /// The revisions of the sides.
    pub fn revisions(&self) -> &[Revision; 2] {
        &self.revisions
    }

    /// Builds both sides with a command of the shell; what it prints goes into a file of `logs` for each.
    pub fn build(&self, command: &str, logs: &Path, interrupts: &Interrupts) -> Result<(), Failure> {
        for (side, revision) in SIDES.iter().zip(&self.revisions) {
            output::message(&format!("building {}: {command}", revision.name_with_commit()));
            let log = logs.join(format!("build-{side}.log"));
            let file = |file: std::io::Result<File>| {
                file.map_err(|error| Failure::harness(format!("write {}: {error}", log.display())))
            };
            let out = file(File::create(&log))?;
            let err = file(out.try_clone())?;
            let build = guarded(command)
                .inherit(std::env::vars_os().map(|(name, _)| name))
                .working_directory(self.path(side))
                .stdout(Stream::File(out))
                .stderr(Stream::File(err))
                .dies_with_parent(Signal::KILL);
            match finish(build, interrupts)? {
                exit if exit.is_success() => {}
                exit => return Err(Failure::harness(broken(revision, exit, &log))),
            }
        }
        Ok(())
    }
}

/// A shell command whose process group is killed when its standard input closes, which happens when this process dies. The
/// kernel's parent-death signal would reach only the shell.
fn guarded(command: &str) -> Command {
    const GUARD: &str =
        r#"exec 3<&0 </dev/null; { read -r line; kill -KILL 0; } <&3 & exec 3<&-; exec sh -c "$1""#;
    Command::new("sh").args(["-c", GUARD, "sh", command]).stdin(Stream::Piped).own_group()
}

fn finish(build: Command, interrupts: &Interrupts) -> Result<Exit, Failure> {
    let mut child = build.spawn().map_err(Failure::harness)?;
    // The build is killed when this closes.
    let _lifeline = child.take_stdin();
    loop {
        if let Some(exit) = child.wait_timeout(LOOK).map_err(Failure::harness)? {
            return Ok(exit);
        }
        if interrupts.is_interrupted() {
            child.terminate(GRACE).map_err(Failure::harness)?;
            return Err(Failure { code: INTERRUPTED, ..Failure::usage("interrupted while building") });
        }
    }
}

fn broken(revision: &Revision, exit: Exit, log: &Path) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let shown = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n  ");
    format!(
        "build {}: the command {exit}; the end of {}:\n  {shown}",
        revision.name_with_commit(),
        log.display()
    )
}

impl Drop for Trees {
    fn drop(&mut self) {
        remove_work_trees(Path::new("."), self.scratch.path());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_build_ends_with_its_gate() {
        let mut child =
            guarded("sleep 600 & echo begun; sleep 600; exit 3").stdout(Stream::Piped).spawn().unwrap();
        let lifeline = child.take_stdin();
        let mut lines = BufReader::new(child.take_stdout().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "begun");
        assert_eq!(child.wait_timeout(Duration::from_millis(300)).unwrap(), None);
        drop(lifeline);
        assert_eq!(child.wait_timeout(Duration::from_secs(60)).unwrap(), Some(Exit::Signal(9)));
        // The output ends once no process of the build has it open.
        let (sender, ended) = channel();
        std::thread::spawn(move || sender.send(lines.next().is_none()));
        assert_eq!(
            ended.recv_timeout(Duration::from_secs(60)),
            Ok(true),
            "a process of the build still runs"
        );
        let mut child = guarded("cat; exit 3").spawn().unwrap();
        let _lifeline = child.take_stdin();
        let exit = child.wait_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(exit, Some(Exit::Code(3)), "the build itself has no input");
    }
}
