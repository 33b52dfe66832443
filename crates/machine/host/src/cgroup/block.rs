//! Control groups in which the kernel limits what is read from and written to one block device.
//!
//! Both versions are known: `io.max` of version 2 and `blkio.throttle` of version 1 (the kernel's
//! `admin-guide/cgroup-v2.rst` and `cgroup-v1/blkio-controller.rst`). Either limits the direct I/O of the processes in the
//! group, reads and writes each on their own. The name of a group says which process made it: that is the record by which
//! the groups of processes that were killed are removed when the next one is made.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Error;
use crate::text;

const PREFIX: &str = "plumb-io-";
/// An empty group that says that the controller was switched on for the others' sake, and is to be switched off with the
/// last of them.
const SWITCHED_ON: &str = "plumb-io-on";

/// Why this process may make no such groups.
#[derive(Debug, thiserror::Error)]
pub enum NoBlockGroups {
    /// No hierarchy has the controller.
    #[error("no control groups of block devices are mounted (`io` of version 2, `blkio` of version 1)")]
    NotMounted,
    /// The hierarchy cannot be written.
    #[error("control groups in {}: {cause}", top.display())]
    Unwritable {
        /// The top.
        top: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// The work that the kernel lets through in a second; absent, all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// Operations, of reads and of writes.
    pub iops: Option<u64>,
    /// Bytes, of reads and of writes.
    pub bytes_per_s: Option<u64>,
}

/// The work that went through a group to its device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Reads and writes.
    pub operations: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// The hierarchy with the controller for block devices.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    version: u8,
    top: PathBuf,
}

/// A group that limits one block device. It is removed on drop, when no process is in it any more.
#[derive(Debug)]
pub struct BlockGroup {
    hierarchy: Hierarchy,
    directory: PathBuf,
    /// `7:0`.
    device: String,
}

impl BlockGroup {
    /// Makes a group for a device, after removing those that killed processes left.
    ///
    /// # Errors
    /// When no such controller is mounted, or this is not root.
    pub fn create((major, minor): (u32, u32)) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let what = "find the control groups of block devices";
        let hierarchy =
            Hierarchy::find().ok_or_else(|| Error::System { what, cause: ErrorKind::NotFound.into() })?;
        hierarchy.remove_leftovers();
        hierarchy.switch_on()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = hierarchy.top.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let group = Self { hierarchy, directory, device: format!("{major}:{minor}") };
        fs::create_dir(&group.directory)
            .map_err(|cause| Error::Write { path: group.directory.clone(), cause })?;
        Ok(group)
    }

    /// Whether this process may make such groups here.
    ///
    /// # Errors
    /// When it may not.
    pub fn can_be_made() -> Result<(), NoBlockGroups> {
        let hierarchy = Hierarchy::find().ok_or(NoBlockGroups::NotMounted)?;
        let writable = rustix::fs::access(&hierarchy.top, rustix::fs::Access::WRITE_OK);
        writable.map_err(|cause| NoBlockGroups::Unwritable { top: hierarchy.top, cause: cause.into() })
    }

    /// Where it is, for [`Membership::enter`].
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Limits reads and writes, each on their own.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn limit(&self, limits: BlockLimits) -> Result<(), Error> {
        for (file, line) in self.lines(limits) {
            let path = self.directory.join(file);
            fs::write(&path, line).map_err(|cause| Error::Write { path, cause })?;
        }
        Ok(())
    }

    /// The files and what is written to them. 0 takes a limit away in version 1.
    fn lines(&self, limits: BlockLimits) -> Vec<(&'static str, String)> {
        let device = &self.device;
        if self.hierarchy.version == 2 {
            let word = |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string());
            let (iops, bytes) = (word(limits.iops), word(limits.bytes_per_s));
            return vec![("io.max", format!("{device} rbps={bytes} wbps={bytes} riops={iops} wiops={iops}"))];
        }
        let line = |limit: Option<u64>| format!("{device} {}", limit.unwrap_or(0));
        vec![
            ("blkio.throttle.read_iops_device", line(limits.iops)),
            ("blkio.throttle.write_iops_device", line(limits.iops)),
            ("blkio.throttle.read_bps_device", line(limits.bytes_per_s)),
            ("blkio.throttle.write_bps_device", line(limits.bytes_per_s)),
        ]
    }

    /// The limits as the kernel has them: of reads, and of writes.
    #[must_use]
    pub fn limits(&self) -> [BlockLimits; 2] {
        let read = |file: &str| text::read_trimmed(self.directory.join(file)).unwrap_or_default();
        if self.hierarchy.version == 2 {
            let max = read("io.max");
            let value = |key: &str| device_line(&max, &self.device).and_then(|line| keyed(line, key));
            return ["r", "w"].map(|side| BlockLimits {
                iops: value(&format!("{side}iops")),
                bytes_per_s: value(&format!("{side}bps")),
            });
        }
        let value = |side: &str, what: &str| {
            let file = read(&format!("blkio.throttle.{side}_{what}_device"));
            device_line(&file, &self.device).and_then(|line| line.parse().ok())
        };
        ["read", "write"]
            .map(|side| BlockLimits { iops: value(side, "iops"), bytes_per_s: value(side, "bps") })
    }

    /// The work that went through so far.
    #[must_use]
    pub fn counts(&self) -> BlockCounts {
        let read = |file: &str| text::read_trimmed(self.directory.join(file)).unwrap_or_default();
        if self.hierarchy.version == 2 {
            let stat = read("io.stat");
            let sum = |keys: [&str; 2]| {
                let line = device_line(&stat, &self.device).unwrap_or_default();
                keys.iter().filter_map(|key| keyed(line, key)).sum()
            };
            return BlockCounts { operations: sum(["rios", "wios"]), bytes: sum(["rbytes", "wbytes"]) };
        }
        let sum = |file: &str| {
            let text = read(file);
            let of = |what: &str| {
                text.lines().find_map(|line| {
                    line.strip_prefix(&format!("{} {what} ", self.device))?.parse::<u64>().ok()
                })
            };
            of("Read").unwrap_or(0) + of("Write").unwrap_or(0)
        };
        BlockCounts {
            operations: sum("blkio.throttle.io_serviced"),
            bytes: sum("blkio.throttle.io_service_bytes"),
        }
    }
}

