//! The machine as something whose settings are read and written: files under a root, and a few calls.
//!
//! Tests give it a root with a separate tree of files, and calls that only note what was asked.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::contents::{self, Contents};
use super::rings::{self, Ring, RingSizes};
use super::secrets::Secrets;
use super::{SYS, Setting, last_part, normal};
use crate::Error;
use crate::procfs::Stat;

/// Names a directory that stands for the root of /proc and /sys.
const ROOT_VARIABLE: &str = "PLUMB_HOST_ROOT";

/// How long a daemon may take to stop or to go on.
const SIGNAL_GLANCES: u32 = 100;
const GLANCE: Duration = Duration::from_millis(2);

/// The settings that are made by calls and not by files.
pub trait Calls: Send {
    /// The rings of a network interface.
    ///
    /// # Errors
    /// When no such interface exists, or its card has none.
    fn rings(&self, interface: &str) -> io::Result<RingSizes>;

    /// Changes the length of a ring.
    ///
    /// # Errors
    /// When the card refuses, or the privilege is missing.
    fn set_ring(&self, interface: &str, ring: Ring, length: u32) -> io::Result<()>;

    /// Whether a process runs, is paused, or is gone.
    fn daemon(&self, pid: u32, started_ticks: u64) -> &'static str;

    /// Pauses a process or has it go on.
    ///
    /// # Errors
    /// When it is gone or not ours to signal.
    fn pause(&self, pid: u32, started_ticks: u64, paused: bool) -> io::Result<()>;
}

/// The calls of the kernel itself.
#[derive(Debug)]
struct Kernel;

impl Calls for Kernel {
    fn rings(&self, interface: &str) -> io::Result<RingSizes> {
        rings::sizes_of(interface)
    }

    fn set_ring(&self, interface: &str, ring: Ring, length: u32) -> io::Result<()> {
        rings::write(interface, ring, length)
    }

    fn daemon(&self, pid: u32, started_ticks: u64) -> &'static str {
        match Stat::of_process(pid).filter(|stat| stat.started_ticks == started_ticks) {
            None => "gone",
            Some(stat) if stat.state == 'T' => "paused",
            Some(stat) if matches!(stat.state, 'Z' | 'X') => "gone",
            Some(_) => "running",
        }
    }

    fn pause(&self, pid: u32, started_ticks: u64, paused: bool) -> io::Result<()> {
        let wanted = if paused { "paused" } else { "running" };
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        if self.daemon(pid, started_ticks) == "gone" {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        kill_process(process, if paused { Signal::STOP } else { Signal::CONT })?;
        for _ in 0..SIGNAL_GLANCES {
            if self.daemon(pid, started_ticks) == wanted {
                break;
            }
            crate::time::sleep(GLANCE);
        }
        Ok(())
    }
}

/// A machine without cards and daemons, for a root of files.
#[derive(Debug)]
struct Nothing;

impl Calls for Nothing {
    fn rings(&self, _: &str) -> io::Result<RingSizes> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_ring(&self, _: &str, _: Ring, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn daemon(&self, _: u32, _: u64) -> &'static str {
        "gone"
    }

    fn pause(&self, _: u32, _: u64, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A machine whose settings can be read and written.
pub struct Machine {
    root: PathBuf,
    calls: Box<dyn Calls>,
    secrets: Secrets,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the machine at {}", self.root.display())
    }
}

impl Machine {
    /// This machine; or, for tests, the tree of files that `PLUMB_HOST_ROOT` names.
    #[must_use]
    pub fn this() -> Self {
        match std::env::var_os(ROOT_VARIABLE).filter(|root| !root.is_empty()) {
            Some(root) => Self::at(Path::new(&root), Box::new(Nothing)),
            None => Self::at(Path::new("/"), Box::new(Kernel)),
        }
    }

    /// A machine whose files are under `root`.
    #[must_use]
    pub fn at(root: &Path, calls: Box<dyn Calls>) -> Self {
        Self { root: root.to_owned(), calls, secrets: Secrets::default() }
    }

