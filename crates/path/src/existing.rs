//! A system that exists already: nothing is built, and it is left as it is. Its CPU time is known where its processes are on this
//! host and can be found.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use plumb_host::service::Service;
use plumb_model::CpuCost;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Fault, PathError, Snapshot, System};

/// Where such a system is, and which processes it has.
#[derive(Debug, Clone, PartialEq)]
pub struct Existing {
    target: Value,
    service: Option<Service>,
}

impl Existing {
    /// A system that its data path's load finds by this.
    #[must_use]
    pub fn at(target: &impl Serialize) -> Self {
        Self { target: json!(target), service: None }
    }

    /// The same, run by these processes of this host.
    #[must_use]
    pub fn run_by(self, service: Option<Service>) -> Self {
        Self { service, ..self }
    }
}

impl System for Existing {
    fn target(&self) -> Value {
        self.target.clone()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let Some(cpu) = self.service.as_ref().and_then(Service::cpu_time) else {
            let warnings = self.service.as_ref().and_then(Service::caveat).into_iter().collect();
            return Ok(Snapshot { warnings, ..Snapshot::default() });
        };
        let cpu = CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, ..CpuCost::default() };
        Ok(Snapshot { cpu, is_foreign: true, ..Snapshot::default() })
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}

/// The processes of a system that exists already, as its settings name them. Without a name, the listening socket leads to them.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunBy<'a> {
    /// A process, with its children.
    pub pid: Option<u32>,
    /// A systemd unit.
    pub unit: Option<&'a str>,
    /// A control group.
    pub cgroup: Option<&'a Path>,
}

impl RunBy<'_> {
    /// Checks the names. `key` is that of the settings that hold them.
    ///
    /// # Errors
    /// When something is named for a system that is built, or more than one thing is.
    pub fn check(self, key: &str, is_external: bool) -> Result<(), Fault> {
        let named =
            [("pid", self.pid.is_some()), ("unit", self.unit.is_some()), ("cgroup", self.cgroup.is_some())];
        let named: Vec<&str> =
            named.into_iter().filter(|(_, is_named)| *is_named).map(|(name, _)| name).collect();
        match named.as_slice() {
            [name, ..] if !is_external => {
                let message = format!(
                    "`{name}` names the processes of a system that runs already; it needs `kind: external`"
                );
                Err(Fault::new(format!("{key}.{name}"), message))
            }
            [_, second, ..] => {
                let message = "name the system by only one of `pid`, `unit` and `cgroup`";
                Err(Fault::new(format!("{key}.{second}"), message))
            }
            _ => Ok(()),
        }
    }

    /// The processes; `None` where the settings name none and no process of this host is seen to listen there.
    ///
    /// # Errors
    /// When the process, unit or group does not exist.
    pub fn find(self, host_and_port: Option<(&str, u16)>) -> Result<Option<Service>, PathError> {
        if let Some(pid) = self.pid {
            return Ok(Some(Service::of_process(pid)?));
        }
        if let Some(unit) = self.unit {
            return Ok(Some(Service::of_unit(unit)?));
        }
        if let Some(cgroup) = self.cgroup {
            return Ok(Some(Service::of_group(cgroup)?));
        }
        let addresses = host_and_port.and_then(|at| at.to_socket_addrs().ok());
        let mut addresses: Vec<SocketAddr> = addresses.into_iter().flatten().collect();
        addresses.dedup();
        Ok(addresses.into_iter().find_map(Service::listening_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_named_once_and_only_where_it_exists_already() {
        let by_pid = RunBy { pid: Some(1), ..RunBy::default() };
        let key = |checked: Result<(), Fault>| checked.unwrap_err().key;
        assert!(by_pid.check("system", true).is_ok() && RunBy::default().check("system", false).is_ok());
        assert_eq!(key(by_pid.check("system", false)), "system.pid");
        assert_eq!(key(RunBy { unit: Some("nginx"), ..by_pid }.check("system", true)), "system.unit");
    }

    #[test]
    fn the_process_that_listens_is_the_system() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = RunBy::default().find(Some(("127.0.0.1", port))).unwrap();
        let snapshot = Existing::at(&port).run_by(service).snapshot().unwrap();
        assert!(snapshot.is_foreign && snapshot.cpu.total_ns() > 0);
        drop(listener);
        let nobody = RunBy::default().find(Some(("127.0.0.1", port))).unwrap();
        assert_eq!(Existing::at(&port).run_by(nobody).snapshot().unwrap(), Snapshot::default());
        let gone = RunBy { pid: Some(u32::MAX), ..RunBy::default() }.find(None);
        assert_eq!(gone.unwrap_err().to_string(), "find process 4294967295: it has ended");
    }
}
