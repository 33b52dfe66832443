//! The work that a device is measured with.

use plumb_model::Bytes;
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;

/// The work to measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Which operation.
    pub algorithm: Algorithm,
    /// Private-key operations in one pass, at most; never more than the device's width.
    pub batch: u32,
    /// Private-key operations at a time, waiting or in a pass.
    pub in_flight: u32,
    /// The size of the blocks of AEAD and hashes.
    pub block: Bytes,
}
