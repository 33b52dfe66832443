//! A volume: a sparse file and the limiter that operations on it pass.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags};

use crate::limiter::Limiter;
use crate::private;
use crate::waiter::Waiter;

/// The limiter of the server's connections.
pub type VolumeLimiter = Limiter<Waiter>;

/// The size of one read or write where the volume itself goes through a range.
const PART_BYTES: usize = 128 << 10;

/// Why an operation on a volume was not done.
#[derive(Debug)]
pub(crate) enum VolumeError {
    /// The volume is offline.
    Offline,
    /// A part of the range is beyond the volume's end.
    Outside,
    /// The file failed.
    File(io::Error),
}

impl From<io::Error> for VolumeError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// The part of a volume that may be used.
#[derive(Debug)]
struct Extent {
    size_bytes: u64,
    is_offline: bool,
}

/// A volume that is served.
#[derive(Debug)]
pub struct Volume {
    name: RwLock<Arc<str>>,
    file: File,
    /// The file system can read what is in memory and nothing else.
    tells_cold: bool,
    /// A change of the file holds this lock for reading. So a resize waits for changes that have begun, and none begins beyond
    /// the new end. The kernel serialises writes to a file and a change of its length in the same way.
    extent: RwLock<Extent>,
    limiter: RwLock<Arc<VolumeLimiter>>,
}

/// How much of a long change is done under one hold of the lock.
const CHANGE_BYTES: usize = 64 << 20;

impl Volume {
    /// Opens the file of a volume, creating it where there is none, and makes it so large.
    ///
    /// # Errors
    /// When the file cannot be opened or made so large.
    pub fn open(name: &str, path: &Path, size_bytes: u64, limiter: Arc<VolumeLimiter>) -> io::Result<Self> {
        let file = private::options().read(true).write(true).create(true).truncate(false).open(path)?;
        private::tighten(path)?;
        if file.metadata()?.len() != size_bytes {
            file.set_len(size_bytes)?;
        }
        Ok(Self {
            name: RwLock::new(name.into()),
            tells_cold: tells_cold(&file),
            file,
            extent: RwLock::new(Extent { size_bytes, is_offline: false }),
            limiter: RwLock::new(limiter),
        })
    }

    /// The name by which clients ask for it.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives it another name, which only those who connect from now on see.
    pub(crate) fn rename(&self, name: &str) {
        *self.name.write().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// The size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.extent().size_bytes
    }

    /// The bytes allocated on disk.
    ///
    /// # Errors
    /// When the file cannot be asked.
    pub fn used_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Makes it larger or smaller; clients that are connected may use the new size when they ask for it again. When this
    /// returns, no operation beyond a new, smaller size is under way or will begin.
    ///
    /// # Errors
    /// When the file cannot be made so large.
    pub fn resize(&self, size_bytes: u64) -> io::Result<()> {
        let mut extent = self.extent_to_change();
        self.file.set_len(size_bytes)?;
        extent.size_bytes = size_bytes;
        Ok(())
    }

    /// Refuses every later operation. When this returns, no change is under way.
    pub fn take_offline(&self) {
        self.extent_to_change().is_offline = true;
    }

    /// Whether `bytes` from `offset` on may be used now.
    pub(crate) fn check(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        check(&self.extent(), offset, bytes)
    }

    fn extent(&self) -> RwLockReadGuard<'_, Extent> {
        self.extent.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn extent_to_change(&self) -> RwLockWriteGuard<'_, Extent> {
        self.extent.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the file within a range that is the volume's, and stays so until the change is done.
    fn change(
        &self,
        offset: u64,
        bytes: u64,
        work: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), VolumeError> {
        let extent = self.extent();
        check(&extent, offset, bytes)?;
        work(&self.file)?;
        Ok(())
    }

