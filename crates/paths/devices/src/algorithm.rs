//! The algorithms that devices know: signatures and their hashes, groups of key exchanges, and what shares a batch.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What can share a batch: operations of one kind, and, for RSA, of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// A signature with an RSA key of 2048 bits.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// A signature with an RSA key of 3072 bits.
    #[serde(rename = "rsa-3072")]
    Rsa3072,
    /// A signature with an RSA key of 4096 bits.
    #[serde(rename = "rsa-4096")]
    Rsa4096,
    /// An ECDSA signature on P-256.
    EcdsaP256,
    /// A fresh X25519 key.
    X25519Generate,
    /// A shared secret by X25519.
    X25519Derive,
    /// A fresh P-256 key.
    P256Generate,
    /// A shared secret by ECDH on P-256.
    P256Derive,
}

impl OperationKind {
    /// How many kinds there are.
    pub const COUNT: usize = 8;

    /// All kinds; each stands at its [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = [
        Self::Rsa2048,
        Self::Rsa3072,
        Self::Rsa4096,
        Self::EcdsaP256,
        Self::X25519Generate,
        Self::X25519Derive,
        Self::P256Generate,
        Self::P256Derive,
    ];

    /// The position in tables by kind.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in counters, such as `rsa-2048`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::Rsa3072 => "rsa-3072",
            Self::Rsa4096 => "rsa-4096",
            Self::EcdsaP256 => "ecdsa-p256",
            Self::X25519Generate => "x25519-generate",
            Self::X25519Derive => "x25519-derive",
            Self::P256Generate => "p256-generate",
            Self::P256Derive => "p256-derive",
        }
    }

    /// The kind of a signature by an RSA key of this many bits, where a device has it.
    #[must_use]
    pub fn rsa(bits: u32) -> Option<Self> {
        match bits {
            2048 => Some(Self::Rsa2048),
            3072 => Some(Self::Rsa3072),
            4096 => Some(Self::Rsa4096),
            _ => None,
        }
    }

    /// The bits of the RSA key; `None` for what is not RSA.
    #[must_use]
    pub fn rsa_bits(self) -> Option<u32> {
        match self {
            Self::Rsa2048 => Some(2048),
            Self::Rsa3072 => Some(3072),
            Self::Rsa4096 => Some(4096),
            _ => None,
        }
    }
}

/// A hash function of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// How a message becomes a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// RSASSA-PKCS1-v1_5 (RFC 8017, section 8.2).
    RsaPkcs1(Hash),
    /// RSASSA-PSS with MGF1 of the same hash and a salt of its length, as TLS 1.3 has it (RFC 8446, section 4.2.3).
    RsaPss(Hash),
    /// ECDSA on P-256 with SHA-256, the signature in DER.
    EcdsaP256Sha256,
}

impl fmt::Display for Scheme {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RsaPkcs1(hash) => write!(formatter, "RSA PKCS#1 v1.5 with {}", hash.name()),
            Self::RsaPss(hash) => write!(formatter, "RSA PSS with {}", hash.name()),
            Self::EcdsaP256Sha256 => formatter.write_str("ECDSA on P-256 with SHA-256"),
        }
    }
}

impl Hash {
    /// The name as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Sha384 => "SHA-384",
            Self::Sha512 => "SHA-512",
        }
    }
}

/// A group in which keys are exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// X25519 (RFC 7748); public keys have 32 bytes.
    X25519,
    /// NIST P-256; public keys are uncompressed points of 65 bytes.
    P256,
}

impl Group {
    /// The name as TLS has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::P256 => "secp256r1",
        }
    }

    /// Whether bytes have the form of a public key as TLS carries it (RFC 8446, section 4.2.8.2).
    pub(crate) fn has_form(self, public: &[u8]) -> bool {
        match self {
            Self::X25519 => public.len() == 32,
            Self::P256 => public.len() == 65 && public[0] == 4,
        }
    }
}
