//! Failures: of a device as a whole, with a key, and with one lane of a batch.
//!
//! One lane's failure does not fail the batch: the other lanes have their results.

use std::path::PathBuf;

use crate::algorithm::Scheme;
use crate::device_kind::DeviceKind;

/// Why a device cannot be had on this machine: what is missing and, where something can be installed, what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The processor has not the instructions.
    #[error("no AVX-512 IFMA on this CPU")]
    NoIfma,
    /// The library is nowhere.
    #[error(
        "libcrypto_mb.so was not found: run scripts/install-crypto-mb.sh, install Debian's package libcrypto-mb12, or \
         set PLUMB_CRYPTO_MB to where it is"
    )]
    NotFound,
    /// The place that the user named has no library.
    #[error("there is no libcrypto_mb.so at {} (PLUMB_CRYPTO_MB)", .0.display())]
    NotThere(PathBuf),
    /// The library is there and the loader refuses it.
    #[error("{} cannot be loaded: {cause}", .path.display())]
    NotLoadable {
        /// The file.
        path: PathBuf,
        /// The loader's error.
        cause: String,
    },
    /// The library is another, or an older one.
    #[error("{} has no function {symbol}: it is too old, or another library; run scripts/install-crypto-mb.sh", .path.display())]
    NoSymbol {
        /// The file.
        path: PathBuf,
        /// The function's name.
        symbol: &'static str,
    },
    /// The library itself says that it does not work here.
    #[error("{version} says that this CPU or this kernel lacks something that it needs beside AVX-512 IFMA")]
    NotApplicable {
        /// The library's own name and version.
        version: String,
    },
}

impl Unavailable {
    /// Whether the machine lacks the hardware, so that installing something would not help.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        matches!(self, Self::NoIfma | Self::NotApplicable { .. })
    }
}

/// Failures of a device as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The device is not to be had.
    #[error("open the {device} device: {cause}")]
    Unavailable {
        /// The device.
        device: DeviceKind,
        /// Why.
        cause: Unavailable,
    },
    /// A key cannot be used.
    #[error("prepare a private key for the {device} device: {fault}")]
    Key {
        /// The device.
        device: DeviceKind,
        /// The mistake in the key.
        fault: KeyFault,
    },
    /// An operation failed that all others need.
    #[error(transparent)]
    Operation {
        /// Why.
        cause: LaneError,
    },
    /// OpenSSL failed at what it does for every device.
    #[error("{what} with OpenSSL: {cause}")]
    OpenSsl {
        /// The operation.
        what: &'static str,
        /// OpenSSL's error.
        cause: String,
    },
}

/// A mistake in a private key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The form is unknown.
    #[error("it is not a private key in PKCS#8, PKCS#1 or SEC1")]
    Form,
    /// An RSA key of another length, in bits.
    #[error("it has {_0} bits; it must have 2048, 3072 or 4096")]
    Bits(u32),
    /// An elliptic curve other than P-256.
    #[error("its curve is not P-256")]
    Curve,
    /// Neither RSA nor P-256.
    #[error("it is neither an RSA nor a P-256 key")]
    Algorithm,
    /// Another public exponent than this one.
    #[error("its public exponent is not {_0}, the only one by which the device can check its results")]
    Exponent(u32),
    /// It has not two primes with this number of bits.
    #[error("it does not have two primes of {_0} bits")]
    Primes(u32),
    /// It lacks parts.
    #[error("some of its parts for the Chinese remainder theorem are missing")]
    Parts,
    /// The parts belong to different keys.
    #[error("its private and public parts do not match")]
    Mismatch,
    /// It is too long for P-256.
    #[error("it is longer than 256 bits")]
    TooLong,
    /// OpenSSL refuses it, in its own words.
    #[error("{_0}")]
    OpenSsl(String),
    /// AWS-LC refuses it, in its own words.
    #[error("AWS-LC refuses it: {_0}")]
    AwsLc(String),
}

impl From<openssl::error::ErrorStack> for KeyFault {
    fn from(error: openssl::error::ErrorStack) -> Self {
        Self::OpenSsl(error.to_string())
    }
}

/// Why one operation of a batch has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// The key was prepared for another device.
    #[error("use a key on the {device} device: it was prepared for another device")]
    ForeignKey {
        /// The device that was asked.
        device: DeviceKind,
    },
    /// The key cannot sign in this way.
    #[error("sign by {scheme}: the key is {key}")]
    Scheme {
        /// The requested scheme.
        scheme: Scheme,
        /// The kind of key.
        key: &'static str,
    },
    /// The peer sent something that is not a public key of the group.
    #[error("derive a shared secret: the peer's public key is not valid")]
    Peer,
    /// The device refused.
    #[error("{what} on the {device} device: {reason}")]
    Refused {
        /// The operation.
        what: &'static str,
        /// The device.
        device: DeviceKind,
        /// The device's error.
        reason: String,
    },
    /// The device's result was wrong; it was withheld.
    #[error("{what} on the {device} device: the result is wrong and was withheld")]
    Faulty {
        /// The operation.
        what: &'static str,
        /// The device.
        device: DeviceKind,
    },
}
