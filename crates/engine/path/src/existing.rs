//! A system that exists already: nothing is built or changed. Its CPU time is known if its processes run on
//! this host and can be found.

use std::net::SocketAddr;
use std::path::PathBuf;

use plumb_host::address::resolve;
use plumb_host::cpu::CpuTime;
use plumb_host::service::Service;
use plumb_model::{CpuCost, Notice, NoticeKind};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{PathError, Processes, SettingsFault, Snapshot, System};

/// The location and the processes of such a system.
#[derive(Debug, Clone, PartialEq)]
pub struct Existing {
    target: Value,
    /// How to find its processes.
    run_by: RunBy,
    /// The address at which it listens, by which its processes are found if the settings name none.
    address: Option<(String, u16)>,
    service: Option<Service>,
    /// CPU time of processes that have ended and were replaced.
    ended: CpuTime,
    /// CPU time of its present processes at the last reading.
    last: CpuTime,
}

impl Existing {
    /// A system with the target by which its data path's load finds it.
    #[must_use]
    pub fn at(target: &impl Serialize) -> Self {
        Self {
            target: json!(target),
            run_by: RunBy::default(),
            address: None,
            service: None,
            ended: CpuTime::default(),
            last: CpuTime::default(),
        }
    }

    /// The same system with its processes on this host: those that `run_by` names, or those that listen at
    /// the address.
    ///
    /// # Errors
    /// When the named process, unit or group does not exist.
    pub fn run_by(self, run_by: RunBy, address: Option<(&str, u16)>) -> Result<Self, PathError> {
        let service = run_by.find(address)?;
        let address = address.map(|(host, port)| (host.to_owned(), port));
        Ok(Self { service, run_by, address, ..self })
    }

    /// CPU time so far. If a service restarts, the time of its new processes adds to the time of its previous
    /// ones.
    fn cpu_time(&mut self, notices: &mut Vec<Notice>) -> Option<CpuTime> {
        let service = self.service.as_ref()?;
        if let Some(now) = service.cpu_time() {
            self.last = now;
        } else if service.held_by_init().is_none() {
            let address = self.address.as_ref().map(|(host, port)| (host.as_str(), *port));
            let found = self.run_by.find(address).ok().flatten()?;
            self.ended += std::mem::replace(&mut self.last, found.cpu_time()?);
            self.service = Some(found);
            notices.push(NoticeKind::ProcessesReplaced.into());
        } else {
            return None;
        }
        let mut total = self.ended;
        total += self.last;
        Some(total)
    }
}

impl System for Existing {
    fn target(&self) -> Value {
        self.target.clone()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let mut notices = Vec::new();
        let Some(cpu) = self.cpu_time(&mut notices) else {
            let held = self.service.as_ref().and_then(Service::held_by_init);
            let notices = held.map(|held| Notice::from(NoticeKind::HeldByInit).about(held));
            let notices = notices.into_iter().collect();
            return Ok(Snapshot { notices, ..Snapshot::default() });
        };
        let cpu = CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, ..CpuCost::default() };
        let service = self.service.as_ref();
        let processes = Processes {
            run_delay_ns: service.and_then(Service::run_delay_ns),
            memory_bytes: service.and_then(Service::memory_bytes),
            softirq_ns: plumb_host::noise::softirq_ns().ok(),
        };
        let placement = service.and_then(Service::placement);
        Ok(Snapshot { cpu, is_foreign: true, processes, placement, notices, ..Snapshot::default() })
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}

/// The processes of a system that exists already, as its settings name them. Without a name, they are found
/// by the listening socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunBy {
    /// A process, with its children.
    pub pid: Option<u32>,
    /// A systemd unit.
    pub unit: Option<String>,
    /// A control group.
    pub cgroup: Option<PathBuf>,
    /// A TCP port on which it listens, at any address.
    pub port: Option<u16>,
}

impl RunBy {
    /// Checks the names. `key` is the settings key that holds them.
    ///
    /// # Errors
    /// When the settings name processes of a system that is built, or more than one of these keys.
    pub fn check(&self, key: &str, is_external: bool) -> Result<(), SettingsFault> {
        let named = [
            ("pid", self.pid.is_some()),
            ("unit", self.unit.is_some()),
            ("cgroup", self.cgroup.is_some()),
            ("port", self.port.is_some()),
        ];
        let named: Vec<&str> =
            named.into_iter().filter(|(_, is_named)| *is_named).map(|(name, _)| name).collect();
        match named.as_slice() {
            [name, ..] if !is_external => {
                let message = format!(
                    "`{name}` names the processes of a system that runs already; it needs `kind: external`"
                );
                Err(SettingsFault::new(format!("{key}.{name}"), message))
            }
            [_, second, ..] => {
                let message = "name the system by only one of `pid`, `unit`, `cgroup` and `port`";
                Err(SettingsFault::new(format!("{key}.{second}"), message))
            }
            _ => Ok(()),
        }
    }

