//! QEMU's multifd between two QEMU processes, driven over QMP.
//!
//! The source belongs to the load's agent and the destination to the system's, so that the CPU time of both is known exactly. QEMU's own
//! numbers are shown, but the bytes that its sockets carried count.

mod abilities;
mod control;
mod destination;
mod evidence;
pub use evidence::evidence;
mod instance;
mod memory;
mod method;
mod outcome;
mod qmp;
mod report;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use plumb_host::process::which;
use plumb_host::scratch::Scratch;
use plumb_path::link::LinkedEnds;
use plumb_path::{AnyError, Load, PathError, Place, SettingsFault, System, read_target};
use serde_json::Value;

use self::destination::Destination;
use self::method::Method;
use crate::settings::{MigrationSettings, Tls};

/// The size of a huge page. QEMU allocates memory in these, and rounds it up to a whole number of them.
const MEMORY_STEP_BYTES: u64 = 2 << 20;

/// Checks the settings against QEMU's requirements.
///
/// # Errors
/// The first fault.
pub fn check(settings: &MigrationSettings) -> Result<(), SettingsFault> {
    let system = &settings.system;
    if !system.memory.0.is_multiple_of(MEMORY_STEP_BYTES) {
        return Err(SettingsFault::new(
            "system.memory",
            "must be a multiple of 2 MiB with QEMU, such as `1 GiB`",
        ));
    }
    if system.tls == Tls::On {
        return Err(SettingsFault::new("system.tls", "must be `off`, because QEMU is driven without TLS"));
    }
    if system.dirty.rate.0 > 0.0 {
        let message = "must be `0 B/s`, because the guest in QEMU has no processor and is idle";
        return Err(SettingsFault::new("system.dirty.rate", message));
    }
    Ok(())
}

/// Checks whether this host has a QEMU that supports the settings. A program that the experiment names is not run, because checking an
/// experiment must not run what it names. If it lacks something, that is reported when the variant is tried.
///
/// # Errors
/// When this host has no QEMU, or none that supports the settings.
pub fn feasible(settings: &MigrationSettings) -> Result<(), AnyError> {
    let program = program(settings)?;
    if settings.system.program.is_some() {
        Method::for_codec(&settings.system.codec)?;
        return Ok(());
    }
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-qemu-")?;
    instance::abilities_of(&program, scratch.path())?.suffice(&settings.system)?;
    Ok(())
}

/// The reason why QEMU cannot be started.
#[derive(Debug, thiserror::Error)]
enum NoQemu {
    #[error("there is no program {_0} that can be executed; see `system.program`")]
    Asked(String),
    #[error("QEMU ({_0}) is not installed; on Debian: apt-get install --no-install-recommends {}", package())]
    Own(String),
}

/// Starts the destination's side.
///
/// # Errors
/// When QEMU is missing or does not answer.
pub fn system(settings: &MigrationSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
    Ok(Box::new(destination(settings, place)?))
}

fn destination(settings: &MigrationSettings, place: &Place) -> Result<Destination, PathError> {
    let program = program(settings).map_err(PathError::new)?;
    let abilities = instance::abilities_of(&program, &place.scratch)?;
    let lacks = |error| PathError::new(format!("use {}: {error}", program.display()));
    abilities.suffice(&settings.system).map_err(lacks)?;
    let (system, place) = (settings.system.clone(), place.clone());
    let link = (!system.link.is_empty()).then(|| LinkedEnds::join(&system.link)).transpose()?;
    if let Some(link) = &link {
        link.enter_system()?;
        link.resolve_addresses()?;
    }
    let address = destination::address(link.as_ref());
    Destination::start(destination::Setup { program, abilities, system, place, address }, link)
}

/// Starts a source and fills its memory.
///
/// # Errors
/// When QEMU is missing or does not answer, or the destination's side is missing.
pub fn load(settings: &MigrationSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
    let program = program(settings).map_err(PathError::new)?;
    let abilities = instance::abilities_of(&program, &place.scratch)?;
    let (target, settings, place) = (read_target(target)?, settings.clone(), place.clone());
    Ok(Box::new(source::Source::start(source::Setup { program, abilities, settings, target, place })?))
}

/// The requested binary, or the one of this machine's architecture.
fn program(settings: &MigrationSettings) -> Result<PathBuf, NoQemu> {
    let own = format!("qemu-system-{}", std::env::consts::ARCH);
    let name = settings.system.program.as_deref().unwrap_or(&own);
    which(name).ok_or_else(|| match &settings.system.program {
        Some(asked) => NoQemu::Asked(asked.clone()),
        None => NoQemu::Own(own.clone()),
    })
}

/// The Debian package that has it.
fn package() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "qemu-system-x86",
        "aarch64" | "arm" => "qemu-system-arm",
        _ => "qemu-system-misc",
    }
}
