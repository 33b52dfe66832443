//! Checks that no single field of the settings can make.

use plumb_path::SettingsFault;

use crate::evidence::volume;
use crate::load;
use crate::settings::{
    Access, EngineKind, Layer, LoadSettings, StorageSettings, Suite, SystemKind, SystemSettings,
};

/// Whether a load that knows nothing of this data path can use the system.
///
/// # Errors
/// When it cannot, with the key.
pub fn check_lends(system: &SystemSettings) -> Result<(), SettingsFault> {
    let refused = |key: &str, message: &str| Err(SettingsFault::new(key, message));
    match system.kind {
        SystemKind::Volumes if system.volume.layer == Layer::Kernel => refused(
            "system.volume.layer",
            "the kernel holds only loads in a control group to the limits, and commands enter none; use `layer: nbd`",
        ),
        SystemKind::File | SystemKind::Volumes => Ok(()),
        SystemKind::External | SystemKind::Ontap => refused(
            "system.kind",
            "a command needs no `system` for storage that exists; write its path into the command",
        ),
    }
}

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &StorageSettings) -> Result<(), SettingsFault> {
    let system = &settings.system;
    system.run_by().check("system", system.kind == SystemKind::External)?;
    if system.kind == SystemKind::External && system.path.is_none() {
        return Err(SettingsFault::new(
            "system.path",
            "an external system needs the path of a file or a device",
        ));
    }
    if system.kind == SystemKind::File && system.size.0 == 0 {
        return Err(SettingsFault::new("system.size", "must be above 0 B, such as `256 MiB`"));
    }
    match (system.kind, &system.ontap) {
        (SystemKind::Ontap, None) => {
            return Err(SettingsFault::new(
                "system.ontap",
                "must name an array, a volume and the credentials to manage it",
            ));
        }
        (SystemKind::Ontap, Some(_)) if system.path.is_none() => {
            return Err(SettingsFault::new(
                "system.path",
                "must be the path at which this host sees the volume",
            ));
        }
        (SystemKind::Ontap, Some(array)) => array.check()?,
        (_, Some(_)) => return Err(SettingsFault::new("system.ontap", "only `kind: ontap` has an array")),
        (_, None) => {}
    }
    if system.kind == SystemKind::Volumes {
        // The suite reads and writes, in one of its jobs both at once.
        let access =
            if settings.load.suite == Suite::None { settings.load.access } else { Access::RandReadWrite };
        volume::check(&system.volume, &LoadSettings { access, ..settings.load.clone() })?;
    }
    load::suite::check(&settings.load)?;
    check_depth(settings)?;
    load::check(&settings.load)?;
    load::tool::check(settings)
}

/// An engine that waits for each read or write has a depth of 1, and every slot of a greater one would be void.
fn check_depth(settings: &StorageSettings) -> Result<(), SettingsFault> {
    let system = &settings.system;
    // Volumes behind NBD have a separate engine, which has a depth.
    let is_nbd = match system.kind {
        SystemKind::Volumes => system.volume.layer == Layer::Nbd,
        _ => system.path.as_ref().is_some_and(|path| path.starts_with("nbd://")),
    };
    let depth = settings.load.depth;
    let says_itself = settings.load.job.is_some() || settings.load.script.is_some();
    if is_nbd || says_itself || settings.load.engine != EngineKind::Psync || depth <= 1 {
        return Ok(());
    }
    Err(SettingsFault::new(
        "load.depth",
        format!(
            "`engine: psync` has one read or write in flight in each job, and the depth is {depth}. Set `depth: 1`, with \
             `jobs: {depth}` to keep {depth} in flight, or use `engine: io_uring`"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_without_depth_is_refused_before_it_makes_every_slot_void() {
        let check = |path: Option<&str>, engine, depth| {
            let kind = if path.is_some() { SystemKind::External } else { SystemKind::File };
            let system = SystemSettings { kind, path: path.map(str::to_owned), ..SystemSettings::default() };
            let load = LoadSettings { engine, depth, ..LoadSettings::default() };
            super::check(&StorageSettings { system, load })
        };
        let fault = check(None, EngineKind::Psync, 16).unwrap_err();
        assert_eq!(fault.key, "load.depth");
        assert!(fault.message.contains("`depth: 1`, with `jobs: 16`"), "{}", fault.message);
        assert!(check(None, EngineKind::Psync, 1).is_ok());
        assert!(check(None, EngineKind::IoUring, 16).is_ok());
        assert!(check(Some("nbd://127.0.0.1/x"), EngineKind::Psync, 16).is_ok());
    }
}
