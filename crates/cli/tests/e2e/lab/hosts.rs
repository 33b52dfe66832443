//! Other hosts for tests, each a set of namespaces with its own sshd (`scripts/hosts.sh`), and the tests of these hosts themselves.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::common::{plumb, skip, skip_unprivileged, stdout, wait_until};

/// Where a host finds `plumb`.
const INSTALLED: &str = "/run/host/bin/plumb";

/// Names the directory of hosts that are up already, as `scripts/lab.sh` sets it.
const LAB: &str = "PLUMB_LAB_HOSTS";
/// How many hosts there are.
const LAB_HOSTS: usize = 3;
/// Removes what tests leave on a host on purpose.
const SWEEP: &str = "rm -rf /tmp/* /tmp/.[!.]* /root/* /root/.[!.]* /var/lib/*";

/// Hosts `host1`, `host2` and so on.
pub struct Hosts {
    directory: PathBuf,
    held: Held,
}

/// For whom the hosts exist.
enum Held {
    /// For this test: they are gone when it is dropped, or when the test is killed.
    Own { holder: Child, _directory: tempfile::TempDir },
    /// For all tests. This one has them to itself while it has the lock. Then they are as they were.
    Lab { _lock: File },
}

/// A process on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// As it is outside of the host.
    pub pid: u32,
    pub command: String,
}

impl Hosts {
    /// This many hosts, of the laboratory if no other test uses them. The test leaves no host, link or sshd in another state than it
    /// was in. Without a privilege or a program, it says why the test is skipped.
    pub fn up(count: usize) -> Option<Self> {
        assert!(count <= LAB_HOSTS);
        of_lab().map_or_else(|| Self::own(count), Some)
    }

    /// Makes this many for a test that breaks them, or says why the test is skipped.
    pub fn own(count: usize) -> Option<Self> {
        may_be_made().then(|| Self::make(count))
    }

    fn make(count: usize) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().to_owned();
        let mut command = script();
        command.args(["hold", &count.to_string()]).arg(&directory);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "up", "scripts/hosts.sh failed");
        Self { directory, held: Held::Own { holder, _directory: temporary } }
    }

    /// What `PLUMB_SSH` is for these hosts.
    pub fn ssh(&self) -> String {
        format!("ssh -F {}", self.directory.join("ssh_config").display())
    }

    /// The program under test, which reaches these hosts.
    pub fn plumb(&self) -> Command {
        let mut command = plumb();
        command.env("PLUMB_SSH", self.ssh());
        command
    }

    /// Runs a command on a host by way of ssh.
    pub fn ssh_to(&self, host: &str, command: &str) -> Output {
        let ssh = self.ssh();
        let mut words = ssh.split(' ');
        let mut client = Command::new(words.next().unwrap());
        client.args(words).args([host, command]).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command on a host without ssh, and gives what it prints.
    pub fn enter(&self, host: usize, command: &[&str]) -> String {
        let output = script().args(["enter", &host.to_string()]).arg(&self.directory).args(command).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        stdout(&output)
    }

    /// Starts a command on a host, which ends with the host at the latest.
    pub fn start(&self, host: usize, command: &[&str]) {
        let apart = "setsid --fork \"$@\" </dev/null >/dev/null 2>&1";
        self.enter(host, &[&["sh", "-c", apart, "sh"], command].concat());
    }

    /// The address of a host.
    pub fn address(&self, host: usize) -> String {
        let told = self.enter(host, &["ip", "-4", "-brief", "address", "show", "dev", "eth0"]);
        let address = told.split_whitespace().nth(2).unwrap();
        address.split('/').next().unwrap().to_owned()
    }

    /// Runs `plumb` to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.plumb().args(arguments).output().unwrap()
    }

    /// A path of a host, as it is reached from here.
    pub fn path(&self, host: usize, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first_process(host)))
    }

    /// Gives a host this build of `plumb`, so that it need not be copied there.
    ///
    /// It is big, and a copy for each connection is what most tests would mostly wait for.
    pub fn install(&self, host: usize) {
        let (program, installed) = (env!("CARGO_BIN_EXE_plumb"), self.path(host, INSTALLED));
        let stamp =
            |path: &Path| fs::metadata(path).and_then(|found| Ok((found.len(), found.modified()?))).ok();
        // An earlier test may have installed it.
        if stamp(&installed) != stamp(Path::new(program)) {
            fs::copy(program, &installed).unwrap();
            let copy = File::options().write(true).open(&installed).unwrap();
            copy.set_modified(fs::metadata(program).unwrap().modified().unwrap()).unwrap();
        }
    }

    /// Takes it away again.
    pub fn uninstall(&self, host: usize) {
        fs::remove_file(self.path(host, INSTALLED)).unwrap();
    }

    /// The processes of a host but for its sshd.
    pub fn processes(&self, host: usize) -> Vec<Process> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let theirs = namespace(self.first_process(host));
        assert!(theirs.is_some(), "host{host} is gone");
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let pids = pids.filter(|pid| namespace(*pid) == theirs);
        pids.filter_map(process).filter(|process| !process.command.starts_with("sshd:")).collect()
    }

    /// The pid of a process on a host whose command line has these words.
    pub fn process(&self, host: usize, words: &str) -> Option<u32> {
        let processes = self.processes(host);
        processes.into_iter().find(|process| process.command.contains(words)).map(|process| process.pid)
    }

    /// The files and directories below a host's `/tmp`.
    pub fn files(&self, host: usize) -> Vec<String> {
        let entries = fs::read_dir(self.path(host, "/tmp")).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Has a host answer nothing, as a firewall does that drops packets.
    pub fn drop_packets(&self, host: usize) {
        self.enter(host, &["nft", "add", "table", "inet", "wall"]);
        let chain = "{ type filter hook input priority 0; policy drop; }";
        self.enter(host, &["nft", "add", "chain", "inet", "wall", "in", chain]);
    }

    /// Cuts a host off, or lets it be reached again.
    pub fn link(&self, host: usize, is_up: bool) {
        let (link, state) = (self.note(host, "link"), if is_up { "up" } else { "down" });
        let status = Command::new("ip").args(["link", "set", &link, state]).status().unwrap();
        assert!(status.success(), "ip link set {link} {state}");
    }

    /// Ends what a test left running on a host on purpose, and removes its files.
    fn sweep(&self, host: usize) {
        wait_until("the host's processes to end", || {
            let left = self.processes(host);
            for process in &left {
                let _ = Command::new("kill").args(["-KILL", &process.pid.to_string()]).output();
            }
            left.is_empty()
        });
        self.enter(host, &["sh", "-c", SWEEP]);
    }

    fn first_process(&self, host: usize) -> u32 {
        self.note(host, "pid").parse().unwrap()
    }

    fn note(&self, host: usize, what: &str) -> String {
        let path = self.directory.join(format!("host{host}")).join(what);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        match &mut self.held {
            Held::Own { holder, .. } => {
                drop(holder.stdin.take());
                let _ = holder.wait();
            }
            // A test that failed half-way may have left anything.
            Held::Lab { .. } if std::thread::panicking() => fs::write(spoilt(&self.directory), "").unwrap(),
            Held::Lab { .. } => (1..=LAB_HOSTS).for_each(|host| self.sweep(host)),
        }
    }
}

