//! Texts that end in the middle of a line, and forms of figures that decide what a line means.

use plumb_model::Unit;
use plumb_readers::{ReadError, ToolRun, read_at, read_runs};

use crate::fixtures::{fixture, texts, value};

fn warns(run: &ToolRun, words: &str) -> bool {
    texts(run).any(|warning| warning.contains(words))
}

fn reason(read: Result<Vec<ToolRun>, ReadError>) -> String {
    match read {
        Err(error) => error.to_string(),
        Ok(runs) => {
            runs.iter().find_map(|run| run.failure.clone()).map(|it| it.to_string()).unwrap_or_default()
        }
    }
}

const STREAM: &str = "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 192.0.2.1 () port 0 AF_INET : demo\n\
                      Recv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\n\
                      bytes  bytes   bytes    secs.    10^6bits/sec\n\n131072  16384  16384    2.00     ";

#[test]
fn a_figure_that_a_cut_shortened_is_not_read() {
    assert_ne!(reason(read_runs(&format!("{STREAM}93"))), "", "netperf's table");
    let whole = read_runs(&format!("{STREAM}9383.61\n")).unwrap();
    assert!(value(&whole[0], "tcp_bw").is_some());
    let keys = "PROTOCOL=TCP\nDIRECTION=Send\nELAPSED_TIME=2.00\nLOCAL_SEND_THROUGHPUT=9383.61\nREMOTE_RECV_THROUGHPUT=";
    let run = &read_runs(&format!("{keys}93")).unwrap()[0];
    assert!(run.metric("tcp_bw").is_none() && run.metric("tcp_send_bw").is_some() && warns(run, "cut off"));
    let ab = fixture("ab/tls.txt");
    let total = ab.find("\nTotal:").unwrap();
    let end = total + 1 + ab[total + 1..].find('\n').unwrap();
    let run = &read_runs(ab[..end].strip_suffix(|c: char| c.is_ascii_digit()).unwrap()).unwrap()[0];
    assert!(run.metric("iteration_duration").is_none() && warns(run, "cut off"), "{run:?}");
    let quoted: Vec<String> = keys.lines().map(|line| format!("> {line}")).collect();
    let run = &read_runs(&format!("{}93", quoted.join("\n"))).unwrap()[0];
    assert!(run.metric("tcp_bw").is_none(), "in a quote");
}

#[test]
fn a_figure_without_a_line_end_counts_if_others_confirm_it() {
    let table = "Doing 2048 bits private rsa's for 1s: 1503 2048 bits private RSA's in 1.00s\n\
                 Doing 2048 bits public rsa's for 1s: 50410 2048 bits public RSA's in 1.00s\nversion: 3.0.19\n\
                 \x20                 sign    verify    sign/s verify/s\nrsa 2048 bits 0.000665s 0.000020s   1503.0   ";
    let run = &read_runs(&format!("{table}50410.0")).unwrap()[0];
    assert_eq!(value(run, "rsa_2048_verify"), Some(50_410.0));
    assert!(warns(run, "may be cut short"));
    assert!(reason(read_runs(&format!("{table}50"))).contains("digits may be missing"));
    let bare: Vec<&str> = table.lines().filter(|line| !line.contains("public")).collect();
    assert!(reason(read_runs(&format!("{}50", bare.join("\n")))).contains("digits may be missing"));
}

#[test]
fn a_last_figure_with_a_visible_end_needs_no_line_end() {
    for name in [
        "wrk/plain.txt",
        "k6/text-v2.txt",
        "sockperf/ping-pong.txt",
        "netperf/tables.txt",
        "openssl/text-elapsed-bulk.txt",
    ] {
        let text = fixture(name);
        let pasted = read_runs(text.trim_end_matches('\n')).unwrap();
        assert_eq!(pasted, read_runs(&text).unwrap(), "{name}");
    }
}

fn k6(lines: &str) -> String {
    format!(
        "     iterations.................: 100    10/s\n{lines}\n     vus_max....................: 10     min=10       max=10\n"
    )
}

