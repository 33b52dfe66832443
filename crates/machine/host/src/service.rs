//! The processes of a service that this program did not start, and the CPU time, waiting and memory that they take.
//!
//! Such a service is found by the socket on which it listens (`/proc/net/tcp`, then the processes that have that socket open),
//! or it is named: by a process, a systemd unit or a control group. Servers fork workers, so a process stands for its whole tree.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use crate::cpu::{CpuSet, CpuTime, Placement, process_cpu_time, tree_cpu_time};
use crate::procfs::{self, Stat};
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
    /// Unknown: process 1, which has this name, is all that holds the listening socket at this address.
    HeldByInit { address: SocketAddr, name: String },
}

/// Programs that, as process 1, hold the sockets of services that they start on demand.
const ON_DEMAND: [&str; 2] = ["systemd", "init"];

impl Service {
    /// The processes that listen at `address` on this host; `None` where that is another host, or no such process can be seen.
    ///
    /// systemd, as process 1, holds the sockets of services that it starts on demand, and its CPU time is not theirs. Where
    /// nothing else holds the socket, the service has no known CPU time, and [`Service::held_by_init`] says so.
    #[must_use]
    pub fn listening_at(address: SocketAddr) -> Option<Self> {
        // An address that a socket can be bound to is this host's.
        UdpSocket::bind((address.ip(), 0)).ok()?;
        // The kernel writes a long table piece by piece, and leaves sockets out when others close between two pieces.
        let look = || {
            // Of the calling thread's network namespace, in which the address is; /proc/net is the main thread's.
            let table =
                |name| text::read_trimmed(Path::new("/proc/thread-self/net").join(name)).unwrap_or_default();
            listeners_at(&["tcp", "tcp6"].map(table).join("\n"), address)
        };
        let inodes = (0..LOOKS).map(|_| look()).find(|inodes| !inodes.is_empty()).unwrap_or_default();
        let owners = owners(&inodes);
        let others =
            roots(owners.iter().filter(|pid| **pid != 1).copied().filter_map(Stat::of_process).collect());
        if !others.is_empty() {
            return Some(Self(Members::Processes(others)));
        }
        let first = owners.contains(&1).then(|| Stat::of_process(1)).flatten()?;
        let name = text::read_trimmed("/proc/1/comm").unwrap_or_default().trim().to_owned();
        // In a container the server itself can be process 1.
        let starts_on_demand = ON_DEMAND.contains(&name.as_str());
        Some(Self(if starts_on_demand {
            Members::HeldByInit { address, name }
        } else {
            Members::Processes(vec![first])
        }))
    }

    /// The name of process 1 and the address, where only that process listens there: its CPU time is not the system's.
    #[must_use]
    pub fn held_by_init(&self) -> Option<[String; 2]> {
        let Members::HeldByInit { address, name } = &self.0 else { return None };
        Some([name.clone(), address.to_string()])
    }

    /// The processes that listen on a TCP port of this host, at whatever address; `None` where there are none to be seen.
    #[must_use]
    pub fn listening_on(port: u16) -> Option<Self> {
        let table =
            |name| text::read_trimmed(Path::new("/proc/thread-self/net").join(name)).unwrap_or_default();
        let tables = ["tcp", "tcp6"].map(table).join("\n");
        let listeners = tables.lines().filter_map(parse_listener).map(|(address, _)| address);
        // An unspecified address takes connections to every one, so any of them leads to its socket.
        let mut addresses = listeners.filter(|address| address.port() == port);
        addresses.find_map(Self::listening_at)
    }

    /// The process `pid` with all that descends from it.
    ///
    /// # Errors
    /// When no such process exists.
    pub fn of_process(pid: u32) -> Result<Self, Error> {
        Ok(Self(Members::Processes(vec![Stat::of_process(pid).ok_or(Error::NoProcess { pid })?])))
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
    /// When no such group exists.
    pub fn of_group(path: &Path) -> Result<Self, Error> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let within = HIERARCHIES.iter().map(|hierarchy| Path::new(GROUPS).join(hierarchy).join(below));
        let as_it_stands = path.starts_with(GROUPS).then(|| path.to_owned());
        Self::first_that_counts(as_it_stands.into_iter().chain(within), path)
    }

