//! ONTAP's REST interface of `plumb volumes serve`, by real curl: the published commands, who may send any, and what is left of a
//! server that was killed. `plumb_ontap::Interface` is tested without a network on what a request can ask and get wrong.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{LIMIT, code, plumb, run, signal, skip, stderr, stdout, wait, wait_until};

const USER: &str = "admin:Netapp1!";
pub const POLICIES: &str = "/api/storage/qos/policies";
pub const VOLUMES: &str = "/api/storage/volumes";

/// A server with a user, killed when dropped.
pub struct Serving {
    child: Child,
    pub address: String,
    pub certificate: PathBuf,
}

impl Serving {
    pub fn start(state: &Path) -> Self {
        let mut command = plumb();
        command.args(["volumes", "--state"]).arg(state);
        command.args(["serve", "--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.map(|line| line.strip_prefix("REST interface at https://").map(str::to_owned));
        let said = said.flatten().next().expect("the server says where its interface is");
        let (address, certificate) = said.split_once(", certificate ").unwrap();
        Self { child, address: address.to_owned(), certificate: certificate.into() }
    }

    pub fn kill(mut self) {
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

/// A state directory in which somebody may use the interface.
pub fn state_with_user() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    set_password(directory.path(), "Netapp1!");
    directory
}

fn set_password(state: &Path, password: &str) {
    let mut command = plumb();
    command.args(["volumes", "--state"]).arg(state).args(["user", "set", "admin"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}

pub fn volumes(state: &Path, arguments: &[&str]) -> String {
    let output = run(&[&["volumes", "--state", state.to_str().unwrap()], arguments].concat());
    assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Whether there is curl, said aloud where there is none.
pub fn has_curl() -> bool {
    let has = Command::new("curl").arg("--version").output().is_ok();
    if !has {
        skip("curl is not installed");
    }
    has
}

/// One request by curl: status and body, `Null` where there is none.
fn curl(serving: &Serving, user: Option<&str>, arguments: &[&str], path: &str) -> (u16, Value) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}"]);
    command.arg("--cacert").arg(&serving.certificate);
    if let Some(user) = user {
        command.args(["--user", user]);
    }
    let output = command.args(arguments).arg(format!("https://{}{path}", serving.address)).output().unwrap();
    assert!(output.status.success(), "curl {arguments:?} {path}: {}", stderr(&output));
    let text = stdout(&output);
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

pub fn get(serving: &Serving, path: &str) -> Value {
    let (status, body) = curl(serving, Some(USER), &["--globoff"], path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

pub fn send(serving: &Serving, method: &str, path: &str, body: &Value) -> (u16, Value) {
    curl(serving, Some(USER), &["--request", method, "--data", &body.to_string()], path)
}

fn uuid_of(serving: &Serving, collection: &str, name: &str) -> String {
    get(serving, &format!("{collection}?name={name}"))["records"][0]["uuid"].as_str().unwrap().to_owned()
}

/// As published, but for the host.
const PUBLISHED: &str = r#"
curl -X POST -ku admin:Netapp1! -H "accept: application/json" -H "Content-Type: application/json" -d '{
  "fixed": {
    "capacity_shared": false,
    "max_throughput_iops": 500
  },
  "name": "QoS_500iops",
  "svm": {
    "name": "nfs_svm",
    "uuid": "2829ebfb-4d6a-11e8-a5dc-005056b08451"
  }
}' "https://cluster1.demo.netapp.com/api/storage/qos/policies" &&

curl -X POST -ku admin:Netapp1! -H "accept: application/json" -H "Content-Type: application/json" -d '{
  "fixed": {
    "capacity_shared": false,
    "max_throughput_mbps": 100
  },
  "name": "QoS_100MBps",
  "svm": {
    "name": "nfs_svm",
    "uuid": "2829ebfb-4d6a-11e8-a5dc-005056b08451"
  }
}' "https://cluster1.demo.netapp.com/api/storage/qos/policies"
"#;

#[test]
fn the_published_commands_work_as_they_stand() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    let serving = Serving::start(directory.path());
    let script = PUBLISHED.replace("cluster1.demo.netapp.com", &serving.address);
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success() && !stdout(&output).contains("error"), "{}", stdout(&output));
    volumes(
        directory.path(),
        &[
            "ontap",
            "qos adaptive-policy-group create -policy-group aQoS -vserver nfs_svm -expected-iops 5IOPS/GB -peak-iops 50IOPS/GB \
             -peak-iops-allocation allocated-space",
        ],
    );
    let accept = ["-H", "accept: application/json"];
    let (status, listed) = curl(&serving, Some(USER), &accept, POLICIES);
    let names: Vec<&Value> =
        listed["records"].as_array().unwrap().iter().map(|record| &record["name"]).collect();
    assert_eq!((status, &listed["num_records"]), (200, &json!(3)));
    assert_eq!(names, ["QoS_100MBps", "QoS_500iops", "aQoS"]);
    assert_eq!(listed["records"][0].as_object().unwrap().len(), 2, "a name and a UUID, as published");
    the_policies_limit_what_they_say(&serving);
    a_query_may_have_its_signs_as_they_are(&serving);
}

/// The three policies on volumes of 100 and 200 GB, as the enforcing layer has them.
fn the_policies_limit_what_they_say(serving: &Serving) {
    for (policy, iops, bytes) in [
        ("QoS_500iops", json!([500, 500]), json!([null, null])),
        ("QoS_100MBps", json!([null, null]), json!([104_857_600, 104_857_600])),
        ("aQoS", json!([5_000, 10_000]), json!([null, null])),
    ] {
        let body = json!({ "name": "vol1", "svm": { "name": "nfs_svm" }, "size": "100GB",
                           "aggregates": [{ "name": "aggr1" }], "qos": { "policy": { "name": policy } } });
        assert_eq!(send(serving, "POST", &format!("{VOLUMES}?return_timeout=5"), &body).0, 201, "{policy}");
        let one = format!("{VOLUMES}/{}", uuid_of(serving, VOLUMES, "vol1"));
        for (at, size) in ["100GB", "200GB"].into_iter().enumerate() {
            assert_eq!(send(serving, "PATCH", &one, &json!({ "size": size })).0, 202);
            let expected = (&iops[at], &bytes[at]);
            wait_until(policy, || {
                let limits = &get(serving, &format!("{one}?fields=plumbline"))["plumbline"]["limits"];
                limits.is_object() && (&limits["iops"], &limits["bytes_per_s"]) == expected
            });
        }
        assert_eq!(curl(serving, Some(USER), &["--request", "DELETE"], &one).0, 202);
    }
}

/// Queries as people type them, on a connection that is kept: the line of its second request is encoded as well.
fn a_query_may_have_its_signs_as_they_are(serving: &Serving) {
    let twice = format!("https://{}{VOLUMES}?size=<1", serving.address);
    assert_eq!(curl(serving, Some(USER), &["--globoff", &twice], &format!("{VOLUMES}?size=>1")).0, 200);
    let long = "x".repeat(100_000);
    let (status, body) = curl(serving, Some(USER), &[], &format!("{VOLUMES}?name={long}"));
    assert!((400..500).contains(&status), "{status}");
    assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{body}");
}

fn check_error(what: &str, (status, body): &(u16, Value), expected: (u16, &str)) {
    let error = &body["error"];
    assert_eq!((*status, error["code"].as_str()), (expected.0, Some(expected.1)), "{what}: {body}");
    assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{what}: {body}");
}

/// Everybody else gets nothing, whatever they send, and keeps nobody out who knows a password.
#[test]
fn only_a_known_user_gets_an_answer_and_always_gets_one() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    let serving = Serving::start(directory.path());
    let unauthorized = (401, "6691623");
    let large = directory.path().join("large");
    std::fs::write(&large, vec![b' '; 10_000_000]).unwrap();
    let large = format!("@{}", large.display());
    let good = r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#;
    for (user, body) in [
        (None, good),
        (None, &large),
        (Some("admin:wrong"), &large),
        (Some("admin:"), good),
        (Some("nobody:Netapp1!"), good),
    ] {
        let arguments = ["--request", "POST", "--data-binary", body];
        check_error("a user", &curl(&serving, user, &arguments, POLICIES), unauthorized);
    }
    check_error("a reader", &curl(&serving, None, &[], POLICIES), unauthorized);
    let bearer = ["--header", "Authorization: Bearer abc"];
    check_error("another scheme", &curl(&serving, None, &bearer, POLICIES), unauthorized);
    for header in ["Expect:", "Expect: 100-continue", "Transfer-Encoding: chunked"] {
        let arguments = ["--request", "POST", "--header", header, "--data-binary", &large];
        check_error(header, &curl(&serving, Some(USER), &arguments, POLICIES), (413, "7"));
    }
    assert_eq!(get(&serving, POLICIES)["num_records"], json!(0));
    neither_silence_nor_guesses_keep_a_valid_login_out(&serving);
    // A new password ends the old one, while the server runs; what is kept of either is not a password.
    set_password(directory.path(), "another-one");
    check_error("the old password", &curl(&serving, Some(USER), &[], POLICIES), unauthorized);
    assert_eq!(curl(&serving, Some("admin:another-one"), &[], POLICIES).0, 200);
    for file in ["volumes.sqlite", "volumes.sqlite-wal"] {
        let bytes = std::fs::read(directory.path().join(file)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|part| part == b"another-one"), "{file}");
    }
}

/// 400 connections that say nothing, and guesses at a password.
fn neither_silence_nor_guesses_keep_a_valid_login_out(serving: &Serving) {
    let connection = || std::net::TcpStream::connect(&serving.address).unwrap();
    let mut begun = connection();
    // The type of a TLS record, with which a request begins.
    std::io::Write::write_all(&mut begun, &[22]).unwrap();
    let silent: Vec<std::net::TcpStream> = (0..400).map(|_| connection()).collect();
    get(serving, VOLUMES);
    std::thread::scope(|scope| {
        let guess = || curl(serving, Some("admin:guess"), &[], VOLUMES).0;
        let guesses: Vec<_> = (0..3).map(|_| scope.spawn(guess)).collect();
        get(serving, VOLUMES);
        for guess in guesses {
            assert_eq!(guess.join().unwrap(), 401);
        }
    });
    // The oldest of those that said nothing made room, and not the older one that had begun a request.
    let mut oldest = &silent[0];
    oldest.set_read_timeout(Some(LIMIT)).unwrap();
    let read = std::io::Read::read(&mut oldest, &mut [0; 1]);
    assert!(
        matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    );
    begun.set_nonblocking(true).unwrap();
    let read = std::io::Read::read(&mut begun, &mut [0; 1]);
    assert!(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[test]
fn what_is_answered_and_a_volume_under_its_new_name_survive_kill_9() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    volumes(directory.path(), &["policy", "create", "counted", "--max-iops", "10000000 IOPS"]);
    volumes(directory.path(), &["create", "vol0", "--size", "4MiB", "--policy", "counted"]);
    let mut serving = Serving::start(directory.path());
    for round in 0..2 {
        let body = json!({ "name": format!("p{round}"), "svm": { "name": "nfs_svm" },
                           "fixed": { "max_throughput_iops": 100 + round, "min_throughput_iops": 5 } });
        let (status, answer) = send(&serving, "POST", POLICIES, &body);
        assert_eq!(status, 202, "{answer}");
        serving.kill();
        serving = Serving::start(directory.path());
        let job = format!("/api/cluster/jobs/{}", answer["job"]["uuid"].as_str().unwrap());
        assert_eq!(get(&serving, &job)["state"], "success");
        assert_eq!(get(&serving, POLICIES)["num_records"], json!(round + 2));
    }
    // A minimum is kept, and said to be a preference.
    let policy = get(&serving, &format!("{POLICIES}?name=p1&fields=fixed,plumbline"))["records"][0].clone();
    assert_eq!(policy["fixed"]["min_throughput_iops"], 5);
    assert_eq!(policy["plumbline"], json!({ "preferred": ["fixed.min_throughput_iops"] }));
    a_renamed_volume_keeps_its_connections(directory.path(), serving);
}

/// The NBD address of a volume.
fn nbd(serving: &Serving, name: &str) -> String {
    let path = format!("{VOLUMES}?name={name}&fields=plumbline.nbd");
    get(serving, &path)["records"][0]["plumbline"]["nbd"].as_str().unwrap().to_owned()
}

/// A connected client goes on under the new name, which new clients ask for; also after kill -9.
fn a_renamed_volume_keeps_its_connections(state: &Path, serving: Serving) {
    let operations = || {
        let listed: Value = serde_json::from_str(&volumes(state, &["list", "--json"])).unwrap();
        listed["volumes"][0]["account"]["operations"].as_u64().unwrap_or(0)
    };
    let (old, mut command) = (nbd(&serving, "vol0"), plumb());
    command.args(["storage", &old, "--rw", "randwrite", "--destroy-data", "-d", "1h", "-q"]);
    let load = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the load to write", || operations() > 0);
    let uuid = uuid_of(&serving, VOLUMES, "vol0");
    let renamed = send(&serving, "PATCH", &format!("{VOLUMES}/{uuid}"), &json!({ "name": "renamed" }));
    assert_eq!(renamed.0, 202);
    let new = old.replace("vol0", "renamed");
    wait_until("the new name", || code(&run(&["storage", &new, "-n", "1", "-q"])) == 0);
    let before = operations();
    wait_until("the load to go on writing", || operations() > before + 100);
    signal(load.id(), "INT");
    let load = wait(load);
    assert_eq!(code(&load), 130, "{}", stderr(&load));
    serving.kill();
    let serving = Serving::start(state);
    assert_eq!(uuid_of(&serving, VOLUMES, "renamed"), uuid);
    let target = nbd(&serving, "renamed");
    let reads = |name: &str| code(&run(&["storage", &target.replace("renamed", name), "-n", "10", "-q"]));
    assert_eq!(reads("renamed"), 0);
    assert_ne!(reads("vol0"), 0);
    volumes(state, &["ontap", "volume rename -vserver nfs_svm -volume renamed -newname vol0"]);
    wait_until("the old name is back", || reads("vol0") == 0);
}