#[test]
fn k6_sizes_are_told_by_their_units() {
    let sizes = "     browser_data_received......: 357 kB 58 kB/s\n     sent.......................: 4.9 kB 798 B/s\n     \
                 other......................: 1.8 MB 829 kB/s";
    let run = &read_runs(&k6(sizes)).unwrap()[0];
    let found = ["browser_data_received", "sent", "other"].map(|name| value(run, name));
    assert_eq!(found, [Some(357e3), Some(4.9e3), Some(1.8e6)]);
    let run = &read_runs(&k6("     my_gauge...................: 12.5ms min=10ms max=20ms")).unwrap()[0];
    assert_eq!(
        (value(run, "my_gauge"), run.metric("my_gauge").unwrap().unit),
        (Some(12.5), Unit::Milliseconds)
    );
    for wrong in ["mine.......: 357 apples 58/s", "mine.......: avg=1.5ms min=1 med=2ms"] {
        assert!(reason(read_runs(&k6(wrong))).contains("line 2, column "), "{wrong}");
    }
}

#[test]
fn k6_lines_may_be_missing_unless_the_number_of_iterations_follows() {
    let text = k6("");
    assert!(read_runs(&text).unwrap()[0].open_end.is_some());
    let end = "\nrunning (0m10.0s), 00/10 VUs, 100 complete and 0 interrupted iterations\n";
    assert!(read_runs(&(text.clone() + end)).unwrap()[0].open_end.is_none());
    assert!(read_runs(&(end.to_owned() + &text)).unwrap()[0].open_end.is_some());
}

#[test]
fn both_directions_of_iperf3_are_refused_by_name() {
    let text = "Connecting to host 192.0.2.1, port 5201\n\
                [  5][TX-C]   0.00-1.00   sec  1.99 GBytes  8.54 Gbits/sec    7             sender\n\
                [  5][TX-C]   0.00-1.00   sec  1.98 GBytes  8.50 Gbits/sec                  receiver\n\
                [  7][RX-C]   0.00-1.00   sec  1.90 GBytes  8.14 Gbits/sec    0             sender\n\
                [  7][RX-C]   0.00-1.00   sec  1.89 GBytes  8.10 Gbits/sec                  receiver\n\niperf Done.\n";
    let found = reason(read_runs(text));
    assert!(found.contains("both directions at once (--bidir) cannot be read from text; use -J"), "{found}");
}

#[test]
fn wrk2_without_latencies_has_no_latency() {
    let text = fixture("wrk2/spectrum.txt");
    let (before, rest) = text.split_once("    Latency ").unwrap();
    let behind = rest.split_once('\n').unwrap().1;
    let end = behind.lines().filter(|line| line.contains(" requests in ") || line.contains("/sec"));
    let end: Vec<&str> = end.filter(|line| !line.contains("Req/Sec")).collect();
    let text = format!(
        "{before}  Thread calibration: mean lat.: 1.0ms\n    Latency     -nanus    -nanus   0.00us    0.00%\n{}\n",
        end.join("\n")
    );
    let run = &read_runs(&text).unwrap()[0];
    assert!(run.metric("http_reqs").is_some() && run.metric("http_req_duration").is_none(), "{run:?}");
}

#[test]
fn ab_without_deviations_has_three_columns() {
    let mut lines: Vec<String> = Vec::new();
    let fixed = fixture("ab/plain.txt");
    for line in fixed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        lines.push(match words.as_slice() {
            ["min", ..] => "              min   avg   max".to_owned(),
            [label @ ("Connect:" | "Processing:" | "Waiting:" | "Total:"), ..] => {
                format!("{label}    11   22   33")
            }
            _ => line.to_owned(),
        });
    }
    let run = &read_runs(&(lines.join("\n") + "\n")).unwrap()[0];
    let of = |statistic: &str| value(run, &format!("http_req_duration.{statistic}"));
    assert_eq!((of("min"), of("avg"), of("max")), (Some(11.0), Some(22.0), Some(33.0)));
    assert_eq!(of("med"), None);
}