    /// A machine of files alone.
    #[must_use]
    pub fn of_files(root: &Path) -> Self {
        Self::at(root, Box::new(Nothing))
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// When this machine has no such setting.
    pub fn value_of(&self, setting: &Setting) -> Result<String, Error> {
        match setting {
            Setting::File(path) => self.read_file(path),
            Setting::OneOf(paths) => self.read_one_of(paths),
            Setting::Ring { interface, ring } => {
                let sizes = self.calls.rings(interface).map_err(|cause| read_error(setting, cause))?;
                Ok(sizes.length_and_max(*ring).0.to_string())
            }
            Setting::Daemon { pid, started_ticks, .. } => {
                Ok(self.calls.daemon(*pid, *started_ticks).to_owned())
            }
            Setting::Contents(path) => {
                let read = contents::value_of_file(&self.place(path));
                read.map_err(|cause| Error::Read { path: path.into(), cause })
            }
            Setting::Shell(shell) => shell.read_value(&self.secrets),
            Setting::Action(action) => action.read_state(&self.secrets),
        }
    }

    /// Changes a setting to a new value. For commands and actions the text does not matter: they do what they do.
    ///
    /// # Errors
    /// When the kernel refuses, or a command fails.
    pub fn change(&self, setting: &Setting, new: &str) -> Result<(), Error> {
        match setting {
            Setting::Shell(shell) => shell.write(true, &self.secrets),
            _ => self.write(setting, new),
        }
    }

    /// Removes what a process may have left that was killed while it wrote a setting.
    pub fn tidy(&self, setting: &Setting) {
        if let Setting::Contents(path) = setting {
            contents::tidy(&self.place(path));
        }
    }

    /// A value as people may see it.
    #[must_use]
    pub fn shown(&self, setting: &Setting, value: &str) -> String {
        match setting {
            Setting::Contents(_) => Contents::shown(value, self.secrets.are_in(value)),
            _ => self.secrets.hidden(value),
        }
    }

    /// The secrets that commands and files of this machine were given.
    #[must_use]
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The path behind symbolic links, as this machine has it.
    ///
    /// # Errors
    /// When its directory does not exist.
    pub fn whole_path(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.place(&path.to_string_lossy());
        let whole = match fs::canonicalize(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                fs::canonicalize(place.parent().unwrap_or(Path::new("/")))?.join(name)
            }
            found => found?,
        };
        let root = fs::canonicalize(&self.root)?;
        Ok(Path::new("/").join(whole.strip_prefix(root).unwrap_or(&whole)))
    }

    /// Writes a setting, and does not look whether the kernel took it. What commands changed is undone.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn write(&self, setting: &Setting, value: &str) -> Result<(), Error> {
        let refused = |cause| write_error(setting, cause);
        match setting {
            Setting::File(path) => self.write_file(path, value),
            Setting::OneOf(paths) => {
                let (name, number) = value.split_once('=').unwrap_or(("", value));
                let path = paths.iter().find(|path| last_part(path) == name);
                let path = path.ok_or_else(|| refused(io::ErrorKind::InvalidInput.into()))?;
                self.write_file(path, number)
            }
            Setting::Ring { interface, ring } => {
                let length = value.parse().map_err(|_| refused(io::ErrorKind::InvalidInput.into()))?;
                self.calls.set_ring(interface, *ring, length).map_err(refused)
            }
            Setting::Daemon { pid, started_ticks, .. } => {
                self.calls.pause(*pid, *started_ticks, value == "paused").map_err(refused)
            }
            Setting::Contents(path) => contents::write(&self.place(path), value).map_err(refused),
            Setting::Shell(shell) => shell.write(false, &self.secrets),
            Setting::Action(action) => action.carry_out(&self.secrets),
        }
    }

