//! The node service's records of volumes, on disk. A later driver uses them to find running layers and repair
//! the rest.
//!
//! A record exists from before the first step of staging until after the last step of unstaging. A kill that
//! leaves anything behind therefore also leaves a record.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use plumb_host::process::Detached;
use plumb_volumes::private;
use serde::{Deserialize, Serialize};

use crate::common::Common;
use crate::fault::CallError;

const FILE: &str = "record.json";
const VOLUMES: &str = "volumes";

/// A staged volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The boot in which it was staged. Nothing survives a reboot.
    pub boot: Option<String>,
    /// Where it is staged.
    pub staging: PathBuf,
    /// The options of its mount; `None` for a block device.
    pub mount_options: Option<Vec<String>>,
    /// The process that shows the volume as a file.
    pub daemon: Option<Detached>,
    /// The number of the current connection to the server, which is part of the connection's name.
    pub connection: u32,
    /// The loop device on that file.
    pub device: Option<PathBuf>,
    /// The paths at which workloads see it.
    pub targets: Vec<PublishedPath>,
}

/// A path at which a workload sees a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPath {
    /// The path.
    pub path: PathBuf,
    /// Whether the workload may only read.
    pub is_read_only: bool,
}

/// The records of a state directory.
#[derive(Debug, Clone)]
pub struct Records {
    directory: PathBuf,
}

impl Records {
    /// The records of a state directory.
    #[must_use]
    pub fn in_directory_of(common: &Common) -> Self {
        Self { directory: common.directory().join(VOLUMES) }
    }

    /// The directory of one volume.
    #[must_use]
    pub fn directory_of(&self, uuid: &str) -> PathBuf {
        self.directory.join(uuid)
    }

    /// The marker file that exists while a volume's file system is created. It outlives the record. A file
    /// system that was not finished is therefore created again, and not taken for a user's data.
    #[must_use]
    pub fn unfinished(&self, uuid: &str) -> PathBuf {
        self.directory.join(format!("{uuid}.unfinished"))
    }

    /// The UUID of every volume that has a record.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn all(&self) -> Result<Vec<String>, CallError> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|cause| failed("read", &self.directory, &cause))?,
        };
        let names = entries.filter_map(Result::ok).filter(|entry| entry.path().join(FILE).exists());
        Ok(names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    /// A volume's record; `None` if it is not staged.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn record_of(&self, uuid: &str) -> Result<Option<Record>, CallError> {
        let path = self.directory_of(uuid).join(FILE);
        match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            text => {
                let text = text.map_err(|cause| failed("read", &path, &cause))?;
                let record = serde_json::from_slice(&text).map_err(io::Error::other);
                record.map(Some).map_err(|cause| failed("read", &path, &cause))
            }
        }
    }

    /// Writes a record atomically.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, uuid: &str, record: &Record) -> Result<(), CallError> {
        let path = self.directory_of(uuid).join(FILE);
        let new = path.with_extension("new");
        let written = serde_json::to_vec(record).map_err(io::Error::other).and_then(|text| {
            make_directory(&self.directory_of(uuid))?;
            let mut file = private::options().write(true).create(true).truncate(true).open(&new)?;
            file.write_all(&text)?;
            // Without the sync, a power failure may leave an empty file under the name.
            file.sync_all()?;
            std::fs::rename(&new, &path)
        });
        written.map_err(|cause| failed("write", &path, &cause))
    }

    /// Removes a volume's record, with everything else in its directory.
    ///
    /// # Errors
    /// When an entry cannot be removed, such as a mount.
    pub fn remove(&self, uuid: &str) -> Result<(), CallError> {
        let path = self.directory_of(uuid);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", &path, &error)),
            _ => Ok(()),
        }
    }
}

/// Creates a directory and its parents, for this user alone.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The fault for a failed file operation.
pub(crate) fn failed(what: &str, path: &Path, cause: &io::Error) -> CallError {
    CallError::host(format!("{what} {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::NodeName;

    #[test]
    fn a_record_is_there_until_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let common = Common::open(directory.path(), NodeName::new("a").unwrap()).unwrap();
        let records = Records::in_directory_of(&common);
        assert_eq!((records.all().unwrap(), records.record_of("u-1").unwrap()), (Vec::new(), None));
        let record = Record {
            boot: Some("b".to_owned()),
            staging: "/staging".into(),
            mount_options: None,
            daemon: None,
            connection: 0,
            device: Some("/dev/loop7".into()),
            targets: vec![PublishedPath { path: "/target".into(), is_read_only: true }],
        };
        records.write("u-1", &record).unwrap();
        assert_eq!(records.record_of("u-1").unwrap(), Some(record));
        assert_eq!(records.all().unwrap(), ["u-1"]);
        records.remove("u-1").unwrap();
        records.remove("u-1").unwrap();
        assert_eq!(records.record_of("u-1").unwrap(), None);
    }
}