#[test]
fn openssl_rows_without_a_k_are_bytes_per_second() {
    let head = "version: 3.5.0\nThe 'numbers' are in 1000s of bytes per second processed.\ntype             16 bytes     64 bytes\n";
    let run = &read_runs(&format!(
        "{head}aes-128-siv          0.00   3413333.33k\nslow              9216.50       infk\n"
    ))
    .unwrap()[0];
    assert_eq!(value(run, "aes_128_siv_64"), Some(3_413_333_330.0));
    assert_eq!((value(run, "aes_128_siv_16"), value(run, "slow_16")), (None, Some(9216.5)));
    let keys = "                  sign    verify    sign/s verify/s\nrsa 2048 bits 0.000665s      infs   1503.0      inf\n";
    let run = &read_runs(keys).unwrap()[0];
    assert_eq!((value(run, "rsa_2048_sign"), value(run, "rsa_2048_verify")), (Some(1503.0), None));
    let run = &read_runs("+F2:2:2048:450.434783:inf\n").unwrap()[0];
    assert_eq!(run.metrics.len(), 1);
}

#[test]
fn a_bad_block_is_a_failed_run_at_its_line() {
    let times = fixture("ab/times.tsv");
    let head = times.lines().next().unwrap();
    let bad = format!("{head}\nThu Nov 26 18:00:00 2026\t1764180000\t1\tx\t3\t2\n");
    let found = read_runs(&format!("One:\n\n```\n{times}```\n\nTwo:\n\n```\n{bad}```\n")).unwrap();
    assert_eq!(found.iter().map(|run| run.failure.is_some()).collect::<Vec<_>>(), [false, true]);
    let line = 4 + times.lines().count() + 4 + 2;
    let failure = found[1].failure.as_ref().unwrap().to_string();
    assert!(failure.contains(&format!("line {line}, column ")), "{failure} {line}");
    let alone = reason(read_runs(&format!("Two:\n\n```\n{bad}```\n")));
    assert!(alone.contains("line 5, column "), "{alone}");
    let part = reason(read_at(&bad, 40));
    assert!(part.contains("line 41, column "), "{part}");
    let report = format!("{}\n{{\"a\": 0x10}}\n", fixture("vegeta/report.json").trim_end());
    let line = 40 + report.lines().count() - 1;
    let part = reason(read_at(&report, 40));
    assert!(part.contains(&format!("line {line}, column 8: this is not JSON")), "{part}");
}

#[test]
fn a_bad_test_of_netperf_is_a_failed_run_at_its_line() {
    for (name, right, wrong) in [
        ("netperf/tables.txt", "6469.73", "6469.73M"),
        ("netperf/all-tests.txt", "MEAN_LATENCY=33.51", "MEAN_LATENCY=33 510"),
    ] {
        let text = fixture(name);
        let (before, _) = text.split_once(right).unwrap();
        let line = 40 + before.matches('\n').count();
        let found = read_at(&text.replacen(right, wrong, 1), 40).unwrap();
        assert_eq!(found.len(), read_runs(&text).unwrap().len(), "{name}");
        let failures: Vec<String> =
            found.iter().filter_map(|run| Some(run.failure.as_ref()?.to_string())).collect();
        assert!(
            failures.len() == 1 && failures[0].contains(&format!("line {line}, column ")),
            "{name}: {failures:?}"
        );
    }
    let both = fixture("netperf/all-tests.txt") + &fixture("netperf/tables.txt");
    let found = read_runs(&both).unwrap();
    assert!(found.iter().all(|run| run.failure.is_none()), "{found:?}");
}

#[test]
fn only_the_run_that_was_cut_says_so() {
    for name in ["ab/tls.txt", "h2load/h2.txt", "sockperf/ping-pong.txt", "oha/text.txt", "vegeta/report.txt"]
    {
        let text = fixture(name);
        let middle = text[..text.len() * 6 / 10].rfind('\n').unwrap() + 1;
        let found = read_runs(&format!("First:\n\n{text}\nSecond:\n\n{}", &text[..middle])).unwrap();
        let says = |run: &ToolRun| warns(run, "was cut off") || run.open_end.is_some();
        assert!(found.len() == 2 && !warns(&found[0], "was cut off") && says(&found[1]), "{name}: {found:?}");
        assert_ne!(value(&found[1], "http_reqs"), Some(0.0), "{name}");
    }
}
