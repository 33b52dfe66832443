//! Engines and providers of OpenSSL in programs of the host.
//!
//! OpenSSL loads them by the program's own words (`ssl-engine`, `ssl-provider`, `ssl_engine`) or by its configuration
//! file, which every program that uses libssl reads. The program's words are used where it has them; the
//! configuration file where it was built without them, and wherever a library is given by its path. Either way the
//! program gets a separate configuration file, so that what the host's says reaches neither side of a comparison.
//!
//! That something is loaded proves nothing: OpenSSL goes on in software where a library does not load, and engines do
//! where they find no device. What was mapped is read back, and what was saved is judged.

mod build;
mod library;
mod openssl_conf;

use std::path::{Path, PathBuf};

use plumb_host::process::{can_run_as_nobody, mapped_files};
use plumb_host::qat::QatDevice;

use super::program::Installable;
use crate::settings::{IngressKind, IngressSpec, Offload, OffloadMode};
use build::Build;
pub(super) use library::is_name_or_path;

/// The name of the configuration file that a program gets.
const CONF: &str = "openssl.cnf";

/// The state that says which library a program has mapped for what it was asked to load; empty for none.
pub(crate) const LIBRARY_STATE: &str = "offload_library";

/// The counter of all QAT devices' requests, where there are devices that can be read.
pub(crate) const QAT_REQUESTS: &str = "qat_requests";

/// The state of how busy devices say that they are, where they do.
pub(crate) const QAT_TELEMETRY: &str = "qat_telemetry";

/// What OpenSSL can be extended by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    /// Of OpenSSL 1 and 3.
    Engine,
    /// Of OpenSSL 3 and later.
    Provider,
}

impl Extension {
    fn word(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Provider => "provider",
        }
    }
}

/// An engine or a provider that a program can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    extension: Extension,
    /// Its name for OpenSSL.
    name: String,
    library: PathBuf,
    /// Whether the program is told in its own words, and not by OpenSSL's configuration file.
    is_directive: bool,
    is_async: bool,
}

impl Module {
    /// What an ingress asks for, if it asks for an engine or a provider; the program is asked whether it can.
    ///
    /// # Errors
    ///
    /// One sentence that says what is missing.
    pub(super) fn of(spec: &IngressSpec, program: Installable) -> Result<Option<Self>, String> {
        let (extension, asked) = match &spec.offload {
            Offload::Engine(asked) => (Extension::Engine, asked),
            Offload::Provider(asked) => (Extension::Provider, asked),
            Offload::None | Offload::Threads | Offload::Multibuffer => return Ok(None),
        };
        let build = Build::ask(program)?;
        build.can_load(extension)?;
        let is_async = is_async(spec);
        if is_async && !build.has_async {
            return Err(format!(
                "{} was built without TLS operations that can wait; set `offload_mode: sync`",
                build.title
            ));
        }
        let (name, library) = library::find(extension, asked)?;
        let is_path = asked.contains('/');
        let is_directive = !is_path && build.has_directive(extension);
        Ok(Some(Self { extension, name, library, is_directive, is_async }))
    }

