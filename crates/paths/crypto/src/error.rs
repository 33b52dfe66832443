//! Failures of a measurement of a device.

use plumb_devices::{DeviceError, DeviceKind};

use crate::algorithm::Algorithm;

/// Why a device has no figures.
#[derive(Debug, thiserror::Error)]
pub enum CryptoError {
    /// The device itself.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A device does not do an algorithm.
    #[error("do {algorithm} on the {device} device: it does RSA, ECDSA, X25519 and P-256 only")]
    NotDone {
        /// The device.
        device: DeviceKind,
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// A private key is of another kind than the algorithm needs.
    #[error("prepare a private key for the {device} device: it is for {key}, not for {algorithm}")]
    OtherKey {
        /// The device.
        device: DeviceKind,
        /// The algorithm that the key is for.
        key: &'static str,
        /// The algorithm.
        algorithm: Algorithm,
    },
    /// A device's results are not those of another implementation.
    #[error(
        "trust the {device} device with {algorithm}: {wrong} of {results} results are wrong according to {}", .reference.name()
    )]
    Wrong {
        /// The device.
        device: DeviceKind,
        /// The algorithm.
        algorithm: Algorithm,
        /// Which implementation says so.
        reference: DeviceKind,
        /// How many results are wrong.
        wrong: u64,
        /// How many there are.
        results: u64,
    },
    /// The system gives no random numbers.
    #[error("make up a message: there are no random numbers")]
    NoRandom,
    /// `openssl speed` did not measure.
    #[error(transparent)]
    Speed(#[from] plumb_path::PathError),
}
