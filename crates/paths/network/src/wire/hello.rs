//! The first bytes of every connection and of every flow of datagrams: what it is for, and whose.
//!
//! They have a fixed size and begin with words that no other protocol uses, so that either end can say of a stranger that
//! it is one. The server answers those of a control connection with its own.

/// The size of a hello. As a datagram it is told from a message by it, too.
pub const HELLO_BYTES: usize = 29;
const MAGIC: [u8; 12] = *b"plumb-networ";
/// Counts what changes in the protocol: both ends have to be of one version.
pub const VERSION: u8 = 2;

/// The purpose of a connection or a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Control of a test; the server answers with the same.
    Control,
    /// A flow of the test with this token.
    Flow {
        /// The test.
        token: u64,
        /// The flow, from 0.
        flow: u32,
    },
    /// One connection of a `tcp_crr` with this token.
    Once {
        /// The test.
        token: u64,
    },
}

/// Why bytes are not a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stranger {
    /// They are of something else.
    Foreign,
    /// They are of another version.
    Version(u8),
}

impl Purpose {
    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..12].copy_from_slice(&MAGIC);
        bytes[12] = VERSION;
        let (kind, token, flow) = match self {
            Self::Control => (0, 0, 0),
            Self::Flow { token, flow } => (1, token, flow),
            Self::Once { token } => (2, token, 0),
        };
        bytes[13] = kind;
        bytes[16..24].copy_from_slice(&token.to_le_bytes());
        bytes[24..28].copy_from_slice(&flow.to_le_bytes());
        bytes
    }

    /// Reads it from its bytes.
    ///
    /// # Errors
    /// When they are none, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, Stranger> {
        if bytes.len() != HELLO_BYTES || bytes[..12] != MAGIC {
            return Err(Stranger::Foreign);
        }
        if bytes[12] != VERSION {
            return Err(Stranger::Version(bytes[12]));
        }
        let mut token = [0; 8];
        token.copy_from_slice(&bytes[16..24]);
        let mut flow = [0; 4];
        flow.copy_from_slice(&bytes[24..28]);
        let (token, flow) = (u64::from_le_bytes(token), u32::from_le_bytes(flow));
        match bytes[13] {
            0 => Ok(Self::Control),
            1 => Ok(Self::Flow { token, flow }),
            2 => Ok(Self::Once { token }),
            _ => Err(Stranger::Foreign),
        }
    }

    /// Whether bytes begin as a hello does, of whatever version.
    #[must_use]
    pub fn is_hello(bytes: &[u8]) -> bool {
        bytes.len() == HELLO_BYTES && bytes[..12] == MAGIC
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_version_is_named() {
        let mut bytes = Purpose::Control.encode();
        bytes[12] = 9;
        assert_eq!(Purpose::decode(&bytes), Err(Stranger::Version(9)));
        assert!(Purpose::is_hello(&bytes));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(token: u64, flow: u32) {
            for purpose in [Purpose::Control, Purpose::Flow { token, flow }, Purpose::Once { token }] {
                prop_assert_eq!(Purpose::decode(&purpose.encode()), Ok(purpose));
            }
        }

        #[test]
        fn foreign_bytes_are_no_hello(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(Purpose::decode(&bytes), Err(Stranger::Foreign));
        }

        #[test]
        fn a_changed_hello_does_no_harm(at in 0..HELLO_BYTES, to: u8) {
            let mut bytes = Purpose::Flow { token: 7, flow: 3 }.encode();
            bytes[at] = to;
            let _ = Purpose::decode(&bytes);
        }
    }
}
