//! Outputs as people hand them on: in other encodings, out of logs and mails, several in a file, cut off.

use std::io::Write;

use plumb_readers::{ReadError, ToolRun, Way, read_from, read_runs};

use crate::fixtures::{fixture, texts, value};

/// Every format that can be recognised, by a fixture of it.
const FIXTURES: [&str; 37] = [
    "ab/percentiles.csv",
    "ab/times.tsv",
    "ab/tls.txt",
    "dbench/nfs.txt",
    "fio/plus.json",
    "fio/randrw.json",
    "h2load/h2.txt",
    "h2load/log.tsv",
    "h2load/output.json",
    "h2load/v1.69.txt",
    "hyperfine/two-commands.json",
    "iperf3/stream.ndjson",
    "iperf3/udp.json",
    "k6/legacy.json",
    "k6/points.csv",
    "k6/points.ndjson",
    "k6/text-v0.txt",
    "k6/text-v2-full.txt",
    "netperf/all-tests.txt",
    "oha/missing.json",
    "openssl/mr-elapsed.txt",
    "openssl/text-elapsed-bulk.txt",
    "qemu/info-migrate-old.txt",
    "qemu/query-migrate.json",
    "qperf/plain.txt",
    "sockperf/ping-pong.txt",
    "vegeta/report.json",
    "fio/kubestr.json",
    "hyperfine/table.md",
    "hyperfine/text.txt",
    "iperf3/tcp.txt",
    "iperf3/udp.txt",
    "iperf3/two-streams-reverse.txt",
    "netperf/tables.txt",
    "oha/text.txt",
    "vegeta/report.txt",
    "wrk2/spectrum.txt",
];

fn runs(bytes: &[u8]) -> Result<Vec<ToolRun>, ReadError> {
    read_from(bytes, Way::Recognised)
}

/// What was read, without the line at which it stood.
fn readings(bytes: &[u8]) -> Result<Vec<ToolRun>, String> {
    let mut found = runs(bytes).map_err(|error| error.to_string())?;
    found.iter_mut().for_each(|run| run.line = 1);
    Ok(found)
}

fn each_line(text: &str, of: impl Fn(usize, &str) -> String) -> Vec<u8> {
    let lines: Vec<String> = text.lines().enumerate().map(|(at, line)| of(at, line)).collect();
    (lines.join("\n") + "\n").into_bytes()
}

fn utf16(text: &str, mark: &[u8], of: fn(u16) -> [u8; 2]) -> Vec<u8> {
    mark.iter().copied().chain(text.encode_utf16().flat_map(of)).collect()
}

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// The same text as it comes from 23 places.
fn transports(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let prefixed = |prefix: &str| each_line(text, |_, line| format!("{prefix}{line}"));
    let indented = |first: &str, others: &str| {
        each_line(text, |at, line| format!("{}{line}", if at == 0 { first } else { others }))
    };
    let inside = |before: &str, behind: &str| format!("{before}{text}\n{behind}").into_bytes();
    vec![
        ("UTF-8 with its mark", [b"\xef\xbb\xbf", text.as_bytes()].concat()),
        ("UTF-16 LE", utf16(text, b"\xff\xfe", u16::to_le_bytes)),
        ("UTF-16 BE", utf16(text, b"\xfe\xff", u16::to_be_bytes)),
        ("UTF-16 without a mark", utf16(text, b"", u16::to_le_bytes)),
        ("CRLF", text.replace('\n', "\r\n").into_bytes()),
        ("a padded terminal", each_line(text, |_, line| format!("{line}   "))),
        ("colours", each_line(text, |_, line| format!("\u{1b}[32m{line}\u{1b}[0m"))),
        ("indentation", prefixed("    ")),
        ("tabs", prefixed("\t")),
        ("an item of a list", indented("- ", "  ")),
        ("a numbered item", indented("1. ", "   ")),
        ("a quote", prefixed("> ")),
        ("a quote in a quote", each_line(text, |_, line| format!("> > {line}").trim_end().to_owned())),
        ("a fence", inside("Look:\n\n```console\n", "```\n")),
        ("a shell", inside("\n", "user@host:~$ \n")),
        ("kubectl logs --timestamps", prefixed("2026-03-01T12:00:00.123456789Z ")),
        ("kubectl logs --prefix", prefixed("[pod/load-x7/load] ")),
        ("docker compose", prefixed("load-1  | ")),
        ("journald", prefixed("Mar 01 12:00:00 node-1 load[123]: ")),
        ("journald without an ID", prefixed("Mar 01 12:00:00 node-1 load: ")),
        (
            "a shell's title and prompt",
            inside("\u{1b}]0;user@host: ~\u{7}user@host:~$ load\n", "user@host:~$ \n"),
        ),
        ("a fence of tildes", inside("~~~\n", "~~~\n")),
        ("gzip", packed(text)),
    ]
}