/// Whether this machine can have hosts; says why the test is skipped if not.
fn may_be_made() -> bool {
    if !plumb_host::namespace::may_create() {
        skip_unprivileged("make network namespaces");
        return false;
    }
    if !rustix::process::geteuid().is_root() {
        skip("only root may start sshd for others");
        return false;
    }
    for program in ["ssh", "sshd", "ip", "nsenter", "python3"] {
        if plumb_host::process::which(program).is_none() && !Path::new("/usr/sbin").join(program).exists() {
            skip(&format!("{program} is not installed"));
            return false;
        }
    }
    true
}

/// The hosts of the laboratory, if there is one, and they are free and as they were in the beginning.
fn of_lab() -> Option<Hosts> {
    let directory = PathBuf::from(std::env::var_os(LAB)?);
    let lock = File::create(directory.join("lock")).unwrap();
    let is_free = lock.try_lock().is_ok() && !spoilt(&directory).exists();
    // `then_some` would build the value in any case, and dropping it sweeps hosts that another test holds.
    is_free.then(|| Hosts { directory, held: Held::Lab { _lock: lock } })
}

/// Exists once hosts are not as they were.
fn spoilt(directory: &Path) -> PathBuf {
    directory.join("spoilt")
}

fn script() -> Command {
    let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/hosts.sh"));
    command.stdin(Stdio::null());
    command
}

/// A process that runs; one that has ended and that nobody has waited for is none.
fn process(pid: u32) -> Option<Process> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
    (!command.is_empty()).then_some(Process { pid, command })
}

#[test]
fn hosts_are_apart_and_nothing_is_left_of_them() {
    let Some(hosts) = Hosts::own(2) else { return };
    for host in ["host1", "host2", "host1-slow"] {
        let output = hosts.ssh_to(host, "hostname");
        assert_eq!(stdout(&output).trim(), &host[..5], "{output:?}");
    }
    hosts.ssh_to("host1", "touch /tmp/here; nohup sleep 1000 >/dev/null 2>&1 &");
    assert_eq!((hosts.files(1), hosts.files(2)), (vec!["here".to_owned()], vec![]));
    let mut left = Vec::new();
    wait_until("the shell on the host to end", || {
        left = hosts.processes(1);
        left.iter().map(|process| process.command.as_str()).eq(["sleep 1000"])
    });
    assert_eq!(hosts.processes(2), []);
    let bridge = fs::read_to_string(hosts.directory.join("bridge")).unwrap();
    let network = Path::new("/sys/class/net").join(bridge.trim());
    assert!(network.exists());
    let link = Path::new("/sys/class/net").join(hosts.note(1, "link"));
    assert!(link.exists());
    drop(hosts);
    assert!(process(left[0].pid).is_none_or(|process| process.command != left[0].command));
    // The kernel removes a network some time after its last process.
    wait_until("the networks to be gone", || !network.exists() && !link.exists());
}

#[test]
fn hosts_that_fail_half_way_are_removed() {
    if !may_be_made() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The second host cannot have a directory where there is a file.
    fs::write(directory.path().join("host2"), "").unwrap();
    let output = script().args(["up", "2"]).arg(directory.path()).output().unwrap();
    assert!(!output.status.success());
    let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
