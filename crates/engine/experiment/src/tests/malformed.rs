//! Malformed files and their reports.

use insta::assert_snapshot;
use miette::{GraphicalReportHandler, GraphicalTheme};

use super::*;

/// The one-line report on a text.
fn check(text: &str) -> String {
    check_bytes(text.as_bytes())
}

fn check_bytes(bytes: &[u8]) -> String {
    read_experiment("x.yaml", bytes, &ReadOptions::default(), &paths()).unwrap_err().plain()
}

/// The report as a terminal shows it, without colours.
fn report(text: &str) -> String {
    let error = plan_of(text, &ReadOptions::default()).unwrap_err();
    let mut shown = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(100);
    handler.render_report(&mut shown, &error).unwrap();
    shown
}

#[test]
fn a_file_that_is_no_text_or_nothing() {
    assert_snapshot!(check(""), @"x.yaml:1:1: the file is empty; an experiment begins with `apiVersion: plumbline.dev/v1alpha1`");
    assert_snapshot!(check("# only\n# comments\n"), @"x.yaml:1:1: the file is empty; an experiment begins with `apiVersion: plumbline.dev/v1alpha1`");
    assert_snapshot!(check("---\n"), @"x.yaml:2:1: the file is empty; an experiment begins with `apiVersion: plumbline.dev/v1alpha1`");
    assert_snapshot!(check_bytes(b"kind: Experiment\nname: \xff\xfe\n"), @"x.yaml:2:7: the file is not UTF-8 text: byte 0xff at offset 23");
    assert_snapshot!(check_bytes(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0x80]), @"x.yaml:1:11: the file is not UTF-8 text: byte 0x80 at offset 10");
    assert_snapshot!(check_bytes(&[0, 1, 2, 3, 27, b'[', b'1', b'm']), @"x.yaml:1:1: this is not valid YAML: a text file must not contain this character");
    assert_snapshot!(check_bytes(&vec![b'x'; 10_000_000]), @"x.yaml:1:1: an experiment file is at most 1 MiB; this one has 10 MB");
    assert_snapshot!(check_bytes(&vec![b'x'; (1 << 20) + 1]), @"x.yaml:1:1: an experiment file is at most 1 MiB; this one has 1048577 B");
    assert_snapshot!(check("just a text\n"), @"x.yaml:1:1: expected a mapping with keys of apiVersion, kind, metadata, spec, found `just a text`");
    assert_snapshot!(check("- a\n- b\n"), @"x.yaml:1:1: expected a mapping with keys of apiVersion, kind, metadata, spec, found a list");
}

#[test]
fn yaml_that_is_none() {
    assert_snapshot!(check(&with("  path: http", "\tpath: http")), @"x.yaml:7:1: a tab indents this line; YAML is indented with spaces");
    assert_snapshot!(check(&with("    software: {}", "\t software: {}")), @"x.yaml:15:1: a tab indents this line; YAML is indented with spaces");
    assert_snapshot!(check(&with("\"status == 200\"", "\"status == 200")), @"x.yaml:11:82: this is not valid YAML: a text ends with its closing quote; expected `,` or the end of the line");
    assert_snapshot!(check(&with("title: Does", "title: 'Does")), @"x.yaml:5:10: this is not valid YAML: the closing quote of this text is missing");
    assert_snapshot!(check(&with("title: Does", "title: Does: ")), @"x.yaml:5:14: this is not valid YAML: a key is not allowed here; quote the text if its `:` ends no key");
    assert_snapshot!(check(&with("key: rsa-2048, offload: none }", "key: rsa-2048")), @"x.yaml:10:11: this is not valid YAML: a `{` before this was not closed: expected `,` or `}`");
    assert_snapshot!(check(&with("  path: http", "   path: http")), @"x.yaml:8:3: this is not valid YAML: this line is not indented as those before it");
    assert_snapshot!(check(&with("path: http", "path: @http")), @"x.yaml:7:9: this is not valid YAML: no text can begin with this character unless it is quoted");
    assert_snapshot!(check(&with("path: http", "path: *http")), @"x.yaml:7:9: this is not valid YAML: no anchor has this name; quote the text if its `*` is not an alias");
    assert_snapshot!(check(&format!("{GOOD}---\n{GOOD}")), @"x.yaml:23:1: a second document begins here; an experiment file has one");
}

