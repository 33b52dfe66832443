//! The first bytes of every connection, with its migration and its purpose.

use std::io::{self, Read};

/// The size of a hello.
pub const HELLO_BYTES: usize = 24;
const MAGIC: [u8; 8] = *b"plumbmig";
const VERSION: u8 = 2;

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hello {
    /// The control connection of a new migration.
    Control {
        /// Whether TLS begins with the next byte. The channels follow suit.
        is_encrypted: bool,
    },
    /// A channel of a migration that was set up.
    Channel {
        /// The migration's token.
        token: u64,
        /// The channel, from 0.
        channel: u8,
    },
}

impl Hello {
    /// The bytes.
    #[must_use]
    pub fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = VERSION;
        match self {
            Self::Control { is_encrypted } => bytes[10] = u8::from(is_encrypted),
            Self::Channel { token, channel } => {
                bytes[9] = 1;
                bytes[10] = channel;
                bytes[16..].copy_from_slice(&token.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads a hello from a connection.
    ///
    /// # Errors
    /// When the peer is not this engine, or has another version.
    pub fn receive(stream: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; HELLO_BYTES];
        stream.read_exact(&mut bytes)?;
        if bytes[..8] != MAGIC || bytes[8] != VERSION {
            return Err(io::Error::other("it does not speak this engine's protocol"));
        }
        let mut token = [0; 8];
        token.copy_from_slice(&bytes[16..]);
        match bytes[9] {
            0 => Ok(Self::Control { is_encrypted: bytes[10] != 0 }),
            1 => Ok(Self::Channel { token: u64::from_le_bytes(token), channel: bytes[10] }),
            _ => Err(io::Error::other("it is of a kind that this engine does not know")),
        }
    }
}
