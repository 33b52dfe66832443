//! Network namespaces without names. Each lives as long as something holds it, and needs no removal.
//!
//! A named namespace is a mount, which stays behind when the process that made it is killed. A namespace without a name is held by a
//! descriptor of that process, and by the sockets and processes inside. When the last of these is gone, the kernel removes it with its
//! devices, addresses and rules. Other processes reach it through `/proc/PID/fd/N` of its holder.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::netlink::Netlink;
use crate::Error;
use crate::time::monotonic_ns;

/// A network namespace that this process holds.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
    /// A socket inside, by which its devices are managed from any thread.
    netlink: Mutex<Netlink>,
    /// Another socket, for netlink answers of several messages.
    pub(crate) control: UdpSocket,
}

impl Namespace {
    /// Makes a namespace in which only the loopback device is up.
    ///
    /// # Errors
    ///
    /// When this process may not: it needs root, or its own user namespace (see [`become_root_within`]).
    pub fn create() -> Result<Self, Error> {
        let made = in_thread(|| {
            unshare_network()?;
            let handle = File::open("/proc/thread-self/ns/net")?;
            let control = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("0.0.0.0:0"))?;
            Ok(Self { handle, netlink: Mutex::new(Netlink::open()?), control })
        });
        let namespace =
            made.map_err(|cause| Error::Network { what: "make a network namespace".into(), cause })?;
        namespace.set_up("lo")?;
        Ok(namespace)
    }

    /// Makes a namespace with the settings of this process' own, but without IPv6, whose announcements would count as traffic.
    /// Also returns the names of the settings that it did not take.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_like_host() -> Result<(Self, Vec<String>), Error> {
        let namespace = Self::create()?;
        let refused = namespace.take_settings_of_host()?;
        for which in ["all", "default"] {
            namespace.set(&format!("ipv6/conf/{which}/disable_ipv6"), "1")?;
        }
        Ok((namespace, refused))
    }

    /// The namespace of this process, usually the host's.
    ///
    /// # Errors
    ///
    /// When the kernel gives no descriptor for it.
    pub fn own() -> Result<Self, Error> {
        let held = || -> io::Result<Self> {
            let handle = File::open("/proc/thread-self/ns/net")?;
            let control = UdpSocket::bind("0.0.0.0:0")?;
            Ok(Self { handle, netlink: Mutex::new(Netlink::open()?), control })
        };
        held().map_err(|cause| Error::Network { what: "hold the host's network namespace".into(), cause })
    }

    /// The path at which other processes of the same user find it while this process holds it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()).into()
    }

    /// Runs `work` in a thread inside the namespace, so that it opens sockets and reads files of `/proc/sys/net` there.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started or may not enter.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            enter_handle(self.handle.as_fd())?;
            Ok(work())
        })
        .map_err(|cause| Error::Network { what: "enter a network namespace".into(), cause })
    }

    /// Connects once from inside to a TCP address, within this time.
    ///
    /// # Errors
    ///
    /// When nothing answers.
    pub fn reach(&self, address: SocketAddr, within: Duration) -> Result<(), Error> {
        let end_ns = monotonic_ns().saturating_add(within.as_nanos() as u64);
        let connect = || loop {
            match TcpStream::connect_timeout(&address, within) {
                // ARP gives up after three probes, which a slow or lossy link may lose or delay.
                Err(cause) if cause.kind() == io::ErrorKind::HostUnreachable && monotonic_ns() < end_ns => {}
                connected => return connected.map(drop),
            }
        };
        self.inside(connect)?
            .map_err(|cause| Error::Network { what: format!("reach {address} through the network"), cause })
    }

    /// Runs `work` in a thread inside that sees the namespace's own devices below `/sys/class/net`.
    ///
    /// # Errors
    ///
    /// When the thread may not mount its own `/sys`.
    pub fn with_sysfs<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        in_thread(|| {
            enter_handle(self.handle.as_fd())?;
            // SAFETY: the thread ends here, and no other thread relies on its view of the file system.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
            mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
            Ok(work())
        })
        .map_err(|cause| Error::Network { what: "mount the /sys of a network namespace".into(), cause })
    }

    /// Reads a setting below `/proc/sys/net`, such as `netfilter/nf_conntrack_count`; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// When the namespace cannot be entered.
    pub fn setting(&self, name: &str) -> Result<Option<String>, Error> {
        let path = Path::new("/proc/sys/net").join(name);
        let text = self.inside(|| std::fs::read_to_string(&path).ok())?;
        Ok(text.map(|text| text.trim().to_owned()))
    }

    /// Writes a setting below `/proc/sys/net`.
    ///
    /// # Errors
    ///
    /// When no such setting exists or its value is refused.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let path = Path::new("/proc/sys/net").join(name);
        self.inside(|| std::fs::write(&path, value))?.map_err(|cause| Error::Write { path, cause })
    }

    /// Copies the settings below `/proc/sys/net`, except those of single devices, from this process' own namespace: the kernel passes
    /// only some of them on to a new one. Returns the names of those that could not be set.
    ///
    /// # Errors
    ///
    /// When the namespace cannot be entered.
    pub fn take_settings_of_host(&self) -> Result<Vec<String>, Error> {
        let host = settings();
        self.inside(|| {
            let unlike = || {
                let mut own = settings();
                own.retain(|path, value| host.get(path).is_some_and(|of_host| of_host != value));
                own.into_keys()
            };
            // Twice, because some settings change others when they are written.
            for path in unlike().chain(unlike()) {
                let _ = std::fs::write(&path, &host[&path]);
            }
            unlike().map(|path| path.display().to_string().replace("/proc/sys/", "")).collect()
        })
    }

    pub(crate) fn netlink(&self) -> MutexGuard<'_, Netlink> {
        // A request that panicked left nothing half done: each begins with a new number.
        self.netlink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// Folders below `/proc/sys/net/ipv4` and `/proc/sys/net/ipv6` whose settings apply to all devices.
