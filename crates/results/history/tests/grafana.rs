//! The dashboard of `docs/grafana` on a Postgres history: every statement runs and finds what the history
//! has.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start a server, wait for it, and stop at the first surprise"
)]

#[path = "made/mod.rs"]
mod made;
#[path = "server/mod.rs"]
mod server;

use std::collections::BTreeMap;
use std::io::Write;

use plumb_history::{Database, Location, Record};
use plumb_judge::judge;
use serde_json::Value;
use server::Server;

/// The dashboard as it is imported.
fn dashboard() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/grafana/plumbline.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn items<'a>(value: &'a Value, pointer: &str) -> &'a Vec<Value> {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("no {pointer}"))
}

/// A statement as Grafana would send it: with the values of the dashboard's variables, over all time.
fn as_sent(sql: &str, variables: &BTreeMap<String, String>) -> String {
    let mut sent =
        sql.replace("$__unixEpochNanoFrom()", "0").replace("$__unixEpochNanoTo()", "9000000000000000000");
    for (name, value) in variables {
        let quoted = format!("'{}'", value.replace('\'', "''"));
        sent = sent.replace(&format!("${{{name}:sqlstring}}"), &quoted);
    }
    assert!(!sent.contains('$'), "a macro or a variable is left: {sent}");
    sent
}

#[test]
fn every_panel_of_the_dashboard_shows_what_the_history_has() {
    let server = match Server::start() {
        Ok(server) => server,
        Err(reason) => {
            let test = "every_panel_of_the_dashboard_shows_what_the_history_has";
            let _ = writeln!(std::io::stderr(), "test skipped: {test}: {reason}");
            return;
        }
    };
    let url = server.database("grafana");
    let mut history = Database::open(&Location::parse(&url).unwrap()).unwrap();
    for number in 0..3 {
        let run = made::run("x", number, 1.0);
        history.add(&Record::of_run(&run, &judge(&run.header.plan, &run.slots), 0).unwrap()).unwrap();
    }
    let ask =
        |sql: &str, variables: &BTreeMap<String, String>| server.sql("grafana", &as_sent(sql, variables));

    let dashboard = dashboard();
    let mut variables = BTreeMap::new();
    for variable in items(&dashboard, "/templating/list").iter().filter(|it| it["type"] == "query") {
        let name = variable["name"].as_str().unwrap();
        let values = ask(variable["query"].as_str().unwrap(), &variables);
        let chosen = values.lines().next_back().unwrap_or_else(|| panic!("`{name}` has no value"));
        variables.insert(name.to_owned(), chosen.to_owned());
    }
    assert_eq!(variables["variant"], "b");
    assert_eq!(variables["metric"], "throughput");

    let panels = items(&dashboard, "/panels");
    for (panel, rows) in [
        ("Verdicts of each run", 3),
        ("Ratios of the latest run", 5),
        ("$variant: $metric over the baseline", 3),
        ("$metric of every variant", 6),
        ("Runs", 3),
    ] {
        let found =
            panels.iter().find(|it| it["title"] == panel).unwrap_or_else(|| panic!("no panel {panel}"));
        let answer = ask(found["targets"][0]["rawSql"].as_str().unwrap(), &variables);
        assert_eq!(answer.lines().count(), rows, "{panel}: {answer}");
    }
    assert_eq!(panels.len(), 5, "a new panel needs a row above");
    for annotation in items(&dashboard, "/annotations/list") {
        assert_eq!(
            ask(annotation["target"]["rawSql"].as_str().unwrap(), &variables),
            "",
            "nothing is marked yet"
        );
    }
}