#[test]
fn a_text_is_the_same_wherever_it_was_copied_from() {
    let mut wrong = Vec::new();
    for name in FIXTURES {
        let text = fixture(name);
        let expected = readings(text.as_bytes()).unwrap();
        for (transport, bytes) in transports(&text) {
            let found = readings(&bytes);
            if found.as_ref().ok().map(|runs| with_readings(runs)) != Some(with_readings(&expected)) {
                wrong.push(format!("{name} in {transport}: {:?}", found.map(|runs| with_readings(&runs))));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}:\n{}",
        wrong.len(),
        wrong.join("\n").chars().take(6000).collect::<String>()
    );
}

/// What a reader sees: tool, version, options, readings, errors. What stood around JSON may be a warning.
fn with_readings(runs: &[ToolRun]) -> Vec<String> {
    let one = |run: &ToolRun| {
        let measurement = &run.measurement;
        format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            run.tool,
            run.version,
            run.options,
            measurement.readings,
            measurement.errors,
            measurement.attempts
        )
    };
    runs.iter().map(one).collect()
}

#[test]
fn runs_that_follow_each_other_in_a_file_are_as_many_runs() {
    // A log of times has no beginning that could be seen.
    let once = ["h2load/log.tsv"];
    for name in FIXTURES.into_iter().filter(|name| !once.contains(name)) {
        let text = fixture(name);
        let one = readings(text.as_bytes()).unwrap();
        let found = runs(format!("{text}\n{text}").as_bytes()).unwrap();
        // The same poll or report again is of the same run.
        let is_polled = name.starts_with("qemu") || name.starts_with("fio");
        let expected = if is_polled { one.clone() } else { [one.clone(), one.clone()].concat() };
        let mut alike = found.clone();
        alike.iter_mut().for_each(|run| run.line = 1);
        assert_eq!(with_readings(&alike), with_readings(&expected), "{name}");
    }
}

#[test]
fn half_a_figure_is_no_figure() {
    let text = fixture("sockperf/ping-pong.txt");
    let cut = readings(text.trim_end().strip_suffix("863").unwrap().as_bytes()).unwrap();
    assert_eq!(value(&cut[0], "tcp_lat.min"), None);
    assert!(texts(&cut[0]).any(|warning| warning.contains("cut off")));
}