#[test]
fn yaml_that_would_surprise() {
    assert_snapshot!(check(&with("  baseline: software", "  load: {}\n  baseline: software")), @"x.yaml:12:3: the key `load` appears a second time here; it is first set here (11:3)");
    assert_snapshot!(check(&with("path: http", "path: !!str http")), @"x.yaml:7:9: the value here has a YAML tag (`!…`), which has no meaning in an experiment; remove the tag; the setting itself says what its text means");
    assert_snapshot!(check(&with("software: {}", "software: { <<: {} }")), @"x.yaml:15:17: merge keys (`<<`) are not supported; a variant is merged over the baseline by itself and needs to say only what differs");
    assert_snapshot!(check(&with("software: {}", "software: &x { system: *x }")), @"x.yaml:15:28: the alias is inside the value that it refers to");
    assert_snapshot!(check(&with("software: {}", "[software]: {}")), @"x.yaml:15:5: a key must be a plain text");
    assert_snapshot!(check(&with("software: {}", ": {}")), @"x.yaml:15:5: a key is missing here");
}

#[test]
fn keys_without_a_value() {
    assert_snapshot!(check(&with("connections: 20,", "connections: 1,000,")), @"x.yaml:11:26: the key `000` has no value; a comma ends the value before it; write the number without one: 1000");
    assert_snapshot!(check(&with("software: {}", "software:")), @"x.yaml:15:5: the key `software` has no value; write one, `{}` for nothing in it, or `null` for the default");
    assert_snapshot!(check(&with("  baseline: software", "  baseline: software\n  unknown:")), @"x.yaml:13:3: the key `unknown` has no value; write one, `{}` for nothing in it, or `null` for the default");
}

#[test]
fn unknown_keys_at_every_level() {
    assert_snapshot!(check(&with("metadata:", "metdata:")), @"x.yaml:3:1: unknown key `metdata`; did you mean `metadata`?");
    assert_snapshot!(check(&with("  title:", "  titel:")), @"x.yaml:5:3: unknown key `titel`; did you mean `title`?");
    assert_snapshot!(check(&with("  baseline:", "  basline:")), @"x.yaml:12:3: unknown key `basline`; did you mean `baseline`?");
    assert_snapshot!(check(&with("blocks: { min", "blocks: { minimum")), @"x.yaml:18:13: unknown key `minimum`; known: min, max");
    assert_snapshot!(check(&with("software: {}", "software: { sytem: {} }")), @"x.yaml:15:17: unknown key `sytem`; did you mean `system`?");
    assert_snapshot!(check(&with("    ingress: {", "    ingres: {")), @"x.yaml:9:5: unknown key `ingres`; did you mean `ingress`?");
    assert_snapshot!(check(&with("{ offload: threads }", "{ ofload: threads }")), @"x.yaml:16:37: unknown key `ofload`; did you mean `offload`?");
    assert_snapshot!(check(&with("connections: 20", "conections: 20")), @"x.yaml:11:11: unknown key `conections`; did you mean `connections`?");
    assert_snapshot!(check(&with("connections: 20", "quantum: 20")), @"x.yaml:11:11: unknown key `quantum`; known: connections, threads, reuse, duration, warmup, requests, rate, insecure, share, headers, checks");
    assert_snapshot!(check(&with("software: {}", "software: { host: { governor: performance } }")), @"x.yaml:15:25: unknown key `governor`; known: tunings");
    assert_snapshot!(check(&with("  baseline:", "  host: { mtu: 9000 }\n  baseline:")), @"x.yaml:12:11: unknown key `mtu`; known: tunings");
}

