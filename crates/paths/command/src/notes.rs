//! Notes of the load's agent on the programs that it ran: whether one has changed since its first slot, and whether two
//! variants that are to differ run the same bytes.
//!
//! The notes are in the agent's private directory, because a load is built anew for each slot.

use plumb_model::{Notice, NoticeKind};
use std::path::{Path, PathBuf};

use plumb_path::PathError;
use serde::{Deserialize, Serialize};

use crate::program::{Identity, Program};
use crate::settings::{CommandSettings, LoadSettings};

/// The file with the notes.
const FILE: &str = "programs.json";

/// All notes, one for each variant.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    programs: Vec<Noted>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Noted {
    settings: CommandSettings,
    arguments: Vec<String>,
    first: Identity,
    last: Identity,
}

impl Notes {
    /// The notes so far.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn read_from(scratch: &Path) -> Result<Self, PathError> {
        let file = file(scratch);
        let failed =
            |cause: &dyn std::fmt::Display| PathError::load(format!("read {}: {cause}", file.display()));
        match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(&error)),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(cause) => Err(failed(&cause)),
        }
    }

    /// The facts about the program of these settings.
    pub(crate) fn known(&self, settings: &CommandSettings) -> Option<&Identity> {
        self.noted(settings).map(|noted| &noted.last)
    }

    /// The program of these settings in their first slot.
    pub(crate) fn first(&self, settings: &CommandSettings) -> Option<&Identity> {
        self.noted(settings).map(|noted| &noted.first)
    }

    fn noted(&self, settings: &CommandSettings) -> Option<&Noted> {
        self.programs.iter().find(|noted| noted.settings == *settings)
    }

    /// Notes the program of these settings, and keeps that on disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn note(
        &mut self,
        scratch: &Path,
        settings: &CommandSettings,
        program: &Program,
        last: Identity,
    ) -> Result<(), PathError> {
        let arguments = program.arguments.clone();
        match self.programs.iter_mut().find(|noted| noted.settings == *settings) {
            Some(noted) => (noted.last, noted.arguments) = (last, arguments),
            None => {
                let (settings, first) = (settings.clone(), last.clone());
                self.programs.push(Noted { settings, arguments, first, last });
            }
        }
        let file = file(scratch);
        let written = serde_json::to_vec(self).map_err(std::io::Error::other);
        let written = written.and_then(|bytes| std::fs::write(&file, bytes));
        written.map_err(|cause| PathError::load(format!("write {}: {cause}", file.display())))
    }

    /// A notice where another variant's command is written differently and comes to the same.
    pub(crate) fn twin(&self, settings: &CommandSettings) -> Option<Notice> {
        let own = self.noted(settings)?;
        let is_twin = |other: &&Noted| {
            let (a, b) = (&own.settings.load, &other.settings.load);
            a.command != b.command
                && own.arguments == other.arguments
                && own.last.digest == other.last.digest
                && has_same_surroundings(a, b)
        };
        let twin = self.programs.iter().find(is_twin)?;
        let mut files = [&own.last.file, &twin.last.file].map(|file| file.display().to_string());
        files.sort();
        let [one, other] = &files;
        Some(match one == other {
            true => Notice::from(NoticeKind::SameProgram).about([one]),
            false => Notice::from(NoticeKind::SameBytes).about(files),
        })
    }
}

fn file(scratch: &Path) -> PathBuf {
    scratch.join(FILE)
}

fn has_same_surroundings(a: &LoadSettings, b: &LoadSettings) -> bool {
    (&a.env, &a.inherit, &a.directory, a.shell) == (&b.env, &b.inherit, &b.directory, b.shell)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn settings(command: &Path) -> CommandSettings {
        let mut settings = CommandSettings::default();
        settings.load.command = command.display().to_string();
        settings
    }

    fn note(place: &Path, settings: &CommandSettings) -> Notes {
        let mut notes = Notes::read_from(place).unwrap();
        let program = Program::from_settings(&settings.load).unwrap();
        let last = Identity::of_file(&program.file, notes.known(settings)).unwrap();
        notes.note(place, settings, &program, last).unwrap();
        notes
    }

    fn program(file: &Path, text: &str) {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn copies_of_one_program_are_twins_and_a_changed_program_is_not_what_it_was() {
        let place = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| place.path().join(name));
        program(&a, "#!/bin/sh\n");
        program(&b, "#!/bin/sh\n");
        assert_eq!(note(place.path(), &settings(&a)).twin(&settings(&a)), None);
        let notes = note(place.path(), &settings(&b));
        let twin = notes.twin(&settings(&b)).unwrap();
        assert_eq!(twin.kind, NoticeKind::SameBytes);
        assert!(twin.about[0].ends_with("/a") && twin.about[1].ends_with("/b"), "{twin:?}");
        assert_eq!(notes.twin(&settings(&a)).unwrap(), twin);
        let mut elsewhere = settings(&b);
        elsewhere.load.env.insert("A".to_owned(), "1".to_owned());
        elsewhere.load.command += " ";
        assert_eq!(note(place.path(), &elsewhere).twin(&elsewhere), None);
        program(&b, "#!/bin/sh\nexit 1\n");
        let notes = note(place.path(), &settings(&b));
        assert_eq!(notes.twin(&settings(&b)), None);
        let (first, last) = (notes.first(&settings(&b)).unwrap(), notes.known(&settings(&b)).unwrap());
        assert!(!first.is_same(last));
    }
}
