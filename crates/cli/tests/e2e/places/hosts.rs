//! Hosts to run on: network namespaces on one bridge, each with its own sshd and its own /tmp.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::common::{plumb, skip, wait_until, write};

/// Hosts that are ended and removed with this value.
pub struct Hosts {
    /// Outside of /tmp, which is another one on each host.
    directory: TempDir,
    /// What names the namespaces and the bridge.
    tag: String,
    /// The third byte of their addresses.
    subnet: u32,
    servers: Vec<Child>,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Runs a program that has to succeed.
fn must(words: &str) {
    assert!(succeeds(words), "failed: {words}");
}

fn succeeds(words: &str) -> bool {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Hosts {
    /// This many hosts, named `host1` and so on for ssh; `None` where this machine cannot have them, which is said.
    pub fn up(test: &str, count: u32) -> Option<Self> {
        Self::with_room(test, count, "size=2g")
    }

    /// The same with that much room in each /tmp.
    pub fn with_room(test: &str, count: u32, room: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(&format!("places::{test}: only root may make network namespaces"));
            return None;
        }
        assert!(
            PathBuf::from("/usr/sbin/sshd").exists(),
            "there is no sshd: run scripts/install-tools.sh tests"
        );
        // Tests run at the same time, in this process and in others.
        let (number, tag, subnet) = (0..50).find_map(|_| {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let tag = format!("pl{}-{number}", std::process::id() % 100_000);
            let subnet = (std::process::id() * 7 + number) % 250;
            let is_free = !String::from_utf8_lossy(&output("ip -4 -br address").stdout)
                .contains(&format!("10.233.{subnet}."));
            is_free.then_some((number, tag, subnet))
        })?;
        let _ = number;
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut hosts = Self { directory, tag, subnet, servers: Vec::new() };
        let Self { tag, .. } = &hosts;
        must(&format!("ip link add {tag} type bridge"));
        must(&format!("ip address add {}/24 dev {tag}", hosts.address(254)));
        must(&format!("ip link set {tag} up"));
        for key in ["host", "client", "other"] {
            let file = hosts.directory.path().join(key).display().to_string();
            let mut keygen = Command::new("ssh-keygen");
            assert!(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &file]).status().unwrap().success());
        }
        fs::create_dir_all("/run/sshd").unwrap();
        for host in 1..=count {
            hosts.start(host, room);
        }
        hosts.configure(count);
        Some(hosts)
    }

    fn address(&self, host: u32) -> String {
        format!("10.233.{}.{host}", self.subnet)
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn namespace(&self, host: u32) -> String {
        format!("{}-{host}", self.tag)
    }

    fn start(&mut self, host: u32, room: &str) {
        let (tag, namespace, address) = (self.tag.clone(), self.namespace(host), self.address(host));
        must(&format!("ip netns add {namespace}"));
        must(&format!("ip link add {tag}v{host} type veth peer name eth0 netns {namespace}"));
        must(&format!("ip link set {tag}v{host} master {tag} up"));
        must(&format!("ip -n {namespace} address add {address}/24 dev eth0"));
        must(&format!("ip -n {namespace} link set eth0 up"));
        must(&format!("ip -n {namespace} link set lo up"));
        let config = format!(
            "ListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin prohibit-password\nPasswordAuthentication no\n",
            self.file("host"),
            self.file("client.pub")
        );
        let config = write(self.directory.path(), &format!("sshd{host}"), config);
        let script = format!(
            "mount --make-rprivate / && mount -t tmpfs -o {room} none /tmp && exec /usr/sbin/sshd -D -f {}",
            config.display()
        );
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &namespace, "unshare", "-m", "sh", "-c", &script]);
        let log = fs::File::create(self.file(&format!("log{host}"))).unwrap();
        self.servers.push(server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap());
        wait_until("an sshd", || std::net::TcpStream::connect((address.as_str(), 22)).is_ok());
    }

    fn configure(&self, count: u32) {
        let host_key = fs::read_to_string(self.file("host.pub")).unwrap();
        let (mut config, mut known) = (String::new(), String::new());
        for host in 1..=count {
            let address = self.address(host);
            known += &format!("{address} {host_key}");
            config += &format!("Host host{host}\n  HostName {address}\n");
        }
        // Half of the delay is on each way, outside of ssh.
        let delay = write(self.directory.path(), "delay.py", DELAY);
        config += &format!(
            "Host far1\n  HostName {address}\n  ProxyCommand python3 {} {address} 22 0.025\n",
            delay.display(),
            address = self.address(1)
        );
        config += &format!("Host nowhere\n  HostName {}\n", self.address(253));
        config += &format!("Host refused\n  HostName {}\n", self.address(254));
        config += &format!(
            "Host stranger\n  HostName {}\n  IdentityFile {}\n",
            self.address(1),
            self.file("other")
        );
        config += &format!(
            "Host * !stranger\n  IdentityFile {}\nHost *\n  User root\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n",
            self.file("client"),
            self.file("known")
        );
        write(self.directory.path(), "known", known);
        write(self.directory.path(), "config", config);
    }

    /// A plumb that reaches them.
    pub fn plumb(&self) -> Command {
        let mut command = plumb();
        command.env("PLUMB_SSH", format!("ssh -F {}", self.file("config")));
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.plumb().args(arguments).output().unwrap()
    }

    /// Pids of what runs on a host beside its sshd.
    pub fn processes(&self, host: u32) -> Vec<u32> {
        let listed = output(&format!("ip netns pids {}", self.namespace(host)));
        let pids = String::from_utf8_lossy(&listed.stdout).into_owned();
        let pids = pids.lines().filter_map(|pid| pid.parse().ok());
        pids.filter(|pid: &u32| !words_of(*pid).starts_with("sshd") && !words_of(*pid).contains("/sshd"))
            .collect()
    }

    /// The pid of the process on a host whose command line has these words.
    pub fn process(&self, host: u32, words: &str) -> Option<u32> {
        self.processes(host).into_iter().find(|pid| words_of(*pid).contains(words))
    }

    /// The names in a host's /tmp.
    pub fn leftovers(&self, host: u32) -> Vec<String> {
        let server = self.servers[host as usize - 1].id();
        let names = fs::read_dir(format!("/proc/{server}/root/tmp")).unwrap();
        names.map(|name| name.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// Cuts a host off, or lets it be reached again.
    pub fn link(&self, host: u32, is_up: bool) {
        must(&format!("ip link set {}v{host} {}", self.tag, if is_up { "up" } else { "down" }));
    }

    /// Has a host answer nothing, as a firewall does that drops packets.
    pub fn drop_packets(&self, host: u32) {
        let namespace = self.namespace(host);
        must(&format!("ip netns exec {namespace} nft add table inet wall"));
        let mut chain = Command::new("ip");
        chain.args(["netns", "exec", &namespace, "nft", "add", "chain", "inet", "wall", "in"]);
        chain.arg("{ type filter hook input priority 0; policy drop; }");
        assert!(chain.status().unwrap().success());
    }
}

fn output(words: &str) -> Output {
    let mut words = words.split(' ');
    Command::new(words.next().unwrap()).args(words).output().unwrap()
}

fn words_of(pid: u32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for host in 1..=u32::try_from(self.servers.len()).unwrap() {
            let namespace = self.namespace(host);
            let listed = output(&format!("ip netns pids {namespace}"));
            for pid in String::from_utf8_lossy(&listed.stdout).lines() {
                succeeds(&format!("kill -KILL {pid}"));
            }
            succeeds(&format!("ip netns delete {namespace}"));
            succeeds(&format!("ip link delete {}v{host}", self.tag));
        }
        succeeds(&format!("ip link delete {}", self.tag));
    }
}

/// A relay between its standard streams and a port, which holds back each piece of data for some seconds.
const DELAY: &str = r#"
import os, queue, socket, sys, threading, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
delay = float(sys.argv[3])
def relay(read, write):
    pieces = queue.Queue()
    def later():
        while True:
            due, piece = pieces.get()
            time.sleep(max(0, due - time.monotonic()))
            if not piece:
                os._exit(0)
            write(piece)
    threading.Thread(target=later, daemon=True).start()
    while True:
        piece = read(65536)
        pieces.put((time.monotonic() + delay, piece))
        if not piece:
            return
out = sys.stdout.buffer
threading.Thread(target=relay, args=(s.recv, lambda piece: (out.write(piece), out.flush())), daemon=True).start()
relay(lambda size: os.read(0, size), s.sendall)
time.sleep(5)
"#;
