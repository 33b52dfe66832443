//! ONTAP's REST interface of `plumb volumes serve`, by real curl: the published commands, everything that can be wrong with a
//! request, and what is left of a server that was killed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{code, plumb, run, skip, stderr, stdout, wait_until};

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

/// Everything that a request could change.
fn everything(serving: &Serving) -> Value {
    let parts = [
        format!("{POLICIES}?fields=*"),
        format!("{VOLUMES}?fields=size,svm,qos,create_time"),
        "/api/svm/svms".to_owned(),
        "/api/cluster/jobs?fields=*".to_owned(),
    ];
    parts.iter().map(|path| get(serving, path)["records"].clone()).collect()
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

/// A request with something wrong with it.
struct Wrong {
    what: &'static str,
    method: &'static str,
    path: String,
    body: &'static str,
    status: u16,
    code: &'static str,
    target: Option<&'static str>,
}

fn wrong(
    what: &'static str,
    method: &'static str,
    path: impl Into<String>,
    body: &'static str,
    (status, code, target): (u16, &'static str, Option<&'static str>),
) -> Wrong {
    Wrong { what, method, path: path.into(), body, status, code, target }
}

/// What is wrong, the body, and the status, code and target of the answer.
type Case = (&'static str, &'static str, (u16, &'static str, Option<&'static str>));

/// Policies that cannot be made.
const WRONG_POLICIES: &[Case] = &[
    ("no JSON", "name=p", (400, "262199", None)),
    ("half of JSON", r#"{"name": "p","#, (400, "262199", None)),
    ("an array", "[]", (400, "262199", None)),
    ("nothing", "", (400, "262199", None)),
    (
        "no name",
        r#"{"svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (400, "262212", Some("name")),
    ),
    ("no svm", r#"{"name":"p","fixed":{"max_throughput_iops":1}}"#, (400, "2621707", Some("svm.name"))),
    (
        "unknown svm",
        r#"{"name":"p","svm":{"name":"x"},"fixed":{"max_throughput_iops":1}}"#,
        (404, "2621462", Some("svm.name")),
    ),
    (
        "unknown svm's UUID",
        r#"{"name":"p","svm":{"uuid":"x"},"fixed":{"max_throughput_iops":1}}"#,
        (404, "2621462", Some("svm.uuid")),
    ),
    (
        "two svms",
        r#"{"name":"p","svm":{"name":"nfs_svm","uuid":"02c9e252-41be-11e9-81d5-00a0986138f7"},"fixed":{"max_throughput_iops":1}}"#,
        (400, "2621706", Some("svm.uuid")),
    ),
    (
        "neither fixed nor adaptive",
        r#"{"name":"p","svm":{"name":"nfs_svm"}}"#,
        (400, "262212", Some("fixed")),
    ),
    (
        "fixed and adaptive",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1},"adaptive":{"expected_iops":1,"peak_iops":2}}"#,
        (400, "262186", Some("adaptive.expected_iops")),
    ),
    (
        "a fixed policy of nothing",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":0}}"#,
        (400, "8454260", Some("fixed")),
    ),
    (
        "min over max, IOPS",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":5,"min_throughput_iops":6}}"#,
        (400, "8454194", Some("fixed.min_throughput_iops")),
    ),
    (
        "min over max, MB/s",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_mbps":5,"min_throughput_mbps":6}}"#,
        (400, "8454194", Some("fixed.min_throughput_mbps")),
    ),
    (
        "a throughput as text and as a number",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput":"5iops","max_throughput_iops":5}}"#,
        (400, "8454389", Some("fixed.max_throughput")),
    ),
    (
        "a throughput without a unit",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput":"500"}}"#,
        (400, "262197", Some("fixed.max_throughput")),
    ),
    (
        "operations of 1 byte",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1000000,"max_throughput_mbps":1}}"#,
        (400, "8454260", Some("fixed.max_throughput_mbps")),
    ),
    (
        "operations of 5 MB",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":20,"max_throughput_mbps":100}}"#,
        (400, "8454260", Some("fixed.max_throughput_mbps")),
    ),
    (
        "no peak",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"adaptive":{"expected_iops":5}}"#,
        (400, "8454273", Some("adaptive.peak_iops")),
    ),
    (
        "expected over peak",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"adaptive":{"expected_iops":6,"peak_iops":5}}"#,
        (400, "8454274", Some("adaptive.expected_iops")),
    ),
    (
        "an odd block size",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"adaptive":{"expected_iops":5,"peak_iops":6,"block_size":"5k"}}"#,
        (400, "262197", Some("adaptive.block_size")),
    ),
    (
        "a shared adaptive policy",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"adaptive":{"expected_iops":5,"peak_iops":6,"capacity_shared":true}}"#,
        (400, "262179", Some("adaptive.capacity_shared")),
    ),
    (
        "text for a number",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":"many"}}"#,
        (400, "262197", Some("fixed.max_throughput_iops")),
    ),
    (
        "a negative number",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":-1}}"#,
        (400, "262197", Some("fixed.max_throughput_iops")),
    ),
    (
        "a number beyond 64 bits",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":99999999999999999999}}"#,
        (400, "262197", Some("fixed.max_throughput_iops")),
    ),
    (
        "bytes beyond 64 bits",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_mbps":18446744073709551615}}"#,
        (400, "262197", Some("fixed.max_throughput_mbps")),
    ),
    (
        "a number for a name",
        r#"{"name":5,"svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (400, "262197", Some("name")),
    ),
    (
        "a path for a name",
        r#"{"name":"../p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (400, "262197", Some("name")),
    ),
    (
        "unknown field",
        r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_iops":1}}"#,
        (400, "262179", Some("fixed.max_iops")),
    ),
    (
        "a field twice",
        r#"{"name":"p","name":"q","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (400, "262188", None),
    ),
    (
        "a field that is given, not set",
        r#"{"name":"p","uuid":"x","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (400, "262196", Some("uuid")),
    ),
    (
        "duplicate",
        r#"{"name":"fixed","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (409, "8454154", Some("name")),
    ),
    (
        "an adaptive one named as a fixed one",
        r#"{"name":"fixed","svm":{"name":"nfs_svm"},"adaptive":{"expected_iops":1,"peak_iops":2}}"#,
        (409, "8454277", Some("name")),
    ),
    (
        "a fixed one named as an adaptive one",
        r#"{"name":"adaptive","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#,
        (409, "8454278", Some("name")),
    ),
];

