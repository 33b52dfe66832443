//! Plumbline's own stream engine: a destination that receives memory (the system) and a source that sends it (the
//! load), each in a separate process, so that the CPU time of both is known exactly.

mod agent;
mod alarm;
mod bitmap;
mod destination;
mod dirty;
mod error;
mod evidence;
pub use evidence::evidence;
mod memory;
mod message;
mod pace;
mod packet;
mod report;
mod source;
mod wire;
pub mod zero;

use plumb_path::{Load, PathError, Place, System};
use serde_json::Value;

pub use self::agent::Listening;
use self::agent::{DestinationSystem, SourceLoad};
pub(crate) use self::error::MigrationError;
pub use self::evidence::protection;
use crate::settings::MigrationSettings;

/// Starts a destination.
///
/// # Errors
/// When no port is free.
pub fn system(settings: &MigrationSettings, _: &Place) -> Result<Box<dyn System>, PathError> {
    Ok(Box::new(DestinationSystem::start(settings)?))
}

/// Prepares a source: fills the memory that is to move.
///
/// # Errors
/// When there is not enough memory.
pub fn load(settings: &MigrationSettings, target: &Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
    Ok(Box::new(SourceLoad::prepare(settings, target)?))
}

#[cfg(test)]
mod tests;
