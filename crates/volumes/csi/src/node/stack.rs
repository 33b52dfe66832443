//! A volume's stack of layers: the server, the storage daemon, a loop device, a mount, and the paths at which
//! workloads see the volume.
//!
//! Building adds only missing layers, so a new driver continues by it after a kill. A layer is useless once
//! anything below it has ended. A repair therefore takes the whole stack apart and builds it again.
//! Synchronised data is in the volume, and the check of the file system replays its journal. If only a mount
//! is missing, building suffices, and the workloads' data stays in place.

use std::fs::File;
use std::path::{Path, PathBuf};

use plumb_host::{loop_device, mounts};
use plumb_volumes::state::VolumeRow;

use super::daemon::StorageDaemon;
use super::filesystem;
use super::server::VolumeServer;
use crate::capability::FILE_SYSTEM;
use crate::fault::CallError;
use crate::record::{PublishedPath, Record, Records, failed};

/// Mount options by which ext4 shows that it stopped after errors; older kernels show the last one.
const STOPPED: [&str; 3] = ["emergency_ro", "shutdown", "ro"];

/// A defect of a stack.
#[derive(Debug)]
pub enum Defect {
    /// A layer has ended, so the layers above it are useless.
    Broken(String),
    /// A mount is missing, and the other layers work.
    Missing(String),
}

impl Defect {
    /// In words.
    pub fn into_words(self) -> String {
        match self {
            Self::Broken(words) | Self::Missing(words) => words,
        }
    }
}

/// The layers of one volume.
#[derive(Debug)]
pub struct Stack<'a> {
    /// The server of the volumes.
    pub server: &'a VolumeServer,
    /// The records of staged volumes.
    pub records: &'a Records,
    /// The volume's UUID.
    pub uuid: &'a str,
}