#[test]
fn figures_that_contradict_each_other_are_found() {
    let contradictions = |text: &str| read_runs(text).unwrap()[0].contradictions();
    let changed = |name: &str, from: &str, to: &str| {
        let text = fixture(name);
        assert!(text.contains(from), "{name} has no {from}");
        contradictions(&text.replacen(from, to, 1))
    };
    for name in FIXTURES {
        let found: Vec<String> =
            read_runs(&fixture(name)).unwrap().iter().flat_map(ToolRun::contradictions).collect();
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
    let found = changed("ab/tls.txt", "520.12", "620.12");
    assert!(found[0].contains("620.12") && found[0].contains("519.4"), "{found:?}");
    assert_eq!(changed("wrk/plain.txt", "Requests/sec:", "Requests/sec: 1.00\nx").len(), 1);
    assert_eq!(changed("openssl/text.txt", "4516.0", "9516.0").len(), 1);
    assert_eq!(changed("k6/text-v2.txt", "8788.040421/s", "4788.040421/s").len(), 1);
    for (file, from, to) in [
        ("sockperf/throughput.txt", "603779", "503779"),
        ("sockperf/ping-pong.txt", "Latency is 9.102", "Latency is 7.102"),
        ("qperf/base-units-verbose.txt", "8889 ns", "9889 ns"),
        ("oha/text.txt", "5020.6902", "6020.6902"),
        ("vegeta/report.txt", "100, 50.50", "100, 60.50"),
        ("netperf/tables.txt", "6469.73", "7469.73"),
        ("fio/randrw.json", "\"total_ios\" : ", "\"total_ios\" : 1"),
    ] {
        let text = fixture(file);
        assert!(text.contains(from), "{file}");
        let runs = read_runs(&text.replacen(from, to, 1)).unwrap();
        assert_eq!(runs.iter().flat_map(ToolRun::contradictions).count(), 1, "{file}");
    }
    // From OpenSSL 3.2 on.
    let newer = |name: &str, from: &str, to: &str| {
        let names = [
            ("AES-128-GCM for", "AES-128-GCM ops for"),
            ("private rsa's", "private rsa sign ops"),
            ("public rsa's", "public rsa verify ops"),
        ];
        let text = names.iter().fold(fixture(name), |text, (old, new)| text.replace(old, new));
        assert_eq!(contradictions(&text), Vec::<String>::new());
        contradictions(&text.replacen(from, to, 1)).len()
    };
    assert_eq!(newer("openssl/text-elapsed-bulk.txt", "406610.12k", "506610.12k"), 1);
    assert_eq!(newer("openssl/text.txt", "4516.0", "9516.0"), 1);
    assert!(changed("h2load/v1.69.txt", "2000.00 req/s", "3000.00 req/s")[0].contains("2000"));
}

/// Each run of a text: its tool, and a metric with its value in its unit.
fn said(text: &str, keys: &[&str]) -> Vec<(String, Vec<f64>)> {
    let rounded = |number: f64| (number * 1000.0).round() / 1000.0;
    let one = |run: &ToolRun| {
        let values = keys.iter().filter_map(|key| value(run, key)).map(rounded);
        (run.tool.to_owned(), values.collect())
    };
    read_runs(text).unwrap().iter().map(one).collect()
}

fn wrk(rate: &str, requests: &str, more: &str) -> String {
    format!(
        "Running 20s test @ http://192.0.2.1/\n  2 threads and 40 connections\n{more}  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
         Latency     3.00ms    1.00ms  20.00ms   80.00%\n    Req/Sec     1.05k   100.00     1.50k    70.00%\n  \
         {requests} requests in 20.00s, 9.00MB read\nRequests/sec: {rate}\nTransfer/sec:    460.80KB\n"
    )
}

#[test]
fn excerpts_as_people_paste_them_are_read_right() {
    let keys = ["http_reqs", "http_req_duration.avg"];
    let thousands = wrk("81,119.83", "1,622,396", "");
    assert_eq!(said(&thousands, &keys), [("wrk".to_owned(), vec![81_119.83, 3.0])]);
    let calibration = "  Thread calibration: mean lat.: 4.100ms, rate sampling interval: 10ms\n";
    let open = wrk("1999.50", "39990", calibration);
    let twice = format!("{open}{}", open.replace("3.00ms", "9.00ms"));
    let expected = [("wrk2".to_owned(), vec![1999.5, 3.0]), ("wrk2".to_owned(), vec![1999.5, 9.0])];
    assert_eq!(said(&twice, &keys), expected);
    let mixed = format!(
        "1. The run:\n\n{}\n> Quoted:\n>\n>     tcp_lat:\n>         latency  =  13.1 us\n",
        open.replace("Running", "        Running").replace("\n", "\n        ")
    );
    assert_eq!(
        said(&mixed, &["http_reqs", "tcp_lat.avg"]),
        [("wrk2".to_owned(), vec![1999.5]), ("qperf".to_owned(), vec![13.1])]
    );
    assert_eq!(plumb_readers::read_one(&mixed).unwrap().tool, "wrk2");
    let names = "The 'numbers' are in 1000s of bytes per second processed.\ntype             16 bytes     64 bytes\n\
                 des ede3         21000.10k    21400.20k\naes-128 cbc      88000.10k    95000.20k\naes-256 cbc      65000.10k    69000.20k\n";
    let sizes = ["des_ede3_16", "aes_128_cbc_64", "aes_256_cbc_64"];
    assert_eq!(said(names, &sizes)[0].1, [21_000_100.0, 95_000_200.0, 69_000_200.0]);
    let unified = r#"{ "fio version" : "fio-2.6", "jobs" : [ { "jobname" : "m", "error" : 0, "mixed" : { "io_bytes" : 2064384,
        "bw" : 17061, "iops" : 4265.30, "runtime" : 121000, "lat" : { "min" : 90, "max" : 20110, "mean" : 1782.92 },
        "clat" : { "min" : 88, "max" : 20101, "mean" : 1779.10, "percentile" : { "99.000000" : 2608 } } } } ] }"#;
    let keys = ["mixed_bw", "mixed_latency.avg", "mixed_completion_latency.p99"];
    assert_eq!(said(unified, &keys)[0].1, [17_061.0 * 1024.0, 1782.92, 2608.0]);
    let warmed = "spawning thread #0: 10 total client(s). Timing-based test with 5s of warm-up time and 20s of main duration for measurements.\n\
                  finished in 25.86s, 373.00 req/s, 1.20MB/s\n\
                  requests: 7460 total, 7460 started, 7460 done, 7460 succeeded, 0 failed, 0 errored, 0 timeout\n\
                  status codes: 7460 2xx, 0 3xx, 0 4xx, 0 5xx\n\
                  traffic: 1.00KB (1024) total, 1.00KB (1024) headers, 0B (0) data\n                     min         max         mean         sd        +/- sd\n\
                  time for request:      100us      5.00ms      1.00ms       700us    85.00%\n\
                  time for connect:        0us         0us         0us         0us     0.00%\nreq/s           :     480.00      520.00      500.00       15.00    50.00%\n";
    let run = &read_runs(warmed).unwrap()[0];
    assert_eq!((run.contradictions(), run.measurement.window_ns), (vec![], 20_000_000_000));
    assert!(run.metric("connect_time").is_none(), "HTTP/3 connects in 0 us to h2load");
    assert!(!texts(run).any(|warning| warning.contains("cut off")), "{:?}", run.measurement.notices);
}

