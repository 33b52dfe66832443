//! Records that a query finds are listed, changed and deleted; of many clients that make the same object at once, one succeeds.

use super::*;

/// The names of the volumes that a query finds.
fn names(interface: &Interface, query: &str) -> Vec<String> {
    let (status, body) = ask(interface, Method::Get, volumes::VOLUMES.collection.path, query);
    assert_eq!(status, 200, "{query}: {body}");
    let records = body["records"].as_array().unwrap().iter();
    records.map(|record| record["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn sizes_are_compared_in_powers_of_two_and_the_order_is_the_queries() {
    let (_directory, interface) = interface(ServedReport::default());
    interface.state.create_volume("ten", 100_000_000_000, None).unwrap();
    interface.state.create_volume("two", 100 << 30, None).unwrap();
    for size in [">=100GB", "%3E=100GB", ">=100GiB", "107374182400"] {
        assert_eq!(names(&interface, &format!("size={size}")), ["two"], "{size}");
    }
    assert_eq!(names(&interface, "size=>=100000000000"), ["ten", "two"]);
    assert_eq!(names(&interface, "size=<107374182400"), ["ten"]);
    // README's, with another name.
    assert_eq!(names(&interface, "fields=*&name=t*&order_by=size"), ["ten", "two"]);
    assert_eq!(names(&interface, "fields=*&name=t*&order_by=size%20desc"), ["two", "ten"]);
}

#[test]
fn policies_that_a_query_finds_are_changed_and_shown_as_they_are_now() {
    let (_directory, interface) = furnished();
    for (name, throughput) in [("p0", "500iops"), ("p1", "100MB/s"), ("p2", "500IOPS,100MB/s")] {
        let body =
            json!({ "name": name, "svm": { "name": "nfs_svm" }, "fixed": { "max_throughput": throughput } });
        assert_eq!(
            send(&interface, Method::Post, policies::POLICIES.collection.path, "", &body).0,
            202,
            "{name}"
        );
    }
    let fixed = |name: &str| {
        let query = format!("name={name}&fields=fixed");
        let (_, body) = ask(&interface, Method::Get, policies::POLICIES.collection.path, &query);
        body["records"][0]["fixed"].clone()
    };
    let both = json!({ "capacity_shared": false, "max_throughput": "500IOPS,100MB/s",
                       "max_throughput_iops": 500, "max_throughput_mbps": 100 });
    assert_eq!(fixed("p2"), both);
    assert_eq!(fixed("p0")["max_throughput_mbps"], Value::Null);
    let query = "name=p*&return_records=true&fields=fixed.max_throughput";
    let change = json!({ "fixed": { "max_throughput_iops": 700 } });
    let (status, answer) =
        send(&interface, Method::Patch, policies::POLICIES.collection.path, query, &change);
    assert_eq!((status, &answer["num_records"]), (200, &json!(3)), "{answer}");
    let records = answer["records"].as_array().unwrap().iter();
    let shown: Vec<&Value> = records.map(|record| &record["fixed"]["max_throughput"]).collect();
    assert_eq!(shown, ["700IOPS", "700IOPS,100MB/s", "700IOPS,100MB/s"]);
    // A part, and the rest behind the link.
    let (status, answer) = delete(&interface, policies::POLICIES.collection.path, "name=p*&max_records=2");
    assert_eq!((status, &answer["num_records"], &answer["records"]), (200, &json!(2), &Value::Null));
    let next = answer["_links"]["next"]["href"].as_str().unwrap();
    let (path, query) = next.split_once('?').unwrap();
    let (status, answer) = delete(&interface, path, query);
    assert_eq!((status, &answer["num_records"]), (200, &json!(1)));
}

#[test]
fn a_change_that_goes_on_after_a_failure_tells_what_succeeded_and_why_the_rest_failed() {
    let (_directory, interface) = furnished();
    // Two policies cannot share a name.
    let query = "name=*&continue_on_failure=true";
    let (status, answer) =
        send(&interface, Method::Patch, policies::POLICIES.collection.path, query, &json!({ "name": "p" }));
    assert_eq!(
        (status, &answer["num_records"], &answer["error"]["code"]),
        (400, &json!(1), &json!("262292"))
    );
    let failed = &answer["errors"][0];
    assert_eq!((&failed["code"], answer["errors"].as_array().unwrap().len()), (&json!("262287"), 1));
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("PATCH of record \"uuid: ") && message.contains("conflicts"), "{message}");
}

#[test]
fn volumes_that_a_query_finds_lose_their_policy_and_go() {
    let (_directory, interface) = furnished();
    let found = |path: &str| ask(&interface, Method::Get, path, "").1["num_records"].clone();
    let none = json!({ "qos": { "policy": { "name": "none" } } });
    assert_eq!(send(&interface, Method::Patch, volumes::VOLUMES.collection.path, "name=vol*", &none).0, 200);
    assert_eq!(names(&interface, "qos.policy.name=*"), [""; 0]);
    let (status, answer) = delete(&interface, volumes::VOLUMES.collection.path, "svm.name=nfs_svm");
    assert_eq!((status, &answer["num_records"]), (200, &json!(2)));
    assert_eq!(delete(&interface, policies::POLICIES.collection.path, "name=*").1["num_records"], json!(2));
    assert_eq!(
        delete(&interface, policies::POLICIES.collection.path, "name=*"),
        (200, json!({ "num_records": 0 }))
    );
    assert_eq!(
        (found(volumes::VOLUMES.collection.path), found(policies::POLICIES.collection.path)),
        (json!(0), json!(0))
    );
}

/// Each with a separate connection to the state, as servers and commands have.
#[test]
fn of_many_that_make_the_same_at_once_one_does() {
    let directory = tempfile::tempdir().unwrap();
    drop(State::open(directory.path()).unwrap());
    let body = json!({ "name": "p", "svm": { "name": "nfs_svm" }, "fixed": { "max_throughput_iops": 1 } });
    let start = std::sync::Barrier::new(8);
    let make = || {
        let interface = Interface::new(State::open(directory.path()).unwrap(), ServedReport::default());
        start.wait();
        send(&interface, Method::Post, policies::POLICIES.collection.path, "", &body).0
    };
    let mut codes: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    codes.sort_unstable();
    assert_eq!(codes, [202, 409, 409, 409, 409, 409, 409, 409]);
}
