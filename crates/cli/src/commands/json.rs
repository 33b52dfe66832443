//! The output of `--json`: one object, whose `format` names its kind and version.

use clap::{Command, CommandFactory, ValueEnum};

use crate::args::{Arguments, SchemaOf};
use crate::in_process::{NobodyAt, made, null_experiment, on_disk, plumb, write};

/// Commands that start processes and measure. Their documents have schemas.
const MEASURE: [&str; 8] = ["codec", "command", "crypto", "http", "migrate", "network", "run", "storage"];

/// Every command that has `--json`, as it is typed.
fn with_json(command: &Command, before: &str) -> Vec<String> {
    let below = command.get_subcommands().flat_map(|below| {
        let typed = format!("{before} {}", below.get_name());
        with_json(below, typed.trim())
    });
    let own = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
    own.then(|| before.to_owned()).into_iter().chain(below).collect()
}

#[test]
fn every_document_with_a_schema_has_a_format() {
    for of in SchemaOf::value_variants().iter().filter(|of| **of != SchemaOf::Experiment) {
        let schema = plumb(&["schema", of.to_possible_value().unwrap().get_name()]).json();
        assert!(schema["required"].as_array().unwrap().contains(&"format".into()), "{of:?}");
    }
}

#[test]
fn every_command_with_json_prints_an_object_with_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file =
        write(folder.path(), "x.yaml", null_experiment("baseline: a\nvariants: { a: {}, b: {} }\nblocks: 2"));
    let notes = write(folder.path(), "notes.md", "nothing\n");
    let wrk = write(
        folder.path(),
        "wrk.txt",
        include_str!("../../../results/readers/tests/fixtures/wrk/plain.txt"),
    );
    let run = on_disk(folder.path(), &made::run("x", 1, 1.0));
    let (run, history, state) = (run.to_str().unwrap(), at("history.db"), at("state"));
    assert_eq!(plumb(&["history", "add", run, "--database", &history]).code, 0);
    let listed = plumb(&["history", "list", "--database", &history, "--json"]).json();
    let key = listed["runs"][0]["run"].as_str().unwrap();
    let nobody = NobodyAt::loopback();
    let host = format!("ssh://127.0.0.1:{}", nobody.port);
    let rows: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["audit"], vec![&notes]),
        (vec!["check"], vec![&file]),
        (vec!["compare"], vec![run, run]),
        (vec!["history", "list"], vec!["--database", &history]),
        (vec!["history", "show"], vec![key, "--database", &history]),
        (vec!["history", "trend"], vec!["x", "--database", &history]),
        (vec!["host"], vec![]),
        (vec!["import"], vec![&wrk]),
        (vec!["list"], vec![]),
        (vec!["places", "check"], vec!["--system-on", &host]),
        (vec!["tune", "list"], vec![]),
        (vec!["tune", "status"], vec![]),
        (vec!["volumes", "list"], vec!["--state", &state]),
        (vec!["volumes", "policy", "list"], vec!["--state", &state]),
    ];
    let mut known: Vec<String> = rows.iter().map(|(command, _)| command.join(" ")).collect();
    known.extend(MEASURE.map(str::to_owned));
    known.sort();
    let mut all = with_json(&Arguments::command(), "");
    all.sort();
    assert_eq!(all, known);
    for (command, arguments) in rows {
        let said = plumb(&[command.clone(), arguments, vec!["--json"]].concat());
        let format = said.json()["format"].as_str().map(str::to_owned).unwrap_or_default();
        assert!(format.starts_with("plumbline.") && format.ends_with("/1"), "{command:?}: {said:?}");
    }
}
