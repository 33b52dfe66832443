//! The PCI devices in /sys (Documentation/ABI/testing/sysfs-bus-pci of the kernel).

use std::fs;
use std::path::{Path, PathBuf};

use crate::text;

const INTEL: &str = "0x8086";

/// A PCI device of Intel's.
#[derive(Debug)]
pub(super) struct PciDevice {
    pub address: String,
    pub id: u16,
    pub directory: PathBuf,
}

/// All of Intel's PCI devices, by address.
pub(super) fn intel_devices(sys: &Path) -> Vec<PciDevice> {
    let Ok(entries) = fs::read_dir(sys.join("bus/pci/devices")) else { return Vec::new() };
    let device = |entry: fs::DirEntry| {
        let directory = entry.path();
        let id = text::read_trimmed(directory.join("device"))?;
        let id = u16::from_str_radix(id.strip_prefix("0x")?, 16).ok()?;
        let address = entry.file_name().into_string().ok()?;
        (text::read_trimmed(directory.join("vendor"))? == INTEL).then_some(PciDevice {
            address,
            id,
            directory,
        })
    };
    let mut devices: Vec<PciDevice> = entries.flatten().filter_map(device).collect();
    devices.sort_by(|a, b| a.address.cmp(&b.address));
    devices
}

impl PciDevice {
    pub(super) fn full_id(&self) -> String {
        format!("8086:{:04x}", self.id)
    }

    pub(super) fn driver(&self) -> Option<String> {
        self.link("driver")
    }

    /// −1 is how the kernel says that there is only one node.
    pub(super) fn numa_node(&self) -> Option<u32> {
        self.file_text("numa_node")?.parse().ok()
    }

    pub(super) fn physical_function(&self) -> Option<String> {
        self.link("physfn")
    }

    /// The addresses of its virtual functions, which are links named `virtfn0`, `virtfn1` and so on.
    pub(super) fn virtual_functions(&self) -> Vec<String> {
        (0..).map_while(|index| self.link(&format!("virtfn{index}"))).collect()
    }

    pub(super) fn virtual_functions_max(&self) -> Option<u32> {
        self.file_text("sriov_totalvfs")?.parse().ok()
    }

    /// A file of the device; `None` where there is none.
    pub(super) fn file_text(&self, file: &str) -> Option<String> {
        text::read_trimmed(self.directory.join(file))
    }

    fn link(&self, name: &str) -> Option<String> {
        let target = fs::read_link(self.directory.join(name)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}
