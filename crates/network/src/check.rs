//! What no single field of the settings can check.

use plumb_path::Fault;

use crate::options::Placement;
use crate::settings::{NetworkSettings, SystemKind};
use crate::{load, system, tools};

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &NetworkSettings) -> Result<(), Fault> {
    if settings.system.kind == SystemKind::External {
        let Some(address) = &settings.system.address else {
            return Err(Fault::new("system.address", "an external server needs an address, as HOST:PORT"));
        };
        system::parse_target(address, settings.load.driver.port())
            .map_err(|message| Fault::new("system.address", message))?;
        if settings.load.cpus == Placement::Shared {
            return Err(Fault::new(
                "load.cpus",
                "an external server may be on another host, whose CPUs cannot be shared",
            ));
        }
    }
    system::check(&settings.system)?;
    load::check(&settings.load)?;
    tools::check(settings)
}
