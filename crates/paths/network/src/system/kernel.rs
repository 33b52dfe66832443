//! Networks of this host's kernel as systems: built, with the server's end in one namespace and the client's in another.

use std::net::IpAddr;
use std::time::Duration;

use plumb_host::Error;
use plumb_host::process::named;
use plumb_model::CpuCost;
use plumb_path::link::{link_cpu_ns, subtract_link_cpu};
use plumb_path::{PathError, Place, Snapshot, System};

use super::apply::apply;
use super::end::End;
use super::half::{self, Half};
use super::layout::{CLIENT_AT, Layout, SERVER, SERVER_AT};
use super::observe::observe;
use super::ovs::OpenVSwitch;
use crate::settings::{Apart, NetworkSettings, NetworkTarget, SystemKind, SystemSettings};

/// How long the first connection through a network may take.
const ANSWER: Duration = Duration::from_secs(5);
/// The kernel's threads that process packets once these get too much for the thread that sent or received them.
const KERNEL_THREAD: &str = "ksoftirqd/";
/// The name of the server's end among the parts of a system.
const SERVER_COMPONENT: &str = "server";

/// A network that is built, with a server at its far end.
#[derive(Debug)]
pub(super) struct Pods {
    spec: SystemSettings,
    end: End,
    open_vswitch: Option<OpenVSwitch>,
    layout: Layout,
    kernel_threads: Vec<u32>,
}

/// The server's half of a network whose clients are on other hosts, with the server in it.
#[derive(Debug)]
pub(super) struct Near {
    end: End,
    half: Half,
    apart: Apart,
    kernel_threads: Vec<u32>,
}

/// Builds the network, to see whether it can be built here, and takes it down again.
///
/// # Errors
/// What failed.
pub(super) fn attempt(spec: &SystemSettings) -> Result<(), Error> {
    let layout = Layout::build(spec)?;
    // One rule needs what thousands need.
    apply(&layout, spec, spec.service_rules.min(1))
}

/// Builds the network and starts the server's end.
///
/// # Errors
/// When something cannot be made, or the two ends do not reach each other.
pub(super) fn start(settings: &NetworkSettings, place: &Place) -> Result<Pods, PathError> {
    let spec = &settings.system;
    let layout = Layout::build(spec)?;
    apply(&layout, spec, spec.service_rules)?;
    let open_vswitch = match spec.kind {
        SystemKind::Ovs => Some(OpenVSwitch::start(&layout, spec, &place.scratch)?),
        _ => None,
    };
    let netns = layout.namespaces[SERVER_AT].path();
    let end = End::start(&settings.load, IpAddr::V4(SERVER), Some(netns), place)?;
    // A tool's server takes every connection for a client; its first run is the proof.
    if let End::Own(server) = &end {
        layout.namespaces[CLIENT_AT].reach(server.address(), ANSWER)?;
    }
    Ok(Pods { spec: spec.clone(), end, open_vswitch, layout, kernel_threads: named(KERNEL_THREAD) })
}

/// Builds the server's half on the host with this address and starts the server's end. The clients' halves prove that it answers.
///
/// # Errors
/// When something cannot be made.
pub(super) fn start_near(settings: &NetworkSettings, host: IpAddr, place: &Place) -> Result<Near, PathError> {
    let (half, apart) = half::of_server(&settings.system, host)?;
    let end = End::start(&settings.load, half.address, half.netns(), place)?;
    Ok(Near { end, half, apart, kernel_threads: named(KERNEL_THREAD) })
}

impl System for Near {
    fn target(&self) -> serde_json::Value {
        let (address, apart) = (self.end.address(), Some(self.apart.clone()));
        let target =
            NetworkTarget { address: address.ip().to_string(), port: address.port(), netns: None, apart };
        serde_json::json!(target)
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let cpu = cpu(&mut self.end, &self.kernel_threads, &[])?;
        let mut snapshot = Snapshot { cpu, ..Snapshot::default() };
        self.half.observe(&mut snapshot)?;
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        self.end.stop();
        Ok(())
    }
}

impl System for Pods {
    fn target(&self) -> serde_json::Value {
        let address = self.end.address();
        let netns = Some(self.layout.namespaces[CLIENT_AT].path());
        let target =
            NetworkTarget { address: address.ip().to_string(), port: address.port(), netns, apart: None };
        serde_json::json!(target)
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let daemons: Vec<u32> = self.open_vswitch.iter().flat_map(OpenVSwitch::pids).collect();
        let mut cpu = cpu(&mut self.end, &self.kernel_threads, &daemons)?;
        if let (Some(link), End::Own(_)) = (&self.layout.link, &self.end) {
            let link_ns = link_cpu_ns(link);
            subtract_link_cpu(&mut cpu, link_ns);
            cpu.components
                .entry(SERVER_COMPONENT.to_owned())
                .and_modify(|ns| *ns = ns.saturating_sub(link_ns));
        }
        let mut snapshot = Snapshot { cpu, ..Snapshot::default() };
        observe(&self.layout, &self.spec, &mut snapshot)?;
        if let Some(open_vswitch) = &mut self.open_vswitch {
            open_vswitch.observe(&mut snapshot)?;
        }
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        self.end.stop();
        match &mut self.open_vswitch {
            Some(open_vswitch) => Ok(open_vswitch.stop()?),
            None => Ok(()),
        }
    }
}

/// CPU time of the server's end, of daemons, and of the kernel's threads for packets.
fn cpu(end: &mut End, kernel_threads: &[u32], daemons: &[u32]) -> Result<CpuCost, PathError> {
    let server = end.cpu_time()?;
    let mut cost = CpuCost { user_ns: server.user_ns, system_ns: server.system_ns, ..CpuCost::default() };
    let mut add = |name: &str, pid: u32| -> Result<(), PathError> {
        let cpu = plumb_host::cpu::process_cpu_time(pid)?;
        cost.user_ns += cpu.user_ns;
        cost.system_ns += cpu.system_ns;
        *cost.components.entry(name.to_owned()).or_default() += cpu.total_ns();
        Ok(())
    };
    kernel_threads.iter().try_for_each(|pid| add("ksoftirqd", *pid))?;
    daemons.iter().try_for_each(|pid| add("ovs-vswitchd", *pid))?;
    cost.components.insert(SERVER_COMPONENT.to_owned(), server.total_ns());
    Ok(cost)
}
