//! Mounts of file systems: which there are, and making and ending them.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    mount, mount_bind, mount_remount, unmount,
};

use crate::Error;

const MOUNTS: &str = "/proc/self/mountinfo";

/// Options that the kernel takes as flags, as mount(8) names them. The last of contrary options counts.
const FLAGS: [(&str, MountFlags); 10] = [
    ("ro", MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("sync", MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC),
    ("noatime", MountFlags::NOATIME),
    ("nodiratime", MountFlags::NODIRATIME),
    ("relatime", MountFlags::RELATIME),
    ("strictatime", MountFlags::STRICTATIME),
];
/// Options by which the kernel has it anyway, and what each takes back.
const CONTRARY: [(&str, MountFlags); 7] = [
    ("defaults", MountFlags::empty()),
    ("rw", MountFlags::RDONLY),
    ("suid", MountFlags::NOSUID),
    ("dev", MountFlags::NODEV),
    ("exec", MountFlags::NOEXEC),
    ("async", MountFlags::SYNCHRONOUS),
    ("atime", MountFlags::NOATIME),
];

/// A mount as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub target: PathBuf,
    /// The device's major and minor number.
    pub device: (u32, u32),
    /// The part of the file system that is mounted there.
    pub root: PathBuf,
    /// The kind of file system, such as `ext4`.
    pub kind: String,
    /// The source of the mount, such as a device's path.
    pub source: String,
    /// Whether nothing can be written through it.
    pub is_read_only: bool,
    /// The options of this mount, which other mounts of the same file system may not have.
    pub options: Vec<String>,
    /// The file system's own state, such as `ro` or `shutdown` after errors.
    pub state: Vec<String>,
}

/// Has the kernel send a FUSE file system one asynchronous request at a time. Those of a loop device with direct I/O are such requests.
/// The limit is a file in `fusectl`, which is opened here without being mounted anywhere.
///
/// # Errors
/// When nothing of FUSE is mounted there, or the kernel refuses.
pub fn one_at_a_time(mounted: &Path) -> Result<(), Error> {
    let failed = |cause: io::Error| Error::Write { path: mounted.to_owned(), cause };
    let set = || -> rustix::io::Result<()> {
        let connection = rustix::fs::minor(rustix::fs::stat(mounted)?.st_dev);
        let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let name = format!("{connection}/max_background");
        let file = rustix::fs::openat(&root, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, b"1").map(drop)
    };
    set().map_err(|cause| failed(cause.into()))
}

/// Every mount, the latest last.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn all() -> Result<Vec<Mount>, Error> {
    let text =
        fs::read_to_string(MOUNTS).map_err(|cause| Error::Read { path: PathBuf::from(MOUNTS), cause })?;
    Ok(text.lines().filter_map(parse).collect())
}

/// The mount that is seen at a path; `None` where nothing is mounted there.
///
/// # Errors
///
/// As [`all`].
pub fn at(target: &Path) -> Result<Option<Mount>, Error> {
    // The kernel names the place where a path leads, whatever symbolic links are in it.
    let found = target.canonicalize();
    let target = found.as_deref().unwrap_or(target);
    Ok(all()?.into_iter().rfind(|mount| mount.target == target))
}

/// Mounts a file system from a device, with options as mount(8) takes them.
///
/// # Errors
///
/// When the kernel refuses.
pub fn mount_device(device: &Path, target: &Path, kind: &str, options: &[String]) -> Result<(), Error> {
    let (flags, data) = flags_of(options);
    let failed =
        |cause| failed(format!("mount {} as {kind} at {}", device.display(), target.display()), cause);
    let data = CString::new(data).map_err(|cause| failed(cause.into()))?;
    mount(device, target, kind, flags, data.as_c_str()).map_err(|cause| failed(cause.into()))
}

/// Shows a directory or a file at another path, too. Mounts below it are not shown, and later ones do not appear.
///
/// # Errors
///
/// When the kernel refuses. Nothing is mounted then.
pub fn bind(source: &Path, target: &Path, is_read_only: bool) -> Result<(), Error> {
    let what = || format!("bind-mount {} at {}", source.display(), target.display());
    mount_bind(source, target).map_err(|cause| failed(what(), cause.into()))?;
    // The kernel ignores this flag when the mount is made.
    if is_read_only && let Err(error) = make_read_only(target) {
        let _ = unmount(target, UnmountFlags::DETACH);
        return Err(error);
    }
    Ok(())
}

