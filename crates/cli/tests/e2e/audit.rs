//! `plumb audit`: what documents with numbers support.

use crate::common::{code, run, stderr, stdout, write};

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

fn findings(text: &str) -> Vec<(u64, String, String)> {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "text.md", text);
    let output = run(&["audit", file.to_str().unwrap(), "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = found["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| (finding["line"].as_u64().unwrap(), text(finding, "what"), text(finding, "why")))
        .collect()
}

fn has(found: &[(u64, String, String)], line: u64, what: &str, why: &str) {
    let is_it =
        |finding: &&(u64, String, String)| finding.0 == line && finding.1 == what && finding.2.contains(why);
    assert!(found.iter().any(|finding| is_it(&finding)), "line {line}, {what}, {why}: {found:#?}");
}

#[test]
fn outputs_of_a_tool_are_found_in_a_document_and_held_against_each_other() {
    let found = findings(AB);
    has(&found, 6, "one result, not two", "20 in flight over iteration_duration (62 ms)");
    has(&found, 35, "an outlier as long as a timer", "a wait of 5 s");
    has(&found, 35, "how the tool counts", "ab calls 9999 answers failed because their length differs");
    has(&found, 35, "settings differ", "document length 612 bytes and 92 bytes");
    has(&found, 35, "one run each", "lines 6 and 35");
    has(&found, 35, "not in the output", "how many handshakes were full");
}

#[test]
fn tables_are_held_against_their_captions_and_their_own_arithmetic() {
    let found = findings(TABLE);
    has(&found, 5, "arithmetic does not close", "qatzip 200.3 GB");
    has(&found, 5, "a rate above its cap", "none +8.5%");
    has(&found, 5, "CPU without time", "qatzip 86.48 s and none 59.88 s");
    assert!(
        !found.iter().any(|finding| finding.1 == "arithmetic does not close" && finding.2.contains("none"))
    );
}

#[test]
fn the_experiment_that_would_settle_it_passes_the_check() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("ab", AB), ("table", TABLE)] {
        let file = write(directory.path(), name, text);
        let experiment = directory.path().join(format!("{name}.yaml"));
        let output = run(&["audit", file.to_str().unwrap(), "--experiment", experiment.to_str().unwrap()]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert!(stdout(&output).contains("What can be concluded"), "{}", stdout(&output));
        let check = run(&["check", experiment.to_str().unwrap()]);
        assert_eq!(code(&check), 0, "{}{}", stdout(&check), stderr(&check));
        let again = run(&["audit", file.to_str().unwrap(), "--experiment", experiment.to_str().unwrap()]);
        assert_eq!(code(&again), 2, "an experiment is not overwritten");
    }
}

#[test]
fn a_text_without_numbers_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "text.md", "# Nothing\n\nIt is fast.\n");
    let output = run(&["audit", file.to_str().unwrap()]);
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("no output of a known tool and no table"), "{}", stdout(&output));
    let output = run(&["audit", directory.path().join("none").to_str().unwrap()]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
}
