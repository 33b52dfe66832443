//! `plumb volumes`: a server against the clients that people use, and against kill -9.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use crate::common::{code, plumb, run, stderr, stdout, wait_until};

/// A server of the volumes in a state directory; killed when dropped.
struct Serving {
    child: Child,
    address: String,
    /// Its messages after the one of where it listens.
    said: Option<JoinHandle<Vec<String>>>,
}

impl Serving {
    fn start(state: &Path) -> Self {
        let mut command = plumb();
        command.args(["volumes", "serve", "--listen", "127.0.0.1:0", "--state"]).arg(state);
        Self::of(command).expect("the server says where it listens")
    }

    /// What a shell script makes of `plumb` and the state directory, which it calls `$0` and `$1`.
    fn by_script(script: &str, before: &[&str], state: &Path) -> Option<Self> {
        let arguments = [before, &["sh", "-c", script, env!("CARGO_BIN_EXE_plumb")]].concat();
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]).arg(state);
        Self::of(command)
    }

    fn of(mut command: Command) -> Option<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.by_ref().find_map(|line| Some(line.rsplit_once(" on ")?.1.to_owned()));
        let Some(address) = said else {
            child.wait().unwrap();
            return None;
        };
        let said = std::thread::spawn(move || lines.collect());
        Some(Self { child, address, said: Some(said) })
    }

    /// Ends it as a user would, and returns what it said after where it listens. It has to be running still.
    fn stop(mut self) -> String {
        assert!(self.child.try_wait().unwrap().is_none(), "the server has ended by itself");
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
        let said: Vec<String> = self.said.take().unwrap().join().unwrap();
        said.join("\n")
    }

    fn uri(&self, volume: &str) -> String {
        format!("nbd://{}/{volume}", self.address)
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn volumes(state: &Path, arguments: &[&str]) -> String {
    let state = state.to_str().unwrap();
    let output = run(&[&["volumes", "--state", state], arguments].concat());
    assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Runs a client; `None`, said aloud, where it is not installed.
fn client(program: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        crate::common::skip(&format!("{program} is not installed"));
        return None;
    };
    let text = format!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    Some(text)
}

#[test]
fn the_clients_that_people_use_read_what_others_wrote() {
    let directory = tempfile::tempdir().unwrap();
    volumes(directory.path(), &["create", "vol1", "--size", "64MiB"]);
    let serving = Serving::start(directory.path());
    let uri = serving.uri("vol1");
    let qemu = [
        "write -P 0xab 0 1M",
        "write -f -P 0xcd 1M 64k",
        "write -z 2M 1M",
        "discard 4M 1M",
        "flush",
        "read -P 0xab 0 1M",
        "read -P 0xcd 1M 64k",
        "read -P 0 2M 3M",
    ];
    let commands: Vec<&str> = qemu.iter().flat_map(|command| ["-c", command]).collect();
    let arguments = [&["-f", "raw", uri.as_str()][..], &commands].concat();
    let said = client("qemu-io", &arguments);
    assert!(said.is_none_or(|said| !said.contains("verification failed")));
    if let Some(said) = client("nbdinfo", &["--json", &uri]) {
        for expected in [
            "\"export-size\": 67108864",
            "\"can_multi_conn\": true",
            "\"can_fua\": true",
            "\"can_trim\": true",
        ] {
            assert!(said.contains(expected), "{expected} is not in {said}");
        }
    }
    let copy = directory.path().join("copy");
    let copied = client("nbdcopy", &["--connections=4", &uri, copy.to_str().unwrap()]);
    if copied.is_some() {
        let original = std::fs::read(directory.path().join("data/vol1")).unwrap();
        assert!(std::fs::read(&copy).unwrap() == original, "nbdcopy read something else");
    }
    client(
        "fio",
        &[
            "--name=verify",
            "--ioengine=nbd",
            &format!("--uri={uri}"),
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=64",
            "--size=16m",
            "--verify=crc32c",
            "--verify_state_save=0",
        ],
    );
}

#[test]
fn what_was_flushed_is_there_after_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    volumes(directory.path(), &["create", "vol1", "--size", "16MiB"]);
    for round in 1..4 {
        let serving = Serving::start(directory.path());
        let write = format!("write -f -P {round} {round}M 1M");
        let wrote = client("qemu-io", &["-f", "raw", "-c", &write, &serving.uri("vol1")]);
        serving.kill();
        if wrote.is_none() {
            return;
        }
        let serving = Serving::start(directory.path());
        for earlier in 1..=round {
            let read = format!("read -P {earlier} {earlier}M 1M");
            client("qemu-io", &["-f", "raw", "-c", &read, &serving.uri("vol1")]);
        }
    }
}

