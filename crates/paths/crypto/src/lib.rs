//! The `crypto` data path: what devices that do private-key operations are worth, alone.
//!
//! [`measure`] is the engine, for the command `plumb crypto` and for the data path [`Crypto`]. The devices themselves are in
//! `plumb-devices`.

mod algorithm;
mod check;
mod error;
mod evidence;
mod family;
mod load;
pub mod measure;
pub mod metrics;
pub mod settings;
mod system;
mod tool;

pub use error::CryptoError;
pub use family::CRYPTO;
pub use settings::{CryptoSettings, LoadSettings, SystemSettings};