#[test]
fn tunings_that_no_host_has() {
    let tunings =
        |list: &str| check(&with("software: {}", &format!("software: {{ host: {{ tunings: {list} }} }}")));
    assert_snapshot!(tunings("[governer]"), @"x.yaml:15:35: no tuning is named `governer`; did you mean `governor`?");
    assert_snapshot!(tunings("[busy-read=soon]"), @"x.yaml:15:35: `busy-read=soon`: it must be a number of µs");
    assert_snapshot!(tunings("[numa-balancing=1]"), @"x.yaml:15:35: `numa-balancing` takes no argument");
    assert_snapshot!(tunings("[sysctl]"), @"x.yaml:15:35: `sysctl` needs an argument: sysctl=…, KEY=VALUE");
    assert_snapshot!(tunings("[sysctl=../../etc/passwd=1]"), @"x.yaml:15:35: `../../etc/passwd` is not a sysctl");
    assert_snapshot!(tunings("[fast-path]"), @"x.yaml:15:35: `fast-path` is not a setting of the host; set `system.fastpath` of the data path `network`");
    assert_snapshot!(tunings("[governor, rings, governor]"), @"x.yaml:15:52: `governor` is named twice");
    assert_snapshot!(tunings("governor"), @"x.yaml:15:34: expected a list, found `governor`");
}

