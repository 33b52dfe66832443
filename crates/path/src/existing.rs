//! A system that exists already: nothing is built, nothing is known of what it counts or costs, and it is left as it is.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{PathError, Snapshot, System};

/// Where such a system is.
#[derive(Debug, Clone, PartialEq)]
pub struct Existing(Value);

impl Existing {
    /// A system that its data path's load finds by this.
    #[must_use]
    pub fn at(target: &impl Serialize) -> Self {
        Self(json!(target))
    }
}

impl System for Existing {
    fn target(&self) -> Value {
        self.0.clone()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        Ok(Snapshot::default())
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}
