//! DSA and IAA, which one driver serves: idxd.
//!
//! Ids are those of the kernel's `drivers/dma/idxd/registers.h` and `include/linux/pci_ids.h`. The driver puts a directory
//! such as `dsa0` or `iax1` with one for each work queue below the PCI device, as
//! `Documentation/ABI/stable/sysfs-driver-dma-idxd` describes.

use std::fs;
use std::path::{Path, PathBuf};

use super::accelerator::{Accelerator, AcceleratorKind};
use super::pci::PciDevice;
use crate::text;

const MODELS: [(u16, AcceleratorKind, &str); 7] = [
    (0x0b25, AcceleratorKind::Dsa, "spr"),
    (0x11fb, AcceleratorKind::Dsa, "gnrd"),
    (0x1212, AcceleratorKind::Dsa, "dmr"),
    (0x0cfe, AcceleratorKind::Iaa, "spr"),
    (0x1216, AcceleratorKind::Iaa, "dmr"),
    (0xb02d, AcceleratorKind::Iaa, "ptl"),
    (0xfd2d, AcceleratorKind::Iaa, "wcl"),
];

/// The device, if it is one.
pub(super) fn describe(device: &PciDevice) -> Option<Accelerator> {
    let (_, kind, model) = MODELS.iter().find(|(id, ..)| *id == device.id)?;
    let set_up = numbered_directories(&device.directory, &["dsa", "iax", "iaa"]).into_iter().next();
    let queues = set_up.as_ref().map(|directory| work_queues(directory)).unwrap_or_default();
    let mut found = Accelerator {
        kind: *kind,
        model: (*model).to_owned(),
        address: device.address.clone(),
        id: device.full_id(),
        driver: device.driver(),
        numa_node: device.numa_node(),
        state: set_up.as_ref().and_then(|directory| text::read_trimmed(directory.join("state"))),
        services: queues,
        physical_function: None,
        virtual_functions: device.virtual_functions(),
        virtual_functions_max: device.virtual_functions_max(),
        missing: None,
        notes: Vec::new(),
    };
    found.missing = missing(&found, set_up.as_deref());
    if found.is_usable() && !found.services.iter().any(|queue| queue.ends_with(" user")) {
        found.notes.push("its queues belong to the kernel: programs need one of type `user`".to_owned());
    }
    Some(found)
}

/// The enabled work queues as `wq0.0 user`.
fn work_queues(directory: &Path) -> Vec<String> {
    let queue = |path: &PathBuf| {
        let is_enabled = text::read_trimmed(path.join("state"))? == "enabled";
        let name = path.file_name()?.to_string_lossy().into_owned();
        let kind = text::read_trimmed(path.join("type")).unwrap_or_else(|| "unknown".to_owned());
        is_enabled.then(|| format!("{name} {kind}"))
    };
    numbered_directories(directory, &["wq"]).iter().filter_map(queue).collect()
}

/// The directories whose names are one of the words and a number, in the order of their names.
fn numbered_directories(parent: &Path, words: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let fits = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number = words.iter().find_map(|word| name.strip_prefix(word));
        path.is_dir() && number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    };
    let mut directories: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(fits).collect();
    directories.sort();
    directories
}

fn missing(found: &Accelerator, set_up: Option<&Path>) -> Option<String> {
    match found.driver.as_deref() {
        None => return Some("no driver is bound to it: `modprobe idxd`".to_owned()),
        Some("idxd") => {}
        Some(other) => {
            return Some(format!("{other} holds it for a guest or another program: bind it to idxd instead"));
        }
    }
    let Some(name) = set_up.and_then(|directory| directory.file_name()) else {
        return Some(format!(
            "the driver could not set it up: look for {} in the kernel's log",
            found.address
        ));
    };
    let name = name.to_string_lossy();
    let suffix = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    if found.state.as_deref() != Some("enabled") {
        return Some(format!(
            "it is disabled: configure a work queue with accel-config, then `accel-config enable-device {name}` and \
             `accel-config enable-wq {name}/wq{suffix}.0`"
        ));
    }
    found.services.is_empty().then(|| {
        format!(
            "no work queue is enabled: `accel-config enable-wq {name}/wq{suffix}.0`, once it is configured"
        )
    })
}