#[test]
fn values_of_the_wrong_form() {
    assert_snapshot!(check(&with("duration: 5 s", "duration: 5 sec")), @"x.yaml:11:51: `sec` is not a unit; did you mean `s`?");
    assert_snapshot!(check(&with("body: 612 B", "body: 612 ms")), @"x.yaml:10:37: `612 ms` is a duration such as `5 s` or `200 us`; expected an amount of data such as `612 B` or `4 KiB`");
    assert_snapshot!(check(&with("body: 612 B", "body: 1 KB")), @"x.yaml:10:37: `KB` is not a unit; write `kB` for 1,000 bytes or `KiB` for 1,024");
    assert_snapshot!(check(&with("kind: embedded, tls", "kind: haproxi, tls")), @"x.yaml:9:22: `haproxi` is not a value of this key; did you mean `haproxy`?");
    assert_snapshot!(check(&with("tls: 1.2", "tls: 1.1")), @"x.yaml:9:37: `1.1` is not a value of this key; did you mean `1.2`?");
    assert_snapshot!(check(&with("connections: 20", "requests: many")), @"x.yaml:11:21: expected a whole number from 0, found `many`");
    assert_snapshot!(check(&with("connections: 20", "threads: -1")), @"x.yaml:11:20: expected a whole number from 0 to 4294967295, found `-1`");
    assert_snapshot!(check(&with("connections: 20", "share: .nan")), @"x.yaml:11:18: expected a number, found `.nan`");
    assert_snapshot!(check(&with("connections: 20", "share: nan")), @"x.yaml:11:18: expected a finite number");
    assert_snapshot!(check(&with("connections: 20", "headers: { a: [b] }")), @"x.yaml:11:25: expected a text, found a list");
    let headers = |value: &str| check(&with("connections: 20", &format!("headers: {value}")));
    assert_snapshot!(headers("[\"Accept-Encoding: gzip\", { A: \"b, c\" }]"), @r#"x.yaml:11:20: expected a mapping such as `{ Accept-Encoding: gzip, A: "b, c" }`, found a list"#);
    assert_snapshot!(headers("[gzip]"), @"x.yaml:11:20: expected a mapping such as `{ NAME: VALUE }`, found a list");
    assert_snapshot!(headers("'Accept-Encoding: gzip'"), @"x.yaml:11:20: expected a mapping such as `{ Accept-Encoding: gzip }`, found `Accept-Encoding: gzip`");
    assert_snapshot!(check(&with("connections: 20", "checks: [~]").replace(", checks: [\"status == 200\", \"duration < 200 ms\"]", "")), @"x.yaml:11:20: expected a text, found nothing");
    assert_snapshot!(check(&with("connections: 20", "connections: 20, insecure: maybe")), @"x.yaml:11:38: `maybe` is neither `true` nor `false` (`on`, `off`, `yes` and `no` work too)");
    assert_snapshot!(check(&with("connections: 20", "threads: [20]")), @"x.yaml:11:20: expected a whole number from 0 to 4294967295, found a list");
    assert_snapshot!(check(&with("{ kind: embedded, body: 612 B }", "[embedded]")), @"x.yaml:10:13: expected a mapping with keys of kind, body, found a list");
    assert_snapshot!(check(&with("{ kind: embedded, body: 612 B }", "embedded")), @"x.yaml:10:13: expected a mapping with keys of kind, body, found `embedded`");
    assert_snapshot!(check(&with("checks: [\"status == 200\", \"duration < 200 ms\"]", "checks: status == 200")), @"x.yaml:11:64: expected a list, found `status == 200`");
    assert_snapshot!(check(&with("reuse: none", "reuse: { none: 1 }")), @"x.yaml:11:35: `none` takes no settings");
    assert_snapshot!(check(&with("reuse: none", "reuse: [none]")), @"x.yaml:11:35: expected one of keep-alive, none, found a list");
    assert_snapshot!(check(&with("{ offload: threads }", "{ offload: engine }")), @"x.yaml:16:46: `engine` needs a value: write `{ engine: … }`");
    assert_snapshot!(check(&with("{ offload: threads }", "{ offload: { engine: } }")), @"x.yaml:16:48: the key `engine` has no value; write one, `{}` for nothing in it, or `null` for the default");
    assert_snapshot!(check(&with("{ offload: threads }", "{ offload: { engine: [a] } }")), @"x.yaml:16:56: expected a text, found a list");
    assert_snapshot!(check(&with("{ offload: threads }", "{ offload: { engines: a } }")), @"x.yaml:16:48: `engines` is not a value of this key; did you mean `engine`?");
    assert_snapshot!(check(&with("{ offload: threads }", "{ offload: { engine: a, threads: b } }")), @"x.yaml:16:46: expected a single key, one of none, threads, engine");
    assert_snapshot!(check(&with("    - plain.http_reqs >", "    - plain: http_reqs >")), @"x.yaml:22:7: expected a text, found a mapping");
    assert_snapshot!(check(&with("software: {}", "software: 5")), @"x.yaml:15:15: expected a mapping with keys of system, load, host, changes, pods, found `5`");
}

#[test]
fn the_outer_form() {
    assert_snapshot!(check(&with("v1alpha1", "v1")), @"x.yaml:1:13: `plumbline.dev/v1` is not a value of this key; did you mean `plumbline.dev/v1alpha1`?");
    assert_snapshot!(check(&with("kind: Experiment", "kind: Deployment")), @"x.yaml:2:7: `Deployment` is not a value of this key; known: Experiment");
    assert_snapshot!(check(&with("kind: Experiment\n", "")), @"x.yaml:1:1: the key `kind` is missing here");
    assert_snapshot!(check(&with("name: tls-offload", "name: TLS_offload")), @"x.yaml:4:9: `TLS_offload` has a `T`; an experiment's name is 1 to 63 lower-case letters, digits and `-`, such as `tls-offload`");
    assert_snapshot!(check(&with("path: http", "path: htttp")), @"x.yaml:7:9: no data path is named `htttp`; did you mean `http`?");
    assert_snapshot!(check(&with("path: http", "path: storage")), @"x.yaml:7:9: no data path is named `storage`; known: http, null");
    assert_snapshot!(check(&with("  baseline: software\n", "")), @"x.yaml:6:1: the key `baseline` is missing here");
    assert_snapshot!(check(&with("baseline: software", "baseline: sofware")), @"x.yaml:12:13: the baseline `sofware` is not one of the variants; did you mean `software`?");
    assert_snapshot!(check(&with("    plain:", "    tls.none:")), @"x.yaml:14:5: `tls.none` has a `.`; a variant's name is a letter and then letters, digits, `-` and `_`, such as `rsa-2048` or `io_uring`");
    assert_snapshot!(check(&with("    plain:", "    4k:")), @"x.yaml:14:5: `4k` begins with a digit; a variant's name is a letter and then letters, digits, `-` and `_`, such as `rsa-2048` or `io_uring`");
    assert_snapshot!(check(&with("    plain:", "    control:").replace("  blocks:", "  control: true\n  blocks:")), @"x.yaml:14:5: the name `control` is taken by `control: true`, which adds a variant of that name");
}

#[test]
fn too_few_variants() {
    let alone = GOOD.replace("    plain: { system: { ingress: { tls: none } } }\n", "");
    let alone = alone.replace("    threads: { system: { ingress: { offload: threads } } }\n", "");
    let alone = &alone[..alone.find("  claims:").unwrap()];
    assert_snapshot!(check(alone), @"x.yaml:13:3: `software` is the only variant; an experiment needs another beside the baseline; add a variant, or `control: true` for a copy of the baseline");
    assert_snapshot!(check(&alone.replace("    software: {}\n", "    {}\n")), @"x.yaml:13:3: there are no variants, not even the baseline; add `software: {}` and at least one variant that changes something");
}

#[test]
fn blocks_out_of_range() {
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "1")), @"x.yaml:18:11: `blocks` is 1; at least 2 blocks are needed to measure their scatter");
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "1001")), @"x.yaml:18:11: `blocks` is 1001; at most 1000 blocks can be run");
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "six")), @"x.yaml:18:11: expected a number of blocks, or a mapping such as `{ min: 6, max: 20 }`, found `six`");
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "[6]")), @"x.yaml:18:11: expected a number of blocks, or a mapping such as `{ min: 6, max: 20 }`, found a list");
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "{ min: 1 }")), @"x.yaml:18:13: `min` is 1; at least 2 blocks are needed to measure their scatter");
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "{ min: 5, max: 4 }")), @"x.yaml:18:21: `max` is 4 and `min` is 5; `max` must not be below `min`");
    assert_snapshot!(check(&with("{ min: 5, max: 20 }", "{ max: 100000 }")), @"x.yaml:18:13: `max` is 100000; at most 1000 blocks can be run");
}