#[test]
fn a_policy_is_followed_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path();
    volumes(state, &["policy", "create", "q500", "--max-iops", "500 IOPS"]);
    volumes(
        state,
        &["policy", "create", "per-gb", "--peak-iops", "50 IOPS/GB", "--expected-iops", "5 IOPS/GB"],
    );
    volumes(state, &["create", "vol1", "--size", "100GB", "--policy", "q500"]);
    assert!(volumes(state, &["list"]).contains("not served"));
    let serving = Serving::start(state);
    wait_until("the first limit", || volumes(state, &["list"]).contains("500 IOPS"));
    volumes(state, &["assign", "vol1", "per-gb"]);
    let listed = volumes(state, &["list"]);
    assert!(listed.contains("5000 IOPS"), "50 IOPS/GB of 100 GB when the command returns: {listed}");
    volumes(state, &["resize", "vol1", "--size", "200GB"]);
    wait_until("5 IOPS/GB of 200 GB", || volumes(state, &["list"]).contains("10000 IOPS"));
    let second = run(&["volumes", "--state", state.to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(code(&second), 5);
    assert!(stderr(&second).contains("another server does already"), "{}", stderr(&second));
    serving.kill();
    assert!(volumes(state, &["list"]).contains("not served"));
    let twice = run(&["volumes", "--state", state.to_str().unwrap(), "create", "vol1", "--size", "1GB"]);
    assert_eq!(
        (code(&twice), stderr(&twice).trim()),
        (2, "error: failed to create the volume `vol1`: one of that name exists already")
    );
}

/// The command as help and README show it; ONTAP's default is by used space.
#[test]
fn an_adaptive_policy_limits_an_empty_volume_by_its_size_unless_it_is_told_otherwise() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path();
    volumes(state, &["policy", "create", "per-gb", "--peak-iops", "50 IOPS/GB"]);
    let by_use = ["--peak-iops-allocation", "used-space"];
    volumes(state, &[&["policy", "create", "by-use", "--peak-iops", "50 IOPS/GB"][..], &by_use].concat());
    volumes(state, &["create", "sized", "--size", "100GB", "--policy", "per-gb"]);
    volumes(state, &["create", "used", "--size", "100GB", "--policy", "by-use"]);
    let policies: serde_json::Value =
        serde_json::from_str(&volumes(state, &["policy", "list", "--json"])).unwrap();
    let spaces = [0, 1].map(|at| {
        let space = &policies[at]["policy"]["adaptive"]["peak_iops_allocation"];
        (policies[at]["name"].as_str().unwrap(), space.as_str().unwrap())
    });
    assert_eq!(spaces, [("by-use", "used_space"), ("per-gb", "allocated_space")]);
    let serving = Serving::start(state);
    let limit = |volume: &str| {
        let listed = volumes(state, &["list"]);
        listed.lines().find(|line| line.contains(volume)).unwrap_or_default().to_owned()
    };
    wait_until("limits", || limit("sized").contains(" IOPS") && limit("used").contains(" IOPS"));
    assert!(limit("sized").contains(" 5000 IOPS"), "{}", limit("sized"));
    assert!(limit("used").contains(" 1 IOPS"), "{}", limit("used"));
    serving.kill();
}

