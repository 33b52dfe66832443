//! The conclusions from documents with numbers, as `plumb audit` prints them.

use crate::commands::planning;
use crate::experiments::Source;
use crate::in_process::{Said, plumb, write};

/// A report of an accelerator for TLS, as people write them: ab, once with software and once with the accelerator.
const AB: &str = r"# An accelerator

## Software, 10000 requests

```
$ ab -c 20 -n 10000 -f TLS1.2 https://127.0.0.1/
This is ApacheBench, Version 2.3 <$Revision: 1430300 $>

Server Hostname:        127.0.0.1
Server Port:            443
SSL/TLS Protocol:       TLSv1.2,ECDHE-RSA-AES256-GCM-SHA384,4096,256

Document Path:          /
Document Length:        612 bytes

Concurrency Level:      20
Time taken for tests:   31.243 seconds
Complete requests:      10000
Failed requests:        0
Total transferred:      8450000 bytes
Requests per second:    320.08 [#/sec] (mean)
Transfer rate:          264.12 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        4   53  12.1     57      61
Processing:     2    9  12.1      6      59
Waiting:        0    9  12.1      5      59
Total:          6   62   2.0     62      98
```

## The accelerator

```
$ ab -c 20 -n 100000 -f TLS1.2 https://127.0.0.1/
This is ApacheBench, Version 2.3 <$Revision: 1430300 $>

Server Hostname:        127.0.0.1
Server Port:            443
SSL/TLS Protocol:       TLSv1.2,ECDHE-RSA-AES256-GCM-SHA384,4096,256

Document Path:          /
Document Length:        92 bytes

Concurrency Level:      20
Time taken for tests:   7.6421 seconds
Complete requests:      10000
Failed requests:        9999
   (Connect: 0, Receive: 0, Length: 9999, Exceptions: 0)
Non-2xx responses:      1
Total transferred:      8449934 bytes
Requests per second:    1308.54 [#/sec] (mean)
Transfer rate:          1079.79 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        6   12   1.7     12      19
Processing:     0    3  15.9      2    5005
Waiting:        0    2  15.8      2    5001
Total:          9   14  15.8     14    5016
```
";

/// A migration whose pages per second cannot be right, and whose throughput is above its cap.
const TABLE: &str = "16 vCPU and 64G memory\n\nmax-bandwidth: 1.25 GBps, over 10Gbps\n
> + |----------|--------|---------|----------|----------|------|------|
> + |8 Channels|Total   |down     |throughput|pages per | send | recv |
> + |          |time(ms)|time(ms) |(mbps)    |second    | cpu %| cpu% |
> + |----------|--------|---------|----------|----------|------|------|
> + |qatzip    |   16630|       28|     10467|   2940235|   160|   360|
> + |----------|--------|---------|----------|----------|------|------|
> + |none      |   46063|       40|     10848|    330240|    45|    85|
> + |----------|--------|---------|----------|----------|------|------|
";

/// Audits a text in a file that is called `text.md`.
fn audited(text: &str, more: &[&str]) -> Said {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "text.md", text);
    let said = plumb(&[&["audit", &file], more].concat());
    let named = |text: &str| text.replace(&file, "text.md");
    Said { code: said.code, out: named(&said.out), err: named(&said.err) }
}

