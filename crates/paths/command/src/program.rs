//! Which program a command runs: its file, found as a shell would find it, and what tells that file from another.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumb_host::Error;
use plumb_host::process::{Command, which, which_in};
use plumb_path::PathError;
use serde::{Deserialize, Serialize};

use crate::line::line;
use crate::settings::{LoadSettings, Shell};
use crate::words::split;

/// Why a command has no program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoProgram {
    /// The shell does that itself.
    #[error("`{_0}` is part of a shell and not a program; set `shell: sh` (`--shell sh`)")]
    BuiltIn(String),
    /// No file of that name may be executed. The place is empty, or follows the name.
    #[error("there is no program `{name}`{place} that may be executed")]
    NotThere { name: String, place: String },
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The file, by a whole path.
    pub(crate) file: PathBuf,
    /// The name, its argument 0.
    name: String,
    /// The other arguments.
    pub(crate) arguments: Vec<String>,
}

impl Program {
    /// The program of a command.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn from_settings(load: &LoadSettings) -> Result<Self, NoProgram> {
        let (name, arguments) = match load.shell {
            Shell::Sh => {
                let (shell, arguments) = line(&load.command, |name| find(load, name).is_some());
                (shell.to_owned(), arguments.into())
            }
            Shell::None => {
                let mut words = split(&load.command).unwrap_or_default().into_iter();
                (words.next().unwrap_or_default(), words.collect())
            }
        };
        let file = find(load, &name).ok_or_else(|| missing(load, &name))?;
        Ok(Self { file, name, arguments })
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The command that starts it.
    ///
    /// # Errors
    /// When its network namespace is not there.
    pub(crate) fn command(&self, load: &LoadSettings) -> Result<Command, PathError> {
        dressed(Command::new(&self.file).called(&self.name).args(&self.arguments), load)
    }
}

/// A command in the surroundings that settings give it.
///
/// # Errors
/// When its network namespace is not there.
pub(crate) fn dressed(command: Command, load: &LoadSettings) -> Result<Command, PathError> {
    let command = command.inherit(&load.inherit);
    let mut command = load.env.iter().fold(command, |command, (name, value)| command.env(name, value));
    if let Some(netns) = &load.netns {
        let opened = File::open(netns);
        let opened =
            opened.map_err(|cause| PathError::new(format!("open the network of the system: {cause}")))?;
        command = command.network(&opened)?;
    }
    Ok(match &load.directory {
        Some(directory) => command.working_directory(directory),
        None => command,
    })
}

/// A name with a slash is a path, from the command's working directory on; all others are looked up.
fn find(load: &LoadSettings, name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        let directory = load.directory.clone().unwrap_or_default();
        return which(std::path::absolute(directory.join(name)).ok()?);
    }
    match load.env.get("PATH") {
        Some(path) => which_in(name, OsStr::new(path)),
        None => which(name),
    }
}

fn missing(load: &LoadSettings, name: &str) -> NoProgram {
    const BUILT_IN: [&str; 11] =
        ["cd", "exit", "export", ":", ".", "eval", "exec", "read", "set", "ulimit", "wait"];
    if BUILT_IN.contains(&name) {
        return NoProgram::BuiltIn(name.to_owned());
    }
    let place = if name.contains('/') {
        load.directory.as_ref().map(|directory| format!(" below {}", directory.display())).unwrap_or_default()
    } else {
        " on PATH".to_owned()
    };
    NoProgram::NotThere { name: name.to_owned(), place }
}

/// The identity of a program's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Where it is.
    pub(crate) file: PathBuf,
    /// A hash of its content.
    pub(crate) digest: String,
    /// Properties that change with the file: device, inode, size, and the times of its last changes.
    stamp: Stamp,
}

/// See [`Identity`].
type Stamp = (u64, u64, u64, i64, i64, i64);

impl Identity {
    /// The identity of a file. One that was not changed since `known` is not read again.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of_file(file: &Path, known: Option<&Self>) -> Result<Self, Error> {
        let metadata =
            std::fs::metadata(file).map_err(|cause| Error::Read { path: file.to_owned(), cause })?;
        let stamp = (
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime_nsec(),
        );
        if let Some(known) = known.filter(|known| known.stamp == stamp && known.file == file) {
            return Ok(known.clone());
        }
        let digest = plumb_host::file_digest(file)?;
        Ok(Self { file: file.to_owned(), digest, stamp })
    }

    /// Whether it has the same content in the same place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.file, &self.digest) == (&other.file, &other.digest)
    }

    /// In words, with the first half of the hash.
    pub(crate) fn in_words(&self) -> String {
        format!("{} with hash {}", self.file.display(), &self.digest[..self.digest.len() / 2])
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(command: &str) -> LoadSettings {
        LoadSettings { command: command.to_owned(), ..LoadSettings::default() }
    }

    #[test]
    fn a_program_is_found_on_the_path_below_its_directory_or_as_the_shell() {
        let sleep = Program::from_settings(&load("sleep 0.1")).unwrap();
        assert!(sleep.file.is_absolute() && sleep.file.ends_with("sleep"), "{sleep:?}");
        assert_eq!((sleep.name.as_str(), &sleep.arguments[..]), ("sleep", &["0.1".to_owned()][..]));
        let shell = Program::from_settings(&LoadSettings { shell: Shell::Sh, ..load("a | b") }).unwrap();
        assert!(shell.file.ends_with("bash") && shell.arguments[1].ends_with("\na | b"), "{shell:?}");
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let below = LoadSettings { directory: Some(place.path().to_owned()), ..load("./script") };
        assert!(Program::from_settings(&below).unwrap_err().to_string().contains("`./script` below /"));
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Program::from_settings(&below).unwrap().file, place.path().join("./script"));
        let mut on_path = load("script");
        on_path.env.insert("PATH".to_owned(), place.path().display().to_string());
        assert_eq!(Program::from_settings(&on_path).unwrap().file, script);
        assert!(Program::from_settings(&load("cd /tmp")).unwrap_err().to_string().contains("--shell sh"));
    }

    #[test]
    fn a_file_that_changes_has_another_identity() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("program");
        std::fs::write(&file, "one").unwrap();
        let first = Identity::of_file(&file, None).unwrap();
        assert_eq!(Identity::of_file(&file, Some(&first)).unwrap(), first);
        std::fs::write(&file, "other").unwrap();
        let changed = Identity::of_file(&file, Some(&first)).unwrap();
        assert!(!changed.is_same(&first));
        let copy = place.path().join("copy");
        std::fs::copy(&file, &copy).unwrap();
        assert_eq!(Identity::of_file(&copy, None).unwrap().digest, changed.digest);
    }
}
