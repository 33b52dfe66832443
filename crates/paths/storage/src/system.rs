//! The storage that is read and written: a file or a volume that is made for the run, something that exists, or a volume of an
//! array.

pub mod ontap;
pub(crate) mod volumes;

use std::fs::File;
use std::path::{Path, PathBuf};

use plumb_host::scratch::Scratch;
use plumb_path::{Existing, Foreign, PathError, Place, Snapshot, System};

use crate::nbd_address::NbdAddress;
use crate::pattern::write_data;
use crate::settings::{NULL, StorageTarget, SystemKind, SystemSettings};

/// Builds the system.
///
/// # Errors
/// When the file cannot be made, or what should exist does not.
pub fn start(spec: &SystemSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
    match spec.kind {
        SystemKind::File => Ok(Box::new(OwnFile::make(spec, place)?)),
        SystemKind::External => Ok(Box::new(existing(spec)?)),
        SystemKind::Ontap => {
            let (Some(array), Some(path)) = (&spec.ontap, &spec.path) else {
                return Err(PathError::new("find the volume: both `ontap` and `path` are needed"));
            };
            Ok(Box::new(ontap::Array::start(array, path)?))
        }
        SystemKind::Volumes => volumes::start(spec, place),
    }
}

/// A file filled with data, in a directory that goes with it.
#[derive(Debug)]
struct OwnFile {
    path: PathBuf,
    /// Where the file is not in the run's own scratch directory.
    scratch: Option<Scratch>,
}

impl OwnFile {
    fn make(spec: &SystemSettings, place: &Place) -> Result<Self, PathError> {
        let scratch = match &spec.path {
            Some(parent) => Some(Scratch::create(Path::new(parent), "plumb-storage")?),
            None => None,
        };
        let directory = scratch.as_ref().map_or(place.scratch.as_path(), Scratch::path);
        let path = directory.join("blocks");
        let failed =
            |cause| PathError::new(format!("make a file of {} at {}: {cause}", spec.size, path.display()));
        let made = File::create(&path).and_then(|file| write_data(&file, spec.size.0, 0.0));
        if made.is_err() {
            // The space is wanted back at once; where that fails, the first message is enough.
            let _ = std::fs::remove_file(&path);
        }
        made.map_err(failed)?;
        Ok(Self { path, scratch })
    }
}

impl System for OwnFile {
    fn target(&self) -> serde_json::Value {
        serde_json::json!(StorageTarget::made(self.path.display().to_string()))
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        Ok(Snapshot::default())
    }

    fn stop(&mut self) -> Result<(), PathError> {
        drop(self.scratch.take());
        match std::fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                Err(PathError::new(format!("remove {}: {cause}", self.path.display())))
            }
            _ => Ok(()),
        }
    }
}

/// Where the processes of an external system are found.
pub(crate) fn foreign(spec: &SystemSettings) -> Foreign {
    let server = spec.path.as_deref().and_then(NbdAddress::parse);
    let address = server.as_ref().map(NbdAddress::server);
    Foreign { run_by: spec.run_by(), address: address.map(|(host, port)| (host.to_owned(), port)) }
}

/// Something that exists.
fn existing(spec: &SystemSettings) -> Result<Existing, PathError> {
    let path = spec.path.clone().ok_or_else(|| PathError::new("find the storage: it has no path"))?;
    let is_here = path == NULL || path.contains("://") || Path::new(&path).exists();
    if is_here {
        foreign(spec).at(&StorageTarget::existing(path))
    } else {
        Err(PathError::new(format!("find {path}: there is no such file or device")))
    }
}
