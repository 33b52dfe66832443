//! Whether the libraries that programs reach accelerators through are there, can be loaded, and have anything to reach.
//!
//! A library that loads proves little: qatengine says `available` and works in plain software, QATzip compresses in
//! software without a word. So each is judged together with the devices that it needs. Loading is tried in a child
//! process, as code from elsewhere may hang or crash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accelerators::{Accelerator, AcceleratorKind};
use crate::facts::HostFacts;
use crate::process::run_for_output;

/// How long a library may take to load.
const LOAD_TIME_MAX: Duration = Duration::from_secs(10);

/// A library, engine or provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccelerationLibrary {
    /// The name.
    pub name: String,
    /// Where it is.
    pub file: Option<String>,
    /// Why it cannot be used, and what to do about it.
    pub missing: Option<String>,
}

/// The libraries for the devices of this machine.
#[must_use]
pub fn acceleration_libraries(facts: &HostFacts) -> Vec<AccelerationLibrary> {
    let places = Places::of_this_machine();
    Wanted::ALL.iter().map(|wanted| wanted.judge(&places, facts, &complaint)).collect()
}

/// Where libraries may be.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) engines: Option<PathBuf>,
    pub(super) modules: Option<PathBuf>,
    /// The libraries that the dynamic loader knows.
    pub(super) libraries: Vec<PathBuf>,
}

impl Places {
    fn of_this_machine() -> Self {
        let answer = |program: &str, arguments: &[&str]| {
            run_for_output(program, arguments, LOAD_TIME_MAX).map(|output| output.stdout).unwrap_or_default()
        };
        let openssl = answer("openssl", &["version", "-e", "-m"]);
        let ldconfig = crate::process::which("ldconfig");
        let cache = ldconfig.map(|program| answer(&program.to_string_lossy(), &["-p"])).unwrap_or_default();
        Self {
            engines: parse_directory(&openssl, "ENGINESDIR"),
            modules: parse_directory(&openssl, "MODULESDIR"),
            libraries: parse_cache(&cache),
        }
    }
}

/// The directory in a line such as `ENGINESDIR: "/usr/lib/engines-3"`.
pub(super) fn parse_directory(openssl: &str, name: &str) -> Option<PathBuf> {
    let value = crate::text::colon_field(openssl, name)?.trim_matches('"');
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// The files in lines such as `libz.so.1 (libc6,x86-64) => /lib/libz.so.1`.
pub(super) fn parse_cache(ldconfig: &str) -> Vec<PathBuf> {
    let files = ldconfig.lines().filter_map(|line| line.split_once(" => "));
    files.map(|(_, file)| PathBuf::from(file.trim())).collect()
}

/// One thing to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Qatengine,
    Qatprovider,
    Qatzip,
    Qpl,
}

impl Wanted {
    pub(super) const ALL: [Self; 4] = [Self::Qatengine, Self::Qatprovider, Self::Qatzip, Self::Qpl];