impl Stack<'_> {
    fn daemon(&self) -> StorageDaemon {
        StorageDaemon::in_directory(&self.records.directory_of(self.uuid))
    }

    /// The label of the loop device over the running daemon's file. The device of an ended daemon has a
    /// different one.
    fn label(&self, record: &Record) -> Option<String> {
        let daemon = record.daemon?;
        Some(format!("plumb {} {}.{}", self.uuid, daemon.pid, daemon.started_ticks))
    }

    /// The loop device that exists now.
    fn device(&self, record: &Record) -> Option<PathBuf> {
        loop_device::kept(&self.label(record)?).into_iter().next()
    }

    /// The defect of a stack; `None` if everything is in place.
    ///
    /// # Errors
    /// When the kernel does not report the state of a layer.
    pub fn defect(&self, record: &Record) -> Result<Option<Defect>, CallError> {
        let broken = |words: &str| Ok(Some(Defect::Broken(words.to_owned())));
        if !record.daemon.is_some_and(|daemon| daemon.is_running()) {
            return broken("its storage daemon has ended");
        }
        let device = self.device(record);
        let Some(device) = device.filter(|device| record.device.as_ref() == Some(device)) else {
            return broken("its loop device is gone");
        };
        if let Some(options) = &record.mount_options {
            let Some(mount) = mounts::at(&record.staging)?.filter(|mount| is_of(mount, &device)) else {
                let path = record.staging.display();
                return Ok(Some(Defect::Missing(format!("nothing of it is mounted at {path}"))));
            };
            let may_be_read_only = options.iter().flat_map(|options| options.split(',')).any(|it| it == "ro");
            let has_stopped = |state: &String| STOPPED.contains(&state.as_str());
            if !may_be_read_only && mount.state.iter().any(has_stopped) {
                return broken("its file system has stopped after errors");
            }
        }
        for target in &record.targets {
            if mounts::at(&target.path)?.is_none() {
                let path = target.path.display();
                return Ok(Some(Defect::Missing(format!("nothing is mounted at {path}"))));
            }
        }
        Ok(None)
    }

    /// Builds what is missing.
    ///
    /// # Errors
    /// When a layer cannot be built. The layers below it stay, and the next call continues from them.
    pub fn build(&self, row: &VolumeRow, file: &Path, record: &mut Record) -> Result<(), CallError> {
        if !record.daemon.is_some_and(|daemon| daemon.is_running()) {
            self.take_apart(record, true)?;
            self.server.await_idle(self.uuid)?;
            if record.mount_options.is_some() {
                filesystem::prepare(file, &self.records.unfinished(self.uuid))?;
            }
            let daemon = self.daemon().start(self.server.socket(), &row.uuid, row.size_bytes)?;
            (record.daemon, record.connection) = (Some(daemon), 0);
            self.records.write(self.uuid, record)?;
        }
        let device = self.build_device(record)?;
        if let Some(options) = &record.mount_options
            && mounts::at(&record.staging)?.is_none_or(|mount| !is_of(&mount, &device))
        {
            make_directory(&record.staging)?;
            mounts::mount_device(&device, &record.staging, FILE_SYSTEM, options)?;
        }
        record.targets.iter().try_for_each(|target| self.show(record, &device, target))
    }

    fn build_device(&self, record: &mut Record) -> Result<PathBuf, CallError> {
        let label = self.label(record).unwrap_or_default();
        let device = match self.device(record) {
            Some(device) => device,
            None => {
                let path = self.daemon().file();
                let file = File::options().read(true).write(true).open(&path);
                let file = file.map_err(|cause| failed("open", &path, &cause))?;
                loop_device::keep(&file, &label)?
            }
        };
        if record.device.as_ref() != Some(&device) {
            record.device = Some(device.clone());
            self.records.write(self.uuid, record)?;
        }
        Ok(device)
    }

    /// Shows the volume at a path unless it is already shown there.
    fn show(&self, record: &Record, device: &Path, target: &PublishedPath) -> Result<(), CallError> {
        if let Some(mount) = mounts::at(&target.path)? {
            // A kill may have come between the mount and the step that makes it read-only.
            if target.is_read_only && !mount.is_read_only {
                mounts::make_read_only(&target.path)?;
            }
            return Ok(());
        }
        let source = if record.mount_options.is_some() {
            make_directory(&target.path)?;
            &record.staging
        } else {
            if let Some(parent) = target.path.parent() {
                make_directory(parent)?;
            }
            let made = File::options().append(true).create(true).open(&target.path);
            made.map_err(|cause| failed("make", &target.path, &cause))?;
            device
        };
        Ok(mounts::bind(source, &target.path, target.is_read_only)?)
    }

    /// Takes apart every layer but the server. `is_forced` is for broken stacks: open files fail, and writes
    /// that the daemon has not passed on are lost.
    ///
    /// # Errors
    /// When a layer is in use, or the kernel refuses.
    pub fn take_apart(&self, record: &mut Record, is_forced: bool) -> Result<(), CallError> {
        if is_forced {
            for target in &record.targets {
                mounts::unmount_all(&target.path, true)?;
            }
            // Ends the daemon first, so that nothing waits for its pending writes.
            self.daemon().stop(true)?;
        }
        if !is_forced {
            self.synchronise(record)?;
        }
        if record.mount_options.is_some() {
            mounts::unmount_all(&record.staging, is_forced)?;
        }
        let mut devices = self.label(record).map(|label| loop_device::kept(&label)).unwrap_or_default();
        // The kernel may no longer return the label of a device whose daemon has ended.
        devices.extend(record.device.clone().filter(|device| loop_device::has_lost_its_file(device)));
        // A device that another namespace still has mounted disappears with that mount.
        devices.iter().try_for_each(|device| loop_device::take_apart(device))?;
        self.daemon().stop(is_forced)?;
        (record.daemon, record.device) = (None, None);
        Ok(())
    }

    /// Writes pending data to the volume. An unmount alone does not: another namespace may still have the
    /// file system mounted.
    ///
    /// # Errors
    /// When the data cannot be written.
    pub fn synchronise(&self, record: &Record) -> Result<(), CallError> {
        let path = match (&record.mount_options, self.device(record)) {
            (Some(_), _) if mounts::at(&record.staging)?.is_some() => record.staging.clone(),
            (None, Some(device)) => device,
            _ => return Ok(()),
        };
        let file = File::open(&path).map_err(|cause| failed("open", &path, &cause))?;
        let done = if record.mount_options.is_some() {
            rustix::fs::syncfs(&file).map_err(std::io::Error::from)
        } else {
            file.sync_all()
        };
        done.map_err(|cause| failed("write out", &path, &cause))
    }

    /// Grows the device and the file system to the volume's size.
    ///
    /// # Errors
    /// When a layer does not grow.
    pub fn grow(&self, row: &VolumeRow, record: &mut Record) -> Result<(), CallError> {
        let Some(device) = self.device(record) else {
            return Err(CallError::Precondition("the volume has no device; stage it again".to_owned()));
        };
        let file = self.daemon().file();
        let seen = std::fs::metadata(&file).map_err(|cause| failed("look at", &file, &cause))?;
        if seen.len() != row.size_bytes {
            record.connection += 1;
            self.records.write(self.uuid, record)?;
            self.daemon().follow_size(record.connection, self.server.socket(), &row.uuid, row.size_bytes)?;
        }
        if loop_device::size_bytes(&device)? != row.size_bytes {
            loop_device::follow_size(&device)?;
        }
        if record.mount_options.is_some() { filesystem::grow(&device) } else { Ok(()) }
    }
}

fn is_of(mount: &mounts::Mount, device: &Path) -> bool {
    Path::new(&mount.source) == device
}

/// Creates a directory for a mount, which other users may enter.
fn make_directory(path: &Path) -> Result<(), CallError> {
    std::fs::create_dir_all(path).map_err(|cause| failed("make", path, &cause))
}
