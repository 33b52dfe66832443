//! Open vSwitch on both nodes: its userspace datapath, in a private directory, with its own database and sockets.
//!
//! A node has two bridges: `br-int` joins the pod's port and the tunnel, `br-phy` has the node's address and its link. The
//! datapath reads packets from the devices as they are, so that ends compute checksums and segment by themselves.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::Error;
use plumb_host::namespace::Namespace;
use plumb_host::network::Feature;
use plumb_host::process::{Child, Command, Signal, Stream, output_of, which};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_path::{PathError, Snapshot};

use super::layout::{CLIENT_AT, Layout, NODES, Role, SERVER_AT};
use super::observe::{ENTRIES, SERVICES, TUNNEL, packets_of};
use super::rules::{cluster_address, endpoint};
use crate::settings::SystemSettings;

/// All that has to be installed.
const PROGRAMS: [&str; 6] =
    ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"];
/// The shape of its database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// The device that makes interfaces whose packets a program reads.
const TUN: &str = "/dev/net/tun";
/// The flows of services, and no others (see [`flows`]).
const SERVICE_FLOWS: &str = "tcp,tp_dst=80";
/// How long a daemon may take to start, and a request to be answered.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a daemon may take to end.
const GRACE: Duration = Duration::from_millis(300);

/// Why Open vSwitch cannot be used here.
#[derive(Debug, thiserror::Error)]
pub enum NoOpenVSwitch {
    /// A program is missing.
    #[error("{_0} is not installed; install Open vSwitch (openvswitch-switch)")]
    Program(&'static str),
    /// The database has no schema.
    #[error("{SCHEMA} is not there; install Open vSwitch (openvswitch-switch)")]
    Schema,
    /// Devices whose packets a program reads cannot be made.
    #[error("cannot open {TUN}, which Open vSwitch's userspace datapath needs: {_0}")]
    Tun(std::io::Error),
}

/// Whether it is here, and may be used.
///
/// # Errors
/// When something is missing.
pub(super) fn installed() -> Result<(), NoOpenVSwitch> {
    if let Some(missing) = PROGRAMS.iter().find(|program| which(program).is_none()) {
        return Err(NoOpenVSwitch::Program(missing));
    }
    if !Path::new(SCHEMA).exists() {
        return Err(NoOpenVSwitch::Schema);
    }
    OpenOptions::new().read(true).write(true).open(TUN).map(drop).map_err(NoOpenVSwitch::Tun)
}

/// Open vSwitch on both nodes.
#[derive(Debug)]
pub(super) struct OpenVSwitch {
    nodes: Vec<Node>,
    /// How its tunnels wrap packets, as its database says.
    tunnel: String,
}

/// The two daemons of one node, and where their sockets are.
#[derive(Debug)]
struct Node {
    directory: PathBuf,
    switch: Child,
    database: Child,
}

impl OpenVSwitch {
    /// Starts it on the two nodes of a layout and joins pods, tunnel and link.
    ///
    /// # Errors
    /// When a daemon does not start, or refuses what it is told.
    pub(super) fn start(layout: &Layout, spec: &SystemSettings, scratch: &Path) -> Result<Self, PathError> {
        for at in [CLIENT_AT, SERVER_AT] {
            for feature in [Feature::Tso, Feature::TxChecksum] {
                layout.namespaces[at].set_feature("eth0", feature, false)?;
            }
        }
        let mut nodes = Vec::new();
        for (side, namespace) in layout.namespaces[SERVER_AT + 1..].iter().enumerate() {
            let directory = scratch.join(format!("ovs-{side}"));
            let made = fs::create_dir(&directory);
            made.map_err(|cause| PathError::new(format!("make {}: {cause}", directory.display())))?;
            let node = Node::start(namespace, directory)?;
            node.configure(spec, NODES[1 - side])?;
            for (bridge, address) in [("br-phy", Some(NODES[side])), ("br-int", None)] {
                if let Some(address) = address {
                    namespace.add_address(bridge, address, 24)?;
                }
                namespace.set_up(bridge)?;
            }
            node.add_flows(spec)?;
            nodes.push(node);
        }
        for (side, node) in nodes.iter().enumerate() {
            // The link carries nothing before; an address that is known need not be asked for.
            let other = layout.namespaces[SERVER_AT + 1 + (1 - side)].link("br-phy")?.address;
            let address: Vec<String> = other.iter().map(|byte| format!("{byte:02x}")).collect();
            node.switch_control(&[
                "tnl/neigh/set",
                "br-phy",
                &NODES[1 - side].to_string(),
                &address.join(":"),
            ])?;
        }
        let mut kinds = nodes.iter().map(Node::tunnel_type).collect::<Result<Vec<_>, _>>()?;
        kinds.dedup();
        Ok(Self { nodes, tunnel: kinds.join(" and ") })
    }

    /// The daemons that handle packets.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.switch.pid())
    }