/// Has nothing be written through a mount that is there. Its other options stay.
///
/// # Errors
///
/// When the kernel refuses.
pub fn make_read_only(target: &Path) -> Result<(), Error> {
    let options = at(target)?.map(|mount| mount.options).unwrap_or_default();
    // A remount sets every one of these anew.
    let (kept, _) = flags_of(&options);
    let flags = MountFlags::BIND | MountFlags::RDONLY | kept;
    mount_remount(target, flags, c"")
        .map_err(|cause| failed(format!("make {} read-only", target.display()), cause.into()))
}

/// Ends every mount that is seen at a path. Nothing mounted there is no failure.
///
/// A mount that is in use is refused, or with `is_lazy` taken out of sight: its users keep it until they close it.
///
/// # Errors
///
/// When the kernel refuses.
pub fn unmount_all(target: &Path, is_lazy: bool) -> Result<(), Error> {
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    loop {
        match unmount(target, flags | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Not a mount, or not there.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(cause) => return Err(failed(format!("unmount {}", target.display()), cause.into())),
        }
    }
}

fn failed(what: String, cause: io::Error) -> Error {
    Error::Mount { what, cause }
}

/// The kernel's flags, and what is left for the file system.
fn flags_of(options: &[String]) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut rest = Vec::new();
    for option in options.iter().flat_map(|options| options.split(',')).filter(|option| !option.is_empty()) {
        if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == option) {
            flags |= *flag;
        } else if let Some((_, flag)) = CONTRARY.iter().find(|(name, _)| *name == option) {
            flags &= !*flag;
        } else {
            rest.push(option);
        }
    }
    (flags, rest.join(","))
}

/// One line of proc_pid_mountinfo(5).
fn parse(line: &str) -> Option<Mount> {
    let (first, second) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(2);
    let (major, minor) = first.next()?.split_once(':')?;
    let (root, target, options) = (first.next()?, first.next()?, first.next()?);
    let mut second = second.split(' ');
    Some(Mount {
        target: unescaped(target).into(),
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: unescaped(root).into(),
        kind: second.next()?.to_owned(),
        source: unescaped(second.next()?),
        state: second.next()?.split(',').map(str::to_owned).collect(),
        is_read_only: options.split(',').any(|option| option == "ro"),
        options: options.split(',').map(str::to_owned).collect(),
    })
}

/// The kernel writes blanks, line ends and backslashes as a backslash and three octal digits.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "36 35 98:0 /mnt1 /mnt/a\\040b ro,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let expected = Mount {
            target: "/mnt/a b".into(),
            device: (98, 0),
            root: "/mnt1".into(),
            kind: "ext3".to_owned(),
            source: "/dev/root".to_owned(),
            is_read_only: true,
            options: vec!["ro".to_owned(), "noatime".to_owned()],
            state: vec!["rw".to_owned(), "errors=continue".to_owned()],
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("36 35 98:0 / /mnt"), None);
        assert!(at(Path::new("/proc")).unwrap().is_some_and(|mount| mount.kind == "proc"));
        assert_eq!(at(Path::new("/nowhere")).unwrap(), None);
    }

    #[test]
    fn options_become_flags_and_the_rest_is_the_file_systems() {
        let options = ["noatime,ro,data=journal".to_owned(), "rw".to_owned(), "discard".to_owned()];
        assert_eq!(flags_of(&options), (MountFlags::NOATIME, "data=journal,discard".to_owned()));
        assert_eq!(flags_of(&[]), (MountFlags::empty(), String::new()));
    }

    #[test]
    fn nothing_mounted_is_nothing_to_unmount() {
        if !crate::process::is_root() {
            crate::unprivileged::skip("mounts::tests::nothing_mounted_is_nothing_to_unmount", "unmount");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        unmount_all(directory.path(), false).unwrap();
        unmount_all(&directory.path().join("nothing"), true).unwrap();
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".*") {
            let _ = (parse(&text), unescaped(&text));
        }
    }
}
