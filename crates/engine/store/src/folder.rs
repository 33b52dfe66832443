//! A run's directory as a descriptor, so that other users who can write beside it cannot redirect the run.
//!
//! A file is opened by its name relative to the open directory, never through a symbolic link, and only if it
//! is a regular file. A run therefore follows no link and waits for no FIFO that another user put there.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::StoreError;

/// How many names to try for a new directory; as many runs can begin in the same second.
const NAMES_MAX: u32 = 1000;

/// For this user alone.
pub(crate) const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Readable as far as the user's umask allows.
pub(crate) const COMMON: Mode = Mode::from_raw_mode(0o666);

/// An open directory.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    descriptor: File,
}

/// Creates a new directory that only this user may enter, and returns its path. Where `path` exists, it tries
/// `path-2` and so on.
///
/// # Errors
/// When it cannot be made.
pub fn make_unique(path: &Path) -> Result<PathBuf, StoreError> {
    make_parents(path)?;
    let numbered = |number: u32| match number {
        1 => path.to_owned(),
        _ => PathBuf::from(format!("{}-{number}", path.display())),
    };
    for candidate in (1..=NAMES_MAX).map(numbered) {
        match DirBuilder::new().mode(0o700).create(&candidate) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => {
                return made.map(|()| candidate).map_err(StoreError::io("make the directory", path));
            }
        }
    }
    Err(StoreError::io("make the directory", path)(ErrorKind::AlreadyExists.into()))
}

/// `NAME-DAY-TIME`: a directory name that sorts and needs no quoting. `started_at` is the time of the start
/// in RFC 3339.
#[must_use]
pub fn run_name(name: &str, started_at: &str) -> String {
    let digits: String = started_at.chars().filter(|character| character.is_ascii_digit()).take(14).collect();
    let (day, time) = digits.split_at(digits.len().min(8));
    format!("{name}-{day}-{time}")
}

fn make_parents(path: &Path) -> Result<(), StoreError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            fs::create_dir_all(parent).map_err(StoreError::io("make the directory", parent))
        }
        _ => Ok(()),
    }
}

impl Folder {
    /// Opens a directory for writing. Creates it, private to this user, if it is missing.
    pub(crate) fn make(path: &Path) -> Result<Self, StoreError> {
        make_parents(path)?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(StoreError::io("make the directory", path)(error))
            }
            _ => Self::open_to_write(path),
        }
    }

    /// Opens a directory for writing, but not through a symbolic link.
    pub(crate) fn open_to_write(path: &Path) -> Result<Self, StoreError> {
        // Drops a trailing slash, with which the kernel would follow a link despite `NOFOLLOW`.
        let bare: PathBuf = path.components().collect();
        if fs::symlink_metadata(&bare).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(StoreError::Link { path: bare });
        }
        Self::open(&bare, OFlags::NOFOLLOW)
    }

    /// Opens a directory for reading.
    pub(crate) fn open_to_read(path: &Path) -> Result<Self, StoreError> {
        Self::open(path, OFlags::empty())
    }

    fn open(path: &Path, flags: OFlags) -> Result<Self, StoreError> {
        let flags = flags | OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| StoreError::io("open", path)(error.into()))?;
        Ok(Self { path: path.to_owned(), descriptor: descriptor.into() })
    }

    /// The same directory, open a second time.
    pub(crate) fn again(&self) -> Result<Self, StoreError> {
        let descriptor = self.descriptor.try_clone().map_err(StoreError::io("open", &self.path))?;
        Ok(Self { path: self.path.clone(), descriptor })
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file in the directory. A file that this call creates is private to this user.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> Result<File, StoreError> {
        self.file_with(name, flags, PRIVATE)
    }

    fn file_with(&self, name: &str, flags: OFlags, mode: Mode) -> Result<File, StoreError> {
        let path = self.path.join(name);
        // With NONBLOCK, opening a FIFO succeeds or fails at once.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file: File = match rustix::fs::openat(&self.descriptor, name, flags, mode) {
            Ok(descriptor) => descriptor.into(),
            Err(Errno::LOOP) => return Err(StoreError::Link { path }),
            Err(Errno::NXIO) => return Err(StoreError::NotAFile { path }),
            Err(error) => return Err(StoreError::io("open", &path)(error.into())),
        };
        match file.metadata().map_err(StoreError::io("look at", &path))?.is_file() {
            true => Ok(file),
            false => Err(StoreError::NotAFile { path }),
        }
    }

    /// Whether the directory has an entry of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens a file for reading; `None` if it is missing, an error if it has more than `bytes_max` bytes.
    pub(crate) fn reader(&self, name: &str, bytes_max: u64) -> Result<Option<File>, StoreError> {
        if !self.has(name) {
            return Ok(None);
        }
        let path = self.path.join(name);
        let file = self.file(name, OFlags::RDONLY)?;
        let bytes = file.metadata().map_err(StoreError::io("look at", &path))?.len();
        if bytes > bytes_max {
            let reason = format!("the file has {bytes} bytes; a run writes at most {bytes_max}");
            return Err(StoreError::Malformed { path, line: 1, reason });
        }
        Ok(Some(file))
    }

    /// A file's bytes, at most `bytes_max` of them; `None` if it is missing.
    pub(crate) fn read_file(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.reader(name, bytes_max)? else { return Ok(None) };
        let mut bytes = Vec::new();
        // The file may have grown since its size was checked.
        file.take(bytes_max)
            .read_to_end(&mut bytes)
            .map_err(StoreError::io("read", &self.path.join(name)))?;
        Ok(Some(bytes))
    }

    /// Writes a small file so that it is either absent or whole, even after a kill.
    pub(crate) fn write_whole(&self, name: &str, bytes: &[u8], mode: Mode) -> Result<(), StoreError> {
        self.replace(name, bytes, mode, true)
    }

    /// Writes a small file so that readers always find it whole. After a power loss, its content is
    /// undefined.
    pub(crate) fn write_unsynced(&self, name: &str, bytes: &[u8], mode: Mode) -> Result<(), StoreError> {
        self.replace(name, bytes, mode, false)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: Mode, is_synced: bool) -> Result<(), StoreError> {
        let path = self.path.join(name);
        self.refuse_a_link(name)?;
        let partial = format!("{name}.partial");
        match rustix::fs::unlinkat(&self.descriptor, &partial, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(StoreError::io("remove", &self.path.join(&partial))(error.into())),
        }
        let mut file = self.file_with(&partial, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)?;
        let mut write = || {
            file.write_all(bytes).map_err(StoreError::io("write", &path))?;
            if is_synced {
                file.sync_all().map_err(StoreError::io("sync", &path))?;
            }
            rustix::fs::renameat(&self.descriptor, &partial, &self.descriptor, name)
                .map_err(|error| StoreError::io("rename to", &path)(error.into()))
        };
        write().inspect_err(|_| drop(self.remove(&partial)))
    }

    /// Removes a file; it need not exist.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(StoreError::io("remove", &self.path.join(name))(error.into())),
        }
    }

    fn refuse_a_link(&self, name: &str) -> Result<(), StoreError> {
        let found = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Symlink) => Err(StoreError::Link { path: self.path.join(name) }),
            Ok(FileType::RegularFile) | Err(_) => Ok(()),
            Ok(_) => Err(StoreError::NotAFile { path: self.path.join(name) }),
        }
    }
}
