//! Requests and their answers, without a network.

mod found;
mod wrong;

use std::sync::Arc;

use plumb_volumes::limiter::{Account, Limits};
use plumb_volumes::policy::{Adaptive, Fixed, Policy};
use plumb_volumes::{Report, VolumeReport};
use serde_json::{Value, json};

use super::*;

fn interface(served: ServedReport) -> (tempfile::TempDir, Interface) {
    let directory = tempfile::tempdir().unwrap();
    let state = State::open(directory.path()).unwrap();
    (directory, Interface::new(state, served))
}

/// The answer to a request without a body.
fn ask(interface: &Interface, method: Method, path: &str, query: &str) -> (u16, Value) {
    let request = Request { method: Some(method), path, query, body: &[], with_links: false };
    let answer = interface.answer(&request);
    (answer.status, answer.body)
}

/// The answer to a request with a body, with links.
fn send(interface: &Interface, method: Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string().into_bytes();
    let answer =
        interface.answer(&Request { method: Some(method), path, query, body: &body, with_links: true });
    (answer.status, answer.body)
}

fn delete(interface: &Interface, path: &str, query: &str) -> (u16, Value) {
    let request = Request { method: Some(Method::Delete), path, query, body: &[], with_links: true };
    let answer = interface.answer(&request);
    (answer.status, answer.body)
}

fn uuid_of(interface: &Interface, collection: &str, name: &str) -> String {
    let (_, body) = ask(interface, Method::Get, collection, &format!("name={name}"));
    body["records"][0]["uuid"].as_str().unwrap().to_owned()
}

/// An SVM, two policies, and two volumes.
fn furnished() -> (tempfile::TempDir, Interface) {
    let (directory, interface) = interface(ServedReport::default());
    let state = &interface.state;
    state.create_svm("other", Some("02c9e252-41be-11e9-81d5-00a0986138f7")).unwrap();
    let fixed = Fixed { max_iops: Some(500), ..Fixed::default() };
    state.create_policy("fixed", &Policy::Fixed(fixed)).unwrap();
    state.create_policy("adaptive", &Policy::Adaptive(Adaptive::new(5 * 1024, 50 * 1024))).unwrap();
    state.create_volume("vol0", 1_000_000_000, None).unwrap();
    state.create_volume("vol1", 1_000_000_000, Some("fixed")).unwrap();
    (directory, interface)
}

#[test]
fn a_policy_is_deleted_with_what_it_does_to_volumes() {
    let (_directory, interface) = interface(ServedReport::default());
    let state = &interface.state;
    for name in ["gold", "silver"] {
        let fixed = Fixed { max_iops: Some(500), ..Fixed::default() };
        state.create_policy(name, &Policy::Fixed(fixed)).unwrap();
        state.create_volume(&format!("of_{name}"), 4096, Some(name)).unwrap();
    }
    let path = format!("{}/{}", policies::POLICIES.collection.path, state.policies().unwrap()[0].uuid);
    assert_eq!(ask(&interface, Method::Delete, &path, "").0, 202);
    let under = || {
        let volumes = state.volumes().unwrap();
        volumes.into_iter().map(|row| row.policy.unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(under(), ["", "silver"]);
    assert_eq!(ask(&interface, Method::Delete, policies::POLICIES.collection.path, "name=*").0, 200);
    assert_eq!((under(), state.policies().unwrap()), (vec![String::new(); 2], vec![]));
}

#[test]
fn what_is_shown_is_of_one_moment() {
    const NAMES: [&str; 2] = ["gold", "silver"];
    let (directory, interface) = interface(ServedReport::default());
    let fixed = Fixed { max_iops: Some(500), ..Fixed::default() };
    interface.state.create_policy(NAMES[0], &Policy::Fixed(fixed)).unwrap();
    interface.state.create_volume("vol1", 4096, Some(NAMES[0])).unwrap();
    let other = State::open(directory.path()).unwrap();
    std::thread::scope(|scope| {
        let renaming = scope.spawn(move || {
            for round in 0..100 {
                other.rename_policy(NAMES[round % 2], NAMES[(round + 1) % 2]).unwrap();
            }
        });
        while !renaming.is_finished() {
            let (_, body) = ask(&interface, Method::Get, volumes::VOLUMES.collection.path, "fields=qos");
            assert!(body["records"][0]["qos"]["policy"]["name"].is_string(), "{body}");
        }
    });
}

#[test]
fn what_a_server_said_of_a_volume_is_not_said_of_another_that_has_its_name_now() {
    let served = ServedReport::default();
    let (_directory, interface) = interface(Arc::clone(&served));
    interface.state.create_volume("vol1", 4096, None).unwrap();
    let report = VolumeReport {
        uuid: interface.state.volumes().unwrap()[0].uuid.clone(),
        name: "vol1".to_owned(),
        size_bytes: 4096,
        used_bytes: 0,
        policy: None,
        is_in_use: false,
        limits: Limits { iops: std::num::NonZeroU64::new(500), ..Limits::NONE },
        account: Account::default(),
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 10_809)).into();
    *served.write().unwrap() = Some(Report { followed_ns: 0, address, volumes: vec![report] });
    interface.state.rename_volume("vol1", "vol2").unwrap();
    interface.state.create_volume("vol1", 4096, None).unwrap();
    let limit = |name: &str| {
        let query = format!("name={name}&fields=plumbline");
        let (_, body) = ask(&interface, Method::Get, volumes::VOLUMES.collection.path, &query);
        body["records"][0]["plumbline"]["limits"]["iops"].as_u64()
    };
    assert_eq!((limit("vol1"), limit("vol2")), (None, Some(500)));
}
