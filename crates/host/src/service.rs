//! The processes of a service that this program did not start, and the CPU time that they take.
//!
//! Such a service is found by the socket on which it listens (`/proc/net/tcp`, then whoever has that socket open), or it is
//! named: by a process, a systemd unit or a control group. Servers fork workers, so a process stands for its whole tree.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use crate::cpu::{CpuTime, process_cpu_time, tree_cpu_time};
use crate::procfs::Stat;
use crate::{Error, text};

/// Where control groups are mounted; below it, in which hierarchies CPU time is counted.
const GROUPS: &str = "/sys/fs/cgroup";
const HIERARCHIES: [&str; 5] = ["", "unified", "cpuacct", "cpu,cpuacct", "systemd"];
/// How deep units are looked for.
const UNIT_DEPTH_MAX: u32 = 6;
/// The state of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";
/// How often a table without the socket is read.
const LOOKS: u32 = 3;
/// More ancestors than any process has.
const ANCESTORS_MAX: usize = 100;

/// The processes of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service(Members);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Members {
    /// These processes, each with what descends from it.
    Processes(Vec<Stat>),
    /// Everything that is in this control group or was.
    Group(PathBuf),
}

impl Service {
    /// Whoever listens at `address` on this host; `None` where that is another host, or nobody who can be seen.
    #[must_use]
    pub fn listening_at(address: SocketAddr) -> Option<Self> {
        // An address that a socket can be bound to is this host's.
        UdpSocket::bind((address.ip(), 0)).ok()?;
        // The kernel writes a long table piece by piece, and leaves sockets out when others close between two pieces.
        let look = || {
            let tables =
                ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| text::read(table).unwrap_or_default());
            listeners_at(&tables.join("\n"), address)
        };
        let inodes = (0..LOOKS).map(|_| look()).find(|inodes| !inodes.is_empty()).unwrap_or_default();
        let owners: Vec<Stat> = owners(&inodes).into_iter().filter_map(Stat::read).collect();
        // systemd holds the sockets of the services that it starts on demand.
        let (first, rest): (Vec<Stat>, Vec<Stat>) = owners.into_iter().partition(|stat| stat.pid == 1);
        let roots = roots(if rest.is_empty() { first } else { rest });
        (!roots.is_empty()).then_some(Self(Members::Processes(roots)))
    }

    /// The process `pid` with all that descends from it.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of_process(pid: u32) -> Result<Self, Error> {
        Ok(Self(Members::Processes(vec![Stat::read(pid).ok_or(Error::NoProcess { pid })?])))
    }

    /// A systemd unit, such as `nginx.service`; without a suffix it is a service.
    ///
    /// # Errors
    /// When no control group has its name.
    pub fn of_unit(name: &str) -> Result<Self, Error> {
        let name = if name.contains('.') { name.to_owned() } else { format!("{name}.service") };
        let found = HIERARCHIES.iter().filter_map(|hierarchy| {
            directory_named(&Path::new(GROUPS).join(hierarchy), &name, UNIT_DEPTH_MAX)
        });
        Self::first_that_counts(found, Path::new(&name))
    }

    /// A control group, by its path in the file system or below the mount point.
    ///
    /// # Errors
    /// When there is no such group.
    pub fn of_group(path: &Path) -> Result<Self, Error> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let within = HIERARCHIES.iter().map(|hierarchy| Path::new(GROUPS).join(hierarchy).join(below));
        let as_it_stands = path.starts_with(GROUPS).then(|| path.to_owned());
        Self::first_that_counts(as_it_stands.into_iter().chain(within), path)
    }

    /// The first group with CPU time of its own, else the processes of the first one that has any.
    fn first_that_counts(groups: impl Iterator<Item = PathBuf>, asked: &Path) -> Result<Self, Error> {
        let groups: Vec<PathBuf> = groups.filter(|group| group.join("cgroup.procs").exists()).collect();
        if let Some(group) = groups.iter().find(|group| group_cpu_time(group).is_some()) {
            return Ok(Self(Members::Group(group.clone())));
        }
        let members = |group: &PathBuf| -> Vec<Stat> {
            let pids = text::read(group.join("cgroup.procs")).unwrap_or_default();
            roots(pids.lines().filter_map(|pid| Stat::read(pid.parse().ok()?)).collect())
        };
        let found = groups.iter().map(members).find(|members| !members.is_empty());
        found
            .map(|members| Self(Members::Processes(members)))
            .ok_or_else(|| Error::NoGroup { path: asked.to_owned() })
    }

    /// CPU time of all its processes so far; `None` when one of those that it was found by has ended.
    #[must_use]
    pub fn cpu_time(&self) -> Option<CpuTime> {
        match &self.0 {
            Members::Processes(roots) => roots.iter().map(process_tree_time).sum(),
            Members::Group(group) => group_cpu_time(group),
        }
    }
}

