//! Repeated reads of a run directory while it grows.
//!
//! Each read parses only the added slots, so the cost of watching a run grows with its slots and not with
//! their square.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumb_model::Run;
use rustix::fs::OFlags;

use crate::bounds;
use crate::directory::{END, LOCK, NOW, RUN, SLOTS, no_run, read_counting, read_end, read_slots};
use crate::error::StoreError;
use crate::folder::Folder;
use crate::now::{NOW_BYTES_MAX, NOW_FORMAT, Now, NowRecord};

/// A run as far as it was read from its directory.
#[derive(Debug)]
pub struct Following {
    path: PathBuf,
    run: Run,
    /// How many bytes of the slots file were read, in whole lines.
    read_bytes: u64,
    slots_bytes_max: u64,
    seen: Stamp,
}

/// A fingerprint of a run's files. Equal stamps stand for equal content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    run: FileStamp,
    slots: FileStamp,
    end: FileStamp,
}

/// Inode, length in bytes, and modification time in ns since 1970. All are 0 if there is no file.
type FileStamp = (u64, u64, i64);

impl Stamp {
    /// Reads the stamp of the files of a directory.
    #[must_use]
    pub fn of_directory(path: &Path) -> Self {
        let file = |name: &str| {
            let found = std::fs::symlink_metadata(path.join(name));
            found.map_or((0, 0, 0), |it| {
                (it.ino(), it.len(), it.mtime().wrapping_mul(1_000_000_000).wrapping_add(it.mtime_nsec()))
            })
        };
        Self { run: file(RUN), slots: file(SLOTS), end: file(END) }
    }

    /// Whether the directory holds a run.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.run != (0, 0, 0)
    }

    /// When the run's header was written, in ns since 1970.
    #[must_use]
    pub fn begun_ns(&self) -> i64 {
        self.run.2
    }

    /// Whether the run says how it ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.end != (0, 0, 0)
    }

    /// How many bytes the slots file has.
    #[must_use]
    pub fn slots_bytes(&self) -> u64 {
        self.slots.1
    }
}

impl Following {
    /// Reads the run in a directory, unless its slots file has more than `slots_bytes_max` bytes.
    ///
    /// # Errors
    /// As [`crate::read_run`].
    pub fn open(path: &Path, slots_bytes_max: u64) -> Result<Self, StoreError> {
        let seen = Stamp::of_directory(path);
        let folder = Folder::open_to_read(path).map_err(|error| no_run(error, path))?;
        let slots_bytes_max = slots_bytes_max.min(bounds::SLOTS_BYTES_MAX);
        let (run, read_bytes) = read_counting(&folder, slots_bytes_max)?;
        Ok(Self { path: path.to_owned(), run, read_bytes, slots_bytes_max, seen })
    }

    /// The run as far as it was read.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of the files when they were read.
    #[must_use]
    pub fn seen(&self) -> Stamp {
        self.seen
    }

    /// Reads added slots. Returns whether there were any, or the ending changed.
    ///
    /// # Errors
    /// As [`crate::read_run`].
    pub fn go_on(&mut self) -> Result<bool, StoreError> {
        let now = Stamp::of_directory(&self.path);
        if now == self.seen {
            return Ok(false);
        }
        let is_another = now.run != self.seen.run || now.slots.1 < self.read_bytes;
        if is_another || (now.slots.0 != self.seen.slots.0 && self.read_bytes > 0) {
            *self = Self::open(&self.path, self.slots_bytes_max)?;
            return Ok(true);
        }
        let folder = Folder::open_to_read(&self.path)?;
        let before = self.run.slots.len();
        let from = (self.read_bytes, before);
        let (added, read_bytes) = read_slots(&folder, &self.run.header.plan, from, self.slots_bytes_max)?;
        let end = read_end(&folder)?;
        self.run.slots.extend(added);
        self.read_bytes = read_bytes;
        let ending = end.as_ref().map(|end| end.ending);
        let is_changed = self.run.slots.len() > before || ending != self.run.ending;
        (self.run.ending, self.run.took_s) = (ending, end.map(|end| end.took_s));
        self.seen = now;
        Ok(is_changed)
    }
}

/// The last report of the run in a directory, if that is valid. [`is_being_written`] tells
/// whether the run is still going.
#[must_use]
pub fn now(path: &Path) -> Option<Now> {
    let bytes = Folder::open_to_read(path).ok()?.read_file(NOW, NOW_BYTES_MAX).ok()??;
    let record: NowRecord = serde_json::from_slice(&bytes).ok()?;
    let is_sound = [record.now.left_at_most_s, record.now.left_probably_s]
        .into_iter()
        .all(|seconds| bounds::check_number("left", seconds).is_ok());
    (record.format == NOW_FORMAT && is_sound).then_some(record.now)
}

/// The file whose lock the writer of a run holds.
#[must_use]
pub fn lock_of(path: &Path) -> PathBuf {
    path.join(LOCK)
}

/// Whether a process is writing a run into the directory, and therefore holds its lock. Call this only if
/// there is a run already: the call itself takes a free lock for a moment, shared, and could keep a new
/// writer out.
#[must_use]
pub fn is_being_written(path: &Path) -> bool {
    let Ok(folder) = Folder::open_to_read(path) else { return false };
    let Ok(lock) = folder.file(LOCK, OFlags::RDONLY) else { return false };
    matches!(lock.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}
