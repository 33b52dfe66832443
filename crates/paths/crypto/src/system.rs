//! The side of the system: it holds the private key.
//!
//! The load's process does the operations, because nothing between a caller and a device could be a separate system. This
//! side only keeps a key that stays the same from slot to slot, because generating one takes longer than a slot.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plumb_devices::generate_key;
use plumb_path::{PathError, Snapshot, System};
use serde_json::Value;

use crate::measure::Algorithm;
use crate::settings::CryptoTarget;

/// A system that is a private key, where the algorithm has one.
///
/// # Errors
///
/// When no key can be generated.
pub(crate) fn key_holder(algorithm: Algorithm) -> Result<Box<dyn System>, PathError> {
    let key = algorithm
        .signature()
        .map(generate_key)
        .transpose()
        .map_err(|error| PathError::new(error.to_string()))?;
    let target = CryptoTarget { key: key.map(|key| STANDARD.encode(&*key)) };
    let target =
        serde_json::to_value(&target).map_err(|error| PathError::new(format!("write the key: {error}")))?;
    Ok(Box::new(KeyHolder { target }))
}

struct KeyHolder {
    target: Value,
}

impl System for KeyHolder {
    fn target(&self) -> Value {
        self.target.clone()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        // The counters are the device's, and the device is with the load.
        Ok(Snapshot::default())
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}
