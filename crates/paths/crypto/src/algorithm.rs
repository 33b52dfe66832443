//! The algorithms that can be measured: signatures, key exchanges, AEAD, hashes.

use plumb_devices::{DeviceKind, Group, OperationKind};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

plumb_model::named! {
    /// An algorithm; one operation of it is the unit of work.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum Algorithm: name {
        /// Sign with RSA, 2048 bits, PKCS#1 v1.5 and SHA-256.
        #[default]
        Rsa2048 = "rsa-2048",
        /// Sign with RSA, 3072 bits, PKCS#1 v1.5 and SHA-256.
        Rsa3072 = "rsa-3072",
        /// Sign with RSA, 4096 bits, PKCS#1 v1.5 and SHA-256.
        Rsa4096 = "rsa-4096",
        /// Sign with ECDSA on P-256 and SHA-256.
        EcdsaP256 = "ecdsa-p256",
        /// Generate an X25519 key and derive a shared secret with it.
        X25519 = "x25519",
        /// Generate a P-256 key and derive a shared secret with it.
        P256 = "p256",
        /// Seal a block with AES-128-GCM.
        Aes128Gcm = "aes-128-gcm",
        /// Seal a block with AES-256-GCM.
        Aes256Gcm = "aes-256-gcm",
        /// Seal a block with ChaCha20-Poly1305.
        Chacha20Poly1305 = "chacha20-poly1305",
        /// Hash a block with SHA-256.
        Sha256 = "sha-256",
        /// Hash a block with SHA-512.
        Sha512 = "sha-512",
    }
}

impl Algorithm {
    /// The kind of work, in the plural.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 | Self::EcdsaP256 => "signatures",
            Self::X25519 | Self::P256 => "key exchanges",
            Self::Aes128Gcm | Self::Aes256Gcm | Self::Chacha20Poly1305 => "AEAD",
            Self::Sha256 | Self::Sha512 => "hashes",
        }
    }

    /// The kind of its signatures; `None` for what does not sign.
    #[must_use]
    pub fn signature(self) -> Option<OperationKind> {
        match self {
            Self::Rsa2048 => Some(OperationKind::Rsa2048),
            Self::Rsa3072 => Some(OperationKind::Rsa3072),
            Self::Rsa4096 => Some(OperationKind::Rsa4096),
            Self::EcdsaP256 => Some(OperationKind::EcdsaP256),
            _ => None,
        }
    }

    /// The group of its key exchanges; `None` for what exchanges no keys.
    #[must_use]
    pub fn exchange(self) -> Option<Group> {
        match self {
            Self::X25519 => Some(Group::X25519),
            Self::P256 => Some(Group::P256),
            _ => None,
        }
    }

    /// Whether it works on blocks, and neither batches nor keys of a handshake have a meaning.
    #[must_use]
    pub fn is_bulk(self) -> bool {
        self.signature().is_none() && self.exchange().is_none()
    }

    /// How many operations of a device one unit of work is.
    #[must_use]
    pub fn operations(self) -> u64 {
        if self.exchange().is_some() { 2 } else { 1 }
    }

    /// Whether a device does it at all.
    #[must_use]
    pub fn is_done_by(self, device: DeviceKind) -> bool {
        device != DeviceKind::Multibuffer || !self.is_bulk()
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        for algorithm in Algorithm::ALL {
            assert_eq!(serde_json::to_value(algorithm).unwrap(), algorithm.name());
        }
        for kind in OperationKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert_eq!(OperationKind::ALL[kind.index()], kind);
        }
        for device in DeviceKind::ALL {
            assert_eq!(serde_json::to_value(device).unwrap(), device.name());
        }
    }
}
