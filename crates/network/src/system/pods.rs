//! Networks of this host's kernel as systems: built, with the server's end in one namespace and the client's in another.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use plumb_host::process::named;
use plumb_model::CpuCost;
use plumb_path::{PathError, Place, Snapshot, System};

use super::apply::apply;
use super::half::{self, Half};
use super::layout::{CLIENT_AT, Layout, SERVER, SERVER_AT};
use super::observe::observe;
use super::ovs::OpenVSwitch;
use crate::server::{Server, ServerOptions};
use crate::settings::{Apart, SystemKind, SystemSettings, Target};

/// How long the first connection through a network may take.
const ANSWER: Duration = Duration::from_secs(5);
/// What the kernel does for packets when it gets too much for the thread that sent or received them.
const KERNEL_THREAD: &str = "ksoftirqd/";

/// A network that is built, with a server at its far end.
#[derive(Debug)]
pub(super) struct Pods {
    spec: SystemSettings,
    server: Server,
    open_vswitch: Option<OpenVSwitch>,
    layout: Layout,
    kernel_threads: Vec<u32>,
}

/// The server's half of a network whose clients are on other hosts, with the server in it.
#[derive(Debug)]
pub(super) struct Near {
    server: Server,
    half: Half,
    apart: Apart,
    kernel_threads: Vec<u32>,
}

/// Builds the network, to see whether it can be built here, and takes it down again.
///
/// # Errors
/// What is missing.
pub(super) fn attempt(spec: &SystemSettings) -> Result<(), String> {
    if spec.kind == SystemKind::Ovs {
        super::ovs::installed()?;
    }
    let layout = Layout::build(spec).map_err(|error| cannot(&error))?;
    // One rule needs what thousands need.
    apply(&layout, spec, spec.service_rules.min(1)).map_err(|error| cannot(&error))
}

pub(super) fn cannot(error: &plumb_host::Error) -> String {
    let words = format!("cannot {error}");
    if words.contains("network namespace") {
        return format!("{words}; it needs root, or a kernel that lets ordinary users make user namespaces");
    }
    if words.contains("macvlan device") || words.contains("vxlan device") {
        return format!("{words}; between hosts it needs root, and a kernel that has such devices");
    }
    if words.contains("hand rules to nft") {
        return format!("{words}; install nftables");
    }
    words
}

/// Builds the network and starts the server's end.
///
/// # Errors
/// When something cannot be made, or the two ends do not reach each other.
pub(super) fn start(spec: &SystemSettings, place: &Place) -> Result<Pods, PathError> {
    let layout = Layout::build(spec)?;
    apply(&layout, spec, spec.service_rules)?;
    let open_vswitch = match spec.kind {
        SystemKind::Ovs => Some(OpenVSwitch::start(&layout, spec, &place.scratch)?),
        _ => None,
    };
    let options = ServerOptions {
        address: SocketAddr::from((SERVER, 0)),
        netns: Some(layout.namespaces[SERVER_AT].path()),
    };
    let server = Server::start(&options)?;
    let address = server.address();
    let answer = layout.namespaces[CLIENT_AT].inside(|| TcpStream::connect_timeout(&address, ANSWER))?;
    answer.map_err(|cause| PathError::new(format!("reach the server's end through the network: {cause}")))?;
    Ok(Pods { spec: spec.clone(), server, open_vswitch, layout, kernel_threads: named(KERNEL_THREAD) })
}

/// Builds the server's half on the host with this address and starts the server's end. The clients' halves prove that it answers.
///
/// # Errors
/// When something cannot be made.
pub(super) fn start_near(spec: &SystemSettings, host: IpAddr) -> Result<Near, PathError> {
    let (half, apart) = half::of_server(spec, host)?;
    let options = ServerOptions { address: SocketAddr::from((half.address, 0)), netns: half.netns() };
    let server = Server::start(&options)?;
    Ok(Near { server, half, apart, kernel_threads: named(KERNEL_THREAD) })
}

impl System for Near {
    fn target(&self) -> serde_json::Value {
        let (address, apart) = (self.server.address(), Some(self.apart));
        let target = Target { address: address.ip().to_string(), port: address.port(), netns: None, apart };
        serde_json::json!(target)
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let mut snapshot = Snapshot { cpu: cpu(&self.kernel_threads, &[])?, ..Snapshot::default() };
        self.half.observe(&mut snapshot)?;
        snapshot.counters.extend(self.server.counters());
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        self.server.stop();
        Ok(())
    }
}

impl System for Pods {
    fn target(&self) -> serde_json::Value {
        let address = self.server.address();
        let netns = Some(self.layout.namespaces[CLIENT_AT].path());
        let target = Target { address: address.ip().to_string(), port: address.port(), netns, apart: None };
        serde_json::json!(target)
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let daemons: Vec<u32> = self.open_vswitch.iter().flat_map(OpenVSwitch::pids).collect();
        let mut snapshot = Snapshot { cpu: cpu(&self.kernel_threads, &daemons)?, ..Snapshot::default() };
        observe(&self.layout, &self.spec, &mut snapshot)?;
        if let Some(open_vswitch) = &mut self.open_vswitch {
            open_vswitch.observe(&mut snapshot)?;
        }
        snapshot.counters.extend(self.server.counters());
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        self.server.stop();
        match &mut self.open_vswitch {
            Some(open_vswitch) => Ok(open_vswitch.stop()?),
            None => Ok(()),
        }
    }
}

/// CPU time of the server's end, of daemons, and of the kernel's threads for packets.
fn cpu(kernel_threads: &[u32], daemons: &[u32]) -> Result<CpuCost, PathError> {
    let mut cost = own_cpu()?;
    let server_ns = cost.total_ns();
    let mut add = |name: &str, pid: u32| -> Result<(), PathError> {
        let cpu = plumb_host::cpu::process_cpu_time(pid)?;
        cost.user_ns += cpu.user_ns;
        cost.system_ns += cpu.system_ns;
        *cost.components.entry(name.to_owned()).or_default() += cpu.total_ns();
        Ok(())
    };
    kernel_threads.iter().try_for_each(|pid| add("ksoftirqd", *pid))?;
    daemons.iter().try_for_each(|pid| add("ovs-vswitchd", *pid))?;
    cost.components.insert("server".to_owned(), server_ns);
    Ok(cost)
}

/// The CPU time of this process, in which a server's threads run.
///
/// # Errors
/// When the kernel does not tell.
pub(super) fn own_cpu() -> Result<CpuCost, PathError> {
    let cpu = plumb_host::cpu::process_cpu_time(std::process::id())?;
    Ok(CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, ..CpuCost::default() })
}
