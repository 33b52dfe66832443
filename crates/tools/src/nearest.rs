//! What a text that no reader knows most likely is, and what would help.

use crate::json::documents;

/// What stands in a text, which format that is, and what is missing or would help.
const HINTS: [(&[&str], &str); 16] = [
    (
        &["Requests/sec:", "Transfer/sec:"],
        "it may be wrk's text, of which the line `Running … test @ …` is missing; --format wrk reads the rest",
    ),
    (
        &["Requests per second:"],
        "it may be ab's text, of which the lines `Concurrency Level:` or `Time taken for tests:` are missing",
    ),
    (&["req/s", "finished in"], "it may be h2load's text, of which the line `status codes:` is missing"),
    (&["sockperf:"], "it may be sockperf's text, of which the summary is missing"),
    (
        &["http_req"],
        "it may be of k6, of which only the summary at its end, --summary-export and --out can be read",
    ),
    (&["IOPS=", "BW="], "this is fio's text for people; run fio with --output-format=json+"),
    (&["iops        :"], "this is fio's text for people; run fio with --output-format=json+"),
    (&["lat (usec)", "clat"], "this is fio's text for people; run fio with --output-format=json+"),
    (
        &["Dbench Summary"],
        "it may be dbench's summary, of which the line `Random Read/Write IOPS:` is missing",
    ),
    (&["Migration status"], "it may be QEMU's `info migrate`, of which the times are missing"),
    (&["Doing ", "for ", "s: "], "it may be of openssl speed, of which the tables at its end are missing"),
    (&["tcp_bw:"], "it may be qperf's text, of which the figures are missing"),
    (&["tcp_lat:"], "it may be qperf's text, of which the figures are missing"),
    (
        &["Interval", "Transfer", "Bitrate"],
        "it may be iperf3's text, of which the lines of `sender` and `receiver` are missing; `iperf3 -J` has all of it",
    ),
    (
        &["Interval", "Transfer", "Bandwidth"],
        "this is the text of iperf 2, whose figures have another meaning; use iperf3 -J",
    ),
    (&["timeStamp,elapsed,"], "this is a JTL of JMeter; read it as a CSV with --column elapsed:ms"),
];

/// A clause that follows "failed to recognise the tool: ".
pub(crate) fn likeliest(text: &str) -> String {
    if documents(text).is_cut {
        return "it is JSON that has no end: the file was cut off, or is still being written".to_owned();
    }
    let hint = HINTS.iter().find(|(needles, _)| needles.iter().all(|needle| text.contains(needle)));
    if let Some((_, hint)) = hint {
        return (*hint).to_owned();
    }
    if let Some(columns) = columns_of_csv(text) {
        return format!(
            "it is a table with the columns {columns}; say which to read and their units, as in --column latency:ms"
        );
    }
    let what = match text.trim_start().chars().next() {
        None => "the file is empty",
        Some('{' | '[') => "it is JSON of no tool that is known",
        Some(_) => "it has no line that a known tool prints",
    };
    format!("{what}; `plumb import --format help` lists the formats")
}

/// The columns of a CSV, whose second line has as many and a number among them.
fn columns_of_csv(text: &str) -> Option<String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let (head, row) = (lines.next()?, lines.next()?);
    let separator = [',', ';', '\t'].into_iter().find(|separator| head.contains(*separator))?;
    let (heads, cells): (Vec<&str>, Vec<&str>) =
        (head.split(separator).map(str::trim).collect(), row.split(separator).map(str::trim).collect());
    let is_name = |name: &&str| name.starts_with(|c: char| c.is_alphabetic()) && name.len() < 60;
    let is_table = heads.len() == cells.len()
        && heads.iter().all(is_name)
        && cells.iter().any(|cell| cell.parse::<f64>().is_ok());
    is_table.then(|| heads.join(", "))
}
