//! Correct documents, and documents that invite a wrong ratio, each with the complete result of its audit.

use super::Audit;

fn audit(text: &str) -> Audit {
    super::audit(text, plumb_report::notice)
}

/// A document and its result: ratios as `metric of this over that: ×value`, and the names of the rules with findings.
struct Case {
    name: &'static str,
    text: &'static str,
    ratios: &'static [&'static str],
    findings: &'static [&'static str],
    not_read: usize,
}

fn ratios(audit: &Audit) -> Vec<String> {
    let words = audit.conclusions.iter().map(|ratio| {
        let whole = ratio.to_string();
        let (front, _) = whole.split_once(" — ").unwrap();
        let line = format!(" (line {})", ratio.line);
        front.replacen(&line, "", 1)
    });
    words.collect()
}

#[test]
fn each_document_has_exactly_these_ratios_and_findings() {
    let mut wrong = Vec::new();
    for case in CORRECT.iter().chain(INVITING) {
        let audit = audit(case.text);
        let found: Vec<&str> = audit.findings.iter().map(|finding| finding.rule.name()).collect();
        let said = (ratios(&audit), found, audit.not_read.len());
        if said.0 != case.ratios || said.1 != case.findings || said.2 != case.not_read {
            wrong.push(format!("{}: {said:#?} {:#?}", case.name, audit.not_read));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn documents_without_ratios_are_still_read() {
    for (name, found) in [
        ("one row", 1),
        ("errors per second, whose direction is unknown", 1),
        ("unlike units in one column", 1),
        ("a migration that took two seconds", 1),
        ("AES with two key sizes", 1),
        ("a table of settings", 0),
        ("a table of words", 0),
    ] {
        let case = CORRECT.iter().chain(INVITING).find(|case| case.name == name).unwrap();
        assert_eq!(audit(case.text).found.len(), found, "{name}");
    }
}

const fn correct(name: &'static str, text: &'static str, ratios: &'static [&'static str]) -> Case {
    Case { name, text, ratios, findings: &[], not_read: 0 }
}

/// Documents without an error or an omission.
const CORRECT: &[Case] = &[
    correct(
        "hyperfine's Markdown table",
        "| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n|:---|---:|---:|---:|---:|\n\
         | `pack x \\| wc` | 412.3 ± 6.1 | 401.0 | 424.8 | 1.63 ± 0.03 |\n| `squeeze x` | 252.8 ± 4.3 | 247.0 | 261.2 | 1.00 |",
        &["Mean of `squeeze x` over `pack x | wc`: ×0.6131 (lower is better)"],
    ),
    correct(
        "a key column with repetitions and ±",
        "Mean of five runs, with their standard deviation.\n\n| connections | old (req/s) | new (req/s) |\n|---|---|---|\n\
         | 1 | 2100 ± 20 | 1900 ± 15 |\n| 64 | 61000 ± 800 | 64000 ± 700 |",
        &[
            "req/s of new over old at connections 1: ×0.9048 (higher is better)",
            "req/s of new over old at connections 64: ×1.049 (higher is better)",
        ],
    ),
    correct(
        "units in cells",
        "| backend | sequential read | random read |\n|---|---|---|\n| ring | 1.10 GB/s ± 0.02 GB/s | 90.0K IOPS ± 1.1K IOPS |\n\
         | pool | 540 MB/s ± 9 MB/s | 44.0K IOPS ± 0.9K IOPS |",
        &[
            "sequential read of pool over ring: ×0.491 (higher is better)",
            "random read of pool over ring: ×0.489 (higher is better)",
        ],
    ),
    correct(
        "two columns",
        "|tunnel|Gbit/s|\n|-|-|\n|none|9.41 ± 0.02|\n|encrypted|3.27 ± 0.05|",
        &["Gbit/s of encrypted over none: ×0.348 (higher is better)"],
    ),
    correct(
        "rows are metrics",
        "| metric | harbour | marina |\n|---|---|---|\n| CPU usage | 55% ± 1% | 61% ± 1% |\n\
         | average latency | 7.00 ms ± 0.10 ms | 6.10 ms ± 0.10 ms |\n| stddev of latency | 0.10 ms | 0.12 ms |\n| throughput | 9.10 Gbit/s ± 0.05 | 870 MB/s ± 9 |",
        &[
            "average latency of marina over harbour: ×0.871 (lower is better)",
            "throughput of marina over harbour: ×0.765 (higher is better)",
        ],
    ),
    correct(
        "a mean and its deviation in one column",
        "| setup | Mean ± σ [ms] | Runs |\n|---|---|---|\n| plain | 252.8 ± 4.3 | 10 |\n| tuned | 201.1 ± 3.0 | 10 |",
        &["Mean ± σ of tuned over plain: ×0.7955 (lower is better)"],
    ),
    correct(
        "an interval in a separate column, and a ratio near 1",
        "| proxy | throughput | 95% CI |\n|---|---|---|\n| calm | 9.1 Gbps | ±0.1 |\n| brisk | 9.4 Gbps | ±0.1 |",
        &["throughput of brisk over calm: ×1.03 (higher is better)"],
    ),
    correct(
        "a deviation in a separate column",
        "| proxy | p99 (ms) | stddev (ms) |\n|---|---|---|\n| calm | 12.1 | 0.3 |\n| brisk | 9.8 | 0.2 |",
        &["p99 of brisk over calm: ×0.81 (lower is better)"],
    ),
    correct(
        "a minimum and a maximum",
        "| version | req/s | min | max |\n|---|---|---|---|\n| 1.4 | 10400 | 10310 | 10482 |\n| 1.5 | 12100 | 11990 | 12207 |",
        &["req/s of 1.5 over 1.4: ×1.163 (higher is better)"],
    ),
    correct(
        "tests as rows, before and after as columns",
        "| test | before (ms) | after (ms) |\n|---|---|---|\n| login | 31.0 ± 0.4 | 24.5 ± 0.3 |\n| search | 210.0 ± 3.0 | 180.0 ± 2.0 |",
        &[
            "ms of after over before at test login: ×0.79 (lower is better)",
            "ms of after over before at test search: ×0.8571 (lower is better)",
        ],
    ),
    correct(
        "thousands beside a decimal point",
        "| kernel | req/s |\n|---|---|\n| stock | 41,250.5 ± 210.0 |\n| patched | 43,900.0 ± 190.5 |",
        &["req/s of patched over stock: ×1.064 (higher is better)"],
    ),
    correct(
        "decimal commas throughout",
        "| tunnel | Gbit/s |\n|---|---|\n| none | 9,41 ± 0,02 |\n| encrypted | 3,27 ± 0,05 |",
        &["Gbit/s of encrypted over none: ×0.348 (higher is better)"],
    ),
    correct(
        "a table of settings",
        "| Variable | Value |\n|---|---|\n| BENCH_CPUS | 44 |\n| BENCH_MEMORY | 24576 |",
        &[],
    ),
    correct(
        "a table of words",
        "| tool | licence |\n|---|---|\n| wrk | Apache 2.0 |\n| ab | Apache 2.0 |",
        &[],
    ),
    correct("one row", "| proxy | p50 (ms) | p99 (ms) |\n|---|---|---|\n| calm | 3.1 | 12.1 |", &[]),
    correct(
        "two factors, one of them a setting",
        "| server | threads | req/s |\n|---|---|---|\n| calm | 1 | 1500 ± 10 |\n| calm | 8 | 9000 ± 70 |\n| brisk | 1 | 1800 ± 10 |\n\
         | brisk | 8 | 9900 ± 80 |",
        &[
            "req/s of brisk over calm: ×1.2 (higher is better)",
            "req/s of brisk over calm: ×1.1 (higher is better)",
        ],
    ),
    correct(
        "a derived column without a unit",
        "| build | time (s) | speedup |\n|---|---|---|\n| main | 12.50 ± 0.10 | 1.0x |\n| branch | 10.00 ± 0.10 | 1.25x |",
        &["time of branch over main: ×0.8 (lower is better)"],
    ),
    correct(
        "a grid of reStructuredText",
        "+--------+----------------+\n| proxy  | latency (us)   |\n+========+================+\n| calm   | 81.0 ± 0.5     |\n\
         +--------+----------------+\n| brisk  | 64.0 ± 0.4     |\n+--------+----------------+",
        &["latency of brisk over calm: ×0.79 (lower is better)"],
    ),
    correct(
        "a table without bars at both ends",
        "server | latency (us)\n--- | ---:\ncalm | 81.0 ± 0.5\nbrisk | 64.0 ± 0.4\n",
        &["latency of brisk over calm: ×0.79 (lower is better)"],
    ),
    correct(
        "units that differ in their prefix",
        "| volume | latency |\n|---|---|\n| near | 850 us ± 9 us |\n| far | 1.30 ms ± 0.02 ms |",
        &["latency of far over near: ×1.53 (lower is better)"],
    ),
    correct(
        "errors per second, whose direction is unknown",
        "| proxy | errors/s |\n|---|---|\n| calm | 12.0 ± 0.5 |\n| brisk | 3.0 ± 0.2 |",
        &[],
    ),
    correct("prose with a heading", "# Results\n\nThe new proxy is 20% faster on 4 cores.\n", &[]),
    correct(
        "a migration that took two seconds",
        "```\n(qemu) info migrate\nMigration status: completed\ntotal time: 2321 ms\ndowntime: 162 ms\ntransferred ram: 912345 kbytes\n```\n",
        &[],
    ),
];

/// Documents that invite a wrong ratio.
const INVITING: &[Case] = &[
    Case {
        name: "AES with two key sizes",
        text: "| type | 16 KiB |\n|---|---|\n| aes-128-cbc | 910 MB/s |\n| aes-256-cbc | 650 MB/s |\n| des-ede3 | 21 MB/s |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "sizes as headings",
        text: "| type | 16 bytes | 64 bytes |\n|---|---|---|\n| aes-128-cbc | 88000.10k | 95000.20k |\n| des-ede3 | 21000.10k | 21400.20k |",
        ratios: &[],
        findings: &[],
        not_read: 1,
    },
    Case {
        name: "statistics as columns",
        text: "| concurrency | p50 (ms) | p99 (ms) |\n|---|---|---|\n| 1 | 1.2 | 4.0 |\n| 64 | 9.1 | 44.0 |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "a p99 below its median",
        text: "| proxy | read p50 (ms) | read p99 (ms) | write p50 (ms) |\n|---|---|---|---|\n| calm | 3.1 ± 0.1 | 2.1 ± 0.1 | 9.0 ± 0.1 |",
        ratios: &[],
        findings: &["percentiles-out-of-order"],
        not_read: 0,
    },
    Case {
        name: "a median above the maximum, with metrics as rows",
        text: "| metric | run |\n|---|---|\n| median latency | 3.1 ms |\n| max latency | 980 us |\n| mean latency | 4 ms |",
        ratios: &[],
        findings: &["percentiles-out-of-order"],
        not_read: 0,
    },
    Case {
        name: "reads and writes as columns",
        text: "| size | read (MB/s) | write (MB/s) |\n|---|---|---|\n| 4 KiB | 120 | 90 |\n| 64 KiB | 900 | 700 |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "times of one process",
        text: "| threads | user (s) | system (s) | wall (s) |\n|---|---|---|---|\n| 1 | 9.0 | 1.0 | 10.0 |\n| 4 | 9.6 | 1.5 | 3.0 |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "threads as rows",
        text: "| setup | req/s |\n|---|---|\n| 1 thread | 1500 |\n| 8 threads | 9000 |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "two differences at once",
        text: "| backend | TLS | req/s |\n|---|---|---|\n| calm | on | 1500 |\n| brisk | off | 9000 |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "a comma beside a point",
        text: "|tunnel|Gbit/s|\n|-|-|\n|none|9.41|\n|encrypted|3,27|",
        ratios: &[],
        findings: &[],
        not_read: 1,
    },
    Case {
        name: "sizes with units as headings",
        text: "| cipher | 16 B | 1 KiB | 16 KiB |\n|---|---|---|---|\n| AES-128-GCM | 410 MB/s | 3.1 GB/s | 5.2 GB/s |",
        ratios: &[],
        findings: &["one-number-a-cell"],
        not_read: 0,
    },
    Case {
        name: "figures in a form that is not read",
        text: "| proxy | rps | p99 |\n|---|---|---|\n| calm | 45 213 | 8.1 ms ± 0.1 ms |\n| brisk | 61 004 | 5.9 (sd 0.2) |",
        ratios: &[],
        findings: &[],
        not_read: 1,
    },
    Case {
        name: "a simple table of reStructuredText",
        text: "=====  ====\nname   rps\n=====  ====\ncalm   100\nbrisk  120\n=====  ====\n",
        ratios: &[],
        findings: &[],
        not_read: 1,
    },
    Case {
        name: "numbers without a metric",
        text: "| name | a | b |\n|---|---|---|\n| x | 12 | 13 |\n| y | 14 | 15 |",
        ratios: &[],
        findings: &[],
        not_read: 1,
    },
    Case {
        name: "unlike units in one column",
        text: "| backend | result |\n|---|---|\n| ring | 1.10 GB/s |\n| pool | 44 ms |",
        ratios: &[],
        findings: &[],
        not_read: 0,
    },
    Case {
        name: "repetitions in the text, and one number a cell",
        text: "Five repetitions of each row.\n\n| concurrency | calm (req/s) | brisk (req/s) |\n|---|---|---|\n| 1 | 2100 | 1900 |",
        ratios: &["req/s of brisk over calm at concurrency 1: ×0.9048 (higher is better)"],
        findings: &["repeated-without-spread"],
        not_read: 0,
    },
    Case {
        name: "thousands in a table beside ab's output",
        text: "| proxy | req/s |\n|---|---|\n| calm | 41,250 |\n| brisk | 43,900 |\n\nConcurrency Level:      10\n\
               Time taken for tests:   25.000 seconds\nComplete requests:      250\nFailed requests:        0\n\
               Requests per second:    10.00 [#/sec] (mean)\n",
        ratios: &[],
        findings: &["load-cpu-unknown"],
        not_read: 1,
    },
    Case {
        name: "a table of HTML",
        text: "<table>\n<tr><td>calm</td><td>12 ms</td></tr>\n</table>\n",
        ratios: &[],
        findings: &[],
        not_read: 1,
    },
    Case {
        name: "fio's JSON, which has its CPU times and a ramp",
        text: "{\"fio version\":\"fio-3.33\",\"jobs\":[{\"jobname\":\"m\",\"error\":0,\"job options\":{\"ramp_time\":\"5\"},\"read\":\
               {\"io_bytes\":81920000,\"bw_bytes\":4096000,\"iops\":1000.0,\"runtime\":20000,\"total_ios\":20000,\"lat_ns\":\
               {\"min\":90000,\"max\":2000000,\"mean\":950000.0,\"N\":20000}},\"usr_cpu\":2.1,\"sys_cpu\":7.4}]}",
        ratios: &[],
        findings: &["volume-state-unknown"],
        not_read: 0,
    },
    Case {
        name: "a latency and a rate of one tool",
        text: "Latency:\n```\nsockperf: ====> avg-latency=21.100 (std-dev=3.100)\nsockperf: Summary: Latency is 21.100 usec\n```\nThroughput:\n\
               ```\nsockperf: Summary: Message Rate is 412000 [msg/sec]\nsockperf: Summary: BandWidth is 578.000 MBps (4624.000 Mbps)\n```\n",
        ratios: &[],
        findings: &["how-the-tool-counts", "how-the-tool-counts", "load-cpu-unknown"],
        not_read: 0,
    },
];

/// An output of wrk with a rate and a mean latency.
fn wrk(title: &str, url: &str, latency: &str, rate: u32) -> String {
    format!(
        "{title}\n```\nRunning 30s test @ {url}\n  4 threads and 120 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
         Latency    {latency}    3.00ms  90.00ms   90.00%\n    Req/Sec     1.50k   100.00     2.00k    70.00%\n  {} requests in 30.00s, \
         40.00MB read\nRequests/sec:   {rate}.00\nTransfer/sec:      1.33MB\n```\n",
        rate * 30
    )
}

fn rules(text: &str) -> Vec<&'static str> {
    audit(text).findings.iter().map(|finding| finding.rule.name()).collect()
}

#[test]
fn more_in_flight_than_connections_is_found_in_closed_loops_alone() {
    let closed = wrk("A run", "http://192.0.2.10/", "64.50ms", 6000);
    assert_eq!(
        rules(&closed),
        ["how-the-tool-counts", "more-in-flight-than-connections", "load-cpu-unknown"]
    );
    let why = &audit(&closed).findings[1].why;
    assert!(
        why.starts_with("6000 per second times a mean http_req_duration of 64.5 ms is 387 in flight"),
        "{why}"
    );
    let open = closed.replace(
        "  Thread Stats",
        "  Thread calibration: mean lat.: 4.100ms, rate sampling interval: 10ms\n  Thread Stats",
    );
    assert_eq!(rules(&open), ["how-the-tool-counts", "load-cpu-unknown"], "{open}");
}

#[test]
fn runs_are_compared_only_if_a_single_named_thing_differs() {
    let two = |one: &str, other: &str| audit(&format!("{one}\n{other}"));
    let (calm, brisk) = ("http://192.0.2.10/", "http://192.0.2.11/");
    let named = two(&wrk("## Calm", calm, "20.00ms", 6000), &wrk("## Brisk", calm, "15.00ms", 8000));
    assert_eq!(ratios(&named), ["http_reqs of \"Brisk\" over \"Calm\" (line 3): ×1.333 (higher is better)"]);
    let captions = two(&wrk("Before:", calm, "20.00ms", 6000), &wrk("After:", calm, "15.00ms", 8000));
    assert_eq!(
        ratios(&captions),
        ["http_reqs of \"After\" over \"Before\" (line 3): ×1.333 (higher is better)"]
    );
    let hosts = two(&wrk("", calm, "20.00ms", 6000), &wrk("", brisk, "15.00ms", 8000));
    assert_eq!(ratios(&hosts).len(), 1);
    for (one, other) in [
        (wrk("## Run", calm, "20.00ms", 6000), wrk("## Run", calm, "15.00ms", 8000)),
        (wrk("## RSA-2048", calm, "20.00ms", 6000), wrk("## RSA-4096", calm, "15.00ms", 8000)),
        (wrk("## Calm", calm, "20.00ms", 6000), wrk("## Brisk", "https://192.0.2.10/", "15.00ms", 8000)),
        (wrk("", "http://192.0.2.10/a", "20.00ms", 6000), wrk("", "http://192.0.2.10/b", "15.00ms", 8000)),
    ] {
        let both = two(&one, &other);
        assert_eq!((both.found.len(), ratios(&both)), (2, Vec::new()), "{one}{other}");
    }
    let again = two(&wrk("## Run", calm, "20.00ms", 6000), &wrk("## Run", calm, "15.00ms", 8000));
    assert!(
        again.findings.iter().all(|finding| finding.rule.name() != "one-run-each"),
        "repetitions are not variants"
    );
    assert!(named.findings.iter().any(|finding| finding.rule.name() == "one-run-each"));
}

const AB: &str = "Concurrency Level:      10\nTime taken for tests:   25.000 seconds\nComplete requests:      250\nFailed requests:        230\n   \
                  (Connect: 0, Receive: 0, Length: 230, Exceptions: 0)\nNon-2xx responses:      230\nRequests per second:    10.00 [#/sec] \
                  (mean)\n";

#[test]
fn failures_are_found_from_one_percent_on() {
    assert_eq!(rules(AB), ["failed-answers", "load-cpu-unknown"]);
    let why = &audit(AB).findings[0].why;
    assert!(why.starts_with("230 of 250 requests failed, 92% (status not 2xx: 230)"), "{why}");
    let failing =
        |count: &str| AB.replace("250\n", "25000\n").replace("230", count).replace("10.00 [", "1000.00 [");
    assert_eq!(rules(&failing("250")), ["failed-answers", "load-cpu-unknown"]);
    assert_eq!(rules(&failing("249")), ["load-cpu-unknown"]);
}

#[test]
fn plain_http_has_no_handshake() {
    let times = "\nConnection Times (ms)\n              min  mean[+/-sd] median   max\nConnect:        20   500  12.1     500      510\n\
                 Processing:     2    490  12.1      490      500\nWaiting:        0    490  12.1      490      500\n\
                 Total:          22   990   2.0     990      1010\n";
    let plain = format!("{AB}{times}");
    let tls = format!("SSL/TLS Protocol:       TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256\n{plain}");
    for (text, words) in
        [(&plain, "Connecting (500 ms) is outside it"), (&tls, "The handshake (500 ms) is outside it")]
    {
        let audit = audit(text);
        let found = audit
            .findings
            .iter()
            .find(|finding| finding.rule.name() == "metric-leaves-out-connecting")
            .unwrap();
        assert!(found.why.contains(words), "{}", found.why);
    }
    assert!(!rules(&plain).contains(&"handshakes-unknown"));
    assert!(rules(&tls).contains(&"handshakes-unknown"));
}

#[test]
fn an_output_that_its_reader_refuses_is_listed() {
    let text = format!("Some words.\n```\n{}```\n", AB.replace("Complete requests:      250\n", ""));
    let audit = audit(&text);
    assert!(audit.found.is_empty());
    assert_eq!(audit.not_read.len(), 1, "{:?}", audit.not_read);
    assert!(audit.not_read[0].is_failure && audit.not_read[0].line == 2);
    assert!(audit.not_read[0].why.contains("as ab"), "{:?}", audit.not_read);
}

#[test]
fn a_figure_that_cannot_be_read_has_its_line_in_the_document() {
    let good = wrk("## Calm", "http://192.0.2.10/", "20.00ms", 6000);
    let bad = good.replace("Calm", "Brisk").replace("   6000.00", "   6,000");
    let alone = format!("Some words.\n\n{bad}");
    let in_one_block = format!("{good}{bad}").replace("```\n## Brisk\n```\n", "");
    for (text, line) in [(alone, 11), (in_one_block, 17)] {
        let not_read = audit(&text).not_read;
        assert_eq!(not_read.len(), 1, "{not_read:?}");
        assert!(not_read[0].why.contains(&format!("line {line}, column 17: `6,000`")), "{not_read:?}");
    }
}
