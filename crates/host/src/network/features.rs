//! A device's offloads, by the ioctl that every kernel has (`SIOCETHTOOL`).
//!
//! The netlink form of the same says features by bit numbers that change from kernel to kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::net::{AddressFamily, SocketType, socket};

use crate::Error;
use crate::namespace::Namespace;

/// What a device can take over from the CPU or the stack can put off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// TCP segmentation by the device.
    Tso,
    /// Segmentation as late as possible.
    Gso,
    /// Packets put together when they are received.
    Gro,
    /// Checksums of what is sent.
    TxChecksum,
    /// Checksums of what is received.
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

    /// Its name, as ethtool(8) has it.
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

impl Namespace {
    /// Whether a feature of a device is on.
    ///
    /// # Errors
    ///
    /// When there is no such device, or it does not say.
    pub fn feature(&self, name: &str, feature: Feature) -> Result<bool, Error> {
        let mut value = Value { command: feature.commands().0, data: 0 };
        let asked = self.ethtool(name, &mut value);
        asked
            .map_err(|cause| Error::Network { what: format!("read {} of {name}", feature.name()), cause })?;
        Ok(value.data != 0)
    }

    /// Turns a feature of a device on or off.
    ///
    /// # Errors
    ///
    /// When the device has it fixed.
    pub fn set_feature(&self, name: &str, feature: Feature, is_on: bool) -> Result<(), Error> {
        let mut value = Value { command: feature.commands().1, data: u32::from(is_on) };
        let set = self.ethtool(name, &mut value);
        set.map_err(|cause| Error::Network { what: format!("set {} of {name}", feature.name()), cause })
    }
    fn ethtool(&self, name: &str, value: &mut Value) -> io::Result<()> {
        ethtool(self.control.as_fd(), name, value)
    }
}

/// Whether a feature of a device in this process's own network namespace is on.
pub(crate) fn is_on(name: &str, feature: Feature) -> io::Result<bool> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut value = Value { command: feature.commands().0, data: 0 };
    ethtool(socket.as_fd(), name, &mut value)?;
    Ok(value.data != 0)
}

fn ethtool(socket: BorrowedFd<'_>, name: &str, value: &mut Value) -> io::Result<()> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    // SAFETY: all zeroes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = std::ptr::from_mut(value).cast();
    // SAFETY: the name ends in a zero, the data is a `struct ethtool_value` for the time of the call, and the commands
    // above read or write no more than that.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