const SHARED_FOLDERS: [&str; 4] = ["conf/all", "conf/default", "neigh/default", "route"];

/// Whether a file below `/proc/sys/net` is a setting of a single device, such as `ipv4/conf/eth0/rp_filter`, which
/// [`Namespace::take_settings_of_host`] does not copy.
#[must_use]
pub fn is_of_device(setting: &Path) -> bool {
    let below = setting.strip_prefix("/proc/sys/net").unwrap_or(setting);
    let mut folders = below.parent().unwrap_or(below).components();
    folders.next();
    let folder = folders.as_path();
    !folder.as_os_str().is_empty() && SHARED_FOLDERS.iter().all(|shared| folder != Path::new(shared))
}

/// The settings of the calling thread's namespace that can be written, with their values, except those of single devices.
fn settings() -> BTreeMap<PathBuf, String> {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries(Path::new("/proc/sys/net")).map(|folder| folder.path());
    let folders = folders.flat_map(|folder| {
        let shared = SHARED_FOLDERS.map(|shared| folder.join(shared));
        std::iter::once(folder).chain(shared)
    });
    let files = folders.flat_map(|folder| entries(&folder));
    let value = |file: std::fs::DirEntry| {
        let metadata = file.metadata().ok()?;
        let is_setting = metadata.is_file() && metadata.mode() & 0o200 != 0;
        is_setting.then_some((file.path(), std::fs::read_to_string(file.path()).ok()?))
    };
    files.filter_map(value).collect()
}

/// Whether a process is in a network namespace other than the calling thread's, and that namespace has a separate value of this
/// setting.
#[must_use]
pub fn has_other_setting(pid: u32, setting: &Path) -> bool {
    let theirs = PathBuf::from(format!("/proc/{pid}/ns/net"));
    let Ok(namespace) = std::fs::read_link(&theirs) else { return false };
    if std::fs::read_link("/proc/thread-self/ns/net").is_ok_and(|own| own == namespace) {
        return false;
    }
    let is_writable = || {
        enter(&theirs).map_err(std::io::Error::other)?;
        Ok(std::fs::metadata(setting)?.mode() & 0o200 != 0)
    };
    // The kernel hides settings of the whole machine in namespaces, or makes them read-only there.
    in_thread(is_writable).unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound)
}

/// Moves the calling thread into a network namespace for good. Sockets that it opens from now on are inside.
///
/// # Errors
///
/// When there is no namespace at `path`, or this process may not enter it.
pub fn enter(path: &Path) -> Result<(), Error> {
    let failed =
        |cause| Error::Network { what: format!("enter the network namespace {}", path.display()), cause };
    let handle = File::open(path).map_err(failed)?;
    enter_handle(handle.as_fd()).map_err(failed)
}

/// Runs `work` in a thread inside a network namespace, so that it opens sockets there.
///
/// # Errors
///
/// When `path` leads to no namespace, or the thread may not enter it.
pub fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    in_thread(|| Ok(enter(path).map(|()| work())))
        .map_err(|cause| Error::Network { what: "start a thread for a network namespace".into(), cause })?
}

fn enter_handle(handle: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(handle, Some(LinkNameSpaceType::Network))?)
}

