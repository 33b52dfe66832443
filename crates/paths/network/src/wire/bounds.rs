//! The bounds of a test. The client checks them before it asks, and the server because any program may ask.

use crate::settings::Test;

/// The largest message.
const MSG_SIZE_MAX: u64 = 1 << 20;
/// The largest datagram: 65,535 B less the headers of IPv4 and UDP. Over IPv6 it would be 20 B more.
pub const DATAGRAM_SIZE_MAX: usize = 65_507;
const FLOWS_MAX: u32 = 1024;

/// Why there can be no such test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfBounds {
    /// The messages are empty or too large.
    #[error("a message has 1 B to 1 MiB, not {size} B")]
    Message {
        /// Their size.
        size: u64,
    },
    /// The messages do not fit into datagrams.
    #[error(
        "{} sends each message as one datagram, of at most {DATAGRAM_SIZE_MAX} B (64 KiB less the headers of IP and UDP), not of \
         {size} B",
        test.name()
    )]
    Datagram {
        /// The test.
        test: Test,
        /// Their size.
        size: u64,
    },
    /// It has no flows, or too many.
    #[error("a test has 1 to {FLOWS_MAX} flows, not {flows}")]
    Flows {
        /// Their number.
        flows: u32,
    },
}

/// Checks the size of a test's messages.
///
/// # Errors
/// When no message can have it.
pub fn check_size(test: Test, size: u64) -> Result<(), OutOfBounds> {
    if size == 0 || size > MSG_SIZE_MAX {
        return Err(OutOfBounds::Message { size });
    }
    if test.is_udp() && size > DATAGRAM_SIZE_MAX as u64 {
        return Err(OutOfBounds::Datagram { test, size });
    }
    Ok(())
}

/// Checks the number of a test's flows.
///
/// # Errors
/// When no test can have it.
pub fn check_flows(flows: u32) -> Result<(), OutOfBounds> {
    if flows == 0 || flows > FLOWS_MAX {
        return Err(OutOfBounds::Flows { flows });
    }
    Ok(())
}
