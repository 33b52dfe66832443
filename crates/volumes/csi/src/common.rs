//! State that the services share: the volumes' database, the node's name, and the volumes with a call in
//! progress.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plumb_volumes::state::{State, VolumeRow};

use crate::fault::CallError;
use crate::identity::{NodeName, VolumeId, missing};

/// The driver's directory within the state directory.
const DIRECTORY: &str = "csi";

/// See the module.
#[derive(Debug)]
pub struct Common {
    state: Mutex<State>,
    directory: PathBuf,
    /// This node.
    pub node: NodeName,
    busy: Mutex<BTreeSet<String>>,
}

impl Common {
    /// Opens a state directory.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn open(directory: &Path, node: NodeName) -> Result<Self, CallError> {
        let state = State::open(directory)?;
        // Programs that outlive this process use the path from any working directory.
        let absolute = std::fs::canonicalize(directory);
        let absolute =
            absolute.map_err(|cause| CallError::host(format!("find {}: {cause}", directory.display())))?;
        Ok(Self { state: Mutex::new(state), directory: absolute, node, busy: Mutex::default() })
    }

    /// The volumes' state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state directory.
    #[must_use]
    pub fn state_directory(&self) -> &Path {
        &self.directory
    }

    /// The driver's directory within the state directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.directory.join(DIRECTORY)
    }

    /// A volume by its UUID; `None` where there is none.
    ///
    /// # Errors
    /// When the database fails.
    pub fn row(&self, uuid: &str) -> Result<Option<VolumeRow>, CallError> {
        Ok(self.state().volumes()?.into_iter().find(|row| row.uuid == uuid))
    }

    /// A volume of this node by its identity.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    pub fn volume(&self, id: &str) -> Result<VolumeRow, CallError> {
        let uuid = VolumeId::on(&self.node, id)?;
        self.row(&uuid)?.ok_or_else(|| missing(id))
    }

    /// Keeps other calls from a volume or a name until the value is dropped.
    ///
    /// # Errors
    /// When another call holds it.
    pub fn reserve(&self, key: &str) -> Result<Reserved<'_>, CallError> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.insert(key.to_owned()) {
            return Ok(Reserved { common: self, key: key.to_owned() });
        }
        Err(CallError::Busy(format!("another call for `{key}` is under way; try again later")))
    }
}

/// A volume that is reserved for one call.
#[derive(Debug)]
pub struct Reserved<'a> {
    common: &'a Common,
    key: String,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.common.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_at_a_time_has_a_volume() {
        let directory = tempfile::tempdir().unwrap();
        let common = Common::open(directory.path(), NodeName::new("a").unwrap()).unwrap();
        let first = common.reserve("vol1").unwrap();
        assert!(matches!(common.reserve("vol1"), Err(CallError::Busy(_))));
        drop(common.reserve("vol2").unwrap());
        drop(first);
        drop(common.reserve("vol1").unwrap());
    }
}