    /// Whether this process may write a setting; the reason if not.
    ///
    /// # Errors
    /// What the kernel says: no privilege, a file system that is read only, no such file.
    pub fn may_write(&self, setting: &Setting) -> Result<(), Error> {
        let access = |path: &String| {
            rustix::fs::access(self.place(path), rustix::fs::Access::WRITE_OK)
                .map_err(|cause| write_error(setting, cause.into()))
        };
        match setting {
            Setting::File(path) => access(path),
            Setting::OneOf(paths) => paths.iter().try_for_each(access),
            Setting::Contents(path) => {
                let directory = Path::new(path).parent().unwrap_or(Path::new("/"));
                access(&directory.to_string_lossy().into_owned())
            }
            Setting::Shell(_) | Setting::Action(_) => Ok(()),
            Setting::Ring { .. } | Setting::Daemon { .. } if rustix::process::geteuid().is_root() => Ok(()),
            Setting::Ring { .. } | Setting::Daemon { .. } => {
                Err(write_error(setting, io::Error::from_raw_os_error(libc::EPERM)))
            }
        }
    }

    /// The rings of a network interface, where it has some.
    ///
    /// # Errors
    /// When no such interface exists, or its card has none.
    pub fn rings(&self, interface: &str) -> io::Result<RingSizes> {
        self.calls.rings(interface)
    }

    /// The text of a file below /sys, without the blanks around it.
    #[must_use]
    pub fn sys(&self, path: &str) -> Option<String> {
        crate::text::read_trimmed(self.place(&format!("{SYS}{path}")))
    }

    /// The names in a directory below /sys, in order; none where no such directory exists.
    #[must_use]
    pub fn sys_names(&self, directory: &str) -> Vec<String> {
        self.names(&format!("{SYS}{directory}"))
    }

    /// Where a link below /sys leads.
    #[must_use]
    pub fn sys_link(&self, path: &str) -> Option<PathBuf> {
        fs::canonicalize(self.place(&format!("{SYS}{path}"))).ok()
    }

    /// The text of a program's file, such as a profile; `None` where there is none.
    #[must_use]
    pub fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(self.place(&path.to_string_lossy())).ok()
    }

    /// The flags of the first CPU.
    #[must_use]
    pub fn cpu_flags(&self) -> Vec<String> {
        let text = crate::text::read_trimmed(self.place("/proc/cpuinfo")).unwrap_or_default();
        let flags = crate::text::colon_field(&text, "flags").unwrap_or_default();
        flags.split(' ').map(str::to_owned).collect()
    }

    /// The processes of that name, as settings.
    #[must_use]
    pub fn daemons(&self, name: &str) -> Vec<Setting> {
        let is_named = |pid: &str| {
            crate::text::read_trimmed(self.place(&format!("/proc/{pid}/comm")))
                .is_some_and(|comm| comm == name)
        };
        let pids =
            self.names("/proc").into_iter().filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()));
        let as_setting = |pid: String| {
            let stat = Stat::read_under(&self.root, pid.parse().ok()?)?;
            Some(Setting::Daemon { name: name.to_owned(), pid: stat.pid, started_ticks: stat.started_ticks })
        };
        pids.filter(|pid| is_named(pid)).filter_map(as_setting).collect()
    }

    /// The interrupts of a network card's queues: their numbers, and the driver's names for them, such as
    /// `virtio2-input.0`. Under virtio the card is below the device that has them.
    #[must_use]
    pub fn card_interrupts(&self, interface: &str) -> Vec<(u32, String)> {
        let device = format!("class/net/{interface}/device");
        let numbers = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
            .iter()
            .map(|directory| self.sys_names(directory))
            .find(|numbers| !numbers.is_empty())
            .unwrap_or_default();
        let of_queue = |number: &String| {
            let name = self.sys(&format!("kernel/irq/{number}/actions"))?;
            let is_queue = !name.is_empty() && !name.ends_with("config") && !name.contains("async");
            Some((number.parse().ok().filter(|_| is_queue)?, name))
        };
        let mut interrupts: Vec<(u32, String)> = numbers.iter().filter_map(of_queue).collect();
        interrupts.sort();
        interrupts
    }

    fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place(directory)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn read_file(&self, path: &str) -> Result<String, Error> {
        let failed = |cause| Error::Read { path: path.into(), cause };
        let bytes = fs::read(self.place(path)).map_err(failed)?;
        Ok(normal(&String::from_utf8_lossy(&bytes)))
    }

    /// Where both read 0 the first is taken for the one in force.
    fn read_one_of(&self, [first, second]: &[String; 2]) -> Result<String, Error> {
        let (of_first, of_second) = (self.read_file(first)?, self.read_file(second)?);
        let (path, value) = if of_second == "0" { (first, of_first) } else { (second, of_second) };
        Ok(format!("{}={value}", last_part(path)))
    }

    /// One write, because the kernel takes every write as a complete value. A tree of files takes a value whole as well, so
    /// a process that is killed midway leaves the old value or the new one.
    fn write_file(&self, path: &str, value: &str) -> Result<(), Error> {
        let failed = |cause| Error::Write { path: path.into(), cause };
        if self.root != Path::new("/") {
            return self.replace_file(path, value).map_err(failed);
        }
        let mut file =
            OpenOptions::new().write(true).truncate(true).open(self.place(path)).map_err(failed)?;
        file.write_all(value.as_bytes()).map_err(failed)
    }

    fn replace_file(&self, path: &str, value: &str) -> io::Result<()> {
        let place = self.place(path);
        fs::metadata(&place)?;
        let beside = place.with_extension("new");
        fs::write(&beside, value)?;
        fs::rename(beside, place)
    }
}