#[test]
fn polls_of_a_migration_are_one_run_and_a_failed_one_is_no_measurement() {
    let poll = |status: &str, total: u32, more: &str| {
        format!(
            "(qemu) info migrate\nMigration status: {status}\ntotal time: {total} ms\n{more}transferred ram: {total}00 kbytes\n"
        )
    };
    let polls =
        poll("active", 1204, "expected downtime: 300 ms\n") + &poll("completed", 4321, "downtime: 162 ms\n");
    let keys = ["total_time", "downtime"];
    assert_eq!(said(&polls, &keys), [("QEMU".to_owned(), vec![4321.0, 162.0])]);
    let second = poll("active", 90, "") + &poll("completed", 5000, "downtime: 100 ms\n");
    assert_eq!(said(&(polls.clone() + &second), &keys).len(), 2);
    let failed = [
        r#"{"return": {"status": "failed", "error-desc": "Unable to write to socket: Connection reset by peer"}}"#,
        "Migration status: failed (Unable to write to socket: Connection reset by peer)\ntotal time: 0 ms\n",
    ];
    let reason = |text: &str| read_runs(text).unwrap()[0].failure.as_ref().unwrap().to_string();
    for text in failed {
        assert_eq!(reason(text), "the migration failed: Unable to write to socket: Connection reset by peer");
    }
    for text in [r#"{"return": {"status": "cancelled"}}"#, "Migration status: cancelled\ntotal time: 0 ms\n"]
    {
        assert_eq!(reason(text), "the migration was cancelled");
    }
    let begun = reason("Migration status: setup\ntotal time: 0 ms\n");
    assert_eq!(begun, "the migration had not begun: its status is `setup`");
}

#[test]
fn a_run_that_cannot_be_read_does_not_hide_the_others() {
    let text = wrk("1999.50", "39990", "") + &wrk("1,086", "39990", "") + &wrk("1999.00", "39980", "");
    let found = read_runs(&text).unwrap();
    assert_eq!(found.iter().map(|run| run.failure.is_some()).collect::<Vec<_>>(), [false, true, false]);
    let reason = found[1].failure.as_ref().unwrap().to_string();
    assert!(reason.contains("line 15, column 15: `1,086`"), "{reason}");
    assert_eq!((found[0].line, found[1].line, found[2].line), (1, 9, 17));
}

#[test]
fn rounded_figures_are_no_contradiction() {
    let short = "Concurrency Level:      10\nTime taken for tests:   0.015 seconds\nComplete requests:      100\n\
                 Failed requests:        0\nTotal transferred:      30000 bytes\nRequests per second:    6543.21 [#/sec] (mean)\n\
                 Transfer rate:          1917.08 [Kbytes/sec] received\n";
    let slow = wrk("0.17", "5", "").replace("20.00s, 9.00MB", "30.04s, 13.52MB");
    let keys = "Doing 15360 bits private rsa's for 10s: 19 15360 bits private RSA's in 10.06s\n\
                \x20                 sign    verify    sign/s verify/s\nrsa 15360 bits 0.529474s 0.002000s      1.9    500.0\n";
    for text in [short, &slow, keys] {
        assert_eq!(read_runs(text).unwrap()[0].contradictions(), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn tables_of_the_users_own_columns_keep_their_cells() {
    let mean = |text: &str, column: &str| {
        let columns: Vec<plumb_readers::Column> = vec![column.parse().unwrap()];
        let run = &read_from(text.as_bytes(), Way::Columns(&columns)).unwrap()[0];
        value(run, "latency.avg").unwrap()
    };
    let rows = "2024-05-01T12:00:00Z, 12.0, 500\n2024-05-01T12:00:01Z, 16.0, 500\n";
    let spaced = mean(&format!("time, latency, size\n{rows}"), "latency:ms");
    let dense = mean(&format!("time,latency,size\n{}", rows.replace(", ", ",")), "latency:ms");
    let indexed = mean("\tlatency\tsize\n0\t12.0\t500\n1\t16.0\t500\n", "latency:ms");
    for found in [spaced, dense, indexed] {
        assert!((found - 14.0).abs() < 0.02, "{found}");
    }
}

#[test]
fn lines_of_another_container_do_not_hide_those_of_the_load() {
    let text = wrk("1999.50", "39990", "")
        .replace("Requests/sec:", "  Non-2xx or 3xx responses: 12000\nRequests/sec:");
    let lines: Vec<String> = text.lines().map(|line| format!("load-1  | {line}")).collect();
    let logged = lines
        .join("\n")
        .replace("load-1  |   Non", "web-1   | GET /\nload-1  |   Non")
        .replace("\nload-1  | Requests", "\nweb-1   | GET /\nload-1  | Requests");
    assert_eq!(read_runs(&logged).unwrap()[0].measurement.attempts.failed, 12_000);
}

fn fio(name: &str, ios: u64, elapsed_s: u64, end_s: u64) -> String {
    format!(
        r#"{{ "fio version": "fio-3.33", "timestamp": {end_s}, "jobs": [ {{ "jobname": "{name}", "groupid": 0, "error": 0,
        "elapsed": {elapsed_s}, "job options": {{ "filename": "/dev/{name}" }}, "read": {{ "io_bytes": {}, "bw_bytes": 1000,
        "iops": {}, "runtime": {}, "total_ios": {ios} }} }} ] }}
"#,
        ios * 4096,
        ios / elapsed_s,
        elapsed_s * 1000
    )
}

