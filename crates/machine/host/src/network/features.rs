//! A device's offloads, by ethtool's ioctl.

use std::io;

use rustix::net::{AddressFamily, SocketType, socket};

use super::namespace::Namespace;
use crate::Error;
use crate::ethtool::{self, Argument};

/// Work that the device can take over from the CPU, or that the kernel can postpone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation just before the device.
    Gso,
    /// Received packets merged into larger ones.
    Gro,
    /// Checksums of sent packets.
    TxChecksum,
    /// Checksums of received packets.
    RxChecksum,
}

impl Feature {
    /// The commands that read and write it (include/uapi/linux/ethtool.h).
    fn commands(self) -> (u32, u32) {
        match self {
            Self::RxChecksum => (0x14, 0x15),
            Self::TxChecksum => (0x16, 0x17),
            Self::Tso => (0x1e, 0x1f),
            Self::Gso => (0x23, 0x24),
            Self::Gro => (0x2b, 0x2c),
        }
    }

    /// The name, as ethtool(8) has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
            Self::TxChecksum => "tx-checksum",
            Self::RxChecksum => "rx-checksum",
        }
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

// SAFETY: all commands of `Feature` take this struct (include/uapi/linux/ethtool.h).
unsafe impl Argument for Value {}

impl Namespace {
    /// Whether a feature of a device is on.
    ///
    /// # Errors
    ///
    /// When no such device exists, or its driver does not report the feature.
    pub fn feature(&self, name: &str, feature: Feature) -> Result<bool, Error> {
        let mut value = Value { command: feature.commands().0, data: 0 };
        let asked = ethtool::call(&self.control, name, &mut value);
        asked
            .map_err(|cause| Error::Network { what: format!("read {} of {name}", feature.name()), cause })?;
        Ok(value.data != 0)
    }

    /// Turns a feature of a device on or off.
    ///
    /// # Errors
    ///
    /// When the device does not allow it.
    pub fn set_feature(&self, name: &str, feature: Feature, is_on: bool) -> Result<(), Error> {
        let mut value = Value { command: feature.commands().1, data: u32::from(is_on) };
        let set = ethtool::call(&self.control, name, &mut value);
        set.map_err(|cause| Error::Network { what: format!("set {} of {name}", feature.name()), cause })
    }
}

/// Whether a feature of a device in this process's own network namespace is on.
pub(crate) fn is_on(name: &str, feature: Feature) -> io::Result<bool> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut value = Value { command: feature.commands().0, data: 0 };
    ethtool::call(socket, name, &mut value)?;
    Ok(value.data != 0)
}
