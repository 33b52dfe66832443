//! Guesses what an unrecognised text is, and says what would help.

use crate::json::documents;

/// Words in a text, and what to say if it has all of them.
const HINTS: [(&[&str], &str); 18] = [
    (
        &["Requests/sec:", "Transfer/sec:"],
        "this may be wrk's text without its line `Running … test @ …`; --format wrk reads the rest",
    ),
    (
        &["Requests per second:"],
        "this may be ab's text without `Concurrency Level:` or `Time taken for tests:`",
    ),
    (&["req/s", "finished in"], "this may be h2load's text without its line `status codes:`"),
    (&["sockperf:"], "this may be sockperf's text without its summary"),
    (&["http_req"], "this may come from k6; its final summary, --summary-export and --out can be read"),
    (&["IOPS=", "BW="], "this is fio's text for people; run fio with --output-format=json+"),
    (&["iops        :"], "this is fio's text for people; run fio with --output-format=json+"),
    (&["lat (usec)", "clat"], "this is fio's text for people; run fio with --output-format=json+"),
    (
        &["FIO test results", "FIO version"],
        "this is kubestr's text; `kubestr fio -o json` prints what can be read",
    ),
    (
        &["Requests/sec:", "Latency distribution:"],
        "this is hey's text; `hey -o csv` writes a table for --column response-time:s",
    ),
    (&["Dbench Summary"], "this may be dbench's summary without its line `Random Read/Write IOPS:`"),
    (&["Migration status"], "this may be QEMU's `info migrate` without its times"),
    (&["Doing ", "for ", "s: "], "this may be openssl speed without the tables at its end"),
    (&["tcp_bw:"], "this may be qperf's text without its figures"),
    (&["tcp_lat:"], "this may be qperf's text without its figures"),
    (
        &["Interval", "Transfer", "Bitrate"],
        "this may be iperf3's text without the lines of `sender` and `receiver`; `iperf3 -J` prints everything",
    ),
    (
        &["Interval", "Transfer", "Bandwidth"],
        "this is iperf 2's text, whose figures mean something else; use iperf3 -J",
    ),
    (&["timeStamp,elapsed,"], "this is JMeter's JTL; read it with --column elapsed:ms"),
];

/// A clause that follows "failed to recognise the tool: ", for a text that begins at a line.
pub(crate) fn likeliest(text: &str, first_line: usize) -> String {
    let documents = documents(text);
    if let Some(broken) = documents.broken {
        return broken.in_words(text, first_line);
    }
    if documents.is_cut {
        return "this is incomplete JSON: the file was cut off, or is still being written".to_owned();
    }
    let hint = HINTS.iter().find(|(needles, _)| needles.iter().all(|needle| text.contains(needle)));
    if let Some((_, hint)) = hint {
        return (*hint).to_owned();
    }
    if let Some(columns) = columns_of_csv(text) {
        return format!(
            "this is a table with the columns {columns}; name those to read with their units, as in --column latency:ms"
        );
    }
    let what = match text.trim_start().chars().next() {
        None => "the file is empty",
        Some('{' | '[') => "this is JSON, but not from a known tool",
        Some(_) => "no line looks like the output of a known tool",
    };
    format!("{what}; `plumb import --format help` lists the formats")
}

/// The columns of a CSV: its second line has as many cells, and a number among them.
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
