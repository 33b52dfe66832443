//! Plumbline's own stream engine: a destination that receives memory (the system) and a source that sends it (the
//! load), each in a process of its own, so that the CPU time of both is known exactly.

use plumb_model::{Evidence, Measurement};
use plumb_path::{Load, PathError, Place, Snapshot, System};
use serde_json::Value;

use crate::spec::MigrationSettings;

/// Starts a destination.
///
/// # Errors
/// When no port is to be had.
pub fn system(_: &MigrationSettings, _: &Place) -> Result<Box<dyn System>, PathError> {
    Err(PathError::new("start a destination: there is no engine yet"))
}

/// Prepares a source: fills the memory that is to move.
///
/// # Errors
/// When there is not enough memory.
pub fn load(_: &MigrationSettings, _: &Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
    Err(PathError::new("start a source: there is no engine yet"))
}

/// Proof that the codec, the channels and the cap of a slot were those that were asked for.
#[must_use]
pub fn evidence(_: &MigrationSettings, _: &Snapshot, _: &Snapshot, _: &Measurement) -> Vec<Evidence> {
    Vec::new()
}
