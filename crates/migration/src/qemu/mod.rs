//! QEMU's multifd between two QEMU processes, driven over QMP.

use plumb_model::{Evidence, Measurement};
use plumb_path::{Load, PathError, Place, Snapshot, System};
use serde_json::Value;

use crate::spec::MigrationSettings;

/// Starts the destination.
///
/// # Errors
/// When there is no QEMU, or it does not answer.
pub fn system(_: &MigrationSettings, _: &Place) -> Result<Box<dyn System>, PathError> {
    Err(PathError::new("start QEMU: it is not driven yet"))
}

/// Prepares a source.
///
/// # Errors
/// When there is no QEMU, or it does not answer.
pub fn load(_: &MigrationSettings, _: &Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
    Err(PathError::new("start QEMU: it is not driven yet"))
}

/// Proof that QEMU did what was asked.
#[must_use]
pub fn evidence(_: &MigrationSettings, _: &Snapshot, _: &Snapshot, _: &Measurement) -> Vec<Evidence> {
    Vec::new()
}
