//! A volume: a sparse file and the limiter that operations on it pass.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags};

use crate::limiter::Limiter;
use crate::nbd::Waiter;

/// The limiter of the server's connections.
pub type VolumeLimiter = Limiter<Waiter>;

/// What one call reads or writes where the volume itself goes through a range.
const PART_BYTES: usize = 128 << 10;

/// A volume that is served.
#[derive(Debug)]
pub struct Volume {
    name: RwLock<Arc<str>>,
    file: File,
    /// The file system can read what is in memory and nothing else.
    tells_cold: bool,
    size_bytes: AtomicU64,
    is_offline: AtomicBool,
    limiter: RwLock<Arc<VolumeLimiter>>,
}

impl Volume {
    /// Opens the file of a volume, creating it where there is none, and makes it so large.
    ///
    /// # Errors
    /// When the file cannot be opened or made so large.
    pub fn open(name: &str, path: &Path, size_bytes: u64, limiter: Arc<VolumeLimiter>) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() != size_bytes {
            file.set_len(size_bytes)?;
        }
        Ok(Self {
            name: RwLock::new(name.into()),
            tells_cold: tells_cold(&file),
            file,
            size_bytes: AtomicU64::new(size_bytes),
            is_offline: AtomicBool::new(false),
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

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// What of it is allocated on disk.
    ///
    /// # Errors
    /// When the file cannot be asked.
    pub fn used_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Makes it larger or smaller; clients that are connected may use the new size when they ask for it again.
    ///
    /// # Errors
    /// When the file cannot be made so large.
    pub fn resize(&self, size_bytes: u64) -> io::Result<()> {
        if size_bytes < self.size_bytes() {
            self.size_bytes.store(size_bytes, Ordering::Release);
        }
        self.file.set_len(size_bytes)?;
        self.size_bytes.store(size_bytes, Ordering::Release);
        Ok(())
    }

    /// Refuses every later operation.
    pub fn take_offline(&self) {
        self.is_offline.store(true, Ordering::Release);
    }

    pub(crate) fn is_offline(&self) -> bool {
        self.is_offline.load(Ordering::Acquire)
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

    /// Whether so many bytes from `offset` on are all inside.
    pub(crate) fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.size_bytes())
    }

    pub(crate) fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Reads what is in memory; false where a part of it would have to come from a disk. On file systems that cannot
    /// tell (tmpfs, which has no disk, and some on a network) it waits for all of it.
    pub(crate) fn read_cached(&self, into: &mut [u8], offset: u64) -> io::Result<bool> {
        if !self.tells_cold {
            return self.read(into, offset).map(|()| true);
        }
        match read_nowait(&self.file, into, offset) {
            Ok(count) => Ok(count == into.len()),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings so many bytes from `offset` on into memory, and waits until they are there.
    pub(crate) fn fetch(&self, offset: u64, bytes: u64, scratch: &mut Vec<u8>) -> io::Result<()> {
        let end = offset.saturating_add(bytes);
        for start in (offset..end).step_by(PART_BYTES) {
            let part = usize::try_from(end - start).unwrap_or(usize::MAX).min(PART_BYTES);
            if scratch.len() < part {
                scratch.resize(part, 0);
            }
            self.read(&mut scratch[..part], start)?;
        }
        Ok(())
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Returns when everything written before is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives the space back; it reads as zeroes afterwards.
    pub(crate) fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.allocate(punch, offset, bytes)
    }

    /// Makes it read as zeroes and keeps the space.
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.allocate(FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, offset, bytes)
    }

    /// Does what the flags say, or writes zeroes where the file system does not know how.
    fn allocate(&self, flags: FallocateFlags, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match rustix::io::retry_on_intr(|| fallocate(&self.file, flags, offset, bytes)) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => self.write_zeroes(offset, bytes),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeroes(&self, mut offset: u64, bytes: u64) -> io::Result<()> {
        let zeroes = vec![0; PART_BYTES];
        let end = offset.saturating_add(bytes);
        while offset < end {
            let part = usize::try_from(end - offset).unwrap_or(usize::MAX).min(PART_BYTES);
            self.file.write_all_at(&zeroes[..part], offset)?;
            offset += part as u64;
        }
        Ok(())
    }
}

fn read_nowait(file: &File, into: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
    let into = &mut [IoSliceMut::new(into)];
    rustix::io::retry_on_intr(|| rustix::io::preadv2(file, into, offset, ReadWriteFlags::NOWAIT))
}

/// Whether the file system knows `RWF_NOWAIT`; seen by asking, as that depends on the kernel's version, too.
fn tells_cold(file: &File) -> bool {
    matches!(read_nowait(file, &mut [0], 0), Ok(_) | Err(Errno::AGAIN))
}
