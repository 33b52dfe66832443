//! The engine or provider that an ingress asks for, in the words of the program that loads it.

use std::path::PathBuf;

use plumb_host::process::{can_run_as_nobody, mapped_files};

use super::build::Build;
use super::error::OffloadError;
use super::extension::Extension;
use super::library;
use crate::settings::{IngressKind, IngressSettings, Offload, OffloadMode};
use crate::system::installable::Installable;

/// The state that says which library a program has mapped for what it was asked to load; empty for none.
pub(crate) const LIBRARY_STATE: &str = "offload_library";

/// An engine or a provider that a program can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::system) struct Module {
    pub(super) extension: Extension,
    /// The name for OpenSSL.
    pub(super) name: String,
    pub(super) library: PathBuf,
    /// Whether the program is told in its own words, and not by OpenSSL's configuration file.
    pub(super) is_directive: bool,
    pub(super) is_async: bool,
}

impl Module {
    /// The engine or provider that an ingress asks for, if any; the program is asked whether it can load it.
    ///
    /// # Errors
    ///
    /// When it cannot.
    pub(in crate::system) fn asked_by(
        spec: &IngressSettings,
        program: Installable,
    ) -> Result<Option<Self>, OffloadError> {
        let (extension, asked) = match &spec.offload {
            Offload::Engine(asked) => (Extension::Engine, asked),
            Offload::Provider(asked) => (Extension::Provider, asked),
            Offload::None | Offload::Threads | Offload::Multibuffer => return Ok(None),
        };
        let build = Build::ask(program)?;
        build.can_load(extension)?;
        let is_async = is_async(spec);
        if is_async && !build.has_async {
            return Err(OffloadError::NoAsync { program: build.title });
        }
        let (name, library) = library::find(extension, asked)?;
        let is_path = asked.contains('/');
        let is_directive = !is_path && build.has_directive(extension);
        Ok(Some(Self { extension, name, library, is_directive, is_async }))
    }

    /// HAProxy's words for it, in the section `global`.
    pub(in crate::system) fn haproxy(&self) -> String {
        let name = &self.name;
        let load = match (self.extension, self.is_directive) {
            (_, false) => String::new(),
            (Extension::Engine, true) => format!("    ssl-engine {name} algo ALL\n"),
            // A program that loads a provider by name has to load the default one, too.
            (Extension::Provider, true) => {
                format!(
                    "    ssl-provider {name}\n    ssl-provider default\n    ssl-propquery ?provider={name}\n"
                )
            }
        };
        if self.is_async { format!("{load}    ssl-mode-async\n") } else { load }
    }

    /// nginx's words for it, outside of all blocks.
    pub(in crate::system) fn nginx(&self) -> String {
        match (self.extension, self.is_directive) {
            (Extension::Engine, true) => format!("ssl_engine {};\n", self.name),
            (Extension::Engine, false) | (Extension::Provider, _) => String::new(),
        }
    }

    /// The library's name in the list of a process' mappings.
    fn file_name(&self) -> String {
        self.library.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Which library a process has mapped as this module, as the path; the empty text for none.
    pub(in crate::system) fn mapped(&self, pid: u32) -> String {
        let name = self.file_name();
        let files = mapped_files(pid);
        let mut same = files.iter().filter(|file| file.file_name().is_some_and(|other| *other == *name));
        same.next().map(|file| file.display().to_string()).unwrap_or_default()
    }
}

/// Whether operations are to be set aside while the device works.
fn is_async(spec: &IngressSettings) -> bool {
    match (spec.offload_mode, spec.kind) {
        (Some(mode), _) => mode == OffloadMode::Async,
        (None, IngressKind::Nginx) => false,
        (None, _) => true,
    }
}

/// Whether a program that root starts is run as `nobody`. One that uses a device through an engine or a provider is not: the
/// device's files are often root's alone.
pub(in crate::system) fn may_give_up_root(module: Option<&Module>) -> bool {
    module.is_none() && can_run_as_nobody()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(extension: Extension, is_directive: bool, is_async: bool) -> Module {
        let library = PathBuf::from("/opt/qat/qatengine.so");
        Module { extension, name: "qatengine".to_owned(), library, is_directive, is_async }
    }

    #[test]
    fn programs_are_told_in_their_own_words_where_they_have_them() {
        let words = [
            module(Extension::Engine, true, true).haproxy(),
            module(Extension::Engine, true, false).haproxy(),
            module(Extension::Engine, false, true).haproxy(),
            module(Extension::Provider, true, false).haproxy(),
            module(Extension::Engine, true, false).nginx(),
            module(Extension::Engine, false, false).nginx(),
        ];
        insta::assert_snapshot!(words.join("--\n"), @"
            ssl-engine qatengine algo ALL
            ssl-mode-async
        --
            ssl-engine qatengine algo ALL
        --
            ssl-mode-async
        --
            ssl-provider qatengine
            ssl-provider default
            ssl-propquery ?provider=qatengine
        --
        ssl_engine qatengine;
        --
        ");
    }

    #[test]
    fn operations_are_set_aside_by_default_where_the_program_can() {
        let spec = |kind, mode| IngressSettings { kind, offload_mode: mode, ..IngressSettings::default() };
        assert!(is_async(&spec(IngressKind::Haproxy, None)));
        assert!(!is_async(&spec(IngressKind::Haproxy, Some(OffloadMode::Sync))));
        assert!(!is_async(&spec(IngressKind::Nginx, None)));
    }
}