#[test]
fn reports_of_one_run_of_fio_are_told_from_those_of_several() {
    let count = |texts: &[String]| read_runs(&texts.concat()).unwrap().len();
    let polls = [fio("a", 1000, 10, 110), fio("a", 2000, 20, 120), fio("a", 3000, 30, 130)];
    assert_eq!((count(&polls), read_runs(&polls.concat()).unwrap()[0].measurement.work), (1, 3000));
    assert_eq!(count(&[fio("a", 1000, 10, 110), fio("b", 500, 10, 110)]), 2, "at the same time");
    assert_eq!(count(&[fio("a", 1000, 10, 110), fio("a", 1001, 10, 125)]), 2, "one after the other");
}

#[test]
fn one_measurement_in_two_forms_is_one_run() {
    let both = format!("{}\n{}", fixture("hyperfine/text.txt"), fixture("hyperfine/table.md"));
    assert_eq!(read_runs(&both).unwrap().len(), 2);
    let servers = "Accepted connection from 192.0.2.1, port 1\n[  5]   0.00-2.00   sec  1.99 GBytes  8.53 Gbits/sec                  receiver\n";
    assert_eq!(read_runs(&format!("{servers}{}", servers.replace("8.53", "4.53"))).unwrap().len(), 2);
    let stream = fixture("iperf3/stream.ndjson");
    let failed = r#"{"event":"error","data":"unable to connect to server"}"#;
    let found = read_runs(&format!("{stream}\n{failed}\n{stream}")).unwrap();
    assert_eq!(found.iter().map(|run| run.failure.is_some()).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn nothing_of_one_output_is_left_out() {
    for name in FIXTURES {
        let runs = read_runs(&fixture(name)).unwrap();
        let warnings: Vec<String> = runs.iter().flat_map(texts).collect();
        assert!(!warnings.iter().any(|warning| warning.contains("part of the text")), "{name}: {warnings:?}");
    }
}

#[test]
fn what_gzip_packed_is_unpacked_up_to_a_limit() {
    assert_eq!(plumb_readers::unpacked(packed("text"), 4).unwrap(), b"text");
    assert_eq!(plumb_readers::unpacked(b"text".to_vec(), 4).unwrap(), b"text");
    let error = plumb_readers::unpacked(packed(&"0".repeat(3 << 20)), 2 << 20).unwrap_err().to_string();
    assert_eq!(error, "read it: it decompresses to more than 2 MiB");
    assert!(plumb_readers::unpacked(packed("text")[..12].to_vec(), 4).is_err());
}

#[test]
fn nothing_that_was_not_measured_is_zero() {
    let none = wrk("0.00", "0", "").replace("3.00ms    1.00ms  20.00ms", "0.00us    0.00us   0.00us");
    let run = &read_runs(&none).unwrap()[0];
    assert!(run.metric("http_req_duration").is_none(), "{run:?}");
    let refused = fixture("vegeta/report.txt");
    let times =
        refused.lines().find_map(|line| Some(line.strip_prefix("Latencies ")?.split_once(']')?.1)).unwrap();
    let run = &read_runs(&refused.replace(times, "  0s, 0s, 0s, 0s, 0s, 0s, 0s")).unwrap()[0];
    assert!(run.metric("http_reqs").is_some() && run.metric("iteration_duration").is_none(), "{run:?}");
}

#[test]
fn what_is_not_known_is_named_with_what_would_help() {
    for (text, part) in [
        ("", "the file is empty"),
        ("hello", "no line looks like the output of a known tool"),
        ("{\"a\": 1}", "JSON, but not from a known tool"),
        ("{\"fio version\": \"fio-3.33\", \"jobs\": [", "incomplete JSON"),
        ("t,latency\n1,2.5\n", "a table with the columns t, latency; name those to read"),
        ("read: IOPS=12.3k, BW=48.1MiB/s (50.4MB/s)(481MiB/10001msec)", "fio with --output-format=json+"),
        ("Requests/sec: 10\nTransfer/sec: 1KB", "without its line `Running … test @ …`"),
        ("FIO test results:\n\nFIO version - fio-3.36\n", "kubestr fio -o json"),
        ("  Requests/sec:\t10.2\nLatency distribution:\n  10% in 0.0021 secs\n", "hey -o csv"),
    ] {
        let error = read_runs(text).unwrap_err().to_string();
        assert!(error.contains(part) && !error.contains("h2load-json"), "{text}: {error}");
    }
}

#[test]
fn nothing_stands_for_json_that_cannot_be_read() {
    let damaged = |name: &str| fixture(name).replacen(':', ": 12ms34", 1);
    let log = "1795418659303114\t200\t373\n";
    for text in [damaged("vegeta/report.json") + "\n" + log, damaged("k6/points.ndjson")] {
        let read = read_runs(&text);
        assert!(read.is_err(), "{read:?}");
    }
}

#[test]
fn json_that_cannot_be_read_between_the_lines_of_another_tool_is_named() {
    let damaged =
        fixture("h2load/h2.txt").replacen('\n', "\n{\"event\":\"end\",\"data\":{\"seconds\":12ms34}}\n", 1);
    let expected = "part of the text was left out: line 2, column 36: this is not JSON: expected `,` or `}`";
    assert_eq!(texts(&read_runs(&damaged).unwrap()[0]).next().unwrap(), expected);
}