fn unshare_network() -> io::Result<()> {
    // SAFETY: only what the calling thread opens afterwards is concerned, and the thread is ours.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Runs `work` to its end in a separate thread, whose namespaces end with it.
fn in_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether this process may make network namespaces without further steps.
#[must_use]
pub fn may_create() -> bool {
    in_thread(unshare_network).is_ok()
}

/// Does what [`become_root_within`] does, unless this process may already make network namespaces.
///
/// # Errors
///
/// As [`become_root_within`].
pub fn become_root_if_needed() -> Result<(), Error> {
    /// The bit of CAP_SYS_ADMIN (include/uapi/linux/capability.h).
    const ADMINISTRATOR: u64 = 1 << 21;
    // Trying it would take a second thread, which this process must not have.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if effective & ADMINISTRATOR != 0 { Ok(()) } else { become_root_within() }
}

/// Moves this process, which may not make network namespaces, into a user namespace in which it may. Inside, it is root over what it
/// makes; outside, it stays the user that it was. The processes that it starts from now on are inside, too.
///
/// # Errors
///
/// When the kernel does not allow that to ordinary users, or this process already has several threads.
pub fn become_root_within() -> Result<(), Error> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let entered = || {
        // SAFETY: the kernel refuses it to a process with several threads, so nothing runs beside this.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
        // Before the groups: a process that may set groups could drop one that forbids something (user_namespaces(7)).
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
    };
    entered().map_err(|cause: io::Error| Error::Network { what: "make a user namespace".into(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says why a test that needs root does nothing.
    fn may(name: &str) -> bool {
        let may = may_create();
        if !may {
            crate::unprivileged::skip(&format!("namespace::tests::{name}"), "make network namespaces");
        }
        may
    }

    #[test]
    fn a_namespace_has_its_own_devices_and_settings_and_goes_with_its_holder() {
        if !may("a_namespace_has_its_own_devices_and_settings_and_goes_with_its_holder") {
            return;
        }
        let here = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let namespace = Namespace::create().unwrap();
        let there = namespace.inside(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        assert_ne!(here, there);
        assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), here, "this thread stayed");
        namespace.set("ipv4/ip_forward", "1").unwrap();
        assert_eq!(namespace.setting("ipv4/ip_forward").unwrap().as_deref(), Some("1"));
        assert_eq!(namespace.setting("no/such/setting").unwrap(), None);
        let devices = || {
            let names = std::fs::read_dir("/sys/class/net").unwrap();
            names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        // Tunnel devices that a kernel gives every namespace may be there too.
        let inside = namespace.with_sysfs(devices).unwrap();
        assert!(inside.contains(&"lo".to_owned()) && !inside.contains(&"eth0".to_owned()), "{inside:?}");
    }

    #[test]
    fn a_namespace_takes_the_settings_of_the_host() {
        if !may("a_namespace_takes_the_settings_of_the_host") {
            return;
        }
        // New namespaces have the kernel's defaults, whatever the host's values are.
        let names = [("ipv4/tcp_window_scaling", "1", "0"), ("ipv4/conf/all/accept_local", "0", "1")];
        let (host, namespace) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let is = |name, value: &str| namespace.setting(name).unwrap().as_deref() == Some(value);
        for (name, default, value) in names {
            host.set(name, value).unwrap();
            assert!(is(name, default));
        }
        let refused = host.inside(|| namespace.take_settings_of_host().unwrap()).unwrap();
        assert_eq!(refused, [""; 0]);
        assert!(names.iter().all(|(name, _, value)| is(name, value)));
    }

    #[test]
    fn settings_of_a_single_device_are_known_by_their_names() {
        let is_of_device = |name: &str| is_of_device(&Path::new("/proc/sys/net").join(name));
        for name in ["nf_conntrack_max", "core/somaxconn", "ipv6/conf/all/hop_limit", "ipv4/route/min_pmtu"] {
            assert!(!is_of_device(name), "{name}");
        }
        assert!(is_of_device("ipv4/conf/eth0/rp_filter") && is_of_device("ipv6/neigh/eth0/gc_stale_time"));
    }

    #[test]
    fn a_process_elsewhere_has_settings_apart_from_the_kernels() {
        if !may("a_process_elsewhere_has_settings_apart_from_the_kernels") {
            return;
        }
        let namespace = Namespace::create().unwrap();
        let start = || crate::process::Command::new("sleep").args(["60"]).own_group().spawn().unwrap();
        let (mut here, mut there) = (start(), namespace.inside(start).unwrap());
        let setting = Path::new("/proc/sys/net/ipv4/tcp_wmem");
        let found = [&here, &there].map(|child| has_other_setting(child.pid(), setting));
        here.kill().unwrap();
        there.kill().unwrap();
        assert_eq!(found, [false, true]);
    }

    #[test]
    fn a_thread_that_enters_is_inside() {
        if !may("a_thread_that_enters_is_inside") {
            return;
        }
        let namespace = Namespace::create().unwrap();
        let there = namespace.inside(|| std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        let path = namespace.path();
        let entered = std::thread::spawn(move || {
            enter(&path).unwrap();
            std::fs::read_link("/proc/thread-self/ns/net").unwrap()
        });
        assert_eq!(entered.join().unwrap(), there);
    }

    #[test]
    fn what_is_no_namespace_is_named() {
        let error = enter(Path::new("/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("enter the network namespace /no/such: No such file"), "{error}");
    }
}