/// Volumes that cannot be made.
const WRONG_VOLUMES: &[Case] = &[
    ("a volume without a size", r#"{"name":"v","svm":{"name":"nfs_svm"}}"#, (400, "262212", Some("size"))),
    (
        "a volume of nothing",
        r#"{"name":"v","svm":{"name":"nfs_svm"},"size":0}"#,
        (400, "262197", Some("size")),
    ),
    (
        "a volume of apples",
        r#"{"name":"v","svm":{"name":"nfs_svm"},"size":"5 apples"}"#,
        (400, "262197", Some("size")),
    ),
    (
        "a volume's bad name",
        r#"{"name":"a/b","svm":{"name":"nfs_svm"},"size":"1GB"}"#,
        (400, "917888", Some("name")),
    ),
    (
        "a duplicate volume",
        r#"{"name":"vol1","svm":{"name":"nfs_svm"},"size":"1GB"}"#,
        (409, "917526", Some("name")),
    ),
    (
        "a volume under no such policy",
        r#"{"name":"v","svm":{"name":"nfs_svm"},"size":"1GB","qos":{"policy":{"name":"nope"}}}"#,
        (404, "4", Some("qos.policy.name")),
    ),
    (
        "a volume under another SVM's policy",
        r#"{"name":"v","svm":{"name":"other"},"size":"1GB","qos":{"policy":{"name":"fixed"}}}"#,
        (400, "262186", Some("qos.policy.name")),
    ),
];

/// Requests to make something that cannot be made.
fn wrong_posts() -> Vec<Wrong> {
    let in_query = |what, query: &str, expected| {
        let body = r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#;
        wrong(what, "POST", format!("{POLICIES}?{query}"), body, expected)
    };
    let mut all = vec![
        in_query("an unknown parameter", "wait=1", (400, "262179", Some("wait"))),
        in_query("a time out of range", "return_timeout=121", (400, "262197", Some("return_timeout"))),
    ];
    for (path, cases) in [(POLICIES, WRONG_POLICIES), (VOLUMES, WRONG_VOLUMES)] {
        all.extend(cases.iter().map(|(what, body, expected)| wrong(what, "POST", path, body, *expected)));
    }
    all
}

/// Requests about what exists, or does not.
fn wrong_others(serving: &Serving) -> Vec<Wrong> {
    let one = |collection: &str, name: &str| format!("{collection}/{}", uuid_of(serving, collection, name));
    let (fixed, volume) = (one(POLICIES, "fixed"), one(VOLUMES, "vol1"));
    let nowhere = |collection: &str| format!("{collection}/00000000-0000-0000-0000-000000000000");
    let missing = (404, "4", Some("uuid"));
    let several = |what, method, query: &str, body, expected| {
        wrong(what, method, format!("{POLICIES}?{query}"), body, expected)
    };
    vec![
        wrong("unknown UUID", "GET", nowhere(POLICIES), "", missing),
        wrong("unknown UUID to change", "PATCH", nowhere(POLICIES), r#"{"name":"p"}"#, missing),
        wrong("unknown UUID to delete", "DELETE", nowhere(POLICIES), "", missing),
        wrong("unknown volume", "GET", nowhere(VOLUMES), "", missing),
        wrong("unknown volume to change", "PATCH", nowhere(VOLUMES), r#"{"size":1}"#, missing),
        wrong("unknown job", "GET", nowhere("/api/cluster/jobs"), "", missing),
        wrong("a body where none belongs", "DELETE", &volume, r#"{"force":true}"#, (400, "262198", None)),
        wrong("wrong method", "PUT", POLICIES, "{}", (405, "3", None)),
        wrong("a collection cannot be deleted", "DELETE", POLICIES, "", (405, "3", None)),
        wrong("nor changed", "PATCH", VOLUMES, r#"{"size":1}"#, (405, "3", None)),
        several("no field to find by", "DELETE", "return_records=true", "", (405, "3", None)),
        several("unknown field to find by", "DELETE", "nmae=a", "", (400, "262179", Some("nmae"))),
        several("unknown field to show", "DELETE", "name=*&fields=foo", "", (400, "262197", Some("fields"))),
        several("one name for two", "PATCH", "name=*", r#"{"name":"p"}"#, (409, "8454278", Some("name"))),
        several("nothing to change in any", "PATCH", "name=*", "{}", (400, "262190", None)),
        wrong("an object cannot be posted to", "POST", &fixed, "{}", (405, "3", None)),
        wrong("no such API", "GET", "/api/storage/luns", "", (404, "3", None)),
        wrong("not below an object either", "GET", format!("{fixed}/metrics"), "", (404, "3", None)),
    ]
}

/// Lists that cannot be: what is wrong, the query, and the answer.
const WRONG_LISTS: &[Case] = &[
    ("unknown field to query", "nmae=a", (400, "262179", Some("nmae"))),
    ("unknown field to show", "fields=foo", (400, "262197", Some("fields"))),
    ("no records at most", "max_records=0", (400, "262197", Some("max_records"))),
    ("an order that is none", "order_by=foo", (400, "262268", Some("order_by"))),
    ("only changes go on", "name=a&continue_on_failure=true", (400, "262179", Some("continue_on_failure"))),
    ("broken encoding", "name=%GG", (400, "262197", None)),
];

/// Changes of the fixed policy that cannot be.
const WRONG_CHANGES_OF_FIXED: &[Case] = &[
    ("fixed to adaptive", r#"{"adaptive":{"peak_iops":5}}"#, (400, "8454327", Some("adaptive.peak_iops"))),
    (
        "min over a max that is kept",
        r#"{"fixed":{"min_throughput_iops":501}}"#,
        (400, "8454194", Some("fixed.min_throughput_iops")),
    ),
    (
        "sharing cannot be changed",
        r#"{"fixed":{"capacity_shared":true}}"#,
        (400, "262196", Some("fixed.capacity_shared")),
    ),
    (
        "half of a change is good",
        r#"{"name":"adaptive","fixed":{"max_throughput_iops":700}}"#,
        (409, "8454278", Some("name")),
    ),
    ("nothing to change", "{}", (400, "262190", None)),
];

/// Changes of the adaptive policy that cannot be.
const WRONG_CHANGES_OF_ADAPTIVE: &[Case] = &[(
    "adaptive to fixed",
    r#"{"fixed":{"max_throughput_iops":5}}"#,
    (400, "8454328", Some("fixed.max_throughput_iops")),
)];

/// Changes of the volume that cannot be.
const WRONG_CHANGES_OF_VOLUME: &[Case] = &[
    (
        "a size that is good, a policy that is not",
        r#"{"size":"2GB","qos":{"policy":{"name":"nope"}}}"#,
        (404, "4", Some("qos.policy.name")),
    ),
    ("a volume's bad name", r#"{"name":"a b"}"#, (400, "917888", Some("name"))),
    ("another's name", r#"{"size":"2GB","name":"vol0"}"#, (409, "917526", Some("name"))),
];

/// Changes that cannot be.
fn wrong_changes(serving: &Serving) -> Vec<Wrong> {
    let one = |collection: &str, name: &str| format!("{collection}/{}", uuid_of(serving, collection, name));
    let tables = [
        (one(POLICIES, "fixed"), WRONG_CHANGES_OF_FIXED),
        (one(POLICIES, "adaptive"), WRONG_CHANGES_OF_ADAPTIVE),
        (one(VOLUMES, "vol1"), WRONG_CHANGES_OF_VOLUME),
    ];
    let changes = tables.iter().flat_map(|(path, cases)| {
        cases.iter().map(move |(what, body, expected)| wrong(what, "PATCH", path, body, *expected))
    });
    changes.collect()
}

fn wrong_lists() -> Vec<Wrong> {
    let list =
        |&(what, query, expected): &Case| wrong(what, "GET", format!("{POLICIES}?{query}"), "", expected);
    WRONG_LISTS.iter().map(list).collect()
}

fn check_error(what: &str, (status, body): &(u16, Value), expected: (u16, &str, Option<&str>)) {
    let error = &body["error"];
    let found = (*status, error["code"].as_str(), error["target"].as_str());
    assert_eq!(found, (expected.0, Some(expected.1), expected.2), "{what}: {body}");
    assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{what}: {body}");
    assert_eq!(body.as_object().unwrap().len(), 1, "{what}: {body}");
}

/// A server with an SVM, two policies, and a volume.
fn furnished() -> (tempfile::TempDir, Serving) {
    let directory = state_with_user();
    let state = directory.path();
    volumes(state, &["svm", "create", "other", "--uuid", "02c9e252-41be-11e9-81d5-00a0986138f7"]);
    volumes(state, &["policy", "create", "fixed", "--max-iops", "500 IOPS"]);
    volumes(
        state,
        &["policy", "create", "adaptive", "--peak-iops", "50 IOPS/GB", "--expected-iops", "5 IOPS/GB"],
    );
    volumes(state, &["create", "vol0", "--size", "1GB"]);
    volumes(state, &["create", "vol1", "--size", "1GB", "--policy", "fixed"]);
    let serving = Serving::start(state);
    (directory, serving)
}

#[test]
fn whatever_is_wrong_with_a_request_is_named_and_nothing_is_done() {
    if !has_curl() {
        return;
    }
    let (_directory, serving) = furnished();
    let before = everything(&serving);
    let mut requests = wrong_posts();
    requests.extend(wrong_others(&serving));
    requests.extend(wrong_changes(&serving));
    requests.extend(wrong_lists());
    assert!(requests.len() >= 40);
    for request in &requests {
        let mut arguments = vec!["--globoff", "--request", request.method];
        if !request.body.is_empty() || request.method == "POST" {
            arguments.extend(["--data", request.body]);
        }
        let answer = curl(&serving, Some(USER), &arguments, &request.path);
        check_error(request.what, &answer, (request.status, request.code, request.target));
        assert_eq!(everything(&serving), before, "{}", request.what);
    }
}

#[test]
fn what_a_query_finds_is_changed_and_deleted() {
    if !has_curl() {
        return;
    }
    let (_directory, serving) = furnished();
    for (name, throughput) in [("p0", "500iops"), ("p1", "100MB/s"), ("p2", "500IOPS,100MB/s")] {
        let body =
            json!({ "name": name, "svm": { "name": "nfs_svm" }, "fixed": { "max_throughput": throughput } });
        assert_eq!(send(&serving, "POST", POLICIES, &body).0, 202, "{name}");
    }
    let fixed = |name: &str| {
        get(&serving, &format!("{POLICIES}?name={name}&fields=fixed"))["records"][0]["fixed"].clone()
    };
    let both = json!({ "capacity_shared": false, "max_throughput": "500IOPS,100MB/s",
                       "max_throughput_iops": 500, "max_throughput_mbps": 100 });
    assert_eq!(fixed("p2"), both);
    assert_eq!(fixed("p0")["max_throughput_mbps"], Value::Null);
    // Changed, and shown as they are now.
    let path = format!("{POLICIES}?name=p*&return_records=true&fields=fixed.max_throughput");
    let (status, answer) =
        send(&serving, "PATCH", &path, &json!({ "fixed": { "max_throughput_iops": 700 } }));
    assert_eq!((status, &answer["num_records"]), (200, &json!(3)), "{answer}");
    let shown: Vec<&Value> = answer["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| &record["fixed"]["max_throughput"])
        .collect();
    assert_eq!(shown, ["700IOPS", "700IOPS,100MB/s", "700IOPS,100MB/s"]);
    // A part, and the rest behind the link.
    let delete = |path: &str| curl(&serving, Some(USER), &["--request", "DELETE"], path);
    let (status, answer) = delete(&format!("{POLICIES}?name=p*&max_records=2"));
    assert_eq!((status, &answer["num_records"], &answer["records"]), (200, &json!(2), &Value::Null));
    let (status, answer) = delete(answer["_links"]["next"]["href"].as_str().unwrap());
    assert_eq!((status, &answer["num_records"]), (200, &json!(1)));
    // The answer has the part that succeeded, and why the rest failed: two policies cannot share a name.
    let path = format!("{POLICIES}?name=*&continue_on_failure=true");
    let (status, answer) = send(&serving, "PATCH", &path, &json!({ "name": "p" }));
    assert_eq!(
        (status, &answer["num_records"], &answer["error"]["code"]),
        (400, &json!(1), &json!("262292"))
    );
    let failed = &answer["errors"][0];
    assert_eq!((&failed["code"], answer["errors"].as_array().unwrap().len()), (&json!("262287"), 1));
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("PATCH of record \"uuid: ") && message.contains("conflicts"), "{message}");
    // A policy takes its limits with it, under which a volume is served.
    let limit = || {
        let path = format!("{VOLUMES}?name=vol1&fields=plumbline");
        get(&serving, &path)["records"][0]["plumbline"]["limits"]["iops"].clone()
    };
    wait_until("the policy's limit", || limit() == json!(500));
    assert_eq!(delete(&format!("{POLICIES}?name=*")).1["num_records"], json!(2));
    assert_eq!(get(&serving, &format!("{VOLUMES}?qos.policy.name=*"))["num_records"], json!(0));
    wait_until("no limit", || limit() == Value::Null);
    // Volumes, too.
    let none = json!({ "qos": { "policy": { "name": "none" } } });
    assert_eq!(send(&serving, "PATCH", &format!("{VOLUMES}?name=vol*"), &none).0, 200);
    assert_eq!(delete(&format!("{VOLUMES}?svm.name=nfs_svm")).1["num_records"], json!(2));
    assert_eq!(delete(&format!("{POLICIES}?name=*")), (200, json!({ "num_records": 0 })));
    assert_eq!(get(&serving, VOLUMES)["num_records"], json!(0));
}

#[test]
fn who_is_not_known_gets_nothing_and_what_is_too_large_is_refused() {
    if !has_curl() {
        return;
    }
    let (directory, serving) = furnished();
    let before = everything(&serving);
    let unauthorized = (401, "6691623", None);
    let large = directory.path().join("large");
    std::fs::write(&large, vec![b' '; 10_000_000]).unwrap();
    let large = format!("@{}", large.display());
    let good = r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#;
    for user in [None, Some("admin:wrong"), Some("admin:"), Some("nobody:Netapp1!")] {
        for body in [good, &large] {
            let arguments = ["--request", "POST", "--data-binary", body];
            check_error("a user", &curl(&serving, user, &arguments, POLICIES), unauthorized);
        }
        check_error("a reader", &curl(&serving, user, &[], POLICIES), unauthorized);
    }
    let bearer = ["--header", "Authorization: Bearer abc"];
    check_error("another scheme", &curl(&serving, None, &bearer, POLICIES), unauthorized);
    for header in ["Expect:", "Expect: 100-continue", "Transfer-Encoding: chunked"] {
        let arguments = ["--request", "POST", "--header", header, "--data-binary", &large];
        check_error(header, &curl(&serving, Some(USER), &arguments, POLICIES), (413, "7", None));
    }
    assert_eq!(everything(&serving), before);
    // A new password ends the old one, while the server runs; what is kept of either is not a password.
    set_password(directory.path(), "another-one");
    check_error("the old password", &curl(&serving, Some(USER), &[], POLICIES), unauthorized);
    assert_eq!(curl(&serving, Some("admin:another-one"), &[], POLICIES).0, 200);
    for file in ["volumes.sqlite", "volumes.sqlite-wal"] {
        let bytes = std::fs::read(directory.path().join(file)).unwrap_or_default();
        assert!(!bytes.windows(11).any(|part| part == b"another-one"), "{file}");
    }
}

#[test]
fn what_is_answered_survives_kill_9() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    let mut serving = Serving::start(directory.path());
    for round in 0..3 {
        let body = json!({ "name": format!("p{round}"), "svm": { "name": "nfs_svm" },
                           "fixed": { "max_throughput_iops": 100 + round, "min_throughput_iops": 5 } });
        let (status, answer) = send(&serving, "POST", POLICIES, &body);
        assert_eq!(status, 202, "{answer}");
        serving.kill();
        serving = Serving::start(directory.path());
        let job = format!("/api/cluster/jobs/{}", answer["job"]["uuid"].as_str().unwrap());
        assert_eq!(get(&serving, &job)["state"], "success");
        assert_eq!(get(&serving, POLICIES)["num_records"], json!(round + 1));
    }
    // A minimum is kept, and said to be a preference.
    let policy = get(&serving, &format!("{POLICIES}?name=p2&fields=fixed,plumbline"))["records"][0].clone();
    assert_eq!(policy["fixed"]["min_throughput_iops"], 5);
    assert_eq!(policy["plumbline"], json!({ "preferred": ["fixed.min_throughput_iops"] }));
}

#[test]
fn a_renamed_volume_keeps_its_connections_and_survives_kill_9() {
    if !has_curl() {
        return;
    }
    let (directory, serving) = furnished();
    let nbd = |serving: &Serving, name: &str| {
        let record = get(serving, &format!("{VOLUMES}?name={name}&fields=plumbline"))["records"][0].clone();
        record["plumbline"]["nbd"].as_str().unwrap().to_owned()
    };
    let is_written = |serving: &Serving, name: &str| {
        let record = get(serving, &format!("{VOLUMES}?name={name}&fields=space"))["records"][0].clone();
        record["space"]["used"].as_u64() > Some(0)
    };
    let mut command = plumb();
    command.args([
        "storage",
        &nbd(&serving, "vol0"),
        "--rw",
        "randwrite",
        "--destroy-data",
        "--size",
        "4MiB",
    ]);
    command.args(["--duration", "4s", "--json"]);
    let load = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("something was written", || is_written(&serving, "vol0"));
    let uuid = uuid_of(&serving, VOLUMES, "vol0");
    let one = format!("{VOLUMES}/{uuid}");
    assert_eq!(send(&serving, "PATCH", &one, &json!({ "name": "renamed" })).0, 202);
    // Connected clients go on to the end; new clients ask for the new name.
    let load = load.wait_with_output().unwrap();
    assert_eq!(code(&load), 0, "{}", stderr(&load));
    serving.kill();
    let serving = Serving::start(directory.path());
    assert_eq!(uuid_of(&serving, VOLUMES, "renamed"), uuid);
    assert!(is_written(&serving, "renamed"));
    let target = nbd(&serving, "renamed");
    let reads = |name: &str| {
        let target = target.replace("renamed", name);
        code(&run(&["storage", &target, "--rw", "randread", "--duration", "200ms", "--json"]))
    };
    assert_eq!(reads("renamed"), 0);
    assert_ne!(reads("vol0"), 0);
    volumes(directory.path(), &["ontap", "volume rename -vserver nfs_svm -volume renamed -newname vol0"]);
    wait_until("the old name is back", || reads("vol0") == 0);
}

#[test]
fn of_many_that_make_the_same_at_once_one_does() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    let serving = Serving::start(directory.path());
    let body = json!({ "name": "p", "svm": { "name": "nfs_svm" }, "fixed": { "max_throughput_iops": 1 } });
    let mut codes: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| send(&serving, "POST", POLICIES, &body).0)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    codes.sort_unstable();
    assert_eq!(codes, [202, 409, 409, 409, 409, 409, 409, 409]);
}

#[test]
fn without_a_user_or_a_key_nothing_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().to_str().unwrap();
    let serve = ["volumes", "--state", state, "serve", "--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0"];
    let output = run(&serve);
    assert_eq!(code(&output), 2);
    assert_eq!(
        stderr(&output).trim(),
        "error: failed to serve the REST interface: it has no users; `plumb volumes user set NAME` adds one"
    );
    set_password(directory.path(), "x");
    let file = directory.path().join("none.pem");
    let file = file.to_str().unwrap();
    let output = run(&[&serve[..], &["--certificate", file, "--key", file]].concat());
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("none.pem"), "{}", stderr(&output));
    let output =
        run(&["volumes", "--state", state, "ontap", "qos", "policy-group", "create", "-policy-group", "a"]);
    assert_eq!(
        (code(&output), stderr(&output).trim()),
        (2, "error: -vserver is required (ONTAP's error 262212)")
    );
}

/// Queries as people type them, and the two meanings of GB.
#[test]
fn a_query_may_have_its_signs_as_they_are_and_every_refusal_says_why() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    let state = directory.path();
    let said = run(&["volumes", "--state", state.to_str().unwrap(), "create", "ten", "--size", "100GB"]);
    assert!(stderr(&said).contains("100 GB are 100000000000 bytes; in ONTAP's REST interface"), "{said:?}");
    let said = run(&["volumes", "--state", state.to_str().unwrap(), "create", "two", "--size", "100GiB"]);
    assert_eq!(stderr(&said), "");
    let serving = Serving::start(state);
    let names = |query: &str| -> Vec<String> {
        let body = get(&serving, &format!("{VOLUMES}?{query}"));
        let records = body["records"].as_array().unwrap().iter();
        records.map(|record| record["name"].as_str().unwrap().to_owned()).collect()
    };
    let found = |size: &str| names(&format!("size={size}"));
    for size in [">=100GB", "%3E=100GB", ">=100GiB", "107374182400"] {
        assert_eq!(found(size), ["two"], "{size}");
    }
    assert_eq!(found(">=100000000000"), ["ten", "two"]);
    assert_eq!(found("<107374182400"), ["ten"]);
    // README's, with another name.
    assert_eq!(names("fields=*&name=t*&order_by=size"), ["ten", "two"]);
    assert_eq!(names("fields=*&name=t*&order_by=size%20desc"), ["two", "ten"]);
    // A connection is kept: the line of the second request is encoded as well.
    let twice = format!("https://{}{VOLUMES}?size=<1", serving.address);
    let second = format!("{VOLUMES}?size=>1");
    assert_eq!(curl(&serving, Some(USER), &["--globoff", &twice], &second).0, 200);
    let long = "x".repeat(100_000);
    let (status, body) = curl(&serving, Some(USER), &[], &format!("{VOLUMES}?name={long}"));
    assert!((400..500).contains(&status), "{status}");
    assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{body}");
}

/// 200 connections that say nothing, and guesses at a password, keep nobody out who knows it.
#[test]
fn neither_silence_nor_guesses_keep_a_valid_login_out() {
    if !has_curl() {
        return;
    }
    let directory = state_with_user();
    let serving = Serving::start(directory.path());
    get(&serving, VOLUMES);
    let silent: Vec<std::net::TcpStream> =
        (0..200).map(|_| std::net::TcpStream::connect(&serving.address).unwrap()).collect();
    get(&serving, VOLUMES);
    std::thread::scope(|scope| {
        let guesses: Vec<_> =
            (0..6).map(|_| scope.spawn(|| curl(&serving, Some("admin:guess"), &[], VOLUMES).0)).collect();
        for _ in 0..5 {
            get(&serving, VOLUMES);
        }
        for guess in guesses {
            assert_eq!(guess.join().unwrap(), 401);
        }
    });
    // The oldest of those that said nothing made room.
    let mut oldest = &silent[0];
    oldest.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let read = std::io::Read::read(&mut oldest, &mut [0; 1]);
    assert!(
        matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    );
}