/// A process with its descendants. Where this process is among those, and for the first process of all, it counts alone.
fn process_tree_time(root: &Stat) -> Option<CpuTime> {
    Stat::read(root.pid).filter(|now| now.is_same_process(root))?;
    let is_ours = root.pid == 1 || ancestors(std::process::id()).contains(&root.pid);
    if is_ours { process_cpu_time(root.pid).ok() } else { tree_cpu_time(root.pid).ok() }
}

/// Those that descend from no other one of them.
fn roots(processes: Vec<Stat>) -> Vec<Stat> {
    let pids: Vec<u32> = processes.iter().map(|stat| stat.pid).collect();
    let is_root = |stat: &Stat| !ancestors(stat.parent).iter().any(|pid| pids.contains(pid));
    processes.into_iter().filter(is_root).collect()
}

/// The process, its parent, and so on.
fn ancestors(pid: u32) -> Vec<u32> {
    let next = |pid: &u32| Stat::read(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), next).take(ANCESTORS_MAX).collect()
}

/// CPU time that a group of either version counts, with the groups below it.
fn group_cpu_time(group: &Path) -> Option<CpuTime> {
    let number = |file: &str| text::read_number(group.join(file));
    if let Some(total_ns) = number("cpuacct.usage") {
        let (user, system) = (number("cpuacct.usage_user"), number("cpuacct.usage_sys"));
        return Some(CpuTime::divided(total_ns, user.unwrap_or(0), system.unwrap_or(0)));
    }
    let stat = text::read(group.join("cpu.stat"))?;
    let field = |name: &str| text::word_field(&stat, name);
    let total_ns = field("usage_usec")?.saturating_mul(1_000);
    Some(CpuTime::divided(total_ns, field("user_usec").unwrap_or(0), field("system_usec").unwrap_or(0)))
}

fn directory_named(root: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let entries = fs::read_dir(root).ok()?.filter_map(Result::ok);
    let below: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    let is_it = |path: &&PathBuf| path.file_name().is_some_and(|found| found == name);
    below.iter().find(is_it).cloned().or_else(|| {
        let depth = depth.checked_sub(1)?;
        below.iter().find_map(|path| directory_named(path, name, depth))
    })
}

/// The inodes of the sockets that take connections to `address`: those bound to it, else those bound to all addresses.
fn listeners_at(tables: &str, address: SocketAddr) -> Vec<u64> {
    let at_port: Vec<(IpAddr, u64)> = tables
        .lines()
        .filter_map(parse_listener)
        .filter(|(local, _)| local.port() == address.port())
        .map(|(local, inode)| (local.ip().to_canonical(), inode))
        .collect();
    let of = |is_it: &dyn Fn(IpAddr) -> bool| -> Vec<u64> {
        at_port.iter().filter(|(ip, _)| is_it(*ip)).map(|(_, inode)| *inode).collect()
    };
    let exact = of(&|ip| ip == address.ip().to_canonical());
    if exact.is_empty() { of(&|ip| ip.is_unspecified()) } else { exact }
}

/// A line of `/proc/net/tcp` or `tcp6` (Documentation/networking/proc_net_tcp.rst), if its socket listens.
fn parse_listener(line: &str) -> Option<(SocketAddr, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (&local, &state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?.parse().ok()?);
    let (ip, port) = local.split_once(':').filter(|_| state == LISTENS)?;
    // Addresses are written as words of 32 bits in the order of bytes of this CPU.
    let words = (0..ip.len() / 8).map(|at| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok());
    let bytes: Vec<u8> =
        words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = if let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) {
        IpAddr::V4(Ipv4Addr::from(bytes))
    } else {
        IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?))
    };
    Some((SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?), inode))
}

