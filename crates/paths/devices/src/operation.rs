//! What a device is asked for, and what comes back.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::algorithm::{Group, OperationKind, Scheme};
use crate::error::LaneError;
use crate::exchange::ExchangeKey;
use crate::key::SigningKey;

/// The result of one operation of a batch.
pub type Lane = Result<Outcome, LaneError>;

/// One thing to be done by a device.
#[derive(Debug)]
pub enum Operation {
    /// Sign a message, which is not hashed yet.
    Sign {
        /// The key, prepared for the device.
        key: Arc<SigningKey>,
        /// How.
        scheme: Scheme,
        /// What.
        message: Vec<u8>,
    },
    /// Generate a fresh key for one exchange.
    Generate(Group),
    /// Derive the secret that is shared with a peer.
    Derive {
        /// One's own key, which the same device generated.
        key: ExchangeKey,
        /// The peer's public key.
        peer: Vec<u8>,
    },
}

impl Operation {
    /// With what it can share a batch.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::Sign { key, .. } => key.kind(),
            Self::Generate(Group::X25519) => OperationKind::X25519Generate,
            Self::Generate(Group::P256) => OperationKind::P256Generate,
            Self::Derive { key, .. } => match key.group() {
                Group::X25519 => OperationKind::X25519Derive,
                Group::P256 => OperationKind::P256Derive,
            },
        }
    }
}

/// A shared secret; it is wiped when it is dropped.
pub type SharedSecret = Zeroizing<Vec<u8>>;

/// The outcome of an operation.
pub enum Outcome {
    /// Of a signature: for RSA as long as the modulus, for ECDSA in DER.
    Signature(Vec<u8>),
    /// Of a key generation.
    Key(ExchangeKey),
    /// Of a derivation: 32 bytes.
    Secret(SharedSecret),
}

impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature(bytes) => formatter.debug_tuple("Signature").field(&bytes.len()).finish(),
            Self::Key(key) => formatter.debug_tuple("Key").field(key).finish(),
            Self::Secret(_) => formatter.debug_tuple("Secret").finish_non_exhaustive(),
        }
    }
}
