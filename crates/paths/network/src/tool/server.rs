//! The tool at the system's end: its server, which ends with this value.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use plumb_host::cpu::{CpuTime, tree_cpu_time};
use plumb_host::network::FreePort;
use plumb_host::process::{Child, Command, Exit, Signal, Stream};
use plumb_host::service::has_socket;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_path::PathError;

use super::{program, server};
use crate::settings::{Driver, LoadSettings};

/// How long it may take until it listens.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// A tool's server. sockperf has two processes, one for each protocol.
#[derive(Debug)]
pub(crate) struct ToolServer {
    name: &'static str,
    address: SocketAddr,
    /// Reserved where others may have servers, too.
    _port: Option<FreePort>,
    children: Vec<Child>,
    log: std::path::PathBuf,
}

impl ToolServer {
    /// Starts it in a network namespace, this process's own if absent, and waits until it listens. `None` where the load needs none.
    ///
    /// # Errors
    /// When it is not there, or does not listen.
    pub(crate) fn start(
        load: &LoadSettings,
        address: IpAddr,
        netns: Option<&Path>,
        scratch: &Path,
    ) -> Result<Option<Self>, PathError> {
        let Some(program) = program(load.driver).map(server) else { return Ok(None) };
        let failed = |reason: String| PathError::new(format!("start {}: {reason}", program.name));
        let file = program.find().map_err(|missing| failed(missing.to_string()))?;
        // A namespace of the run's own has no other server.
        let port = netns.is_none().then(|| FreePort::at(address)).transpose();
        let port = port.map_err(|error| failed(error.to_string()))?;
        let number = port.as_ref().map_or_else(|| load.driver.port(), FreePort::number);
        let address = SocketAddr::new(address, number);
        let log = scratch.join("server.log");
        let mut found = Self { name: program.name, address, _port: port, children: Vec::new(), log };
        for (is_udp, arguments) in arguments(load, address) {
            let stderr = File::create(&found.log).map_err(|error| failed(error.to_string()))?;
            let stdout = stderr.try_clone().map_err(|error| failed(error.to_string()))?;
            let mut command = Command::new(&file).args(arguments);
            command = command.stdout(Stream::File(stdout)).stderr(Stream::File(stderr));
            if let Some(netns) = netns {
                let opened = File::open(netns);
                command = command.network(&opened.map_err(|error| failed(error.to_string()))?)?;
            }
            found.children.push(command.own_group().dies_with_parent(Signal::KILL).spawn()?);
            found.wait_until_it_listens(is_udp)?;
        }
        Ok(Some(found))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The CPU time so far.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn cpu_time(&mut self) -> Result<CpuTime, PathError> {
        self.check_runs()?;
        let mut cpu = CpuTime::default();
        for child in &self.children {
            cpu += tree_cpu_time(child.pid())?;
        }
        Ok(cpu)
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        for mut child in self.children.drain(..) {
            // One that does not end is killed with its group.
            let _ = child.terminate(GRACE);
        }
    }

    fn check_runs(&mut self) -> Result<(), PathError> {
        let Self { name, children, log, .. } = self;
        for child in children {
            if let Some(exit) = child.try_wait()? {
                return Err(ended(name, exit, log));
            }
        }
        Ok(())
    }

    fn wait_until_it_listens(&mut self, is_udp: bool) -> Result<(), PathError> {
        let deadline_ns = monotonic_ns() + u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
        let pid = self.children.last().map_or(0, Child::pid);
        while !has_socket(pid, self.address.port(), is_udp) {
            self.check_runs()?;
            if monotonic_ns() > deadline_ns {
                let Self { name, address, .. } = self;
                let seconds = PATIENCE.as_secs();
                return Err(PathError::new(format!(
                    "start {name}: it does not listen on {address} after {seconds} s"
                )));
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn ended(name: &str, exit: Exit, log: &Path) -> PathError {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("nothing");
    PathError::new(format!("run {name} as the server: it {exit} and wrote: {last}"))
}

/// Of each process that the load needs: whether it is for UDP, and its options.
fn arguments(load: &LoadSettings, address: SocketAddr) -> Vec<(bool, Vec<String>)> {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    match load.driver {
        Driver::Native => Vec::new(),
        Driver::Qperf => vec![(false, words(&["-lp", &port]))],
        Driver::Iperf3 => vec![(false, words(&["-s", "-B", &ip, "-p", &port]))],
        // A process for each test would take its CPU time with it when it ends.
        Driver::Netperf => vec![(false, words(&["-D", "-f", "-L", &ip, "-p", &port]))],
        Driver::Sockperf => {
            let needs = |is_udp| load.tests.iter().any(|test| test.is_udp() == is_udp);
            let of = |is_udp: bool| {
                let mut arguments = words(&["sr", "-i", &ip, "-p", &port]);
                arguments.extend((!is_udp).then(|| "--tcp".to_owned()));
                (is_udp, arguments)
            };
            [false, true].into_iter().filter(|is_udp| needs(*is_udp)).map(of).collect()
        }
    }
}