#[test]
fn a_full_disk_is_the_affair_of_who_writes() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=6m none $1 && $0 volumes --state $1 create thin --size 64MiB \
                  && $0 volumes --state $1 create other --size 1MiB \
                  && exec $0 volumes --state $1 serve --listen 127.0.0.1:0";
    let before = ["unshare", "--map-root-user", "--mount"];
    let Some(serving) = Serving::by_script(script, &before, directory.path()) else {
        return crate::common::skip_unprivileged("make a mount namespace");
    };
    let measure = |volume: &str, access: &str, seconds: &str| {
        let uri = serving.uri(volume);
        run(&["storage", &uri, "--rw", access, "-b", "64KiB", "-d", seconds, "--destroy-data"])
    };
    let filled = measure("thin", "write", "1s");
    let told = format!("{}{}", stdout(&filled), stderr(&filled));
    assert!(told.contains("No space left on device"), "{told}");
    assert_eq!(code(&measure("other", "randread", "500ms")), 0);
    // The report cannot be written, which is not a reason to end either.
    let said = serving.stop();
    assert!(said.contains("warning: failed to write ") && said.contains("No space left"), "{said}");
}

#[test]
fn silent_connections_take_neither_the_server_nor_its_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    volumes(directory.path(), &["create", "vol1", "--size", "1MiB"]);
    let script = "ulimit -n 64 && exec $0 volumes --state $1 serve --listen '[::]:0' -t 1";
    let serving = Serving::by_script(script, &[], directory.path()).unwrap();
    let port = serving.address.rsplit_once(':').unwrap().1;
    let silent = || TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let silent: Vec<TcpStream> = (0..200).map(|_| silent()).collect();
    let measure = |host: &str| run(&["storage", &format!("nbd://{host}:{port}/vol1"), "-d", "200ms"]);
    // Another address is served at once, this one after the handshakes that went on for too long.
    assert_eq!(code(&measure("[::1]")), 0);
    wait_until("a place of the same address", || code(&measure("127.0.0.1")) == 0);
    drop(silent);
    volumes(directory.path(), &["create", "vol2", "--size", "1MiB"]);
    wait_until("the report", || volumes(directory.path(), &["list"]).contains("/vol2"));
    let said = serving.stop();
    assert!(!said.contains("failed to"), "{said}");
}

#[test]
fn a_size_that_no_file_has_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().to_str().unwrap();
    let output = run(&["volumes", "--state", state, "create", "huge", "--size", "1000000TB"]);
    if code(&output) == 0 {
        // A tmpfs has files of any size, and then the server has no difficulty either.
        return assert!(Serving::start(directory.path()).stop().is_empty());
    }
    let said = stderr(&output);
    assert!(said.contains("huge") && said.contains("does not support files this large"), "{said}");
    assert!(volumes(directory.path(), &["list"]).is_empty());
}

#[test]
fn a_stall_that_lasts_until_the_windows_end_is_in_the_latencies_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path();
    // Far above what can be reached: a limiter keeps account, which says when the load has begun.
    volumes(state, &["policy", "create", "counted", "--max-iops", "10000000 IOPS"]);
    volumes(state, &["create", "vol1", "--size", "1MiB", "--policy", "counted"]);
    let serving = Serving::start(state);
    let mut load = plumb();
    load.args(["storage", &serving.uri("vol1"), "-d", "6s", "--json"]);
    let load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the load", || {
        let listed: serde_json::Value = serde_json::from_str(&volumes(state, &["list", "--json"])).unwrap();
        listed[0]["account"]["operations"].as_u64() > Some(0)
    });
    let server = rustix::process::Pid::from_child(&serving.child);
    rustix::process::kill_process(server, rustix::process::Signal::STOP).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(7));
    rustix::process::kill_process(server, rustix::process::Signal::CONT).unwrap();
    let output = load.wait_with_output().unwrap();
    let measured: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let longest_ns = measured["metrics"]["read_latency"]["bins_ns"].as_array().unwrap().last().unwrap();
    let stall_ns = measured["stall_ns_max"].as_u64().unwrap();
    assert!(longest_ns[0].as_u64() >= Some(stall_ns) && stall_ns > 100_000_000, "{longest_ns}, {stall_ns}");
    let warnings = measured["warnings"].to_string();
    assert!(
        warnings.contains("nothing completed for ") && warnings.contains("read_latency p99"),
        "{warnings}"
    );
}
