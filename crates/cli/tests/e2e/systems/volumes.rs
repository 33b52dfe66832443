//! `plumb volumes`: a server against the clients that people use, kill -9, a full disk and silence.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::common::{code, plumb, run, stderr, stdout, wait_until};

/// A server of the volumes in a state directory; killed when dropped.
struct Serving {
    child: Child,
    address: String,
    /// The messages that followed its address, which `reader` collects.
    said: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(state: &Path) -> Self {
        let mut command = plumb();
        command.args(["volumes", "serve", "--listen", "127.0.0.1:0", "--state"]).arg(state);
        Self::by_command(command).expect("the server says where it listens")
    }

    /// What a shell script makes of `plumb` and the state directory, which it calls `$0` and `$1`.
    fn by_script(script: &str, before: &[&str], state: &Path) -> Option<Self> {
        let arguments = [before, &["sh", "-c", script, env!("CARGO_BIN_EXE_plumb")]].concat();
        let mut command = Command::new(arguments[0]);
        command.args(&arguments[1..]).arg(state);
        Self::by_command(command)
    }

    fn by_command(mut command: Command) -> Option<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.by_ref().find_map(|line| Some(line.rsplit_once(" on ")?.1.to_owned()));
        let Some(address) = address else {
            child.wait().unwrap();
            return None;
        };
        let said = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&said);
        let reader = std::thread::spawn(move || lines.for_each(|line| *to.lock().unwrap() += &(line + "\n")));
        Some(Self { child, address, said, reader: Some(reader) })
    }

    /// Ends it as a user would, and returns what it said after where it listens. It has to be running still.
    fn stop(mut self) -> String {
        assert!(self.child.try_wait().unwrap().is_none(), "the server has ended by itself");
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        self.said()
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
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
    // What was flushed is there after kill -9.
    client("qemu-io", &["-f", "raw", "-c", "write -f -P 7 20M 1M", &uri]);
    serving.kill();
    let serving = Serving::start(directory.path());
    client("qemu-io", &["-f", "raw", "-c", "read -P 7 20M 1M", &serving.uri("vol1")]);
}

/// An adaptive policy limits an empty volume by its size, as help and README show it; ONTAP's default is by used space.
#[test]
fn policies_are_followed_while_the_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path();
    volumes(state, &["policy", "create", "q500", "--max-iops", "500 IOPS"]);
    let adaptive = ["--peak-iops", "50 IOPS/GB", "--expected-iops", "5 IOPS/GB"];
    volumes(state, &[&["policy", "create", "per-gb"][..], &adaptive].concat());
    let by_use = ["--peak-iops", "50 IOPS/GB", "--peak-iops-allocation", "used-space"];
    volumes(state, &[&["policy", "create", "by-use"][..], &by_use].concat());
    volumes(state, &["create", "vol1", "--size", "100GB", "--policy", "q500"]);
    volumes(state, &["create", "used", "--size", "100GB", "--policy", "by-use"]);
    let limit = |volume: &str| {
        let listed = volumes(state, &["list"]);
        listed.lines().find(|line| line.starts_with(volume)).unwrap_or_default().to_owned()
    };
    assert!(limit("vol1").contains("not served"));
    let serving = Serving::start(state);
    wait_until("the first limits", || {
        limit("vol1").contains(" 500 IOPS") && limit("used").contains(" 1 IOPS")
    });
    volumes(state, &["assign", "vol1", "per-gb"]);
    let listed = limit("vol1");
    assert!(listed.contains(" 5000 IOPS"), "50 IOPS/GB of 100 GB when the command returns: {listed}");
    volumes(state, &["resize", "vol1", "--size", "200GB"]);
    wait_until("50 IOPS/GB of 200 GB", || limit("vol1").contains(" 10000 IOPS"));
    let second = run(&["volumes", "--state", state.to_str().unwrap(), "serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(code(&second), 5);
    assert!(stderr(&second).contains("another server does already"), "{}", stderr(&second));
    serving.kill();
    assert!(limit("vol1").contains("not served"));
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
    let measure = |volume: &str, access: &str, operations: &str| {
        let uri = serving.uri(volume);
        run(&["storage", &uri, "--rw", access, "-b", "64KiB", "-n", operations, "--destroy-data"])
    };
    // The report cannot be written either, once it finds no room for a new file beside the last one.
    wait_until("the disk to be full for the server too", || {
        let filled = measure("thin", "write", "200");
        let told = format!("{}{}", stdout(&filled), stderr(&filled));
        assert!(told.contains("No space left on device"), "{told}");
        let said = serving.said();
        said.contains("warning: failed to write ") && said.contains("No space left")
    });
    let read = measure("other", "randread", "20");
    assert_eq!(code(&read), 0, "{}", stderr(&read));
    serving.stop();
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
    let measure = |host: &str| run(&["storage", &format!("nbd://{host}:{port}/vol1"), "-n", "20"]);
    // Silent connections make room.
    assert_eq!([code(&measure("[::1]")), code(&measure("127.0.0.1"))], [0, 0]);
    drop(silent);
    volumes(directory.path(), &["create", "vol2", "--size", "1MiB"]);
    wait_until("the report", || volumes(directory.path(), &["list"]).contains("/vol2"));
    let said = serving.stop();
    assert!(!said.contains("failed to"), "{said}");
}