    /// The processes; `None` if the settings name none and no visible process of this host listens there.
    ///
    /// # Errors
    /// When the process, unit or group does not exist, or nothing listens on the port.
    pub fn find(&self, host_and_port: Option<(&str, u16)>) -> Result<Option<Service>, PathError> {
        if let Some(pid) = self.pid {
            return Ok(Some(Service::of_process(pid)?));
        }
        if let Some(unit) = &self.unit {
            return Ok(Some(Service::of_unit(unit)?));
        }
        if let Some(cgroup) = &self.cgroup {
            return Ok(Some(Service::of_group(cgroup)?));
        }
        if let Some(port) = self.port {
            let none = || {
                PathError::new(format!(
                    "find a process that listens on port {port}: plumb sees none on this host"
                ))
            };
            return Service::listening_on(port).map(Some).ok_or_else(none);
        }
        let resolved = host_and_port.and_then(|(host, port)| resolve(host, port).ok());
        let mut addresses: Vec<SocketAddr> = resolved.unwrap_or_default();
        addresses.dedup();
        Ok(addresses.into_iter().find_map(Service::listening_at))
    }
}

/// Where the processes of a system that exists already are found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    /// As its settings name them.
    pub run_by: RunBy,
    /// The address at which it listens.
    pub address: Option<(String, u16)>,
}

impl Foreign {
    /// The system at a target, with these processes.
    ///
    /// # Errors
    /// When a named process, unit or group does not exist.
    pub fn at(&self, target: &impl Serialize) -> Result<Existing, PathError> {
        let address = self.address.as_ref().map(|(host, port)| (host.as_str(), *port));
        Existing::at(target).run_by(self.run_by.clone(), address)
    }

    /// The processes; `None` if none can be seen on this host.
    #[must_use]
    pub fn service(&self) -> Option<Service> {
        self.run_by.find(self.address.as_ref().map(|(host, port)| (host.as_str(), *port))).ok()?
    }
}

#[cfg(test)]
mod tests {
    use plumb_host::process::Command;

    use super::*;

    #[test]
    fn a_service_that_restarts_goes_on_counting() {
        // Spends CPU time first, and then stays.
        const BUSY: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exec sleep 60";
        let start = || Command::new("sh").args(["-c", BUSY]).own_group().spawn().unwrap();
        let mut first = start();
        let service = Service::of_process(first.pid()).unwrap();
        while service.cpu_time().unwrap().total_ns() == 0 {
            std::thread::yield_now();
        }
        let by_pid = RunBy { pid: Some(first.pid()), ..RunBy::default() };
        let mut existing = Existing::at(&0).run_by(by_pid, None).unwrap();
        let before = existing.snapshot().unwrap();
        first.kill().unwrap();
        let second = start();
        existing.run_by = RunBy { pid: Some(second.pid()), ..RunBy::default() };
        let after = existing.snapshot().unwrap();
        assert!(after.cpu.total_ns() >= before.cpu.total_ns() && after.is_foreign);
        assert_eq!(
            (before.notices.len(), after.notices.as_slice()),
            (0, &[NoticeKind::ProcessesReplaced.into()][..])
        );
        assert!(existing.snapshot().unwrap().notices.is_empty());
    }

    #[test]
    fn a_system_is_named_once_and_only_where_it_exists_already() {
        let by_pid = RunBy { pid: Some(1), ..RunBy::default() };
        let key = |checked: Result<(), SettingsFault>| checked.unwrap_err().key;
        assert!(by_pid.check("system", true).is_ok() && RunBy::default().check("system", false).is_ok());
        assert_eq!(key(by_pid.check("system", false)), "system.pid");
        assert_eq!(
            key(RunBy { unit: Some("nginx".to_owned()), ..by_pid }.check("system", true)),
            "system.unit"
        );
    }

    #[test]
    fn the_process_that_listens_is_the_system() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let at = |run_by: RunBy| Existing::at(&port).run_by(run_by, Some(("127.0.0.1", port)));
        let by_port = RunBy { port: Some(port), ..RunBy::default() };
        for run_by in [RunBy::default(), by_port.clone()] {
            let snapshot = at(run_by).unwrap().snapshot().unwrap();
            assert!(snapshot.is_foreign && snapshot.cpu.total_ns() > 0);
            assert!(snapshot.processes.memory_bytes.unwrap() > 1 << 20, "this process has some memory");
        }
        drop(listener);
        assert_eq!(at(RunBy::default()).unwrap().snapshot().unwrap(), Snapshot::default());
        assert!(at(by_port).unwrap_err().to_string().contains("plumb sees none on this host"));
        let gone = RunBy { pid: Some(u32::MAX), ..RunBy::default() }.find(None);
        assert_eq!(gone.unwrap_err().to_string(), "find process 4294967295: it has ended");
    }
}
