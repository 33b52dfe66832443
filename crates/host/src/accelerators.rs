//! Accelerators: the devices, CPU instructions and libraries that can take encryption, compression and copies off a
//! program, what state they are in, and, for each that cannot be used, what to do about it.
//!
//! Devices are found by their PCI ids, since one without a driver has nothing else to be found by. All is read from
//! /sys; nothing is written, and no foreign code is loaded into this process.

mod features;
mod idxd;
mod libraries;
mod pci;
mod qat;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use features::{CpuFeature, cpu_features};
pub use libraries::{AccelerationLibrary, acceleration_libraries};

/// What an accelerator is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AcceleratorKind {
    /// QuickAssist: encryption, private-key operations, compression.
    Qat,
    /// The data streaming accelerator: copies, fills, checksums.
    Dsa,
    /// The in-memory analytics accelerator: compression and scans.
    Iaa,
}

impl AcceleratorKind {
    /// The name as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Qat => "QAT",
            Self::Dsa => "DSA",
            Self::Iaa => "IAA",
        }
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accelerator {
    /// What it is for.
    pub kind: AcceleratorKind,
    /// The family as its driver calls it, such as `4xxx`.
    pub model: String,
    /// PCI address, such as `0000:6b:00.0`.
    pub address: String,
    /// PCI vendor and device, such as `8086:4940`.
    pub id: String,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// The memory node that it is close to; `None` where the machine has only one.
    pub numa_node: Option<u32>,
    /// What its driver says of its state: `up` or `down` for QAT since Linux 6.0, `enabled` or `disabled` for DSA and IAA.
    pub state: Option<String>,
    /// What it is configured for: services such as `sym` and `asym` for QAT, enabled work queues for DSA and IAA.
    pub services: Vec<String>,
    /// The address of the physical function that this is a virtual function of; `unknown` where a guest cannot see it.
    pub physical_function: Option<String>,
    /// The addresses of its own virtual functions.
    pub virtual_functions: Vec<String>,
    /// How many it could have.
    pub virtual_functions_max: Option<u32>,
    /// Why it cannot be used, and what to do about it.
    pub missing: Option<String>,
    /// What else is to know before it is relied on.
    pub notes: Vec<String>,
}

impl Accelerator {
    /// Whether programs on this machine can use it as it is.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.missing.is_none()
    }

    /// Whether it is usable and configured for a service.
    #[must_use]
    pub fn does(&self, kind: AcceleratorKind, service: &str) -> bool {
        self.kind == kind && self.is_usable() && self.services.iter().any(|found| found == service)
    }
}

/// The devices of this machine, by their addresses.
#[must_use]
pub fn accelerators() -> Vec<Accelerator> {
    accelerators_in(Path::new("/sys"))
}

/// The devices of a /sys that is somewhere else.
#[must_use]
pub fn accelerators_in(sys: &Path) -> Vec<Accelerator> {
    let devices = pci::intel_devices(sys);
    devices.iter().filter_map(|device| qat::describe(device).or_else(|| idxd::describe(device))).collect()
}

/// All devices in one line, the same ones together: `2 × QAT 4xxx (up, sym;asym)`. `None` where there are none.
///
/// Virtual functions whose physical function is there too go without saying.
#[must_use]
pub fn summary(devices: &[Accelerator]) -> Option<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for device in devices.iter().filter(|device| !is_part_of_another(device, devices)) {
        let mut state: Vec<String> = device.state.iter().cloned().collect();
        state.extend(device.driver.is_none().then(|| "no driver".to_owned()));
        state.extend((!device.services.is_empty()).then(|| device.services.join(";")));
        let virtual_function = if device.physical_function.is_some() { " VF" } else { "" };
        let mut words = format!("{} {}{virtual_function}", device.kind.name(), device.model);
        if !state.is_empty() {
            words.push_str(&format!(" ({})", state.join(", ")));
        }
        match counted.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => counted.push((words, 1)),
        }
    }
    let words: Vec<String> = counted.iter().map(|(words, count)| format!("{count} × {words}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Whether this is a virtual function of another device in the list.
#[must_use]
pub fn is_part_of_another(device: &Accelerator, devices: &[Accelerator]) -> bool {
    let physical = device.physical_function.as_ref();
    physical.is_some_and(|physical| devices.iter().any(|other| other.address == *physical))
}

#[cfg(test)]
mod tests;