    /// Adds what its tunnels counted, and how many connections it tracks.
    ///
    /// # Errors
    /// When a daemon is gone or does not answer.
    pub(super) fn observe(&mut self, snapshot: &mut Snapshot) -> Result<(), Error> {
        let (mut entries, mut services) = (0, Vec::new());
        let (packets, bytes) = packets_of(Role::Tunnel);
        for node in &self.nodes {
            let words = node.flows(&["dump-ports", &node.bridge(), "tunnel"])?;
            for (counter, name) in [(packets, "pkts="), (bytes, "bytes=")] {
                *snapshot.counters.entry(counter.to_owned()).or_default() += sent(&words, name);
            }
            entries += node.switch_control(&["dpctl/ct-get-nconns"])?.trim().parse::<u64>().unwrap_or(0);
            services.push(flow_count(&node.flows(&["dump-aggregate", &node.bridge(), SERVICE_FLOWS])?));
        }
        services.dedup();
        snapshot.states.insert(ENTRIES.to_owned(), entries.to_string());
        snapshot.states.insert(SERVICES.to_owned(), services.join(" and "));
        snapshot.states.insert(TUNNEL.to_owned(), self.tunnel.clone());
        Ok(())
    }

    /// Stops the daemons.
    ///
    /// # Errors
    /// When one cannot be ended.
    pub(super) fn stop(&mut self) -> Result<(), Error> {
        for node in &mut self.nodes {
            node.switch.terminate(GRACE)?;
            node.database.terminate(GRACE)?;
        }
        Ok(())
    }
}

/// The number of flows, as `ovs-ofctl dump-aggregate` has it.
fn flow_count(words: &str) -> String {
    let count = words.split_whitespace().find_map(|word| word.strip_prefix("flow_count="));
    count.unwrap_or("unknown").to_owned()
}

