//! TLS versions and kinds of keys, by the names of experiment files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A TLS version, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// Plain HTTP.
    #[serde(rename = "none")]
    None,
    /// TLS 1.2 only.
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3 only.
    #[default]
    #[serde(rename = "1.3")]
    V13,
}

impl TlsVersion {
    /// The name under which TLS libraries report it.
    pub(crate) fn negotiated(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V12 => "TLSv1.2",
            Self::V13 => "TLSv1.3",
        }
    }
}

/// The kind of the server's private key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// RSA with 2048 bits.
    #[default]
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// RSA with 3072 bits.
    #[serde(rename = "rsa-3072")]
    Rsa3072,
    /// RSA with 4096 bits.
    #[serde(rename = "rsa-4096")]
    Rsa4096,
    /// ECDSA on P-256.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
}

impl KeyKind {
    /// The name that experiment files use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "rsa-2048",
            Self::Rsa3072 => "rsa-3072",
            Self::Rsa4096 => "rsa-4096",
            Self::EcdsaP256 => "ecdsa-p256",
        }
    }
}
