//! The file behind a volume.

use std::fs::File;
use std::io;
use std::path::Path;

use plumb_host::scratch::Scratch;
use plumb_path::{PathError, Place};

use crate::pattern::write_data;
use crate::settings::SystemSettings;

/// The directory for the volume, gone with this value: below the one that was asked for, or in the run's own.
pub(super) fn home(spec: &SystemSettings, place: &Place) -> Result<Scratch, PathError> {
    let parent = spec.path.as_ref().map_or(place.scratch.as_path(), Path::new);
    Ok(Scratch::create(parent, "plumb-volume")?)
}

/// Makes a sparse file, with data at its beginning.
pub(super) fn make(path: &Path, spec: &SystemSettings) -> Result<File, PathError> {
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
