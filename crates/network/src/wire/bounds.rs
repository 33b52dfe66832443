//! What a test may be. The client looks before it asks, and the server before it believes what another program asks for.

use crate::settings::Test;

/// The largest message.
const MSG_SIZE_MAX: u64 = 1 << 20;
/// The largest datagram: 65,535 B less the headers of IPv4 and UDP. Over IPv6 it would be 20 B more.
pub const DATAGRAM_SIZE_MAX: usize = 65_507;
const FLOWS_MAX: u32 = 1024;

/// Checks the size of a test's messages.
///
/// # Errors
/// What sizes there may be.
pub fn check_size(test: Test, size: u64) -> Result<(), String> {
    if size == 0 || size > MSG_SIZE_MAX {
        return Err(format!("a message has 1 B to 1 MiB, not {size} B"));
    }
    if test.is_udp() && size > DATAGRAM_SIZE_MAX as u64 {
        return Err(format!(
            "{} sends each message as one datagram, of at most {DATAGRAM_SIZE_MAX} B (64 KiB less the headers \
             of IP and UDP), not of {size} B",
            test.name()
        ));
    }
    Ok(())
}

/// Checks the number of a test's flows.
///
/// # Errors
/// How many there may be.
pub fn check_flows(flows: u32) -> Result<(), String> {
    if flows == 0 || flows > FLOWS_MAX {
        return Err(format!("a test has 1 to {FLOWS_MAX} flows, not {flows}"));
    }
    Ok(())
}
