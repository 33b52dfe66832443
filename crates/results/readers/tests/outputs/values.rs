//! What every fixture says, held against what the tool itself printed, with the warning that each trap deserves.

use plumb_model::{Reading, Statistic, Unit};
use plumb_readers::{Column, ToolRun, read_mapped, read_runs};

use crate::fixtures::{self, all, fixture, texts, value};

fn runs(file: &str) -> Vec<ToolRun> {
    read_runs(&fixture(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn only(file: &str) -> ToolRun {
    let mut found = runs(file);
    assert_eq!(found.len(), 1, "{file}");
    found.remove(0)
}

/// One run in a file: its tool, values to three digits, and a part of each warning that it has to have.
fn check(file: &str, tool: &str, values: &[(&str, f64)], warnings: &[&str]) -> ToolRun {
    let run = only(file);
    check_run(&run, file, tool, values, warnings);
    run
}

fn check_run(run: &ToolRun, file: &str, tool: &str, values: &[(&str, f64)], warnings: &[&str]) {
    assert_eq!(run.tool, tool, "{file}");
    for (key, expected) in values {
        let found =
            value(run, key).unwrap_or_else(|| panic!("{file} has no {key}: {:#?}", run.measurement.readings));
        let is_right = (found - expected).abs() <= 1e-3 * expected.abs();
        assert!(is_right, "{file}: {key} is {found}, not {expected}");
    }
    for warning in warnings {
        let has = texts(run).any(|found| found.contains(warning));
        assert!(has, "{file}: no warning has {warning:?}: {:#?}", run.measurement.notices);
    }
    assert!(run.measurement.work > 0, "{file}: without work there would be no slot");
}

fn check_absent(run: &ToolRun, keys: &[&str]) {
    for key in keys {
        assert_eq!(value(run, key), None, "{key}");
    }
}

fn count(run: &ToolRun, metric: &str) -> Option<u64> {
    match run.measurement.readings.get(metric)? {
        Reading::Rate { count, .. } | Reading::Count(count) => Some(*count),
        Reading::Share { yes, .. } => Some(*yes),
        Reading::Summary { count, .. } => *count,
        Reading::Trend(histogram) => Some(histogram.count()),
        Reading::Gauge(_) => None,
    }
}

#[test]
fn wrk_is_read() {
    let run = check(
        "wrk/plain.txt",
        "wrk",
        &[
            ("http_reqs", 23_150.01),
            ("http_req_duration.avg", 2.10),
            ("http_req_duration.med", 0.223),
            ("http_req_duration.p90", 5.77),
            ("http_req_duration.p99", 27.56),
            ("http_req_duration.max", 45.27),
            ("data_received", 18.77 * 1_048_576.0),
        ],
        &["latencies that it did not measure"],
    );
    assert_eq!(count(&run, "http_reqs"), Some(23_828));
    assert_eq!((run.options["connections"].as_str(), run.options["threads"].as_str()), ("10", "2"));
    check_absent(&run, &["http_req_duration.p95"]);
    check("wrk/tls.txt", "wrk", &[("http_reqs", 16_903.12)], &["resumes TLS sessions"]);
}

#[test]
fn wrk_drops_what_was_too_late_and_keeps_what_failed() {
    let late =
        check("wrk/timeouts.txt", "wrk", &[("http_req_duration.max", 55.44)], &["16 answers took longer"]);
    assert_eq!((late.measurement.attempts.tried, late.measurement.attempts.failed), (226, 16));
    let missing = check(
        "wrk/missing-no-percentiles.txt",
        "wrk",
        &[("http_req_failed", 1.0), ("http_req_duration.avg", 1.66)],
        &["37,851 answers had a status of 400 or above", "wrk opened 9 connections and not 10"],
    );
    check_absent(&missing, &["http_req_duration.med"]);
    assert!(missing.remedies["http_req_duration"].contains("--latency"));
}

#[test]
fn ab_is_read() {
    let run = check(
        "ab/tls.txt",
        "ab",
        &[
            ("http_reqs", 520.12),
            ("iteration_duration.avg", 8.0),
            ("iteration_duration.p90", 11.0),
            ("iteration_duration.max", 32.0),
            ("http_req_blocked.med", 5.0),
            ("http_req_waiting.max", 9.0),
            ("data_received", 429.20 * 1024.0),
        ],
        &["Connect includes the TLS handshake", "whole milliseconds"],
    );
    assert_eq!(run.measurement.observed["tls"]["TLSv1.2,ECDHE-RSA-AES256-GCM-SHA384,2048,256"], 1);
    assert_eq!(run.measurement.observed["group"]["X25519"], 1);
    check_absent(&run, &["http_req_duration.min", "http_req_waiting.min"]);
    check(
        "ab/percentiles.csv",
        "ab",
        &[("iteration_duration.min", 0.062), ("iteration_duration.max", 9.684)],
        &[],
    );
    let times = check("ab/times.tsv", "ab", &[("iteration_duration.max", 4.0)], &["whole milliseconds"]);
    assert_eq!(count(&times, "iteration_duration"), Some(200));
}

#[test]
fn ab_calls_answers_of_another_length_failed() {
    let run =
        check("ab/varying-length.txt", "ab", &[("http_req_failed", 0.0)], &["ab calls 92 answers failed"]);
    assert_eq!((run.measurement.attempts.tried, run.measurement.attempts.failed), (100, 0));
}

#[test]
fn fio_is_read() {
    let run = check(
        "fio/randrw.json",
        "fio",
        &[
            ("read_iops", 10_012.974_052),
            ("write_iops", 10_000.00),
            ("read_completion_latency.p99", 140.288),
            ("read_completion_latency.max", 6717.63),
        ],
        &[],
    );
    assert_eq!(run.version.as_deref(), Some("3.33"));
    assert_eq!(run.options["bs"], "4k");
    check_absent(&run, &["read_latency.p99"]);
    assert!(run.remedies["read_latency"].contains("--lat_percentiles=1"));
    let plus = check("fio/plus.json", "fio", &[("read_iops", 11_713.286_713)], &[]);
    assert_eq!(count(&plus, "read_latency"), Some(11_725));
}

#[test]
fn fio_zeros_are_no_latency_and_jobs_are_no_group() {
    let reduced = check("fio/gtod-reduce.json", "fio", &[], &["zeros stand for no value"]);
    check_absent(&reduced, &["read_latency.avg", "read_completion_latency.avg"]);
    let jobs = check(
        "fio/two-jobs.json",
        "fio",
        &[("write_iops", 400.0)],
        &["statistics cannot be merged", "fixed rate"],
    );
    check_absent(&jobs, &["write_latency.avg"]);
    let text = check("fio/text-before.json", "fio", &[("read_iops", 10_012.974_052)], &["more than JSON"]);
    assert_eq!(text.measurement.readings, only("fio/randrw.json").measurement.readings);
    check("fio/status-interval.json", "fio", &[], &["has several reports"]);
}

#[test]
fn k6_is_read_in_every_shape() {
    let legacy = check(
        "k6/legacy.json",
        "k6",
        &[
            ("http_reqs", 8_788.040_421),
            ("http_req_duration.p95", 0.537_399),
            ("http_req_failed", 176.0 / 8843.0),
            ("checks", 1.0),
            ("body_size_avg", 612.0),
        ],
        &["`true` behind a threshold says that it was crossed", "176 of the requests failed (2.0%)"],
    );
    let crossed =
        |run: &ToolRun| run.measurement.observed["threshold crossed"].keys().cloned().collect::<Vec<_>>();
    assert_eq!(crossed(&legacy), ["http_req_failed: rate<0.01"]);
    let summary = check(
        "k6/handle-summary.json",
        "k6",
        &[("http_reqs", 6_669.012_275)],
        &["133 of the requests failed (2.0%)"],
    );
    assert_eq!(crossed(&summary), ["http_req_failed: rate<0.01"]);
    let machine = check(
        "k6/machine-readable.json",
        "k6",
        &[("http_reqs", 6493.0 / 1.007_932_79), ("http_req_duration.p90", 0.786_779)],
        &["no thresholds and no percentile but"],
    );
    assert_eq!(machine.version.as_deref(), Some("1.8.1"));
    check_absent(&machine, &["http_req_duration.p99", "http_req_blocked.avg"]);
    let points = check("k6/points.ndjson", "k6", &[("http_req_failed", 1.0 / 13.0)], &[]);
    assert_eq!(count(&points, "http_req_duration"), Some(13));
    assert_eq!(points.measurement.observed["status"]["404"], 1);
}

#[test]
fn the_protocol_that_k6_spoke_is_read_where_a_threshold_asks_for_it() {
    for file in ["k6/legacy-h2.json", "k6/text-h2.txt"] {
        let run = check(file, "k6", &[("http_reqs", 2980.634836)], &[]);
        assert_eq!(run.measurement.observed["protocol"], [("HTTP/2.0".to_owned(), 2989)].into(), "{file}");
        assert!(!run.measurement.observed.contains_key("threshold crossed"), "{file}");
    }
    let with_status = fixture("k6/legacy-h2.json").replace("{proto:HTTP/2.0}", "{proto:HTTP/2.0,status:200}");
    let counts_a_part = read_runs(&with_status).unwrap().remove(0);
    for run in [only("k6/legacy.json"), counts_a_part] {
        assert!(!run.measurement.observed.contains_key("protocol"));
    }
}

#[test]
fn k6_text_is_read_to_its_total() {
    let text = check(
        "k6/text-v2.txt",
        "k6",
        &[
            ("http_reqs", 8_788.040_421),
            ("http_req_duration.avg", 0.424_97),
            ("data_received", 7.4e6),
            ("http_req_failed", 176.0 / 8843.0),
        ],
        &["cuts numbers to two decimals", "leaves out connecting and any TLS handshake"],
    );
    assert_eq!(text.measurement.observed["threshold crossed"]["http_req_failed: rate<0.01"], 1);
    check("k6/text-v2-full.txt", "k6", &[("http_req_blocked.p95", 0.0018), ("checks", 1.0)], &[]);
}

#[test]
fn h2load_is_read() {
    let run = check(
        "h2load/h2.txt",
        "h2load",
        &[
            ("http_reqs", 9618.99),
            ("http_req_duration.avg", 2.17),
            ("connect_time.max", 40.51),
            ("time_to_first_byte.min", 40.08),
            ("data_received", 6.76 * 1_048_576.0),
        ],
        &[],
    );
    assert_eq!(run.measurement.observed["cipher"]["TLS_AES_128_GCM_SHA256"], 1);
    assert_eq!(run.measurement.observed["group"]["X25519"], 1);
    assert_eq!(run.measurement.observed["alpn"]["h2"], 1);
    assert_eq!(run.measurement.observed["protocol"]["h2"], 1);
    check_absent(&run, &["http_req_duration.p99"]);
    // It sends before it knows the server's limit of streams.
    let refused = check("h2load/refused-streams.txt", "h2load", &[("http_req_failed", 0.65)], &[]);
    assert_eq!(refused.measurement.errors["errored"], 26);
    check(
        "h2load/h1-duration.txt",
        "h2load",
        &[],
        &["4 requests were under way", "warm-up is not in its numbers"],
    );
    let plain = check("h2load/h2c-duration.txt", "h2load", &[], &["20 requests were under way"]);
    assert_eq!(plain.measurement.observed["protocol"]["h2c"], 1);
    assert!(!plain.measurement.observed.contains_key("alpn"), "without TLS there is no ALPN");
    let log = check("h2load/log.tsv", "h2load", &[("http_req_duration.max", 12.46)], &[]);
    assert_eq!(count(&log, "http_req_duration"), Some(2000));
}

#[test]
fn iperf3_is_read() {
    let tcp = check(
        "iperf3/tcp-omit.json",
        "iperf3",
        &[
            ("tcp_bw", 17_492_154_514.763_8 / 8.0),
            ("tcp_send_bw", 17_464_029_608.882_664 / 8.0),
            ("tcp_rtt", 90.0),
        ],
        &["omitted its first seconds"],
    );
    assert_eq!(tcp.measurement.windows["tcp_send_bw"].len(), 2, "the omitted second is not among them");
    assert_eq!(count(&tcp, "tcp_retransmits"), Some(1));
    let udp = check(
        "iperf3/udp.json",
        "iperf3",
        &[("udp_bw", 50_055_888.798 / 8.0), ("udp_loss", 0.0), ("udp_jitter", 10.852_867)],
        &["may report no lost datagram"],
    );
    assert_eq!(udp.measurement.windows["udp_send_bw"].len(), 1);
    let both = check(
        "iperf3/bidir.json",
        "iperf3",
        &[("tcp_bw_reverse", 2_618_370_484.484_486_6 / 8.0)],
        &["with one thread"],
    );
    assert_eq!(both.options["bidir"], "1");
    let reverse = only("iperf3/reverse.json");
    assert_eq!(reverse.measurement.windows["tcp_bw"].len(), 1, "here the intervals are the receiver's");
}

#[test]
fn a_tool_that_failed_measured_nothing() {
    let run = only("iperf3/refused.json");
    let failed = "iperf3 itself failed: unable to connect to server: Connection refused";
    assert_eq!(run.failure.map(|failure| failure.to_string()).as_deref(), Some(failed));
    assert_eq!(run.metrics, []);
}

#[test]
fn the_texts_that_people_paste_are_read_like_the_json() {
    let udp = check(
        "iperf3/udp.txt",
        "iperf3",
        &[("udp_bw", 99.6e6 / 8.0), ("udp_send_bw", 100e6 / 8.0), ("udp_jitter", 105.0), ("udp_loss", 0.0)],
        &["three digits"],
    );
    assert_eq!(udp.options["protocol"], "UDP");
    let tcp =
        check("iperf3/tcp.txt", "iperf3", &[("tcp_bw", 8.53e9 / 8.0), ("tcp_send_bw", 8.54e9 / 8.0)], &[]);
    assert_eq!(count(&tcp, "tcp_retransmits"), Some(7));
    assert_eq!(tcp.measurement.windows["tcp_send_bw"], [8.59e9 / 8.0, 8.49e9 / 8.0]);
    let two = check("iperf3/two-streams-reverse.txt", "iperf3", &[("tcp_bw", 9.77e9 / 8.0)], &[]);
    assert_eq!((two.options["num_streams"].as_str(), two.options["reverse"].as_str()), ("2", "1"));
    check(
        "vegeta/report.txt",
        "vegeta",
        &[
            ("http_reqs", 50.48),
            ("iteration_duration.avg", 2.31),
            ("iteration_duration.p95", 4.2),
            ("iteration_duration.max", 7.097),
            ("http_req_failed", 0.5),
        ],
        &["unless vegeta ran with -rate=0"],
    );
    check(
        "oha/text.txt",
        "oha",
        &[
            ("http_reqs", 10_022.0 / 2.0001234),
            ("iteration_duration.p99.9", 21.3008),
            ("http_req_failed", 20.0 / 10_022.0),
        ],
        &["10 requests were under way when oha stopped"],
    );
    for (file, memory) in [("hyperfine/text.txt", 1), ("hyperfine/table.md", 0)] {
        let found = runs(file);
        assert_eq!((found.len(), found[0].options["command"].as_str()), (2, "sleep 0.05"), "{file}");
        let times = [("wall_time.avg", 53.6), ("wall_time.min", 50.1), ("wall_time.max", 59.1)];
        check_run(&found[0], file, "hyperfine", &times, &["one after the other"]);
        assert_eq!(found[0].metric("user_time").is_some(), memory == 1, "{file}");
    }
    let tables = runs("netperf/tables.txt");
    let lines: Vec<usize> = tables.iter().map(|run| run.line).collect();
    assert_eq!(lines, [1, 8, 16]);
    check_run(&tables[0], "a stream", "netperf", &[("tcp_bw", 38514.38e6 / 8.0)], &[]);
    check_run(
        &tables[1],
        "datagrams",
        "netperf",
        &[("udp_bw", 6288.67e6 / 8.0), ("udp_loss", 3456.0 / 123_456.0)],
        &[],
    );
    check_run(
        &tables[2],
        "there and back",
        "netperf",
        &[("tcp_lat.avg", 0.5e6 / 36653.92)],
        &["has no times"],
    );
    let kubestr = only("fio/kubestr.json");
    assert_eq!(kubestr.measurement.readings, only("fio/randrw.json").measurement.readings);
    check(
        "k6/points.csv",
        "k6",
        &[("http_req_failed", 0.05), ("http_req_duration.med", 0.44)],
        &["the type of body_size", "whole seconds"],
    );
}

#[test]
fn qperf_is_read() {
    check(
        "qperf/plain.txt",
        "qperf",
        &[
            ("tcp_lat.avg", 9.8),
            ("tcp_bw", 2.43e9),
            ("udp_lat.avg", 11.2),
            ("udp_send_bw", 4.08e9),
            ("udp_bw", 1.45e9),
        ],
        &["three digits"],
    );
    let base = check(
        "qperf/base-units-verbose.txt",
        "qperf",
        &[("tcp_lat.avg", 8.889), ("tcp_bw", 364_860_325.0)],
        &[],
    );
    assert_eq!(base.measurement.notices, [], "all digits are there");
    check("qperf/bits.txt", "qperf", &[("tcp_bw", 13.5e9 / 8.0)], &[]);
}

#[test]
fn oha_is_read() {
    let run = check(
        "oha/deadline.json",
        "oha",
        &[
            ("http_reqs", 1741.0 / 1.002_784_224),
            ("iteration_duration.avg", 2.253691),
            ("iteration_duration.p99.9", 110.488721),
            ("iteration_duration.max", 111.483428),
        ],
        &["4 requests were under way when oha stopped"],
    );
    assert_eq!(run.measurement.attempts.failed, 0, "what was cut off is no failure");
    let h2 = [("http_reqs", 4607.0 / 1.015_735_329), ("iteration_duration.avg", 6.415_167)];
    check("oha/h2.json", "oha", &h2, &["32 requests were under way when oha stopped"]);
    let missing = check("oha/missing.json", "oha", &[("http_req_failed", 1.0)], &[]);
    assert_eq!(missing.measurement.errors["status 404"], 50);
}

#[test]
fn netperf_is_read() {
    let found = runs("netperf/all-tests.txt");
    let value = |at: usize, metric: &str| match found[at].measurement.readings.get(metric) {
        Some(Reading::Rate { value, count }) => (*value, *count),
        other => panic!("{metric}: {other:?}"),
    };
    let mean = |at: usize, metric: &str| match found[at].measurement.readings.get(metric) {
        Some(Reading::Summary { statistics_ns, .. }) => statistics_ns[&Statistic::Avg],
        other => panic!("{metric}: {other:?}"),
    };
    assert_eq!(found.len(), 5);
    assert_eq!(mean(0, "tcp_lat"), 26.25e3 / 2.0, "it is half of a round trip");
    assert_eq!(mean(1, "udp_lat"), 33.51e3 / 2.0);
    assert_eq!(value(2, "tcp_bw"), (11_806.65e6 / 8.0, 1_485_176_832));
    assert_eq!(value(3, "udp_bw"), (1_012.97e6 / 8.0, 126_630_912));
    assert_eq!(value(3, "udp_send_bw"), (1_338.46e6 / 8.0, 167_320_576));
    let loss = &found[3].measurement.readings["udp_loss"];
    assert_eq!(*loss, Reading::Share { yes: 163_399 - 123_663, no: 123_663 });
    assert_eq!(value(4, "tcp_crr"), (5_444.586, 5_445));
    assert_eq!(mean(4, "tcp_crr_latency"), 183.53e3, "it is a whole connection");
    assert_eq!(found[0].measurement.work, 36_654);
    let warnings: Vec<String> = texts(&found[0]).collect();
    let warnings = format!("{warnings:?}");
    assert!(warnings.contains("whole microseconds") && warnings.contains("halved"), "{warnings}");
}

#[test]
fn sockperf_is_read() {
    check(
        "sockperf/ping-pong.txt",
        "sockperf",
        &[
            ("tcp_lat.avg", 9.102),
            ("tcp_lat.med", 6.384),
            ("tcp_lat.p99.9", 1716.712),
            ("tcp_lat.min", 5.863),
        ],
        &["first 400 ms"],
    );
    check("sockperf/full-rtt.txt", "sockperf", &[("tcp_lat.avg", 927.003 / 2.0)], &["halved"]);
    let log = check(
        "sockperf/full-log.csv",
        "sockperf",
        &[("udp_lat.max", 13_877.122 / 2.0)],
        &["TCP or UDP", "halved"],
    );
    assert_eq!(count(&log, "udp_lat"), Some(107));
    check(
        "sockperf/throughput.txt",
        "sockperf",
        &[("tcp_send_bw", 806.132 * 1_048_576.0)],
        &["MBps is MiB/s"],
    );
}

#[test]
fn every_reading_has_its_metric_and_nothing_else_does() {
    for file in all() {
        for run in fixtures::runs(&file, &fixture(&file)).unwrap() {
            let mut metrics: Vec<&str> = run.metrics.iter().map(|metric| metric.name.as_str()).collect();
            metrics.sort_unstable();
            let readings: Vec<&str> = run.measurement.readings.keys().map(String::as_str).collect();
            assert_eq!(metrics, readings, "{file}");
            let is_known = |name: &String| metrics.contains(&name.as_str());
            assert!(run.remedies.keys().chain(run.measurement.windows.keys()).all(is_known), "{file}");
            for metric in &run.metrics {
                assert!(!metric.about.is_empty() && metric.unit.per_base() > 0.0, "{}", metric.name);
                let is_time = matches!(metric.unit, Unit::Milliseconds | Unit::Microseconds | Unit::Seconds);
                let reading = &run.measurement.readings[&metric.name];
                let is_trend = matches!(reading, Reading::Trend(_) | Reading::Summary { .. });
                assert!(is_time || !is_trend, "{}: statistics are of times", metric.name);
            }
        }
    }
}

#[test]
fn hyperfine_is_read_by_command() {
    let found = runs("hyperfine/two-commands.json");
    assert_eq!(found.len(), 2);
    let first = [
        ("wall_time.min", 10.8),
        ("wall_time.max", 11.8),
        ("user_time.avg", 0.5),
        ("memory_max", 2_097_152.0),
    ];
    check_run(&found[0], "first", "hyperfine", &first, &["one after the other", "the size of hyperfine"]);
    assert_eq!(count(&found[0], "wall_time"), Some(4));
    check_run(
        &found[1],
        "second",
        "hyperfine",
        &[],
        &["1 of the runs failed (100.0%)", "made one run", "less than 5 ms"],
    );
    assert_eq!(found[1].options["parameter n"], "1");
    assert_eq!(found[1].measurement.errors["exit code 3"], 1);
}

#[test]
fn dbench_latency_is_in_the_unit_that_agrees_with_the_iops() {
    let nfs = check(
        "dbench/nfs.txt",
        "dbench",
        &[
            ("read_iops", 4410.0),
            ("read_latency.avg", 14_200.0),
            ("read_bw", 68.4 * 1_048_576.0),
            ("rw_mix_write_iops", 1101.0),
        ],
        &["ms alone agrees with the read IOPS", "no write latency"],
    );
    check_absent(&nfs, &["write_latency.avg"]);
    let fast = check(
        "dbench/fast.txt",
        "dbench",
        &[("read_iops", 76_100.0), ("read_latency.avg", 187.55), ("rw_mix_read_iops", 57_200.0)],
        &["loses the M of millions: its write_iops"],
    );
    check_absent(&fast, &["write_iops", "write_latency.avg"]);
}

#[test]
fn wrk2_is_timed_from_the_intended_start() {
    let run = check(
        "wrk2/spectrum.txt",
        "wrk2",
        &[("http_reqs", 1000.0), ("http_req_duration.med", 1.001), ("http_req_duration.p99", 4.001)],
        &["calls uncorrected is left out", "has 10,000 of 20,000 requests", "about a hundred steps"],
    );
    assert_eq!(count(&run, "http_req_duration"), Some(10_000));
}

#[test]
fn newer_h2load_has_percentiles_in_text_and_json() {
    let expected = [
        ("http_req_duration.p99", 4.5),
        ("http_req_duration.avg", 1.0),
        ("time_to_first_byte.med", 1.0),
        ("http_req_failed", 0.1),
    ];
    check("h2load/v1.69.txt", "h2load", &expected, &[]);
    let json = check("h2load/output.json", "h2load", &expected, &[]);
    assert_eq!(json.version.as_deref(), Some("1.69.0"));
}

#[test]
fn failing_fast_looks_fast_in_k6() {
    let run = check(
        "k6/text-v0.txt",
        "k6",
        &[
            ("http_req_failed", 19_964.0 / 20_948.0),
            ("http_req_blocked.max", 62_500.0),
            ("http_req_connecting.avg", 0.28),
        ],
        &["as expected is 1.95 s", "dropped 12 iterations", "handshake (11.0 ms on average)"],
    );
    assert_eq!(run.measurement.attempts.failed, 19_964);
    let cut = check(
        "k6/powershell.json",
        "k6",
        &[("http_reqs", 10.0), ("my_duration_avg", 2.5)],
        &["PowerShell cut http_req_duration off"],
    );
    check_absent(&cut, &["http_req_duration.avg"]);
}

#[test]
fn other_versions_of_iperf3_are_read() {
    let old = check(
        "iperf3/udp-3.9.json",
        "iperf3",
        &[("udp_send_bw", 1.25e6), ("udp_loss", 17.0 / 1712.0)],
        &["before 3.11"],
    );
    check_absent(&old, &["udp_bw"]);
    let lines = check("iperf3/stream.ndjson", "iperf3", &[("tcp_bw", 124.5e6)], &[]);
    assert_eq!(lines.measurement.windows["tcp_send_bw"].len(), 2);
}

#[test]
fn a_sweep_is_several_runs() {
    let found = runs("qperf/sweep.txt");
    let labels: Vec<Option<&str>> = found.iter().map(|run| run.label.as_deref()).collect();
    assert_eq!(labels, [Some("1 bytes"), Some("1 KiB (1024)")]);
}

#[test]
fn fio_percentiles_end_with_its_histogram_and_clients_are_summed_once() {
    let over = check(
        "fio/overflow.json",
        "fio",
        &[("write_completion_latency.p90", 9e6), ("write_completion_latency.max", 94e6)],
        &["17,113 ms stands for any such time"],
    );
    check_absent(&over, &["write_completion_latency.p99", "write_completion_latency.p99.9"]);
    assert_eq!(over.started_unix_s, Some(1_700_000_000.5 - 100.0));
    let run = check(
        "fio/clients-2.x.json",
        "fio",
        &[
            ("read_iops", 100.0),
            ("read_bw", 400.0 * 1024.0),
            ("read_latency.avg", 21_000.5),
            ("read_completion_latency.med", 1200.0),
        ],
        &["several fio clients"],
    );
    assert_eq!(run.measurement.work, 1000);
}

#[test]
fn openssl_speed_is_read_with_its_clock() {
    let text = check(
        "openssl/text.txt",
        "openssl speed",
        &[("rsa_2048_sign", 4516.0), ("rsa_2048_verify", 74_854.2), ("m_253_ecdh_x25519", 41_208.0)],
        &["(250 ms), not by the time that passed (1.00 s)", "far too high"],
    );
    assert_eq!((text.version.as_deref(), text.options["clock"].as_str()), (Some("3.0.19"), "user CPU time"));
    let elapsed =
        check("openssl/text-elapsed-bulk.txt", "openssl speed", &[("aes_128_gcm_1024", 406_610_120.0)], &[]);
    assert_eq!(elapsed.options["clock"], "elapsed");
    let machine = [("rsa_2048_sign", 450.434_783), ("ed25519_sign", 8288.0), ("ed25519_verify", 2938.0)];
    check("openssl/mr-elapsed.txt", "openssl speed", &machine, &["does not say whether -elapsed"]);
    check("openssl/mr-user-time.txt", "openssl speed", &[("aes_128_gcm_1024", 2_152_170_057.14)], &[]);
    let old = [
        ("rsa_2048_sign", 1.0 / 0.001_05),
        ("rsa_2048_verify", 1.0 / 0.000_031),
        ("ecdh_256", 1.0 / 0.000_3),
    ];
    check("openssl/mr-1.0.txt", "openssl speed", &old, &[]);
}

#[test]
fn vegeta_is_read() {
    let run = check(
        "vegeta/report.json",
        "vegeta",
        &[("http_reqs", 100.0), ("iteration_duration.p99", 8.8), ("http_req_failed", 0.04)],
        &["t-digest", "that of the load", "503 Service Unavailable"],
    );
    assert_eq!(run.started_unix_s.map(f64::floor), Some(1_790_841_600.0));
}

#[test]
fn migrations_of_qemu_are_read_in_three_forms() {
    let expected = [
        ("total_time", 4321.0),
        ("downtime", 57.0),
        ("throughput", 3981.42 * 125_000.0),
        ("wire_bytes", 2_147_483_648.0),
        ("pages_per_second", 128_000.0),
        ("rounds", 4.0),
    ];
    check("qemu/info-migrate-old.txt", "QEMU", &expected, &["not the bytes on the wire"]);
    check(
        "qemu/info-migrate-new.txt",
        "QEMU",
        &expected,
        &["rounds sizes for people", "not the bytes on the wire"],
    );
    let json = check("qemu/query-migrate.json", "QEMU", &expected, &["went below zero", "had not completed"]);
    assert_eq!((json.measurement.attempts.failed, value(&json, "converged")), (1, Some(0.0)));
}

fn mapped(file: &str, columns: &[&str]) -> Result<ToolRun, String> {
    let columns: Vec<Column> = columns.iter().map(|column| column.parse().unwrap()).collect();
    read_mapped(&fixture(file), &columns).map_err(|error| error.to_string())
}

#[test]
fn what_has_no_units_is_read_with_those_that_the_user_names() {
    let hgrm = mapped("hgrm/latency.hgrm", &["latency:us"]).unwrap();
    let expected = [("latency.med", 0.25), ("latency.p99", 4.0), ("latency.max", 9.0)];
    check_run(&hgrm, "hgrm", "HdrHistogram", &expected, &["rounded values"]);
    assert_eq!(count(&hgrm, "latency"), Some(1000));
    let prometheus = mapped("prometheus/range.json", &["rps:1/s"]).unwrap();
    let warnings =
        ["neighbours share data", "points that are NaN or infinite are left out: 2", "query hit a limit"];
    check_run(&prometheus, "prometheus", "Prometheus", &[("rps_a_1", 105.0), ("rps_b_2", 50.0)], &warnings);
    let csv = mapped("csv/runs.csv", &["latency:ms", "rate:1/s"]).unwrap();
    check_run(
        &csv,
        "csv",
        "CSV",
        &[("latency.min", 12.5), ("rate", 110.0)],
        &["fields that are empty, words or negative are left out: 1", "are one run"],
    );
    let error = mapped("csv/runs.csv", &["p99:ms"]).unwrap_err();
    assert_eq!(error, "read it as csv: it has no column `p99`; its columns are time, latency, rate, note");
    let error = read_runs(&fixture("hgrm/latency.hgrm")).unwrap_err().to_string();
    assert!(error.contains("--column latency:us"), "{error}");
}

#[test]
fn every_interval_of_a_log_is_merged_by_its_tag() {
    let log = mapped("hlog/latency.hlog", &["latency:ns"]).unwrap();
    // Interval i of five, from 0, holds the 200 values 10 us, 20 us, … 2 ms, each longer by i ms; those tagged `write` are
    // 7 ms. The middle two values are 3.00 and 3.01 ms.
    let expected = [
        ("latency.min", 0.01),
        ("latency.med", 3.0),
        ("latency.max", 6.0),
        ("latency_write.min", 7.0),
        ("latency_write.max", 7.0),
    ];
    check_run(&log, "hlog", "HdrHistogram", &expected, &["divided by about 1,000,000"]);
    assert_eq!((count(&log, "latency"), count(&log, "latency_write")), (Some(1000), Some(50)));
    assert_eq!(log.measurement.window_ns, 5_000_000_000);
    assert_eq!(log.started_unix_s, Some(1_764_000_000.25));
    let text = fixture("hlog/latency.hlog");
    let error = read_runs(&text).unwrap_err().to_string();
    assert!(error.contains("--column latency:ns"), "{error}");
    let column = ["latency:ns".parse::<Column>().unwrap()];
    let cut =
        read_mapped(text.trim_end().strip_suffix("GEQBl+QYV").unwrap(), &column).unwrap_err().to_string();
    assert!(cut.contains("interval 10 cannot be read"), "{cut}");
}

#[test]
fn what_hyperfine_measured_here_is_read() {
    let found = runs("hyperfine/two-sleeps.json");
    // hyperfine's median of eight is the mean of the middle two, 24.859 ms; a distribution keeps the lower of them.
    let first = [
        ("wall_time.avg", 28.076),
        ("wall_time.med", 21.788),
        ("wall_time.max", 46.269),
        ("memory_max", 3_256_320.0),
    ];
    check_run(&found[0], "first", "hyperfine", &first, &["one after the other"]);
    check_run(&found[1], "second", "hyperfine", &[("user_time.avg", 1.018)], &[]);
    let failing = check(
        "hyperfine/failing.json",
        "hyperfine",
        &[],
        &["2 of the runs failed (100.0%)", "less than 5 ms"],
    );
    assert_eq!(failing.measurement.attempts.failed, 2);
}

#[test]
fn thousands_with_commas_are_read() {
    let text = "Running 30s test @ http://127.0.0.1:8080/\n  2 threads and 10 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
                Latency   163.00us   40.00us   3.21ms   91.00%\n  1,834,206 requests in 30.01s, 1.50GB read\nRequests/sec:  61,119.83\n";
    let run = read_runs(text).unwrap().remove(0);
    assert_eq!((value(&run, "http_reqs"), count(&run, "http_reqs")), (Some(61_119.83), Some(1_834_206)));
    let unclear = read_runs(&text.replace("61,119.83", "61,119")).unwrap_err().to_string();
    let words =
        "line 6, column 16: `61,119` could be read as two different numbers; write it without separators";
    assert!(unclear.ends_with(words), "{unclear}");
}
