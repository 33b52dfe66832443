//! Everything that can be wrong with a request: each is named with ONTAP's code and target, and nothing is done.

use serde_json::Value;

use super::*;

/// A request with something wrong with it.
struct Wrong {
    what: &'static str,
    method: Option<Method>,
    path: String,
    query: &'static str,
    body: &'static str,
    expected: Expected,
}

/// The status, the code and the target of the answer.
type Expected = (u16, &'static str, Option<&'static str>);

/// The mistake, the body or the query, and the answer.
type Case = (&'static str, &'static str, Expected);

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

const GOOD: &str = r#"{"name":"p","svm":{"name":"nfs_svm"},"fixed":{"max_throughput_iops":1}}"#;

/// A request without a query.
fn wrong(
    what: &'static str,
    method: Method,
    path: impl Into<String>,
    body: &'static str,
    expected: Expected,
) -> Wrong {
    Wrong { what, method: Some(method), path: path.into(), query: "", body, expected }
}

/// A request about the policies that a query finds, or about how long to wait.
fn asked(
    what: &'static str,
    method: Method,
    query: &'static str,
    body: &'static str,
    expected: Expected,
) -> Wrong {
    Wrong { query, ..wrong(what, method, policies::POLICIES.collection.path, body, expected) }
}

/// Requests to make something that cannot be made.
fn wrong_posts() -> Vec<Wrong> {
    let mut all = vec![
        asked("an unknown parameter", Method::Post, "wait=1", GOOD, (400, "262179", Some("wait"))),
        asked(
            "a time out of range",
            Method::Post,
            "return_timeout=121",
            GOOD,
            (400, "262197", Some("return_timeout")),
        ),
    ];
    for (path, cases) in [
        (policies::POLICIES.collection.path, WRONG_POLICIES),
        (volumes::VOLUMES.collection.path, WRONG_VOLUMES),
    ] {
        let posts =
            cases.iter().map(|&(what, body, expected)| wrong(what, Method::Post, path, body, expected));
        all.extend(posts);
    }
    all
}

/// Requests about what exists, or does not.
fn wrong_others(fixed: &str, volume: &str) -> Vec<Wrong> {
    use Method::{Delete, Get, Patch, Post};
    let (of_policies, of_volumes) = (policies::POLICIES.collection.path, volumes::VOLUMES.collection.path);
    let nowhere = |collection: &str| format!("{collection}/00000000-0000-0000-0000-000000000000");
    let missing = (404, "4", Some("uuid"));
    let not_allowed = (405, "3", None);
    vec![
        wrong("unknown UUID", Get, nowhere(of_policies), "", missing),
        wrong("unknown UUID to change", Patch, nowhere(of_policies), r#"{"name":"p"}"#, missing),
        wrong("unknown UUID to delete", Delete, nowhere(of_policies), "", missing),
        wrong("unknown volume", Get, nowhere(of_volumes), "", missing),
        wrong("unknown volume to change", Patch, nowhere(of_volumes), r#"{"size":1}"#, missing),
        wrong("unknown job", Get, nowhere(jobs::JOBS.collection.path), "", missing),
        wrong("a body where none belongs", Delete, volume, r#"{"force":true}"#, (400, "262198", None)),
        Wrong { method: None, ..wrong("wrong method", Get, of_policies, "{}", not_allowed) },
        wrong("a collection cannot be deleted", Delete, of_policies, "", not_allowed),
        wrong("nor changed", Patch, of_volumes, r#"{"size":1}"#, not_allowed),
        asked("no field to find by", Delete, "return_records=true", "", not_allowed),
        asked("unknown field to find by", Delete, "nmae=a", "", (400, "262179", Some("nmae"))),
        asked("unknown field to show", Delete, "name=*&fields=foo", "", (400, "262197", Some("fields"))),
        asked("one name for two", Patch, "name=*", r#"{"name":"p"}"#, (409, "8454278", Some("name"))),
        asked("nothing to change in any", Patch, "name=*", "{}", (400, "262190", None)),
        wrong("an object cannot be posted to", Post, fixed, "{}", not_allowed),
        wrong("no such API", Get, "/api/storage/luns", "", (404, "3", None)),
        wrong("not below an object either", Get, format!("{fixed}/metrics"), "", (404, "3", None)),
    ]
}

fn wrong_lists() -> Vec<Wrong> {
    let list = |&(what, query, expected): &Case| asked(what, Method::Get, query, "", expected);
    WRONG_LISTS.iter().map(list).collect()
}

/// Everything that a request could change.
fn everything(interface: &Interface) -> Vec<Value> {
    let parts = [
        (policies::POLICIES.collection.path, "fields=*"),
        (volumes::VOLUMES.collection.path, "fields=size,svm,qos,create_time"),
        (svms::SVMS.collection.path, ""),
        (jobs::JOBS.collection.path, "fields=*"),
    ];
    let records = parts.map(|(path, query)| ask(interface, Method::Get, path, query).1["records"].clone());
    records.into()
}

#[test]
fn whatever_is_wrong_with_a_request_is_named_and_nothing_is_done() {
    let (_directory, interface) = furnished();
    let one =
        |collection: &str, name: &str| format!("{collection}/{}", uuid_of(&interface, collection, name));
    let (fixed, adaptive) = (
        one(policies::POLICIES.collection.path, "fixed"),
        one(policies::POLICIES.collection.path, "adaptive"),
    );
    let volume = one(volumes::VOLUMES.collection.path, "vol1");
    let mut requests = wrong_posts();
    requests.extend(wrong_others(&fixed, &volume));
    for (path, cases) in [
        (&fixed, WRONG_CHANGES_OF_FIXED),
        (&adaptive, WRONG_CHANGES_OF_ADAPTIVE),
        (&volume, WRONG_CHANGES_OF_VOLUME),
    ] {
        let change = |&(what, body, expected): &Case| wrong(what, Method::Patch, path, body, expected);
        requests.extend(cases.iter().map(change));
    }
    requests.extend(wrong_lists());
    assert!(requests.len() >= 70, "{}", requests.len());
    let before = everything(&interface);
    for Wrong { what, method, path, query, body, expected } in &requests {
        let body = body.as_bytes();
        let answer = interface.answer(&Request { method: *method, path, query, body, with_links: true });
        let error = &answer.body["error"];
        let found = (answer.status, error["code"].as_str().unwrap(), error["target"].as_str());
        assert_eq!(found, *expected, "{what}: {}", answer.body);
        assert!(
            error["message"].as_str().is_some_and(|message| message.len() > 10),
            "{what}: {}",
            answer.body
        );
        assert_eq!(answer.body.as_object().unwrap().len(), 1, "{what}: {}", answer.body);
        assert_eq!(everything(&interface), before, "{what}");
    }
}
