//! The commands that run nothing: check, list, schema, completions, version, report; and wrong uses of them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use crate::common::{code, null_experiment, plumb, run, slots_on_disk, stderr, stdout, write};
use crate::systems::ingresses::small_server;
use crate::systems::network::Server;

#[test]
fn built_in_experiments_are_listed_and_valid() {
    let output = run(&["list"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for name in ["tls-offload", "haproxy-qat", "tls-cost", "ingress-compare", "null"] {
        assert!(stdout(&output).contains(name), "{}", stdout(&output));
        let check = run(&["check", name, "--seed", "1"]);
        assert_eq!(code(&check), 0, "{name}: {}", stderr(&check));
        assert!(stdout(&check).contains("(baseline)"), "{}", stdout(&check));
    }
}

#[test]
fn a_listed_experiment_can_be_shown_and_is_a_file_that_checks() {
    let directory = tempfile::tempdir().unwrap();
    let shown = run(&["list", "--show", "tls-cost"]);
    let file = write(directory.path(), "own.yaml", stdout(&shown));
    assert_eq!(code(&run(&["check", file.to_str().unwrap()])), 0);
}

#[test]
fn an_unknown_name_gets_a_hint() {
    let output = run(&["run", "tls-ofload"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("did you mean `tls-offload`?"), "{}", stderr(&output));
    let output = run(&["runn", "tls-offload"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("run"), "{}", stderr(&output));
}

/// Every one ends with exit code 2 and one message that names file, line and column.
#[test]
fn malformed_files_are_refused_with_their_place() {
    let valid =
        null_experiment("baseline: a\nvariants: { a: {}, b: {} }\nclaims: [b.throughput > a.throughput]");
    let with = |from: &str, to: &str| valid.replacen(from, to, 1);
    let mut garbage = vec![0_u8; 10 << 20];
    garbage.iter_mut().enumerate().for_each(|(index, byte)| *byte = ((index * 2_654_435_761) >> 7) as u8);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("unknown key", with("baseline: a", "baseline: a\n  basline: b").into(), "basline"),
        ("unknown setting", with("a: {}", "a: { system: { noize: 5% } }").into(), "did you mean `noise`?"),
        ("wrong unit", with("a: {}", "a: { system: { latency: 5 MB } }").into(), "a duration such as"),
        ("no unit", with("a: {}", "a: { system: { latency: 5 } }").into(), "has no unit"),
        ("no such unit", with("a: {}", "a: { system: { latency: 5 sec } }").into(), "did you mean `s`?"),
        ("claim on an unknown variant", with("[b.", "[c.").into(), "no variant is named `c`"),
        (
            "claim on an unknown metric",
            with("[b.throughput", "[b.thruput").into(),
            "did you mean `throughput`?",
        ),
        (
            "claim on a bare trend",
            with("[b.throughput > a.throughput", "[b.latency > a.latency").into(),
            "statistic",
        ),
        ("claim without a relation", with(" > a.throughput", "").into(), "needs a relation"),
        ("tab", with("  baseline", "\tbaseline").into(), "tab"),
        ("duplicate key", with("baseline: a", "baseline: a\n  baseline: b").into(), "baseline"),
        ("empty", Vec::new(), "empty"),
        ("only a comment", b"# nothing\n".to_vec(), "empty"),
        ("10 MB of garbage", garbage, "1 MiB"),
        ("binary", (0..=255).cycle().take(4096).collect(), ""),
        ("wrong version", with("v1alpha1", "v9").into(), "plumbline.dev/v1alpha1"),
        ("wrong kind", with("kind: Experiment", "kind: Deployment").into(), "Experiment"),
        ("unknown path", with("path: \"null\"", "path: htttp").into(), "did you mean `http`?"),
        ("missing baseline", with("  baseline: a\n", "").into(), "baseline"),
        ("baseline that is not a variant", with("baseline: a", "baseline: z").into(), "z"),
        ("list for a map", with("{ a: {}, b: {} }", "[a, b]").into(), ""),
        ("unterminated quote", with("path: \"null\"", "path: \"null").into(), ""),
        (
            "blocks below two",
            with("baseline: a", "baseline: a\n  blocks: { min: 1, max: 5 }").into(),
            "blocks",
        ),
        ("enum value", with("a: {}", "a: { system: { fail: sometimes } }").into(), "sometimes"),
    ];
    let directory = tempfile::tempdir().unwrap();
    for (what, bytes, part) in cases {
        let file = write(directory.path(), "bad.yaml", bytes);
        let output = run(&["check", file.to_str().unwrap()]);
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{what}: {message}");
        let after =
            message.split_once("bad.yaml:").unwrap_or_else(|| panic!("{what}: no place in {message}")).1;
        let mut place = after.split(':');
        let line: u32 =
            place.next().unwrap().parse().unwrap_or_else(|_| panic!("{what}: no line in {message}"));
        let column: u32 =
            place.next().unwrap().parse().unwrap_or_else(|_| panic!("{what}: no column in {message}"));
        assert!(line >= 1 && column >= 1, "{what}: {message}");
        assert!(message.contains(part), "{what}: {message}");
        assert!(!message.contains("panicked"), "{what}: {message}");
        assert_eq!(stdout(&output), "", "{what}");
    }
}

#[test]
fn schemas_are_fresh() {
    for (of, file) in [
        ("experiment", "experiment.v1alpha1.schema.json"),
        ("run", "plumbline.run.v1.schema.json"),
        ("audit", "plumbline.audit.v1.schema.json"),
        ("compare", "plumbline.compare.v1.schema.json"),
        ("measurement", "plumbline.measurement.v1.schema.json"),
        ("host", "plumbline.host.v1.schema.json"),
        ("codec", "plumbline.codec.v1.schema.json"),
        ("crypto", "plumbline.crypto.v1.schema.json"),
        ("history", "plumbline.history.v1.schema.json"),
        ("history-run", "plumbline.history-run.v1.schema.json"),
        ("trend", "plumbline.trend.v1.schema.json"),
    ] {
        let printed = run(&["schema", of]);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/").to_owned() + file;
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stdout(&printed).trim_end() == written.trim_end(),
            "{file} is stale; write it anew with: plumb schema {of} > schemas/{file}"
        );
    }
}

#[test]
fn completions_and_version_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert!(stdout(&output).contains("plumb"), "{shell}");
    }
    assert!(stdout(&run(&["version"])).starts_with("plumb "));
    assert_eq!(code(&run(&["--version"])), 0);
    assert_eq!(code(&run(&[])), 2);
}