#[test]
fn a_matrix_that_cannot_be_expanded() {
    let matrix = |to: &str| check(&with("{ load.connections: [20] }", to));
    assert_snapshot!(matrix("{ laod.connections: [20] }"), @"x.yaml:17:13: a key of the matrix begins with `system` or `load`, not `laod`; did you mean `load`?");
    assert_snapshot!(matrix("{ load.conections: [20] }"), @"x.yaml:17:18: unknown key `conections`; did you mean `connections`?");
    assert_snapshot!(matrix("{ load: [20] }"), @"x.yaml:17:13: `load` names no setting; write a dotted key such as `load.connections`");
    assert_snapshot!(matrix("{ load..connections: [20] }"), @"x.yaml:17:13: `load..connections` names no setting; write a dotted key such as `load.connections`");
    assert_snapshot!(matrix("{ host.mtu: [1500] }"), @"x.yaml:17:13: a key of the matrix begins with `system` or `load`, not `host`; known: system, load");
    assert_snapshot!(matrix("{ load.connections: [] }"), @"x.yaml:17:13: `load.connections` has no values; write a list such as [1, 20]");
    assert_snapshot!(matrix("{ load.connections: 20 }"), @"x.yaml:17:31: expected a list, found `20`");
    assert_snapshot!(matrix("{ load.connections: [20, 1, 20] }"), @"x.yaml:17:39: `load.connections` has this value twice, and would make the same cells twice");
    assert_snapshot!(matrix("{ load.connections: [[20]] }"), @"x.yaml:17:32: expected a text, found a list");
    assert_snapshot!(matrix("{ load.duration.most: [20] }"), @"x.yaml:17:18: `duration` is a text, so that `load.duration.most` cannot be set; it is set here (11:51)");
    assert_snapshot!(matrix("{ load.connections: [1, x] }"), @"x.yaml:17:35: expected a whole number from 0 to 4294967295, found `x`");
    assert_snapshot!(matrix("{ system.ingress.tls: [none, 1.3] }"), @"x.yaml:14:35: the matrix sets `system.ingress.tls`, too; only one of the two can; the matrix sets it here (17:13)");
    assert_snapshot!(matrix("{ load.duration: [1 s, 2 s] }"), @"x.yaml:17:18: a window of 2 s here and one of 1 s for the baseline: all slots of a run must have the same; the first one (17:18)");
    let many: Vec<String> = (0..20).map(|value| value.to_string()).collect();
    let many = many.join(", ");
    assert_snapshot!(matrix(&format!("{{ load.connections: [{many}], load.threads: [{many}] }}")), @"x.yaml:17:3: the matrix makes 400 cells; at most 256 can be run");
    let many: Vec<String> = (0..300).map(|value| value.to_string()).collect();
    assert_snapshot!(matrix(&format!("{{ load.connections: [{}] }}", many.join(", "))), @"x.yaml:17:13: `load.connections` has 300 values; at most 256 cells can be run");
}

