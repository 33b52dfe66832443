//! Files that are not the kernel's, as one value each: rights, owner and text.
//!
//! A file is replaced by another one of its name, so that a process that is killed leaves the old one or the new one whole.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::state::{remove_durably, sync_directory_of};

/// The value of a file that does not exist.
pub const ABSENT: &str = "absent";

/// A longer file is not replaced, in bytes: its text is in the journal.
const LONG_FILE: u64 = 4 << 20;

/// A file's rights, owner and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The rights.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The text.
    pub text: String,
}

impl Contents {
    /// Reads the file at a path; `None` where nothing is.
    ///
    /// # Errors
    /// When it cannot be read, or is not a file of text.
    pub fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let wrong = |message: String| Err(io::Error::new(io::ErrorKind::InvalidData, message));
        if !metadata.is_file() {
            return wrong("it is not a regular file".to_owned());
        }
        if metadata.len() > LONG_FILE {
            return wrong(format!("it has {} bytes, more than {LONG_FILE}", metadata.len()));
        }
        let Ok(text) = String::from_utf8(fs::read(path)?) else {
            return wrong("it is not UTF-8 text".to_owned());
        };
        Ok(Some(Self { mode: metadata.mode() & 0o7777, uid: metadata.uid(), gid: metadata.gid(), text }))
    }

    /// The value as the journal has it.
    #[must_use]
    pub fn value(&self) -> String {
        let Self { mode, uid, gid, text } = self;
        format!("{mode:04o} {uid}:{gid}\n{text}")
    }

    /// Reads what [`Contents::value`] says; `None` for a file that is absent, or for what it never says.
    #[must_use]
    pub fn of_value(value: &str) -> Option<Self> {
        let (head, text) = value.split_once('\n')?;
        let (mode, owner) = head.split_once(' ')?;
        let (uid, gid) = owner.split_once(':')?;
        Some(Self {
            mode: u32::from_str_radix(mode, 8).ok()?,
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
            text: text.to_owned(),
        })
    }

    /// The value as people see it: the text by its length and its hash, or by neither where it `is_secret`.
    #[must_use]
    pub fn shown(value: &str, is_secret: bool) -> String {
        let Some(Self { mode, uid, gid, text }) = Self::of_value(value) else { return value.to_owned() };
        if is_secret {
            return format!("text with a secret, mode {mode:04o}, owner {uid}:{gid}");
        }
        let (bytes, hash) = (text.len(), twox_hash::XxHash3_64::oneshot(text.as_bytes()));
        format!("{bytes} bytes of hash {hash:016x}, mode {mode:04o}, owner {uid}:{gid}")
    }

    /// An empty file of this user's.
    #[must_use]
    pub fn new_file(mode: u32) -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { mode, uid, gid, text: String::new() }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let beside = beside(path);
        remove_durably(&beside)?;
        let written = self.write_new(&beside).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&beside);
        }
        written?;
        sync_directory_of(path)
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(self.text.as_bytes())?;
        let metadata = file.metadata()?;
        if (metadata.uid(), metadata.gid()) != (self.uid, self.gid) {
            fchown(&file, Some(self.uid), Some(self.gid))?;
        }
        file.set_permissions(Permissions::from_mode(self.mode))?;
        file.sync_all()
    }
}

/// Has a file be what a value says.
///
/// # Errors
/// When the kernel refuses, or the value says nothing.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    if value == ABSENT {
        return remove_durably(path);
    }
    Contents::of_value(value).ok_or(io::ErrorKind::InvalidInput)?.write(path)
}

/// Removes what a process left that was killed while it wrote a file.
pub(super) fn tidy(path: &Path) {
    // Nothing depends on it, and the next write tries again.
    let _ = fs::remove_file(beside(path));
}

/// A file's state, as a value.
///
/// # Errors
/// As [`Contents::of_file`].
pub fn value_of_file(path: &Path) -> io::Result<String> {
    Ok(Contents::of_file(path)?.map_or_else(|| ABSENT.to_owned(), |contents| contents.value()))
}

/// The file that becomes the new one. A process that was killed may have left it.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.plumb-new"))
}

/// Whether a path leads to what the kernel makes up, which is no file of text.
#[must_use]
pub fn is_kernels(path: &str) -> bool {
    ["/proc/", "/sys/", "/dev/"].iter().any(|place| path.starts_with(place))
}

/// The number of a user or of a group: as a number, or by its name in `/etc/passwd` or `/etc/group`.
#[must_use]
pub fn owner_number(name: &str, is_group: bool) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let text = fs::read_to_string(if is_group { "/etc/group" } else { "/etc/passwd" }).ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    };
    text.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_comes_back_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.conf");
        assert_eq!(value_of_file(&path).unwrap(), ABSENT);
        fs::write(&path, "old\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let old = value_of_file(&path).unwrap();
        let contents = Contents::of_value(&old).unwrap();
        assert_eq!((contents.mode, contents.text.as_str()), (0o640, "old\n"));
        write(&path, &Contents { text: "new\n\n".to_owned(), mode: 0o604, ..contents }.value()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new\n\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o604);
        write(&path, &old).unwrap();
        assert_eq!(value_of_file(&path).unwrap(), old);
        write(&path, ABSENT).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert!(write(&path, "nonsense").is_err());
    }

    #[test]
    fn what_is_not_a_file_of_text_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(value_of_file(directory.path()).unwrap_err().to_string().contains("not a regular file"));
        let path = directory.path().join("binary");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(value_of_file(&path).unwrap_err().to_string(), "it is not UTF-8 text");
    }

    #[test]
    fn a_value_is_shown_by_its_hash_and_a_secret_by_nothing() {
        let value = |text: &str| Contents { mode: 0o644, uid: 0, gid: 0, text: text.to_owned() }.value();
        assert_eq!(
            Contents::shown(&value("a\n"), false),
            format!("2 bytes of hash {:016x}, mode 0644, owner 0:0", twox_hash::XxHash3_64::oneshot(b"a\n"))
        );
        assert_ne!(Contents::shown(&value("a"), false), Contents::shown(&value("b"), false));
        assert_eq!(Contents::shown(&value("a"), true), Contents::shown(&value("bc"), true));
        assert_eq!(Contents::shown(ABSENT, false), ABSENT);
    }

    #[test]
    fn owners_are_numbers_or_names() {
        assert_eq!((owner_number("0", false), owner_number("root", false)), (Some(0), Some(0)));
        assert_eq!(owner_number("root", true), Some(0));
        assert_eq!(owner_number("no-such-user", false), None);
    }
}
