//! Accelerators: the devices that can take encryption, compression and copies off a program, what state they are in, and,
//! for each that cannot be used, what to do about it.
//!
//! Devices are found by their PCI ids, since one without a driver has nothing else to be found by. All is read from
//! /sys; nothing is written, and no foreign code is loaded into this process.

mod accelerator;
mod idxd;
mod pci;
mod qat;

use std::path::Path;

pub use accelerator::{Accelerator, AcceleratorKind};

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
pub(crate) mod tests;