/// A number of the line of what was sent, as `ovs-ofctl dump-ports` has it.
fn sent(words: &str, name: &str) -> u64 {
    let line = words.lines().find_map(|line| line.trim().strip_prefix("tx "));
    let field = line.and_then(|line| line.split(", ").find_map(|field| field.strip_prefix(name)));
    field.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

impl Node {
    fn start(namespace: &Namespace, directory: PathBuf) -> Result<Self, PathError> {
        let database_file = path(&directory, "conf.db");
        let create = Command::new("ovsdb-tool").args(["create", &database_file, SCHEMA]);
        run(create, "ovsdb-tool", "make Open vSwitch's database")?;
        let socket = path(&directory, "db.sock");
        let database = daemon("ovsdb-server", namespace, &directory)?
            .args([format!("--remote=punix:{socket}"), database_file])
            .spawn()?;
        wait_for(&socket)?;
        let initialise =
            Command::new("ovs-vsctl").args([&format!("--db=unix:{socket}"), "--no-wait", "init"]);
        run(initialise, "ovs-vsctl", "set up Open vSwitch's database")?;
        let switch = daemon("ovs-vswitchd", namespace, &directory)?.arg(format!("unix:{socket}")).spawn()?;
        wait_for(&path(&directory, "ovs-vswitchd.ctl"))?;
        Ok(Self { directory, switch, database })
    }

    /// Joins pod, tunnel and link.
    fn configure(&self, spec: &SystemSettings, remote: std::net::Ipv4Addr) -> Result<(), Error> {
        let mut words: Vec<String> = vec![
            format!("--db=unix:{}", path(&self.directory, "db.sock")),
            format!("--timeout={}", PATIENCE.as_secs()),
        ];
        let mut add = |text: &str| words.extend(text.split(' ').map(str::to_owned));
        add("-- add-br br-phy -- set bridge br-phy datapath_type=netdev fail_mode=standalone");
        add("-- add-port br-phy wire");
        add("-- add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=standalone");
        add("-- add-port br-int pod -- add-port br-int tunnel");
        let kind = spec.tunnel.name();
        add(&format!("-- set interface tunnel type={kind} options:remote_ip={remote} options:key=1"));
        let command = Command::new("ovs-vsctl").args(words).env("OVS_RUNDIR", &self.directory);
        run(command, "ovs-vsctl", "join pod, tunnel and link").map(drop)
    }

    /// The kind of the tunnel that is open; none where it could not be opened.
    fn tunnel_type(&self) -> Result<String, Error> {
        let database = format!("--db=unix:{}", path(&self.directory, "db.sock"));
        let words = ["--if-exists", "get", "interface", "tunnel", "type", "ofport"];
        let said =
            run(Command::new("ovs-vsctl").arg(database).args(words), "ovs-vsctl", "ask for the tunnel")?;
        let mut lines = said.lines();
        let kind = lines.next().unwrap_or_default().trim().to_owned();
        let is_open =
            lines.next().and_then(|port| port.trim().parse::<i64>().ok()).is_some_and(|port| port > 0);
        Ok(if is_open { kind } else { String::new() })
    }

    /// Connection tracking and services, as flows.
    fn add_flows(&self, spec: &SystemSettings) -> Result<(), Error> {
        let Some(flows) = flows(spec) else { return Ok(()) };
        let file = self.directory.join("flows");
        fs::write(&file, flows).map_err(|cause| Error::Write { path: file.clone(), cause })?;
        self.flows(&["--bundle", "add-flows", &self.bridge(), &file.display().to_string()]).map(drop)
    }

    fn bridge(&self) -> String {
        format!("unix:{}", path(&self.directory, "br-int.mgmt"))
    }

    fn flows(&self, arguments: &[&str]) -> Result<String, Error> {
        run(Command::new("ovs-ofctl").args(arguments), "ovs-ofctl", "talk to Open vSwitch")
    }

    fn switch_control(&self, arguments: &[&str]) -> Result<String, Error> {
        let socket = path(&self.directory, "ovs-vswitchd.ctl");
        let command = Command::new("ovs-appctl").args(["-t", &socket]).args(arguments);
        run(command, "ovs-appctl", "talk to Open vSwitch")
    }
}

/// A daemon in a namespace that ends when this process does.
fn daemon(program: &str, namespace: &Namespace, directory: &Path) -> Result<Command, Error> {
    let log = fs::File::create(directory.join(format!("{program}.log")))
        .map_err(|cause| Error::Write { path: directory.join(format!("{program}.log")), cause })?;
    let program_path = which(program).unwrap_or_else(|| program.into());
    let mut command = Command::new(program_path).stderr(Stream::File(log));
    for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
        command = command.env(variable, directory);
    }
    let control = format!("--unixctl={}", path(directory, &format!("{program}.ctl")));
    command.arg(control).own_group().dies_with_parent(Signal::KILL).network(namespace)
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

fn wait_for(socket: &str) -> Result<(), PathError> {
    let patience_ns = u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = monotonic_ns().saturating_add(patience_ns);
    while !Path::new(socket).exists() {
        if monotonic_ns() > deadline_ns {
            return Err(PathError::new(format!(
                "start Open vSwitch: there is no {socket} after {PATIENCE:?}"
            )));
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs one of its tools to the end and takes what it says.
fn run(command: Command, program: &'static str, what: &str) -> Result<String, Error> {
    let output = output_of(command, program, PATIENCE)?;
    if output.exit.is_success() {
        return Ok(output.stdout);
    }
    let words = output.stderr.lines().next().unwrap_or("nothing").to_owned();
    Err(Error::Refused { what: what.to_owned(), program, words })
}

/// The bridge's flows beyond switching, as OVN has them: track, come back, translate, go on.
fn flows(spec: &SystemSettings) -> Option<String> {
    let is_tracked = spec.conntrack.is_on();
    if !is_tracked && spec.service_rules == 0 {
        return None;
    }
    let mut lines = vec!["table=0,priority=0,actions=NORMAL".to_owned()];
    if is_tracked {
        lines.extend([
            "table=0,priority=100,ip,ct_state=-trk,actions=ct(table=1,zone=1)".to_owned(),
            "table=1,priority=90,ip,ct_state=+trk+est,actions=NORMAL".to_owned(),
            "table=1,priority=10,ip,ct_state=+trk+new,actions=ct(commit,zone=1),NORMAL".to_owned(),
            "table=1,priority=0,actions=NORMAL".to_owned(),
            "table=2,priority=0,actions=NORMAL".to_owned(),
        ]);
    }
    for service in 0..spec.service_rules {
        let (address, endpoint) = (cluster_address(service), endpoint(service));
        lines.push(if is_tracked {
            format!(
                "table=1,priority=50,tcp,ct_state=+trk+new,nw_dst={address},tp_dst=80,\
                 actions=ct(commit,zone=1,table=2,nat(dst={endpoint}:8080))"
            )
        } else {
            format!(
                "table=0,priority=50,tcp,nw_dst={address},tp_dst=80,\
                 actions=mod_nw_dst:{endpoint},mod_tp_dst:8080,NORMAL"
            )
        });
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Switch;

    #[test]
    fn what_was_sent_is_read_from_its_line() {
        let words = "OFPST_PORT reply (xid=0x4): 1 ports\n  port  tunnel: rx pkts=7, bytes=490, drop=?, errs=?\n           tx \
                     pkts=12, bytes=840, drop=?, errs=?, coll=?\n";
        assert_eq!((sent(words, "pkts="), sent(words, "bytes=")), (12, 840));
        assert_eq!(sent("", "pkts="), 0);
    }

    #[test]
    fn the_number_of_flows_is_read() {
        let words = "NXST_AGGREGATE reply (xid=0x4): packet_count=7 byte_count=490 flow_count=20\n";
        assert_eq!((flow_count(words).as_str(), flow_count("").as_str()), ("20", "unknown"));
    }

    #[test]
    fn services_are_flows_with_and_without_tracking() {
        let of = |conntrack, service_rules| {
            flows(&SystemSettings { conntrack, service_rules, ..SystemSettings::default() })
        };
        assert_eq!(of(Switch::Off, 0), None);
        assert_eq!(of(Switch::On, 3).unwrap().lines().count(), 6 + 3);
        assert_eq!(of(Switch::Off, 3).unwrap().lines().count(), 1 + 3);
    }
}