#[test]
fn claims_that_cannot_be_judged() {
    let claim = |to: &str| check(&with("plain.http_reqs > software.http_reqs", to));
    assert_snapshot!(claim("multibuffer.http_reqs > software.http_reqs"), @"x.yaml:22:7: no variant is named `multibuffer`; known: software, plain, threads");
    assert_snapshot!(claim("plain.http_reqs > software.http_rqs"), @"x.yaml:22:34: no metric is named `http_rqs`; did you mean `http_reqs`?");
    assert_snapshot!(claim("'plain.http_req_duration.p42 < 5 ms'"), @"x.yaml:22:32: no statistic is named `p42`; known: avg, min, med, max, p90, p95, p99, p99.9");
    assert_snapshot!(claim("\"plain.http_req_duration.p\\u0034\\u0032 < 5 ms\""), @"x.yaml:22:7: no statistic is named `p42`; known: avg, min, med, max, p90, p95, p99, p99.9");
    assert_snapshot!(claim("plain.http_req_duration.p95 < 5"), @"x.yaml:22:37: `5` has no unit; expected a duration such as `5 s` or `200 us`");
    assert_snapshot!(claim("plain.http_req_duration.p95 < 1,0 ms"), @"x.yaml:22:37: `1,0 ms` has a comma: write a decimal point: `1.0`");
    assert_snapshot!(claim("plain.http_reqs"), @"x.yaml:22:7: a claim needs a relation: >=, <=, >, < or ==");
    assert_snapshot!(claim(&"x".repeat(600)), @"x.yaml:22:7: a claim is at most 500 bytes long");
}

#[test]
fn settings_that_do_not_go_together() {
    assert_snapshot!(check(&with("\"duration < 200 ms\"", "\"latency < 200 ms\"")), @"x.yaml:11:82: `latency < 200 ms` is not a check; `status == 200` would be one");
    assert_snapshot!(check(&with("{ offload: threads }", "{ offload: threads, kind: nginx }")), @"x.yaml:16:37: `offload` goes with `kind: embedded` only; this is so in the variant `threads`");
    assert_snapshot!(check(&with("{ tls: none }", "{ kind: external }")), @"x.yaml:14:24: `kind: external` needs a `url`; this is so in the variant `plain`");
    assert_snapshot!(check(&with("duration: 5 s", "duration: 0 s")), @"x.yaml:11:41: a window must be longer than 0 s");
    assert_snapshot!(check(&with("software: {}", "software: { load: { duration: 1 s } }")), @"x.yaml:11:41: a window of 5 s here and one of 1 s for the baseline: all slots of a run must have the same; the first one (15:25)");
}

#[test]
fn the_command_line_names_what_there_is() {
    let check = |options: ReadOptions| plan_of(GOOD, &options).unwrap_err().plain();
    let only = |name: &str| ReadOptions { only: vec![name.to_owned()], ..ReadOptions::default() };
    assert_snapshot!(check(only("thread")), @"x.yaml:13:3: no variant is named `thread`, which `--only` asks for; did you mean `threads`?");
    assert_snapshot!(check(only("software")), @"x.yaml:13:3: `--only` leaves the baseline alone; name a variant to compare with it, too");
    assert_snapshot!(check(ReadOptions { blocks: Some(1), ..ReadOptions::default() }), @"x.yaml:18:3: `--blocks 1` is out of range; 2 to 1000 blocks can be run");
}

