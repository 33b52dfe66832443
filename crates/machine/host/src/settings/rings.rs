//! A network interface's rings, by ethtool's calls (linux/ethtool.h), as ethtool(8) `-g` and `-G` have them.

use std::fmt;
use std::io;

use rustix::net::{AddressFamily, SocketType, socket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ethtool::{self, Argument};

const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_SRINGPARAM: u32 = 0x11;

/// One of a network interface's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ring {
    /// The ring of arriving packets.
    Receive,
    /// The ring of packets to send.
    Transmit,
}

impl fmt::Display for Ring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
        })
    }
}

/// The lengths of an interface's rings, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingSizes {
    /// Of the receive ring, now.
    pub receive: u32,
    /// The longest that the card can have.
    pub receive_max: u32,
    /// Of the transmit ring, now.
    pub transmit: u32,
    /// The longest that the card can have.
    pub transmit_max: u32,
}

impl RingSizes {
    /// One ring's length and the longest possible.
    #[must_use]
    pub fn length_and_max(self, ring: Ring) -> (u32, u32) {
        match ring {
            Ring::Receive => (self.receive, self.receive_max),
            Ring::Transmit => (self.transmit, self.transmit_max),
        }
    }
}

/// `struct ethtool_ringparam`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct RingParameters {
    command: u32,
    rx_max: u32,
    rx_mini_max: u32,
    rx_jumbo_max: u32,
    tx_max: u32,
    rx: u32,
    rx_mini: u32,
    rx_jumbo: u32,
    tx: u32,
}

// SAFETY: it is what ETHTOOL_GRINGPARAM and ETHTOOL_SRINGPARAM take (include/uapi/linux/ethtool.h).
unsafe impl Argument for RingParameters {}

/// The rings of an interface now.
pub(super) fn sizes_of(interface: &str) -> io::Result<RingSizes> {
    let found = get(interface)?;
    Ok(RingSizes {
        receive: found.rx,
        receive_max: found.rx_max,
        transmit: found.tx,
        transmit_max: found.tx_max,
    })
}

/// Changes the length of one ring and leaves the others.
pub(super) fn write(interface: &str, ring: Ring, length: u32) -> io::Result<()> {
    let mut wanted = get(interface)?;
    wanted.command = ETHTOOL_SRINGPARAM;
    match ring {
        Ring::Receive => wanted.rx = length,
        Ring::Transmit => wanted.tx = length,
    }
    ethtool(interface, &mut wanted)
}

fn get(interface: &str) -> io::Result<RingParameters> {
    let mut parameters = RingParameters { command: ETHTOOL_GRINGPARAM, ..RingParameters::default() };
    ethtool(interface, &mut parameters)?;
    Ok(parameters)
}

fn ethtool(interface: &str, parameters: &mut RingParameters) -> io::Result<()> {
    ethtool::call(socket(AddressFamily::INET, SocketType::DGRAM, None)?, interface, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_rings_or_without_existence_is_an_error() {
        assert_eq!(sizes_of("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(sizes_of("nosuch0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(sizes_of("a-name-that-is-too-long").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