    /// The first group that counts CPU time, else the processes of the first one. Only groups with a process in them or
    /// below them matter: one of the same name may be left over, or made by hand, in another hierarchy.
    fn first_that_counts(groups: impl Iterator<Item = PathBuf>, asked: &Path) -> Result<Self, Error> {
        let groups: Vec<PathBuf> = groups.filter(|group| has_processes(group, UNIT_DEPTH_MAX)).collect();
        if let Some(group) = groups.iter().find(|group| group_cpu_time(group).is_some()) {
            return Ok(Self(Members::Group(group.clone())));
        }
        let members = |group: &PathBuf| -> Vec<Stat> {
            let pids = text::read_trimmed(group.join("cgroup.procs")).unwrap_or_default();
            roots(pids.lines().filter_map(|pid| Stat::of_process(pid.parse().ok()?)).collect())
        };
        let found = groups.iter().map(members).find(|members| !members.is_empty());
        found
            .map(|members| Self(Members::Processes(members)))
            .ok_or_else(|| Error::NoGroup { path: asked.to_owned() })
    }

    /// CPU time of all its processes so far; `None` when one of those that it was found by has ended, or where it is not known.
    #[must_use]
    pub fn cpu_time(&self) -> Option<CpuTime> {
        match &self.0 {
            Members::Processes(roots) => roots.iter().map(process_tree_time).sum(),
            Members::Group(group) => group_cpu_time(group),
            Members::HeldByInit { .. } => None,
        }
    }

    /// How long its threads have waited for a CPU so far, in ns, as far as the kernel counts that; threads that have ended are
    /// not in it.
    #[must_use]
    pub fn run_delay_ns(&self) -> Option<u64> {
        let of_process = |pid: u32| -> u64 {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            tasks.filter_map(|task| thread_run_delay_ns(&task.path())).sum()
        };
        Some(self.pids().into_iter().map(of_process).sum()).filter(|ns| *ns > 0)
    }

    /// Resident memory of its processes in bytes. Pages that several of them share count for each.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let of_process = |pid: u32| {
            let status = text::read_trimmed(format!("/proc/{pid}/status"))?;
            text::colon_field(&status, "VmRSS")?.split_whitespace().next()?.parse::<u64>().ok()
        };
        let kibibytes: u64 = self.pids().into_iter().filter_map(of_process).sum();
        Some(kibibytes.saturating_mul(1 << 10)).filter(|bytes| *bytes > 0)
    }

    /// The threads with their CPUs; `None` if none can be seen.
    #[must_use]
    pub fn placement(&self) -> Option<Placement> {
        Some(Placement::of_processes(&self.pids())).filter(|placement| *placement != Placement::default())
    }

    /// The CPUs on which its threads may run, see [`Placement::allowed`]; `None` if none can be seen.
    #[must_use]
    pub fn allowed_cpus(&self) -> Option<CpuSet> {
        self.placement().map(|placement| placement.allowed())
    }

    /// The processes at this moment.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        match &self.0 {
            Members::Processes(roots) => roots.iter().flat_map(process_tree).collect(),
            Members::Group(group) => group_processes(group, UNIT_DEPTH_MAX),
            Members::HeldByInit { .. } => Vec::new(),
        }
    }
}

/// The second number of a schedstat file (Documentation/scheduler/sched-stats.rst).
fn thread_run_delay_ns(task: &Path) -> Option<u64> {
    text::read_trimmed(task.join("schedstat"))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The pids of a process with its descendants, as they count for its CPU time.
fn process_tree(root: &Stat) -> Vec<u32> {
    if Stat::of_process(root.pid).is_none_or(|now| !now.is_same_process(root)) {
        return Vec::new();
    }
    if counts_alone(root) {
        return vec![root.pid];
    }
    procfs::tree(root.pid).iter().map(|process| process.pid).collect()
}

/// Whether a process counts without its descendants: this process is among those, or it is the first process of all.
fn counts_alone(root: &Stat) -> bool {
    root.pid == 1 || ancestors(std::process::id()).contains(&root.pid)
}

/// The processes in a group and in those below it.
fn group_processes(group: &Path, depth: u32) -> Vec<u32> {
    let pids = text::read_trimmed(group.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<u32> = pids.lines().filter_map(|pid| pid.parse().ok()).collect();
    if depth > 0 {
        found.extend(directories_in(group).iter().flat_map(|below| group_processes(below, depth - 1)));
    }
    found
}

/// A process with its descendants. Where this process is among those, and for the first process of all, it counts alone.
fn process_tree_time(root: &Stat) -> Option<CpuTime> {
    Stat::of_process(root.pid).filter(|now| now.is_same_process(root))?;
    if counts_alone(root) { process_cpu_time(root.pid).ok() } else { tree_cpu_time(root.pid).ok() }
}

/// Those that descend from no other one of them.
fn roots(processes: Vec<Stat>) -> Vec<Stat> {
    let pids: Vec<u32> = processes.iter().map(|stat| stat.pid).collect();
    let is_root = |stat: &Stat| !ancestors(stat.parent).iter().any(|pid| pids.contains(pid));
    processes.into_iter().filter(is_root).collect()
}

/// The process, its parent, and so on.
fn ancestors(pid: u32) -> Vec<u32> {
    let next = |pid: &u32| Stat::of_process(*pid).map(|stat| stat.parent).filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), next).take(ANCESTORS_MAX).collect()
}

