//! The run directory of a gate, and the command that makes the run again.

use std::path::{Path, PathBuf};

use plumb_report::quoted;

use crate::args::GateArguments;
use crate::commands::run::default_directory;
use crate::exit::Failure;

/// The run directory. Dropping it removes it again where nothing was written to it, with those above it that were made for it:
/// a gate that fails before its first slot leaves nothing behind.
pub struct Made {
    path: PathBuf,
    /// Directories that were not there before, the innermost first.
    new: Vec<PathBuf>,
}

impl Made {
    /// Makes the directory that was asked for, or one with a fresh name.
    pub fn prepare(asked: Option<&Path>) -> Result<Self, Failure> {
        let wanted = asked.map_or_else(|| default_directory("gate"), Path::to_owned);
        let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let was_there = wanted.exists();
        let mut new: Vec<PathBuf> =
            wanted.ancestors().skip(1).take_while(is_new).map(Path::to_owned).collect();
        let path = if asked.is_some() {
            std::fs::create_dir_all(&wanted)
                .map_err(|error| Failure::harness(format!("make {}: {error}", wanted.display())))?;
            wanted
        } else {
            plumb_store::make_unique(&wanted).map_err(Failure::harness)?
        };
        if asked.is_none() || !was_there {
            new.insert(0, path.clone());
        }
        Ok(Self { path, new })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for directory in &self.new {
            // The kernel refuses to remove a directory with anything in it.
            if std::fs::remove_dir(directory).is_err() {
                break;
            }
        }
    }
}

/// The gate as a command of a shell, without the options that say where and how its result is shown. Revisions are named by their
/// commits, because a branch moves on.
pub fn command_line(arguments: &GateArguments, commits: Option<[String; 2]>, seed: u64) -> String {
    let file = arguments.run.as_ref().map(|file| file.display().to_string());
    let [base, head] = commits.map_or_else(Default::default, |commits| commits.map(Some));
    let others_max = file.is_none().then(|| arguments.others_max.to_string());
    let once = [
        ("--base", base),
        ("--head", head),
        ("--build", arguments.build.clone()),
        ("--command", arguments.command.clone()),
        ("--run", file),
        ("--base-command", arguments.base_command.clone()),
        ("--head-command", arguments.head_command.clone()),
        ("--budget", Some(arguments.budget.to_string())),
        ("--worse-than", Some(arguments.worse_than.to_string())),
        ("--others-max", others_max),
    ];
    let metrics = arguments.metric.iter().map(|metric| ("--metric", metric.clone()));
    let options = once.into_iter().filter_map(|(name, value)| Some((name, value?))).chain(metrics);
    let mut line = "plumb gate".to_owned();
    for (name, value) in options {
        line += &format!(" {name} {}", quoted(&value));
    }
    line + if arguments.shell { " --shell" } else { "" } + &format!(" --seed {seed}")
}