    /// The same for a long range, a part at a time, because a resize that waits holds up every change that begins later.
    fn change_in_parts(&self, offset: u64, bytes: u64, flags: FallocateFlags) -> Result<(), VolumeError> {
        self.check(offset, bytes)?;
        let end = offset.saturating_add(bytes);
        for start in (offset..end).step_by(CHANGE_BYTES) {
            let part = (end - start).min(CHANGE_BYTES as u64);
            self.change(start, part, |file| allocate(file, flags, start, part))?;
        }
        Ok(())
    }

    /// The limiter in effect.
    #[must_use]
    pub fn limiter(&self) -> Arc<VolumeLimiter> {
        Arc::clone(&self.limiter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another limiter in its place and returns the one before, which the caller retires.
    pub(crate) fn replace_limiter(&self, limiter: Arc<VolumeLimiter>) -> Arc<VolumeLimiter> {
        let mut place = self.limiter.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, limiter)
    }

    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Reads what is in memory; false where a part of it would have to come from a disk. On file systems that cannot
    /// tell (tmpfs, which has no disk, and some on a network) it waits for all of it.
    pub(crate) fn read_cached(&self, into: &mut [u8], offset: u64) -> io::Result<bool> {
        if !self.tells_cold {
            return self.read_at(into, offset).map(|()| true);
        }
        match read_nowait(&self.file, into, offset) {
            Ok(count) => Ok(count == into.len()),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings this many bytes from `offset` on into memory, and waits until they are there.
    pub(crate) fn fetch(&self, offset: u64, bytes: u64, scratch: &mut Vec<u8>) -> Result<(), VolumeError> {
        let end = offset.saturating_add(bytes);
        for start in (offset..end).step_by(PART_BYTES) {
            let part = usize::try_from(end - start).unwrap_or(usize::MAX).min(PART_BYTES);
            if scratch.len() < part {
                scratch.resize(part, 0);
            }
            if let Err(error) = self.read_at(&mut scratch[..part], start) {
                // The file's end may have come closer in the meantime.
                return self.check(offset, bytes).and(Err(VolumeError::File(error)));
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, data: &[u8], offset: u64) -> Result<(), VolumeError> {
        self.change(offset, data.len() as u64, |file| file.write_all_at(data, offset))
    }

    /// Returns when everything written before is on disk.
    pub(crate) fn sync(&self) -> Result<(), VolumeError> {
        self.check(0, 0)?;
        Ok(self.file.sync_data()?)
    }

    /// Gives the space back; it reads as zeroes afterwards.
    pub(crate) fn discard(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.change_in_parts(offset, bytes, punch)
    }

    /// Makes it read as zeroes and keeps the space.
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        self.change_in_parts(offset, bytes, zero)
    }
}

fn check(extent: &Extent, offset: u64, bytes: u64) -> Result<(), VolumeError> {
    if extent.is_offline {
        return Err(VolumeError::Offline);
    }
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= extent.size_bytes);
    if is_inside { Ok(()) } else { Err(VolumeError::Outside) }
}

/// Does what the flags say, or writes zeroes where the file system does not know how.
fn allocate(file: &File, flags: FallocateFlags, offset: u64, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match rustix::io::retry_on_intr(|| fallocate(file, flags, offset, bytes)) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP) => write_zeroes(file, offset, bytes),
        Err(error) => Err(error.into()),
    }
}

fn write_zeroes(file: &File, mut offset: u64, bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; PART_BYTES];
    let end = offset.saturating_add(bytes);
    while offset < end {
        let part = usize::try_from(end - offset).unwrap_or(usize::MAX).min(PART_BYTES);
        file.write_all_at(&zeroes[..part], offset)?;
        offset += part as u64;
    }
    Ok(())
}

fn read_nowait(file: &File, into: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
    let into = &mut [IoSliceMut::new(into)];
    rustix::io::retry_on_intr(|| rustix::io::preadv2(file, into, offset, ReadWriteFlags::NOWAIT))
}

/// Whether the file system knows `RWF_NOWAIT`; seen by asking, as that depends on the kernel's version, too.
fn tells_cold(file: &File) -> bool {
    matches!(read_nowait(file, &mut [0], 0), Ok(_) | Err(Errno::AGAIN))
}
