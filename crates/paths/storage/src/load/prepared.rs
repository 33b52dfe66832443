//! A target that was made ready once, so that several measurements can use it one after the other: what they may destroy
//! was looked at before the first of them wrote, and a file that was made for them has no name to be left behind under.

use plumb_model::{Notice, NoticeKind};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::device::Device;
use super::engine::Handle;
use super::error::Error;
use crate::settings::{LoadSettings, NULL, StorageTarget};

/// A target, ready.
#[derive(Debug)]
pub struct Prepared {
    target: StorageTarget,
    notices: Vec<Notice>,
    bytes: u64,
    /// The file that has no name any more, open as long as it is needed.
    _file: Option<Arc<File>>,
}

/// Makes a target ready, with the rights and the content that the load needs.
///
/// # Errors
/// When it is not there, is not storage, or holds what would be lost.
pub fn prepare(spec: &LoadSettings, target: &StorageTarget) -> Result<Prepared, Error> {
    let is_path = target.address != NULL && !target.address.contains("://");
    let is_missing = is_path
        && matches!(
            std::fs::symlink_metadata(&target.address),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound
        );
    let device = Device::open(target, spec)?;
    let (bytes, path) = (device.bytes, device.path.clone());
    let (Handle::File(file), true) = (device.handle, is_missing) else {
        let target =
            StorageTarget { group: target.group.clone(), limit: target.limit, ..StorageTarget::made(path) };
        return Ok(Prepared { target, notices: Vec::new(), bytes, _file: None });
    };
    let address = format!("/proc/self/fd/{}", file.as_raw_fd());
    let notices = vec![Notice::from(NoticeKind::MadeForThis).about([&path])];
    let target = StorageTarget { name: Some(path), ..StorageTarget::made(address) };
    Ok(Prepared { target, notices, bytes, _file: Some(file) })
}

impl Prepared {
    /// How to reach it.
    #[must_use]
    pub fn target(&self) -> &StorageTarget {
        &self.target
    }

    /// The notices that the reader needs.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Bytes;

    use super::*;

    #[test]
    fn errors_name_a_file_as_the_user_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made");
        let target = StorageTarget {
            create: Some(Bytes(64 << 10)),
            ..StorageTarget::existing(path.to_str().unwrap())
        };
        let spec = LoadSettings { block_size: Bytes(128 << 10), ..LoadSettings::default() };
        let prepared = prepare(&spec, &target).unwrap();
        let refused = super::super::storage_load(&spec, prepared.target()).unwrap_err().to_string();
        assert!(refused.contains(path.to_str().unwrap()) && !refused.contains("/proc/self"), "{refused}");
    }
}
