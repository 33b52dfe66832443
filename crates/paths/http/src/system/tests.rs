//! Systems started for real, each asked by a separate client.

mod client;
mod endings;
mod kinds;
mod laboratory;
mod multibuffer;
mod protocols;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;

use plumb_devices::DeviceKind;
use plumb_path::{Place, Snapshot, System};
use tempfile::TempDir;

use super::feasible;
use super::running::Running;
use crate::settings::{IngressKind, KeyKind, Offload, SystemSettings, TlsVersion};
use crate::target::Target;
use client::{Client, Trust};

const PROGRAMS: [IngressKind; 4] =
    [IngressKind::Embedded, IngressKind::Haproxy, IngressKind::Nginx, IngressKind::Caddy];

/// The settings of a system whose certificates take no time to make.
fn spec(kind: IngressKind, tls: TlsVersion) -> SystemSettings {
    let mut spec = SystemSettings::default();
    (spec.ingress.kind, spec.ingress.tls, spec.ingress.key) = (kind, tls, KeyKind::EcdsaP256);
    spec
}

/// Whether the host has what a system needs; the test says that it is skipped where it has not.
fn is_feasible(test: &str, spec: &SystemSettings) -> bool {
    let missing = feasible(spec).err();
    if let Some(reason) = &missing {
        let hardware = if lacks_hardware(spec) { "hardware: " } else { "" };
        writeln!(std::io::stderr(), "test skipped: system::tests::{test}: {hardware}{reason}").unwrap();
    }
    missing.is_none()
}

/// Whether the CPU lacks instructions of the ingress's device, so that installing something would not help.
fn lacks_hardware(spec: &SystemSettings) -> bool {
    let is_multibuffer = spec.ingress.offload == Offload::Multibuffer;
    is_multibuffer && DeviceKind::Multibuffer.probe().is_err_and(|cause| cause.is_hardware())
}

/// A system in a separate scratch directory.
struct Started {
    system: Running,
    target: Target,
    scratch: TempDir,
}

impl Started {
    fn new(spec: &SystemSettings) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        // As private as a run's is.
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 };
        let system = Running::start(spec, &place).unwrap();
        let target = serde_json::from_value(system.target()).unwrap();
        Self { system, target, scratch }
    }

    fn client(&self) -> Client {
        self.client_with(&Trust::in_target(&self.target))
    }

    fn client_with(&self, trust: &Trust) -> Client {
        Client::connect(&self.target.url, trust)
    }

    fn snapshot(&mut self) -> Snapshot {
        self.system.snapshot().unwrap()
    }

    fn counter(&mut self, name: &str) -> u64 {
        self.snapshot().counters[name]
    }
}