/// The processes that have one of these sockets open, as far as this user may see.
fn owners(inodes: &[u64]) -> Vec<u32> {
    if inodes.is_empty() {
        return Vec::new();
    }
    let links: Vec<PathBuf> = inodes.iter().map(|inode| PathBuf::from(format!("socket:[{inode}]"))).collect();
    let has_one = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| links.contains(&link))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has_one).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;
    use crate::process::{Command, Stream};

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 0100007F:46B1 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   \
        1: 00000000:46B2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0\n   \
        2: 0100007F:46B2 0100007F:0001 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n   \
        3: 00000000000000000000000000000000:46B3 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4714 1 0\n   \
        4: 00000000000000000000000001000000:46B3 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4715 1 0\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn a_listener_is_found_by_its_own_address_first() {
        let found = |address: &str| listeners_at(TABLE, address.parse().unwrap());
        assert_eq!(found("127.0.0.1:18097"), [4711]);
        assert_eq!(found("127.0.0.2:18097"), [0; 0]);
        assert_eq!(found("127.0.0.1:18098"), [4712]);
        assert_eq!(found("[::1]:18099"), [4715]);
        assert_eq!(found("127.0.0.1:18099"), [4714]);
    }

    #[test]
    fn a_server_with_its_children_is_found_by_its_socket() {
        // The shell inherits the socket, and spends its time in a child.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = std::os::fd::OwnedFd::from(listener);
        let script = "echo ready; sleep 2; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done & wait; echo done; read line";
        let mut server =
            Command::new("sh").args(["-c", script]).stdout(Stream::Piped).stdin(Stream::File(socket.into()));
        server = server.stderr(Stream::Inherit);
        let mut server = server.spawn().unwrap();
        let mut lines = BufReader::new(server.take_stdout().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        // A busy machine may not show the socket at the first look.
        let look = || {
            crate::time::sleep(std::time::Duration::from_millis(20));
            Service::listening_at(address)
        };
        let tables = || text::read("/proc/net/tcp").unwrap_or_default();
        let found = (0..50).find_map(|_| look());
        let service =
            found.unwrap_or_else(|| panic!("{address} of {} is not in\n{}", server.pid(), tables()));
        let Members::Processes(roots) = &service.0 else { panic!("{service:?}") };
        assert_eq!(roots.iter().map(|stat| stat.pid).collect::<Vec<_>>(), [server.pid()]);
        let before = service.cpu_time().unwrap();
        lines.next();
        let spent = service.cpu_time().unwrap().saturating_sub(before);
        assert!(spent.total_ns() > 0, "the child's time is the server's: {spent:?}");
        server.kill().unwrap();
        assert_eq!(service.cpu_time(), None, "a server that is gone has no CPU time");
        assert_eq!(Service::listening_at(address), None);
    }

    #[test]
    fn another_host_is_nobody_here() {
        assert_eq!(Service::listening_at("192.0.2.1:80".parse().unwrap()), None);
    }

    #[test]
    fn an_ancestor_is_counted_without_this_process() {
        let parent = Stat::read(std::process::id()).unwrap().parent;
        let service = Service::of_process(parent).unwrap();
        let counted = service.cpu_time().unwrap();
        // With this process, whose time is more than the parent spends between two readings, it would be more.
        let after = process_cpu_time(parent).unwrap();
        assert!(counted.total_ns() <= after.total_ns(), "{counted:?} {after:?}");
        assert!(ancestors(std::process::id()).contains(&parent));
    }

    #[test]
    fn names_of_nothing_are_errors() {
        let message = Service::of_unit("plumb-nowhere").unwrap_err().to_string();
        assert_eq!(message, "find a control group plumb-nowhere.service: there is none with a process in it");
        assert!(Service::of_group(Path::new("/nowhere")).is_err());
        assert!(Service::of_process(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn no_table_makes_the_parser_panic(line in ".*", fields in "([0-9A-F:]{0,40} ){0,12}") {
            let _ = parse_listener(&line);
            let _ = parse_listener(&fields);
        }
    }
}