fn read_error(setting: &Setting, cause: io::Error) -> Error {
    Error::Read { path: setting.to_string().into(), cause }
}

fn write_error(setting: &Setting, cause: io::Error) -> Error {
    Error::Write { path: setting.to_string().into(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::of_files(directory.path());
        (directory, machine)
    }

    #[test]
    fn a_file_has_a_value_and_takes_another() {
        let (_directory, machine) = machine(&[("/proc/sys/vm/swappiness", "60\n")]);
        let setting = Setting::sysctl("vm.swappiness");
        assert_eq!(machine.value_of(&setting).unwrap(), "60");
        machine.write(&setting, "7").unwrap();
        assert_eq!(machine.value_of(&setting).unwrap(), "7");
    }

    #[test]
    fn of_a_pair_the_one_in_force_is_the_value() {
        let (_directory, machine) =
            machine(&[("/proc/sys/vm/dirty_ratio", "20\n"), ("/proc/sys/vm/dirty_bytes", "0\n")]);
        let setting = Setting::sysctl("vm.dirty_bytes");
        assert_eq!(machine.value_of(&setting).unwrap(), "dirty_ratio=20");
        machine.write(&setting, "dirty_bytes=8192").unwrap();
        assert_eq!(machine.value_of(&setting).unwrap(), "dirty_bytes=8192");
        assert!(machine.write(&setting, "8192").is_err());
    }

    #[test]
    fn what_is_not_there_is_named() {
        let (_directory, machine) = machine(&[]);
        let setting = Setting::sysctl("net.core.nosuch");
        let message = machine.value_of(&setting).unwrap_err().to_string();
        assert_eq!(message, "read /proc/sys/net/core/nosuch: No such file or directory (os error 2)");
        // Nothing is ever created.
        assert!(machine.write(&setting, "1").is_err());
        assert!(machine.may_write(&setting).is_err());
    }

    #[test]
    fn a_daemon_is_paused_and_goes_on() {
        let mut child = crate::process::Command::new("sleep").arg("60").spawn().unwrap();
        let stat = Stat::of_process(child.pid()).unwrap();
        let setting =
            Setting::Daemon { name: "sleep".to_owned(), pid: stat.pid, started_ticks: stat.started_ticks };
        let machine = Machine::at(Path::new("/"), Box::new(Kernel));
        for value in ["paused", "running"] {
            machine.write(&setting, value).unwrap();
            assert_eq!(machine.value_of(&setting).unwrap(), value);
        }
        assert!(machine.daemons("sleep").contains(&setting));
        child.kill().unwrap();
        assert_eq!(machine.value_of(&setting).unwrap(), "gone");
        assert!(machine.write(&setting, "paused").is_err());
    }
}
