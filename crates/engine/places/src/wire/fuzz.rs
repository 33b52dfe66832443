//! Lines between a runner and its keepers that are nearly right: what is read is written as a line, and read back.

use plumb_fuzz::Target;
use serde::de::DeserializeOwned;

use super::*;

fn asks() -> Vec<KeeperRequest> {
    let change = |json: &str| serde_json::from_str::<UserChange>(json).unwrap();
    let changes = vec![
        change(r#"{"sysctl":{"net.core.busy_read":"50","place":"load"}}"#),
        change(r#"{"file":{"path":"/etc/x","contents":"a"}}"#),
    ];
    let treatment = OwnTreatment { tunings: vec!["busy-poll".to_owned()], changes: changes.clone() };
    let variant = PlannedVariant { changes, ..PlannedVariant::new(1, "{}".to_owned()) };
    let watched = Watched { root: "/node".into(), fw_counters: true, network: false };
    let start = KeeperRequest::Start {
        agent: 7,
        name: "load-b".to_owned(),
        cpus: "0-3".to_owned(),
        rights: Rights::Kept,
        environment: vec!["PATH".to_owned()],
    };
    let feasible = KeeperRequest::Feasible {
        path: "null".to_owned(),
        settings: serde_json::json!({ "a": 1.1, "b": [1, null] }),
        at: Sides { system: true, load: false },
    };
    vec![
        KeeperRequest::Beat,
        KeeperRequest::Clock { sent_ns: u64::MAX },
        feasible,
        start,
        KeeperRequest::Kill { agent: 7 },
        KeeperRequest::Look { window: 3, at_ns: 9 },
        KeeperRequest::WatchNode { watched },
        KeeperRequest::KeepAwake { cpus: Some("1".to_owned()) },
        KeeperRequest::Treat(Treat::Impossible {
            variant: Box::new(variant.clone()),
            base: Some(Box::new(variant)),
        }),
        KeeperRequest::Treat(Treat::Know { treatments: vec![treatment.clone(), OwnTreatment::default()] }),
        KeeperRequest::Treat(Treat::Begin { treatment }),
        KeeperRequest::Treat(Treat::End { is_ok: true }),
        KeeperRequest::Tell { arguments: vec!["host".to_owned(), "--json".to_owned()] },
    ]
}

fn answers() -> Vec<KeeperReply> {
    let hello = Hello {
        build: "1f".to_owned(),
        boot: Some("b".to_owned()),
        cpus: "0-3".to_owned(),
        halves: ("0-1".to_owned(), "2-3".to_owned()),
        is_root: true,
        facts: vec![("kernel".to_owned(), "6.18".to_owned())],
        address: Some([10, 0, 0, 1].into()),
        peer: Some(std::net::Ipv6Addr::LOCALHOST.into()),
    };
    let ended = Ended { how: "ended with 1".to_owned(), is_from_outside: true };
    vec![
        KeeperReply::Hello(Box::new(hello)),
        KeeperReply::Clock { sent_ns: 1, at_ns: 2 },
        KeeperReply::Feasible { reason: Some("no".to_owned()) },
        KeeperReply::Obstacle { obstacle: Some(Obstacle::Already("x".to_owned())) },
        KeeperReply::Looked { window: 7, sight: Box::new(HostReading::take().unwrap()) },
        KeeperReply::Proof(Proof::default()),
        KeeperReply::Told { text: "a\nb".to_owned() },
        KeeperReply::Failed { reason: "no".to_owned() },
        KeeperReply::Log(plumb_path::log::line_now(plumb_model::LogLevel::Warn, "plumb_x", "careful")),
        KeeperReply::Ended { agent: 7, ended },
    ]
}

/// The line of a message, which is read back as the same message.
fn line<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(message: &T) -> String {
    let line = serde_json::to_string(message).unwrap();
    assert_eq!(serde_json::from_str::<T>(&line).unwrap(), *message, "what is written is read back");
    line
}

/// Reads a line, and compares it with what it is written as. Returns the kind of the message, or the error.
fn read_back<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(text: &str) -> String {
    let message = match serde_json::from_str::<T>(text) {
        Ok(message) => message,
        Err(error) => return error.to_string().chars().filter(char::is_ascii_lowercase).take(60).collect(),
    };
    let written = line(&message);
    assert!(!written.contains('\n'), "it is one line");
    assert_eq!(of_agent(&written), None, "a keeper's line is not taken for an agent's");
    assert_eq!(serde_json::from_str::<T>(&written).unwrap(), message, "what is written is read back");
    written.chars().take(24).collect()
}

#[test]
fn fuzz_keeper_lines() {
    let agents = asks().iter().map(|ask| format!("7 {}", line(ask))).collect::<Vec<_>>();
    let asks = asks().iter().map(line).collect::<Vec<_>>();
    let answers = answers().iter().map(line).collect::<Vec<_>>();
    Target::new("fuzz_keeper_lines").seeds(asks).seeds(answers).seeds(agents).run(|bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Some((agent, rest)) = of_agent(&text) {
            assert_eq!(
                of_agent(&format!("{agent} {rest}")),
                Some((agent, rest)),
                "what is written is read back"
            );
        }
        [read_back::<KeeperRequest>(&text), read_back::<KeeperReply>(&text)]
    });
}
