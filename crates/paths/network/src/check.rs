//! Checks that no single field of the settings can make.

use plumb_path::{PathError, SettingsFault};

use crate::options::Placement;
use crate::settings::{Driver, NetworkSettings, SystemKind, SystemSettings, Test};
use crate::{load, system, tool};

/// The settings with the tool as the driver whose server is to answer a command.
#[must_use]
pub fn serving(settings: &NetworkSettings) -> NetworkSettings {
    let mut serving = settings.clone();
    if settings.system.server != Driver::Native {
        serving.load.driver = settings.system.server;
        // A command may run any of its tests.
        serving.load.tests = Test::ALL.to_vec();
    }
    serving
}

/// Whether a load that knows nothing of this data path can use the system.
///
/// # Errors
/// When it cannot, with the key.
pub fn check_lends(system: &SystemSettings) -> Result<(), SettingsFault> {
    let refused = |key: &str, message: &str| Err(SettingsFault::new(key, message));
    match (system.kind, system.server) {
        (SystemKind::External, _) => refused(
            "system.kind",
            "a command needs no `system` for a network that exists; write the server's address into the command",
        ),
        (SystemKind::Loopback, Driver::Qperf) => {
            refused("system.kind", "qperf listens on every address of its host; use `kind: veth`")
        }
        (_, Driver::Native) => refused(
            "system.server",
            "name the tool whose server is to answer the command: qperf, iperf3, sockperf or netperf",
        ),
        _ => Ok(()),
    }
}

/// A server that commands are to find is none for the load of this data path.
///
/// # Errors
/// When the settings ask for one.
pub fn check_own_load(settings: &NetworkSettings) -> Result<(), PathError> {
    if settings.system.server == Driver::Native {
        return Ok(());
    }
    let words = "find its server: `system.server` is for `path: command`; here `load.driver` names the tool";
    Err(PathError::load(words.to_owned()))
}

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &NetworkSettings) -> Result<(), SettingsFault> {
    if settings.system.service.is_some() && settings.system.kind != SystemKind::External {
        let message = "`service` names a server that exists already; it needs `kind: external`";
        return Err(SettingsFault::new("system.service", message));
    }
    if settings.system.kind == SystemKind::External {
        check_address(&settings.system, settings.load.driver.port())?;
        if settings.load.cpus == Placement::Shared {
            return Err(SettingsFault::new(
                "load.cpus",
                "an external server may be on another host, whose CPUs cannot be shared",
            ));
        }
    }
    system::check(&settings.system)?;
    load::check(&settings.load)?;
    tool::check(settings)
}

/// Where an external server is: either an address, or a Service of a cluster.
fn check_address(system: &SystemSettings, port: u16) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: String| Err(SettingsFault::new(format!("system.{key}"), message));
    match (&system.address, system.cluster_object()) {
        (Some(_), Some(_)) => fault("service", "a Service has an address of its own; leave out `address`".to_owned()),
        (None, Some(service)) => service.check().or_else(|error| fault("service", error.to_string())),
        (_, None) if system.namespace.is_some() => fault("namespace", "is that of `service`".to_owned()),
        (Some(address), None) => {
            system::parse_target(address, port).map(drop).or_else(|error| fault("address", error.to_string()))
        }
        (None, None) => fault(
            "address",
            "an external server needs an address, as HOST:PORT, or the `service` of the places' cluster that leads to it"
                .to_owned(),
        ),
    }
}