impl Drop for BlockGroup {
    fn drop(&mut self) {
        self.hierarchy.remove(&self.directory);
    }
}

impl Hierarchy {
    fn find() -> Option<Self> {
        let mounts = text::read_trimmed("/proc/self/mountinfo")?;
        let has_io = |top: &Path| {
            let controllers = text::read_trimmed(top.join("cgroup.controllers"));
            controllers.is_some_and(|names| names.split(' ').any(|name| name == "io"))
        };
        find_in(&mounts, &has_io)
    }

    /// Has the groups at the top of version 2 take part in limits.
    fn switch_on(&self) -> Result<(), Error> {
        let path = self.top.join("cgroup.subtree_control");
        let is_on =
            || text::read_trimmed(&path).is_some_and(|names| names.split(' ').any(|name| name == "io"));
        if self.version != 2 || is_on() {
            return Ok(());
        }
        let mark = self.top.join(SWITCHED_ON);
        match fs::create_dir(&mark) {
            Err(cause) if cause.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::Write { path: mark, cause });
            }
            _ => {}
        }
        fs::write(&path, "+io").map_err(|cause| Error::Write { path, cause })
    }

    /// Removes a group, unless a process is in it, and with the last one what was switched on for it.
    fn remove(&self, directory: &Path) {
        // If a process is still in it, that process removes it at its end, or the next run does.
        let _ = fs::remove_dir(directory);
        let is_last = self.groups().is_empty();
        if is_last && fs::remove_dir(self.top.join(SWITCHED_ON)).is_ok() {
            // Refused while somebody else's group needs it, and then it has to stay.
            let _ = fs::write(self.top.join("cgroup.subtree_control"), "-io");
        }
    }

    /// The groups of this program, with their makers.
    fn groups(&self) -> Vec<(PathBuf, u32)> {
        let entries = fs::read_dir(&self.top).into_iter().flatten().flatten();
        let group = |entry: fs::DirEntry| Some((entry.path(), maker_of(entry.file_name().to_str()?)?));
        entries.filter_map(group).collect()
    }

    /// Removes the groups whose makers have gone.
    fn remove_leftovers(&self) {
        for (directory, maker) in self.groups() {
            if !is_alive(maker) {
                self.remove(&directory);
            }
        }
    }
}

fn find_in(mounts: &str, has_io: &dyn Fn(&Path) -> bool) -> Option<Hierarchy> {
    let point = |line: &str, version: u8| -> Option<PathBuf> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let top = PathBuf::from(mount.split(' ').nth(4)?);
        let mut fields = filesystem.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let is_it = match version {
            1 => kind == "cgroup" && options.split(',').any(|name| name == "blkio"),
            _ => kind == "cgroup2" && has_io(&top),
        };
        is_it.then_some(top)
    };
    [2, 1].into_iter().find_map(|version| {
        let top = mounts.lines().find_map(|line| point(line, version))?;
        Some(Hierarchy { version, top })
    })
}

/// The pid in a group's name.
fn maker_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Whether a process runs. One that has ended and waits for its parent does not.
fn is_alive(pid: u32) -> bool {
    let status = text::read_trimmed(format!("/proc/{pid}/status"));
    status.is_some_and(|status| {
        text::colon_field(&status, "State").is_some_and(|state| !state.starts_with(['Z', 'X']))
    })
}

/// The rest of the line of a device: what follows `7:0 `.
fn device_line<'a>(text: &'a str, device: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' '))
}

/// The number of `key=number`.
fn keyed(line: &str, key: &str) -> Option<u64> {
    line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}

/// This process in a group. It goes back to where it was on drop.
#[derive(Debug)]
pub struct Membership {
    before: PathBuf,
}