#[test]
fn several_mistakes_are_reported_together() {
    let text =
        with("connections: 20", "conections: 20").replace("612 B", "612 BB").replace("{ offload", "{ ofload");
    assert_snapshot!(check(&text.replace("http_reqs >=", "http_requests >=")), @r"
    x.yaml:10:37: `BB` is not a unit; did you mean `B`?
    x.yaml:11:11: unknown key `conections`; did you mean `connections`?
    x.yaml:16:37: unknown key `ofload`; did you mean `offload`?
    x.yaml:20:15: no metric is named `http_requests`; did you mean `http_reqs`?
    ");
    let text = with("metadata:", "metdata:").replace("  path: http", "  path: [http]");
    assert_snapshot!(check(&text), @"
    x.yaml:3:1: unknown key `metdata`; did you mean `metadata`?
    x.yaml:7:9: expected a text, found a list
    ");
}

#[test]
fn a_report_shows_the_line() {
    assert_snapshot!(report(&with("kind: embedded, tls", "kind: haproxi, tls")), @r"
     × `haproxi` is not a value of this key; did you mean `haproxy`?
       ╭─[x.yaml:9:22]
     8 │   system:
     9 │     ingress: { kind: haproxi, tls: 1.2, key: rsa-2048, offload: none }
       ·                      ───────
    10 │     origin: { kind: embedded, body: 612 B }
       ╰────
    ");
    assert_snapshot!(report(&with("  baseline: software", "  load: {}\n  baseline: software")), @r#"
     × the key `load` appears a second time here
       ╭─[x.yaml:12:3]
    10 │     origin: { kind: embedded, body: 612 B }
    11 │   load: { connections: 20, reuse: none, duration: 5 s, checks: ["status == 200", "duration < 200 ms"] }
       ·   ──┬─
       ·     ╰── it is first set here
    12 │   load: {}
       ·   ────
    13 │   baseline: software
       ╰────
    "#);
    assert_snapshot!(report(&with("{ offload: threads }", "{ offload: threads, kind: nginx }")), @r"
     × `offload` goes with `kind: embedded` only
       ╭─[x.yaml:16:37]
    15 │     software: {}
    16 │     threads: { system: { ingress: { offload: threads, kind: nginx } } }
       ·                                     ────────────────
    17 │   matrix: { load.connections: [20] }
       ╰────
     help: this is so in the variant `threads`
    ");
    let text = with("{ tls: none }", "{ kind: external }");
    assert_snapshot!(report(&text.replace("plain.http_reqs", "plain.http_rqs")), @r"
     × 2 mistakes in x.yaml
       ╭─[x.yaml:14:24]
    13 │   variants:
    14 │     plain: { system: { ingress: { kind: external } } }
       ·                        ───┬───
       ·                           ╰── `kind: external` needs a `url`; this is so in the variant `plain`
    15 │     software: {}
       ╰────
       ╭─[x.yaml:22:13]
    21 │     - threads.http_req_duration.p95 < software.http_req_duration.p95
    22 │     - plain.http_rqs > software.http_reqs
       ·             ────┬───
       ·                 ╰── no metric is named `http_rqs`; did you mean `http_reqs`?
       ╰────
    ");
    assert_snapshot!(report(&with("connections: 20", "conections: 20").replace("612 B", "612 BB")), @r#"
     × 2 mistakes in x.yaml
       ╭─[x.yaml:10:37]
     9 │     ingress: { kind: embedded, tls: 1.2, key: rsa-2048, offload: none }
    10 │     origin: { kind: embedded, body: 612 BB }
       ·                                     ───┬──
       ·                                        ╰── `BB` is not a unit; did you mean `B`?
    11 │   load: { conections: 20, reuse: none, duration: 5 s, checks: ["status == 200", "duration < 200 ms"] }
       ·           ─────┬────
       ·                ╰── unknown key `conections`; did you mean `connections`?
    12 │   baseline: software
       ╰────
    "#);
}

#[test]
fn a_report_of_odd_text_stays_readable() {
    assert_snapshot!(report(&with("title: Does", "title: Größe; 5 €: \u{1b}[31mDoes")), @r"
     × this is not valid YAML: a key is not allowed here; quote the text if its `:` ends no key
      ╭─[x.yaml:5:20]
    4 │   name: tls-offload
    5 │   title: Größe; 5 €: ?[31mDoes offloading TLS handshakes help an ingress?
      ·                    ─
    6 │ spec:
      ╰────
    ");
    let long = with("title: Does", &format!("title: {}: x", "y".repeat(2000)));
    assert_snapshot!(report(&long), @r"
     × this is not valid YAML: a key is not allowed here; quote the text if its `:` ends no key
      ╭─[x.yaml:5:2010]
    5 │ yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy: x offloading TLS handshakes help an ingress?
      ·                                                             ─
      ╰────
    ");
    assert_snapshot!(report(""), @"  × x.yaml:1:1: the file is empty; an experiment begins with `apiVersion: plumbline.dev/v1alpha1`");
    assert_snapshot!(report(&with("plain.http_reqs > software.http_reqs", "plain.http_reqs > 5 \u{202e}s")), @r"
     × `\u{202e}s` is not a unit; did you mean `/s`?
       ╭─[x.yaml:22:25]
    21 │     - threads.http_req_duration.p95 < software.http_req_duration.p95
    22 │     - plain.http_reqs > 5 �s
       ·                         ────
       ╰────
    ");
}