    /// HAProxy's words for it, in the section `global`.
    pub(super) fn haproxy(&self) -> String {
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
    pub(super) fn nginx(&self) -> String {
        match (self.extension, self.is_directive) {
            (Extension::Engine, true) => format!("ssl_engine {};\n", self.name),
            (Extension::Engine, false) | (Extension::Provider, _) => String::new(),
        }
    }

    /// What its library is called in the list of a process' mappings.
    fn file_name(&self) -> String {
        self.library.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Which library a process has mapped as this module, as the path; the empty text for none.
    pub(super) fn mapped(&self, pid: u32) -> String {
        let name = self.file_name();
        let files = mapped_files(pid);
        let mut same = files.iter().filter(|file| file.file_name().is_some_and(|other| *other == *name));
        same.next().map(|file| file.display().to_string()).unwrap_or_default()
    }
}

/// Whether what an ingress asks for uses QAT devices where there are any. What has another name has devices of another
/// kind, or none, and the counters of QAT would say nothing of it.
pub(super) fn is_qat(spec: &IngressSpec) -> bool {
    match &spec.offload {
        Offload::Engine(asked) | Offload::Provider(asked) => {
            library::stem(asked).to_ascii_lowercase().contains("qat")
        }
        Offload::None | Offload::Threads | Offload::Multibuffer => false,
    }
}

/// The sums over all devices; nothing where there is none, so that a device that cannot be read is no device that
/// counted nothing.
pub(super) fn device_counters(devices: &[QatDevice]) -> Vec<(String, u64)> {
    let sum = |value: fn(&QatDevice) -> u64| devices.iter().map(value).fold(0, u64::saturating_add);
    let counters = [
        (QAT_REQUESTS, sum(|device| device.counters.requests)),
        ("qat_responses", sum(|device| device.counters.responses)),
    ];
    let counters = counters.map(|(name, value)| (name.to_owned(), value));
    if devices.is_empty() { Vec::new() } else { counters.into() }
}

/// Which devices these are, and how busy they say that they are.
pub(super) fn device_states(devices: &[QatDevice]) -> Vec<(String, String)> {
    let join = |words: Vec<String>| (!words.is_empty()).then(|| words.join(", "));
    let names = devices.iter().map(|device| device.name.clone()).collect();
    let busy = devices.iter().filter_map(|device| {
        Some(format!("{} has its public-key slices up to {}% busy", device.name, device.public_key_percent?))
    });
    let states = [("qat_devices", join(names)), (QAT_TELEMETRY, join(busy.collect()))];
    states.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Whether operations are to be set aside while the device works.
pub(super) fn is_async(spec: &IngressSpec) -> bool {
    match (spec.offload_mode, spec.kind) {
        (Some(mode), _) => mode == OffloadMode::Async,
        (None, IngressKind::Nginx) => false,
        (None, _) => true,
    }
}

/// Whether a program that root starts is run as `nobody`. One that uses a device through an engine or a provider is not: the
/// device's files are often root's alone.
pub(super) fn may_give_up_root(module: Option<&Module>) -> bool {
    module.is_none() && can_run_as_nobody()
}

/// The files and variables by which a program's OpenSSL is told what to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// Files for the program's directory, by name.
    pub(super) files: Vec<(&'static str, String)>,
    /// Variables of its environment.
    pub(super) variables: Vec<(&'static str, PathBuf)>,
}

impl Environment {
    /// For a program that reaches its directory as `home`.
    pub(super) fn new(module: Option<&Module>, home: &str) -> Self {
        let conf = openssl_conf::text(module.filter(|module| !module.is_directive));
        let mut variables = vec![("OPENSSL_CONF", Path::new(home).join(CONF))];
        let home = module.filter(|module| module.is_directive);
        let home = home.and_then(|module| Some((module.extension, module.library.parent()?)));
        variables.extend(home.map(|(extension, home)| (library::variable(extension), home.to_owned())));
        Self { files: vec![(CONF, conf)], variables }
    }
}

#[cfg(test)]
mod tests {
    use plumb_host::qat::QatCounters;

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
    fn a_program_reads_its_own_file_and_looks_where_the_library_was_found() {
        let variables = |module: &Module| Environment::new(Some(module), "/run/haproxy").variables;
        let conf = ("OPENSSL_CONF", PathBuf::from("/run/haproxy/openssl.cnf"));
        let told = variables(&module(Extension::Engine, true, false));
        assert_eq!(told, [conf.clone(), ("OPENSSL_ENGINES", "/opt/qat".into())]);
        let told = variables(&module(Extension::Provider, true, false));
        assert_eq!(told, [conf.clone(), ("OPENSSL_MODULES", "/opt/qat".into())]);
        assert_eq!(variables(&module(Extension::Engine, false, false)).len(), 1);
        assert_eq!(Environment::new(None, "/run/haproxy").variables, [conf]);
        assert!(!Environment::new(None, ".").files[0].1.contains('['));
    }

    #[test]
    fn operations_are_set_aside_by_default_where_the_program_can() {
        let spec = |kind, mode| IngressSpec { kind, offload_mode: mode, ..IngressSpec::default() };
        assert!(is_async(&spec(IngressKind::Haproxy, None)));
        assert!(!is_async(&spec(IngressKind::Haproxy, Some(OffloadMode::Sync))));
        assert!(!is_async(&spec(IngressKind::Nginx, None)));
    }

    #[test]
    fn devices_count_for_what_is_named_after_them_alone() {
        let asks = |asked: &str| {
            let offload = Offload::Engine(asked.to_owned());
            is_qat(&IngressSpec { offload, ..IngressSpec::default() })
        };
        assert!(asks("qatengine") && asks("/opt/libqat.so") && !asks("pka") && !asks("/opt/qat/pka.so"));
        assert!(!is_qat(&IngressSpec::default()));
        let device = |name: &str, requests, public_key_percent| QatDevice {
            name: name.to_owned(),
            counters: QatCounters { requests, responses: requests },
            public_key_percent,
        };
        assert_eq!(device_counters(&[]), []);
        let devices = [device("qat_4xxx_0", 17, Some(37)), device("qat_4xxx_1", u64::MAX, None)];
        assert_eq!(device_counters(&devices)[0], (QAT_REQUESTS.to_owned(), u64::MAX));
        let states: Vec<String> =
            device_states(&devices).into_iter().map(|(name, words)| name + ": " + &words).collect();
        insta::assert_snapshot!(states.join("\n"), @"
        qat_devices: qat_4xxx_0, qat_4xxx_1
        qat_telemetry: qat_4xxx_0 has its public-key slices up to 37% busy
        ");
    }
}