#[test]
fn outputs_of_a_tool_are_found_in_a_document_and_held_against_each_other() {
    let said = audited(AB, &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    insta::assert_snapshot!(said.out, @r#"
    text.md
    · line 7      ab 2.3, under "Software, 10000 requests": http_reqs 320.1/s in 31.24 s (connections
                  20, document length 612 bytes, host 127.0.0.1, path /, port 443)
    · line 36     ab 2.3, under "An accelerator, The accelerator": http_reqs 1309/s in 7.642 s
                  (connections 20, document length 92 bytes, host 127.0.0.1, path /, port 443)

    What can be concluded
    · http_reqs of "The accelerator" (line 36) over "Software, 10000 requests" (line 7): ×4.088 (higher
      is better) — a point estimate from one ab run each, without an interval

    13 findings
    ! line 7      how the tool counts: ab prints whole milliseconds: its times below 10 ms are rounded
                  by 5% and more, and those below 1 ms are 0 and left out; ab -e FILE has microseconds.
                  The same applies to line 36. [how-the-tool-counts]
    ! line 7      how the tool counts: ab's Connect includes the TLS handshake, and a new connection for
                  each request unless -k was given. The same applies to line 36. [how-the-tool-counts]
    ! line 7      one result, not two: 20 in flight over iteration_duration (62 ms) is 322.6 per second:
                  in a closed loop the rate follows from the time, so a gain in both is one gain.
                  [one-result-not-two]
    ! line 7      a metric that leaves out what was changed: http_req_duration covers 9 of the 62 ms of
                  a request. The handshake (53 ms) is outside it, so a change to handshakes hardly shows
                  there; iteration_duration covers the whole request. The same applies to line 36.
                  [metric-leaves-out-connecting]
    ! line 36     how the tool counts: ab calls 9,999 answers failed because their lengths differ from
                  that of the first answer; they are not counted as failures here (ab -l accepts them).
                  [how-the-tool-counts]
    ! line 36     how the tool counts: some answers were not 2xx; if the first one was among them, ab
                  compared the length of every good answer with that of a bad one. [how-the-tool-counts]
    ! line 36     an outlier as long as a timer: The slowest iteration_duration is 5016 ms and the
                  median 14 ms. The difference of 5 s is the length of a timer, such as a retransmission
                  or a time limit; the server did not work that long. One such request moves the mean
                  and the standard deviation. [outlier-as-long-as-a-timer]
    ! line 36     a short run: It took 7.642 s without a warm-up, so start-up and the first requests are
                  a visible part of it. [short-run]
    ! line 36     one run each: Each variant was measured once by ab (lines 7 and 36), one after the
                  other. How much two runs of the same variant differ is unknown, so no difference
                  between variants has an interval. A drift of the machine looks like an effect.
                  [one-run-each]
    ! line 36     settings differ: The runs at lines 7 and 36 differ in document length 612 bytes and 92
                  bytes. [settings-differ]
    ! line 36     not in the output: ab does not say how busy its own CPUs were. If the load was the
                  limit, the numbers describe the load. [load-cpu-unknown]
    ! line 36     not in the output: ab does not say how many handshakes were full and how many resumed
                  a session. A resumed handshake needs no private-key operation, so it hides an
                  accelerator. [handshakes-unknown]
    ! line 36     not in the output: No counter, such as QAT's fw_counters, shows that the accelerator
                  did the work. An engine that loads may still leave the work to software.
                  [accelerator-unproven]

    An experiment that would settle it: plumb audit FILE --experiment settle.yaml
    "#);
}

#[test]
fn tables_are_held_against_their_captions_and_their_own_arithmetic() {
    insta::assert_snapshot!(audited(TABLE, &[]).out, @r"
    text.md
    · line 5      a table (8 Channels): Total time(ms), down time(ms), throughput (mbps), pages per
                  second, send cpu %, recv cpu% of qatzip and none

    What can be concluded
    · Total time of none (line 11) over qatzip at 8 Channels: ×2.77 (lower is better) — a point
      estimate, one number per cell
    · down time of none (line 11) over qatzip at 8 Channels: ×1.4 (lower is better) — a point estimate,
      one number per cell

    4 findings
    ! line 5      arithmetic does not close: Pages per second times the total time is more memory than
                  the guest has, 68.72 GB: qatzip 200.3 GB. So the rate does not hold for the whole
                  migration, and its ratio between rows is not a speed-up. [more-pages-than-memory]
    ! line 5      a rate above its cap: The cap is 10000 Mbit/s, and the throughput is above it: qatzip
                  +4.7% and none +8.5%. Either the cap is in units of 2^30 bytes, or the throughput
                  counts bytes that the cap does not. They cannot be compared as they stand.
                  [rate-above-its-cap]
    ! line 5      CPU without time: The rows take 16.63 to 46.06 s, so their CPU percentages are not
                  their costs. The CPU time of both sides for the whole job is qatzip 86.48 s and none
                  59.88 s. [cpu-without-time]
    ! line 5      one number per cell: The tables (line 5) have one number per cell. How much two runs
                  of the same cell differ is unknown, so no difference between cells has an interval.
                  [one-number-a-cell]

    An experiment that would settle it: plumb audit FILE --experiment settle.yaml
    ");
}

#[test]
fn as_json_each_finding_has_its_file_and_its_line() {
    let found = audited(TABLE, &["--json"]).json();
    assert_eq!(
        (&found["format"], &found["found"][0]["file"]),
        (&"plumbline.audit/1".into(), &"text.md".into())
    );
    insta::assert_snapshot!(found["findings"][0], @r#"{"file":"text.md","line":5,"rule":"more-pages-than-memory","what":"arithmetic does not close","why":"Pages per second times the total time is more memory than the guest has, 68.72 GB: qatzip 200.3 GB. So the rate does not hold for the whole migration, and its ratio between rows is not a speed-up."}"#);
}

#[test]
fn the_experiment_that_would_settle_it_is_valid_and_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("ab", AB), ("table", TABLE)] {
        let settled = directory.path().join(format!("{name}.yaml"));
        let settled = settled.to_str().unwrap();
        let said = audited(text, &["--experiment", settled]);
        assert_eq!(said.code, 0, "{said:?}");
        assert_eq!(said.err, format!("wrote {settled}; look at its plan with: plumb check {settled}\n"));
        let source = Source { name: name.to_owned(), bytes: std::fs::read(settled).unwrap() };
        planning::read_source(&source, &Default::default()).unwrap();
        let again = audited(text, &["--experiment", settled]);
        assert_eq!(
            (again.code, again.err),
            (2, format!("error: failed to write {settled}: File exists (os error 17)\n"))
        );
    }
}

#[test]
fn a_text_without_numbers_says_so() {
    let said = audited("# Nothing\n\nIt is fast.\n", &[]);
    assert_eq!(said.code, 0);
    insta::assert_snapshot!(said.out, @r"
    text.md
    Nothing was read: the text has no output of a known tool, and no table of results in Markdown or a
    grid.
    ");
    let unsettled = audited("It is fast.\n", &["--experiment", "/nowhere/x.yaml"]);
    insta::assert_snapshot!(unsettled.err, @"error: /nowhere/x.yaml was not written: the text has no output or table that an experiment could repeat");
    let missing = plumb(&["audit", "/nowhere/text.md"]);
    assert_eq!((missing.code, missing.out.as_str()), (2, ""));
    insta::assert_snapshot!(missing.err, @"error: failed to read /nowhere/text.md: No such file or directory (os error 2)");
}

#[test]
fn what_was_not_read_is_listed_with_its_reason() {
    let text = "|tunnel|Gbit/s|\n|-|-|\n|none|9.41|\n|encrypted|3,27|\n\n|name|a|\n|-|-|\n|x|1|\n";
    let said = audited(text, &[]);
    insta::assert_snapshot!(said.out, @r"
    text.md
    · line 1      a table (tunnel): Gbit/s of none and encrypted
    ? line 4      not read: `3,27` could be 3.27 or 327, in `Gbit/s` of `encrypted`
    ? line 6      not read: a table (name): a of x: no heading and no cell says what was measured, or in
                  which unit

    What can be concluded
    No ratio: no two figures have the same metric and differ in a single named thing.

    0 findings
    ");
    let json = audited(text, &["--json"]).json();
    assert_eq!((&json["not_read"][0]["line"], &json["not_read"][0]["failure"]), (&4.into(), &false.into()));
}

#[test]
fn ratios_are_in_the_json_with_what_they_compare() {
    let text = "| volume | latency |\n|---|---|\n| near | 850 us |\n| far | 1.30 ms |\n";
    let json = audited(text, &["--json"]).json();
    let mut ratio = json["ratios"][0].clone();
    let value = ratio["ratio"].take().as_f64().unwrap();
    assert!((value - 1300.0 / 850.0).abs() < 1e-9, "{value}");
    insta::assert_snapshot!(ratio, @r#"{"at":"","better":"lower","file":"text.md","line":4,"metric":"latency","of":"far","over":"near","ratio":null,"rule":"ratio-of-rows"}"#);
}

#[test]
fn a_rule_is_explained_without_a_file() {
    let said = plumb(&["audit", "--explain", "more-in-flight-than-connections"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert!(
        said.out.starts_with("more-in-flight-than-connections: more in flight than connections\n"),
        "{}",
        said.out
    );
    assert!(said.out.contains("Source: Little's law: J. D. C. Little"), "{}", said.out);
    let wrong = plumb(&["audit", "--explain", "few-digit"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("'few-digits'") && !wrong.err.contains("one-run-each"), "{}", wrong.err);
    let script = plumb(&["completions", "bash"]).out;
    assert!(script.contains("repeated-without-spread"), "shells complete the names");
}