/// CPU time that a group of either version counts, with the groups below it.
fn group_cpu_time(group: &Path) -> Option<CpuTime> {
    let number = |file: &str| text::read_number(group.join(file));
    if let Some(total_ns) = number("cpuacct.usage") {
        let (user, system) = (number("cpuacct.usage_user"), number("cpuacct.usage_sys"));
        return Some(CpuTime::divided(total_ns, user.unwrap_or(0), system.unwrap_or(0)));
    }
    let stat = text::read_trimmed(group.join("cpu.stat"))?;
    let field = |name: &str| text::word_field(&stat, name);
    let total_ns = field("usage_usec")?.saturating_mul(1_000);
    Some(CpuTime::divided(total_ns, field("user_usec").unwrap_or(0), field("system_usec").unwrap_or(0)))
}

/// Whether a process is in a group or in one below it.
fn has_processes(group: &Path, depth: u32) -> bool {
    text::read_trimmed(group.join("cgroup.procs")).is_some_and(|pids| !pids.is_empty())
        || depth > 0 && directories_in(group).iter().any(|below| has_processes(below, depth - 1))
}

fn directories_in(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok);
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

fn directory_named(root: &Path, name: &str, depth: u32) -> Option<PathBuf> {
    let below = directories_in(root);
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

/// Whether a socket has this port in the network namespace of a process: one that listens for TCP, or any for UDP.
#[must_use]
pub fn has_socket(pid: u32, port: u16, is_udp: bool) -> bool {
    let tables = if is_udp { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    let has_port = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let is_there = local.is_some_and(|(_, found)| u16::from_str_radix(found, 16) == Ok(port));
        is_there && (is_udp || fields.nth(1) == Some(LISTENS))
    };
    let table = |name: &&str| text::read_trimmed(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    tables.iter().map(table).any(|table| table.lines().any(has_port))
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
    use std::time::Duration;

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

    /// Writes `done` once a child of it has spent some CPU time, and stays until it is killed.
    const BUSY: &str =
        "echo ready; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done & wait; echo done; exec sleep 600";

    #[test]
    fn a_server_with_its_children_is_found_by_its_socket() {
        // The shell inherits the socket, and spends its time in a child. It must not read its input, which a listening
        // socket ends at once: on a busy machine the server was gone before it was looked for.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let socket = std::os::fd::OwnedFd::from(listener);
        let server =
            Command::new("sh").args(["-c", BUSY]).stdout(Stream::Piped).stdin(Stream::File(socket.into()));
        let mut server = server.spawn().unwrap();
        let mut lines = BufReader::new(server.take_stdout().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let service = Service::listening_at(address).unwrap();
        let Members::Processes(roots) = &service.0 else { panic!("{service:?}") };
        assert_eq!(roots.iter().map(|stat| stat.pid).collect::<Vec<_>>(), [server.pid()]);
        assert_eq!(lines.next().unwrap().unwrap(), "done");
        let (whole, own) = (service.cpu_time().unwrap(), process_cpu_time(server.pid()).unwrap());
        assert!(whole.total_ns() > own.total_ns(), "the child's time is the server's: {whole:?} {own:?}");
        assert_eq!(service.held_by_init(), None);
        assert_eq!(Service::listening_on(address.port()).unwrap().pids(), [server.pid()]);
        assert!(service.memory_bytes().unwrap() > 100 << 10, "two shells have some memory");
        assert!(service.run_delay_ns().is_none_or(|ns| ns < 60_000_000_000));
        server.kill().unwrap();
        assert_eq!(service.cpu_time(), None, "a server that is gone has no CPU time");
        assert_eq!(Service::listening_at(address), None);
    }

    /// Control groups of the hierarchy that counts CPU time, which end with the test.
    struct Groups(Vec<PathBuf>);

    impl Groups {
        /// Makes them below a hierarchy, parents first; `None` where the test may not.
        fn make(hierarchy: &Path, names: &[&str]) -> Option<Self> {
            let mut groups = Self(Vec::new());
            for name in names {
                let path = hierarchy.join(name);
                fs::create_dir(&path).ok()?;
                groups.0.push(path);
            }
            Some(groups)
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            for group in self.0.iter().rev() {
                // The kernel needs a moment to take a process that ended out of its group.
                let is_gone = || fs::remove_dir(group).is_ok();
                (0..1_000).find(|_| {
                    is_gone() || {
                        crate::time::sleep(Duration::from_millis(1));
                        false
                    }
                });
            }
        }
    }

    /// The mount in which groups count CPU time: version 1's controller, else version 2.
    fn counting_hierarchy() -> PathBuf {
        let hierarchy = |name: &&str| Path::new(GROUPS).join(name).join("cpuacct.usage").exists();
        let name = ["cpuacct", "cpu,cpuacct"].into_iter().find(hierarchy).unwrap_or("");
        Path::new(GROUPS).join(name)
    }

    #[test]
    fn a_service_named_by_its_unit_or_group_has_the_cpu_time_of_what_is_in_it() {
        let slice = format!("plumb-{}.slice", std::process::id());
        let (name, beside) = (format!("plumb-{}", std::process::id()), Path::new(GROUPS).join("unified"));
        let unit = format!("{slice}/{name}.service");
        let Some(groups) = Groups::make(&counting_hierarchy(), &[&slice, &unit]) else {
            crate::unprivileged::skip(
                "service::tests::a_service_named_by_its_unit_or_group_has_the_cpu_time_of_what_is_in_it",
                "make control groups",
            );
            return;
        };
        // On a host with both versions, an empty group of the same name must not stand for the one with processes.
        let _empty = Groups::make(&beside, &[&slice, &unit]);
        assert!(Service::of_unit(&name).is_err(), "there is no process in it yet");
        // The shell enters the group before it has a child.
        let enter = format!("echo $$ > {}/cgroup.procs && {BUSY}", groups.0[1].display());
        let mut server = Command::new("sh").args(["-c", &enter]).stdout(Stream::Piped).spawn().unwrap();
        let mut lines = BufReader::new(server.take_stdout().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let by_unit = Service::of_unit(&name).unwrap();
        assert_eq!(by_unit, Service(Members::Group(groups.0[1].clone())));
        assert_eq!(by_unit, Service::of_unit(&format!("{name}.service")).unwrap());
        assert_eq!(by_unit, Service::of_group(&groups.0[1]).unwrap());
        assert_eq!(by_unit, Service::of_group(Path::new(&unit)).unwrap());
        assert_eq!(lines.next().as_deref(), Some("done"));
        let (group, own) = (by_unit.cpu_time().unwrap(), process_cpu_time(server.pid()).unwrap());
        assert!(group.total_ns() > own.total_ns(), "with its children: {group:?} {own:?}");
        // The group above counts it too, although no process is in that group itself.
        let above = Service::of_group(Path::new(&slice)).unwrap().cpu_time().unwrap();
        assert!(above.total_ns() >= group.total_ns(), "{above:?} {group:?}");
        server.kill().unwrap();
        assert!(
            by_unit.cpu_time().unwrap().total_ns() >= group.total_ns(),
            "a group remembers those that ended"
        );
    }

    #[test]
    fn a_listener_is_looked_for_in_the_network_namespace_of_the_thread_that_asks() {
        let Ok(namespace) = crate::namespace::Namespace::create() else {
            crate::unprivileged::skip(
                "service::tests::a_listener_is_looked_for_in_the_network_namespace_of_the_thread_that_asks",
                "make network namespaces",
            );
            return;
        };
        let found = namespace.inside(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Service::listening_at(listener.local_addr().unwrap())
        });
        let Ok(Some(Service(Members::Processes(roots)))) = &found else { panic!("{found:?}") };
        assert_eq!(roots.iter().map(|stat| stat.pid).collect::<Vec<_>>(), [std::process::id()]);
    }

    #[test]
    fn a_socket_that_only_process_1_holds_leaves_the_cpu_time_unknown() {
        let address = "127.0.0.1:80".parse().unwrap();
        let service = Service(Members::HeldByInit { address, name: "systemd".to_owned() });
        assert_eq!(service.cpu_time(), None);
        assert_eq!(service.held_by_init().unwrap(), ["systemd", "127.0.0.1:80"]);
    }

    #[test]
    fn another_host_is_nobody_here() {
        assert_eq!(Service::listening_at("192.0.2.1:80".parse().unwrap()), None);
    }

    #[test]
    fn an_ancestor_is_counted_without_this_process() {
        let parent = Stat::of_process(std::process::id()).unwrap().parent;
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