#[test]
fn a_report_of_nothing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output = run(&["report", directory.path().to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("there is no run.json"), "{}", stderr(&output));
    write(directory.path(), "run.json", "{");
    assert_eq!(code(&run(&["report", directory.path().to_str().unwrap()])), 5);
}

#[test]
fn the_host_is_described() {
    let output = run(&["host", "--json"]);
    assert_eq!(code(&output), 0);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["format"], "plumbline.host/1");
    assert!(json["facts"]["kernel"].is_string() && json["facts"]["accelerators"].is_array());
    let libraries = json["acceleration_libraries"].as_array().unwrap();
    let names: Vec<&str> = libraries.iter().map(|library| library["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["crypto_mb", "qatengine", "qatprovider", "QATzip", "QPL"]);
    for library in libraries {
        // What is there and usable has a file; all else says what to do.
        assert!(library["file"].is_string() || library["missing"].is_string(), "{library}");
    }
    let looked_at: Vec<&str> =
        json["assessments"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    for name in
        ["governor", "turbo", "idle states", "virtualisation", "conntrack", "other processes", "steal"]
    {
        assert!(looked_at.contains(&name), "no {name} in {looked_at:?}");
    }
    let text = stdout(&run(&["host"]));
    for part in ["kernel", "accelerators", "qatengine", "conntrack"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn a_claim_on_a_time_without_the_handshake_is_noted_where_every_request_has_one() {
    let directory = tempfile::tempdir().unwrap();
    let text = |reuse: &str| {
        format!(
            "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: http\n  \
             load: {{ reuse: {reuse} }}\n  baseline: a\n  variants:\n    a: {{}}\n    b: {{ system: {{ ingress: {{ threads: 2 }} }} }}\n  \
             claims: [b.http_req_duration.p95 < a.http_req_duration.p95]\n"
        )
    };
    let check = |reuse: &str| {
        let file = write(directory.path(), "x.yaml", text(reuse));
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        stdout(&output)
    };
    assert!(check("none").contains("    http_req_duration excludes connecting and TLS"), "{}", check("none"));
    assert!(!check("keep-alive").contains("excludes"), "{}", check("keep-alive"));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let path = path.to_str().unwrap();
    let measured =
        run(&["run", "null", "--quick", "--only", "faster", "--seed", "5", "--quiet", "--output", path]);
    assert_eq!(code(&measured), 0, "{}", stderr(&measured));
    let second = directory.path().join("second");
    let second = second.to_str().unwrap();
    let commands: [&[&str]; 16] = [
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["version"],
        &["list"],
        &["list", "--json"],
        &["list", "--show", "null"],
        &["check", "null"],
        &["check", "null", "--json"],
        &["schema"],
        &["completions", "bash"],
        &["host"],
        &["report", path],
        &["report", path, "--full"],
        &["report", path, "--format", "html"],
        &["run", "null", "--quick", "--only", "faster", "--seed", "5", "--quiet", "--output", second],
    ];
    for arguments in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = plumb().args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(code(&output), 5, "{arguments:?}: {}", stderr(&output));
        let expected = "error: failed to write to standard output: No space left on device";
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    assert!(Path::new(second).join("report.html").exists(), "the run's own files are written all the same");
    for arguments in [&["report", path, "--full"][..], &["schema"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = plumb().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn nothing_that_a_terminal_would_obey_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run\u{1b}[31m\u{202e}");
    let text = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\nblocks: 2";
    let text = null_experiment(text)
        .replace("{ name: test }", "{ name: test, title: \"a\\e[2Jb\\0c\\u009b1mz\\u202e\" }");
    let file = write(directory.path(), "hostile\u{1b}[7m.yaml", text);
    let (file, path) = (file.to_str().unwrap(), path.to_str().unwrap());
    let mut outputs = vec![run(&["check", file]), run(&["check", file, "--json"])];
    outputs.push(run(&["run", file, "--seed", "1", "--output", path]));
    outputs.push(run(&["run", file, "--seed", "1", "--output", path]));
    outputs.push(run(&["run", "no\u{1b}[31msuch"]));
    for format in ["text", "markdown", "html", "json", "junit"] {
        outputs.push(run(&["report", path, "--full", "--format", format]));
    }
    for output in outputs {
        let all = stdout(&output) + &stderr(&output);
        assert!(!all.is_empty());
        let obeyed = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!all.contains(obeyed), "{all:?}");
    }
}

#[test]
fn the_list_starts_no_program() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started");
    for program in ["haproxy", "nginx", "openssl", "qemu-system-x86_64", "ovs-vsctl"] {
        let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
        let path = write(directory.path(), program, script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = plumb().arg("list").env("PATH", directory.path()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(!mark.exists(), "a program was started");
}

/// Each file runs as it was written; how it is judged depends on the host.
#[test]
fn what_init_writes_runs_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let targets = ["a", "b"].map(|name| write(directory.path(), name, vec![1; 16 << 20]));
    let [first, second] = targets.each_ref().map(|target| target.to_str().unwrap());
    let url = |port: u16| format!("http://127.0.0.1:{port}/");
    let urls = [url(small_server()), url(small_server())];
    let servers = [Server::start(), Server::start()];
    let forms: [&[&str]; 5] = [
        &["--external", &urls[0], &urls[1]],
        &["--storage", first, second],
        &["--network", &servers[0].address, &servers[1].address],
        &["--migration"],
        &["--crypto"],
    ];
    // Nothing here depends on how fast it is, so they run at the same time.
    std::thread::scope(|scope| {
        for (at, form) in forms.into_iter().enumerate() {
            let directory = directory.path();
            scope.spawn(move || runs_unchanged(form, &directory.join(at.to_string())));
        }
    });
}

fn runs_unchanged(form: &[&str], output: &Path) {
    let file = output.with_extension("yaml");
    let file = file.to_str().unwrap();
    let written = run(&[&["init"][..], form, &["--file", file]].concat());
    assert_eq!(code(&written), 0, "{}", stderr(&written));
    let short = ["--quick", "--blocks", "2", "--output", output.to_str().unwrap()];
    let ran = run(&[&["run", file][..], &short].concat());
    assert!([0, 1, 3, 4].contains(&code(&ran)), "{form:?}: {}: {}", code(&ran), stderr(&ran));
    assert_eq!(slots_on_disk(output), 8, "{form:?}");
    let slots = std::fs::read_to_string(output.join("slots.jsonl")).unwrap();
    assert_eq!(slots.matches(r#""outcome":{"measured""#).count(), 8, "{form:?}: {slots:.1000}");
}

#[test]
fn what_init_writes_passes_check_and_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) =
        (write(directory.path(), "a", vec![1; 1 << 20]), write(directory.path(), "b", vec![2; 1 << 20]));
    let (first, second) = (first.to_str().unwrap(), second.to_str().unwrap());
    let forms: [&[&str]; 5] = [
        &["--external", "http://127.0.0.1:1/", "https://127.0.0.1:2/x"],
        &["--storage", first, second],
        &["--network", "127.0.0.1", "127.0.0.1:2"],
        &["--migration"],
        &["--crypto"],
    ];
    for (at, form) in forms.iter().enumerate() {
        let file = directory.path().join(format!("{at}.yaml"));
        let file = file.to_str().unwrap();
        let init = || run(&[&["init"][..], form, &["--file", file]].concat());
        let written = init();
        assert_eq!(code(&written), 0, "{}", stderr(&written));
        let checked = run(&["check", file]);
        assert_eq!(code(&checked), 0, "{form:?}: {}", stderr(&checked));
        assert!(!stdout(&checked).contains("skipped"), "{form:?}: {}", stdout(&checked));
        let again = init();
        assert_eq!(code(&again), 2, "{}", stderr(&again));
        assert!(stderr(&again).contains("exists and is not overwritten; name another file with --file"));
    }
    let nowhere = directory.path().join("wrong.yaml");
    let wrong = run(&["init", "--external", "a.example", "b.example", "--file", nowhere.to_str().unwrap()]);
    assert_eq!(code(&wrong), 2, "{}", stderr(&wrong));
    assert!(!nowhere.exists(), "nothing is written that could not run");
}