impl Membership {
    /// Moves this process, with all its threads, into a group.
    ///
    /// # Errors
    /// When the kernel refuses, or it cannot be told where the process is now.
    pub fn enter(directory: &Path) -> Result<Self, Error> {
        let what = "find this process among the control groups of block devices";
        let missing = || Error::System { what, cause: ErrorKind::NotFound.into() };
        let hierarchy = Hierarchy::find().ok_or_else(missing)?;
        let groups = text::read_trimmed("/proc/self/cgroup").ok_or_else(missing)?;
        let own = own_group(&groups, hierarchy.version).ok_or_else(missing)?;
        let before = hierarchy.top.join(own.trim_start_matches('/'));
        join(directory).map_err(|cause| Error::Write { path: directory.join("cgroup.procs"), cause })?;
        Ok(Self { before })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Where it was may be out of sight in a container; there is nobody to tell.
        let _ = join(&self.before);
    }
}

/// 0 stands for the process that writes it.
fn join(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("cgroup.procs"), "0")
}

/// The path after the controllers in the line of the hierarchy.
fn own_group(groups: &str, version: u8) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_it = match version {
            1 => controllers.split(',').any(|name| name == "blkio"),
            _ => controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOUNTS: &str = "36 32 0:33 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
                          39 32 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_hierarchy_with_the_controller_is_found() {
        let found = |has_io: bool| find_in(MOUNTS, &|_| has_io).map(|it| (it.version, it.top));
        assert_eq!(found(false), Some((1, PathBuf::from("/sys/fs/cgroup/blkio"))));
        assert_eq!(found(true), Some((2, PathBuf::from("/sys/fs/cgroup/unified"))));
        assert_eq!(find_in("", &|_| true), None);
        assert_eq!(own_group("7:blkio:/a/b\n0::/c\n", 1), Some("/a/b"));
        assert_eq!(own_group("7:blkio:/a/b\n0::/c\n", 2), Some("/c"));
    }

    fn group_in(directory: &Path, version: u8) -> BlockGroup {
        let hierarchy = Hierarchy { version, top: directory.to_owned() };
        BlockGroup { hierarchy, directory: directory.to_owned(), device: "7:1".to_owned() }
    }

    #[test]
    fn limits_and_counts_are_in_the_kernels_words_of_both_versions() {
        let directory = tempfile::tempdir().unwrap();
        let limits = BlockLimits { iops: Some(500), bytes_per_s: None };
        let second = group_in(directory.path(), 2);
        second.limit(limits).unwrap();
        let written = fs::read_to_string(directory.path().join("io.max")).unwrap();
        assert_eq!(written, "7:1 rbps=max wbps=max riops=500 wiops=500");
        assert_eq!(second.limits(), [limits; 2]);
        let stat =
            "7:0 rbytes=1 wbytes=1 rios=1 wios=1\n7:1 rbytes=8192 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n";
        fs::write(directory.path().join("io.stat"), stat).unwrap();
        assert_eq!(second.counts(), BlockCounts { operations: 3, bytes: 8704 });

        let first = group_in(directory.path(), 1);
        first.limit(limits).unwrap();
        let read = fs::read_to_string(directory.path().join("blkio.throttle.read_iops_device")).unwrap();
        assert_eq!(read, "7:1 500");
        assert_eq!(first.limits()[0].iops, Some(500));
        let serviced = "7:1 Read 20\n7:1 Write 5\n7:1 Sync 20\n7:1 Total 25\nTotal 25\n";
        fs::write(directory.path().join("blkio.throttle.io_serviced"), serviced).unwrap();
        assert_eq!(first.counts(), BlockCounts { operations: 25, bytes: 0 });
    }

    #[test]
    fn a_group_takes_this_process_in_and_goes_with_those_of_the_dead() {
        if let Err(reason) = BlockGroup::can_be_made() {
            let test = "cgroup::block::tests::a_group_takes_this_process_in_and_goes_with_those_of_the_dead";
            crate::unprivileged::skip(test, &format!("make a control group of block devices ({reason})"));
            return;
        }
        let hierarchy = Hierarchy::find().unwrap();
        let mut ended = crate::process::Command::new("true").spawn().unwrap();
        let dead = hierarchy.top.join(format!("{PREFIX}{}-0", ended.pid()));
        ended.wait().unwrap();
        assert!(is_alive(std::process::id()) && !is_alive(ended.pid()));
        fs::create_dir(&dead).unwrap();
        let group = BlockGroup::create((7, 0)).unwrap();
        assert!(!dead.exists());
        let own = || {
            let groups = text::read_trimmed("/proc/self/cgroup").unwrap();
            own_group(&groups, hierarchy.version).unwrap().to_owned()
        };
        let before = own();
        let membership = Membership::enter(group.directory()).unwrap();
        assert!(own().contains(PREFIX), "{}", own());
        drop(membership);
        assert_eq!(own(), before);
        let directory = group.directory().to_owned();
        drop(group);
        assert!(!directory.exists());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "([0-9:, =/.a-z-]*\n?)*") {
            drop(find_in(&text, &|_| true));
            let _ = own_group(&text, 1);
            let _ = device_line(&text, "7:0").and_then(|line| keyed(line, "rios"));
            let _ = maker_of(&text);
        }
    }
}
