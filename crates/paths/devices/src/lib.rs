//! Devices that do private-key operations and key exchanges.
//!
//! A [`Device`] signs, generates and derives: in software by OpenSSL or by AWS-LC, one operation at a time, or by
//! Intel's libcrypto_mb, eight in one pass. A [`Batcher`] gathers operations for it in an event loop.
//! What libcrypto_mb signs, generates or derives is checked before it leaves the device.

mod algorithm;
mod aws_lc;
mod batcher;
mod break_even;
mod counters;
mod device;
mod device_kind;
mod ecdsa;
mod error;
mod exchange;
mod key;
mod library;
mod multibuffer;
mod openssl_device;
mod operation;
mod padding;
mod words;

#[cfg(test)]
mod known_answers;

pub use algorithm::{Group, Hash, OperationKind, Scheme};
pub use batcher::{Batch, Batcher, Reason};
pub use break_even::BreakEven;
pub use counters::{Counters, Totals};
pub use device::{Device, Presence};
pub use device_kind::{DeviceKind, LANES};
pub use error::{DeviceError, KeyFault, LaneError, Unavailable};
pub use exchange::ExchangeKey;
pub use key::{SigningKey, generate_key};
pub use operation::{Lane, Operation, Outcome, SharedSecret};
