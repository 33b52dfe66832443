//! A volume under a policy: served by NBD from this process, or by the kernel.

mod kernel;
mod served;

use std::fs::File;
use std::io;
use std::path::Path;

use plumb_host::scratch::Scratch;
use plumb_path::{PathError, Place, System};

use crate::load::write_data;
use crate::settings::{Layer, SystemSpec};

/// What snapshots call things.
pub mod names {
    /// Operations let through.
    pub const OPERATIONS: &str = "operations";
    /// Bytes let through.
    pub const BYTES: &str = "bytes";
    /// Operations that had to wait.
    pub const DELAYED: &str = "delayed";
    /// Time for which the limit on operations was the binding one.
    pub const BOUND_BY_IOPS_NS: &str = "bound_by_iops_ns";
    /// Time for which the limit on bytes was the binding one.
    pub const BOUND_BY_BYTES_NS: &str = "bound_by_bytes_ns";
    /// When the snapshot was taken.
    pub const AT_NS: &str = "at_ns";
    /// The limit in effect; absent where there is none.
    pub const LIMIT_IOPS: &str = "limit_iops";
    /// The limit in effect; absent where there is none.
    pub const LIMIT_BYTES_PER_S: &str = "limit_bytes_per_s";
    /// What of the volume takes space.
    pub const USED_BYTES: &str = "used_bytes";
}

/// Makes the volume and serves it.
pub fn start(spec: &SystemSpec, place: &Place) -> Result<Box<dyn System>, PathError> {
    match spec.volume.layer {
        Layer::Nbd => Ok(Box::new(served::Served::start(spec, place)?)),
        Layer::Kernel => Ok(Box::new(kernel::Limited::start(spec, place)?)),
    }
}

/// The directory for the volume, gone with this value: below the one that was asked for, or in the run's own.
fn home(spec: &SystemSpec, place: &Place) -> Result<Scratch, PathError> {
    let parent = spec.path.as_ref().map_or(place.scratch.as_path(), Path::new);
    Ok(Scratch::create(parent, "plumb-volume")?)
}

/// Makes a sparse file, with data at its beginning.
fn make(path: &Path, spec: &SystemSpec) -> Result<File, PathError> {
    let volume = &spec.volume;
    let made = || -> io::Result<File> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        write_data(&file, volume.filled.0, 0.0)?;
        file.set_len(volume.size.0)?;
        Ok(file)
    };
    made().map_err(|cause| {
        PathError::new(format!("make a volume of {} at {}: {cause}", volume.size, path.display()))
    })
}