    fn name(self) -> &'static str {
        match self {
            Self::Qatengine => "qatengine",
            Self::Qatprovider => "qatprovider",
            Self::Qatzip => "QATzip",
            Self::Qpl => "QPL",
        }
    }

    fn install(self) -> &'static str {
        match self {
            Self::Qatengine => {
                "install the package qatengine (Debian 13), or build github.com/intel/QAT_Engine"
            }
            Self::Qatprovider => {
                "install the package openssl-provider-qat, or build github.com/intel/QAT_Engine with --enable-qat_provider"
            }
            Self::Qatzip => "install the package libqatzip3 (Debian 13), or build github.com/intel/QATzip",
            Self::Qpl => "build github.com/intel/qpl",
        }
    }

    fn file(self, places: &Places) -> Option<PathBuf> {
        let library = |name: &str| {
            let named = |file: &&PathBuf| {
                let file =
                    file.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
                file == name || file.starts_with(&format!("{name}."))
            };
            places.libraries.iter().find(named).cloned()
        };
        let inside = |directory: &Option<PathBuf>, names: &[&str]| {
            let files = directory.iter().flat_map(|directory| names.iter().map(|name| directory.join(name)));
            files.into_iter().find(|file| file.is_file())
        };
        match self {
            Self::Qatengine => inside(&places.engines, &["qatengine.so", "libqatengine.so"]),
            Self::Qatprovider => inside(&places.modules, &["qatprovider.so"]),
            Self::Qatzip => library("libqatzip.so"),
            Self::Qpl => library("libqpl.so"),
        }
    }

    /// The requirement that it lacks although it is there and loads.
    fn lacks(self, facts: &HostFacts) -> Option<&'static str> {
        let does =
            |kind, service| facts.accelerators.iter().any(|device: &Accelerator| device.does(kind, service));
        let is_for_software = facts.cpu_vendor.as_deref() == Some("GenuineIntel")
            && facts.cpu_flags.iter().any(|flag| flag == "avx512ifma");
        let has_queue = |device: &Accelerator| {
            device.kind == AcceleratorKind::Iaa
                && device.is_usable()
                && device.services.iter().any(|queue| queue.ends_with(" user"))
        };
        // Families before 4xxx have no list of services and do everything.
        let has_older = facts.accelerators.iter().any(|device| {
            device.kind == AcceleratorKind::Qat && device.is_usable() && device.services.is_empty()
        });
        match self {
            Self::Qatengine | Self::Qatprovider => {
                let is_served = does(AcceleratorKind::Qat, "asym") || has_older || is_for_software;
                (!is_served).then_some(
                    "it loads, and there is nothing for it to use: it takes a QAT device with the service `asym`, or an \
                     Intel CPU with AVX-512 IFMA; without either it leaves everything to OpenSSL and does not say so",
                )
            }
            Self::Qatzip => (!does(AcceleratorKind::Qat, "dc") && !has_older).then_some(
                "it loads, and there is no QAT device with the service `dc`: it would compress in software and not say so",
            ),
            Self::Qpl => (!facts.accelerators.iter().any(has_queue)).then_some(
                "it loads, and there is no IAA device with an enabled work queue of type `user`: only its software path is \
                 left",
            ),
        }
    }

    pub(super) fn judge(
        self,
        places: &Places,
        facts: &HostFacts,
        complaint: &dyn Fn(Self, &Path) -> Option<String>,
    ) -> AccelerationLibrary {
        let file = self.file(places);
        let missing = match &file {
            None => Some(format!("it is not installed: {}", self.install())),
            Some(file) => match complaint(self, file) {
                None => self.lacks(facts).map(str::to_owned),
                Some(words) => Some(format!("it cannot be loaded: {words}")),
            },
        };
        AccelerationLibrary {
            name: self.name().to_owned(),
            file: file.map(|file| file.display().to_string()),
            missing,
        }
    }
}

/// Has a child process load it. Returns what the loader says against it, or why it could not be asked.
pub(super) fn complaint(wanted: Wanted, file: &Path) -> Option<String> {
    let path = file.to_string_lossy();
    let (program, arguments): (&str, Vec<String>) = match wanted {
        Wanted::Qatengine => ("openssl", ["engine", "-t", &path].map(str::to_owned).into()),
        Wanted::Qatprovider => {
            ("openssl", ["list", "-providers", "-provider", "qatprovider"].map(str::to_owned).into())
        }
        // The loader says what it could not preload, and starts the program nevertheless or not at all.
        Wanted::Qatzip | Wanted::Qpl => ("env", vec![format!("LD_PRELOAD={path}"), "true".to_owned()]),
    };
    let output = match run_for_output(program, arguments, LOAD_TIME_MAX) {
        Ok(output) => output,
        Err(error) => return Some(format!("failed to {error}")),
    };
    let complaint = output.stderr.lines().map(str::trim).find(|line| !line.is_empty());
    let is_refused = match wanted {
        Wanted::Qatengine => !output.stdout.contains("[ available ]"),
        Wanted::Qatprovider => !output.exit.is_success(),
        Wanted::Qatzip | Wanted::Qpl => !output.exit.is_success() || complaint.is_some(),
    };
    if !is_refused {
        return None;
    }
    let said = output.stdout.lines().map(str::trim).find(|line| line.starts_with('['));
    Some(complaint.or(said).map_or_else(|| format!("the loader {}", output.exit), str::to_owned))
}
