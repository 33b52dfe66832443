//! Runs in every format, and collectors that take them, are busy, reject a part, or are not there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use clap::Parser;
use serde_json::Value;

use crate::args::{Arguments, Command};
use crate::in_process::{Said, ended, made, on_disk, plumb};

/// A run on disk, and its slots as its file has them.
fn kept(folder: &Path) -> (String, Vec<Value>) {
    let path = on_disk(folder, &made::run("x", 1, 1.0));
    let slots = std::fs::read_to_string(path.join("slots.jsonl")).unwrap();
    let slots = slots.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (path.to_str().unwrap().to_owned(), slots)
}

/// How a collector answers a request: status line, headers, body.
type Answer = (&'static str, &'static str, &'static str);

const TAKEN: Answer = ("200 OK", "", "{\"partialSuccess\":{}}");

/// A request to a collector: the path, the headers in small letters, and the body.
#[derive(Debug, Clone)]
struct Request {
    path: String,
    headers: Vec<String>,
    body: Value,
}

/// A collector of OpenTelemetry that gives one answer after another, and the last one for ever.
struct Collector {
    url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Collector {
    fn answering(answers: &'static [Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(&stream, answers, &seen);
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers one request and closes the connection.
fn serve(stream: &TcpStream, answers: &[Answer], seen: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream);
    let mut head: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let headers: Vec<String> = head[1..].iter().map(|line| line.to_lowercase()).collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let path = head[0].split(' ').nth(1).unwrap().to_owned();
    let mut seen = seen.lock().unwrap();
    let (status, more, answer) = answers[seen.len().min(answers.len() - 1)];
    seen.push(Request { path, headers, body: serde_json::from_slice(&body).unwrap() });
    let length = answer.len();
    let head = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let mut stream = stream;
    stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
}

/// `plumb export` in an environment that has these variables alone.
fn export(arguments: &[&str], environment: &[(&str, &str)]) -> Said {
    let parsed = Arguments::try_parse_from(["plumb", "export"].iter().chain(arguments)).unwrap();
    let Command::Export(parsed) = parsed.command else { panic!("{arguments:?}") };
    let lookup = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    ended(super::within(&lookup, &parsed))
}

#[test]
fn slots_are_rows_that_programs_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, slots) = kept(folder.path());
    let csv = export(&[&path, "--format", "csv"], &[]);
    assert_eq!((csv.code, csv.err.as_str()), (0, ""));
    let lines: Vec<Vec<&str>> = csv.out.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + slots.len());
    let column = |name: &str| lines[0].iter().position(|known| *known == name).unwrap();
    for (line, slot) in lines[1..].iter().zip(&slots) {
        let slot = &slot["slot"];
        assert_eq!(line[column("variant")], slot["variant"].as_str().unwrap());
        assert_eq!(line[column("started_at")], slot["started_at"].as_str().unwrap());
        let recorded = &slot["outcome"]["measured"]["measurement"]["readings"]["throughput"]["rate"]["value"];
        assert_eq!(line[column("throughput")].parse::<f64>().ok(), recorded.as_f64());
    }
    let columns = export(&[&path, "--format", "columns"], &[]).out;
    assert_eq!(columns.lines().count(), 1 + lines[0].len(), "each column is explained: {columns}");
    assert!(columns.lines().any(|line| line.starts_with("throughput,1/s,higher,")), "{columns}");
}

#[test]
fn a_pipe_gets_the_bytes_of_the_file_and_no_line_feed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = kept(folder.path());
    let file = folder.path().join("slots.parquet");
    let named = export(&[&path, "--format", "parquet", "--output", file.to_str().unwrap()], &[]);
    assert_eq!((named.code, named.out.as_str()), (0, ""));
    let written = std::fs::read(&file).unwrap();
    assert!(written.starts_with(b"PAR1") && written.ends_with(b"PAR1"));
    let piped = export(&[&path, "--format", "parquet"], &[]);
    assert!(piped.out == String::from_utf8_lossy(&written));
    let nowhere = export(&[&path, "--format", "csv", "--output", "/nowhere/slots.csv"], &[]);
    assert_eq!(nowhere.code, 2);
    insta::assert_snapshot!(nowhere.err, @"error: failed to write /nowhere/slots.csv: No such file or directory (os error 2)");
}

#[test]
fn several_runs_share_one_table_and_one_text() {
    let folder = tempfile::tempdir().unwrap();
    let (path, slots) = kept(folder.path());
    let two = export(&[&path, &path, "--format", "csv"], &[]).out;
    assert_eq!(two.lines().count(), 1 + 2 * slots.len());
    let text = export(&[&path, &path, "--format", "prometheus"], &[]).out;
    let infos: Vec<&str> = text.lines().filter(|line| line.starts_with("plumb_run_info{")).collect();
    assert_eq!(infos.len(), 1, "{infos:?}");
    assert!(infos[0].contains("experiment=\"x\",run=\"latest\"") && infos[0].ends_with("} 1"), "{infos:?}");
    assert!(text.contains("verdict=\"holds\"} 1\n"), "{text}");
}

#[test]
fn a_collector_gets_each_slot_as_a_span_and_each_result_as_a_point() {
    let folder = tempfile::tempdir().unwrap();
    let (path, slots) = kept(folder.path());
    let collector = Collector::answering(&[TAKEN]);
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken,X-Scope=elsewhere");
    let said = export(&[&path, "--to", &collector.url, "--header", "x-scope=lab"], &[headers]);
    assert_eq!((said.code, said.err), (0, format!("sent 1 run to {}\n", collector.url)));
    let requests = collector.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/v1/traces", "/v1/metrics"]);
    for header in ["content-type: application/json", "authorization: bearer t0ken", "x-scope: lab"] {
        for request in &requests {
            let name = header.split(':').next().unwrap();
            let found: Vec<&String> = request.headers.iter().filter(|it| it.starts_with(name)).collect();
            assert_eq!(found, [header], "an option stands instead of the environment's header");
        }
    }
    let spans = requests[0].body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let of_slots = spans.iter().filter(|span| span["name"].as_str().unwrap().starts_with("slot "));
    assert_eq!(of_slots.count(), slots.len());
    let metrics = requests[1].body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    for name in ["plumb.metric.throughput", "plumb.ratio", "plumb.ratio.low", "plumb.claim"] {
        assert!(metrics.iter().any(|metric| metric["name"] == name), "no {name}");
    }
}

#[test]
fn the_same_run_is_sent_as_the_same_and_written_as_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = kept(folder.path());
    let [one, other] = [Collector::answering(&[TAKEN]), Collector::answering(&[TAKEN])];
    for collector in [&one, &other] {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str());
        assert_eq!(export(&[&path], &[endpoint]).code, 0);
    }
    let bodies = |of: &Collector| of.requests().into_iter().map(|it| it.body).collect::<Vec<_>>();
    assert!(bodies(&one) == bodies(&other));
    let lines = export(&[&path, "--format", "otlp"], &[]).out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines == bodies(&one), "the file has what is sent");
}

#[test]
fn a_collector_that_is_busy_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = kept(folder.path());
    const BUSY: Answer = ("503 Service Unavailable", "Retry-After: 0\r\n", "{\"message\":\"queue full\"}");
    let collector = Collector::answering(&[BUSY, BUSY, TAKEN]);
    let said = export(&[&path, "--to", &collector.url], &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(collector.requests().len(), 4, "three times the traces, once the metrics");

    let always = Collector::answering(&[BUSY]);
    let said = export(&[&path, "--to", &always.url], &[]);
    assert_eq!((said.code, always.requests().len()), (5, 5));
    insta::assert_snapshot!(said.err.replace(&always.url, "URL"), @"error: failed to send to the collector at URL/v1/traces: it answered 503 Service Unavailable: queue full, 5 times in a row; send the run again later");

    let patient = Collector::answering(&[("429 Too Many Requests", "Retry-After: 3600\r\n", "")]);
    let said = export(&[&path, "--to", &patient.url], &[]);
    assert_eq!((said.code, patient.requests().len()), (5, 1), "nobody waits for an hour");
    insta::assert_snapshot!(said.err.replace(&patient.url, "URL"), @"error: failed to send to the collector at URL/v1/traces: it answered 429 Too Many Requests, and asks for 3600 s of patience; send the run again later");
}

#[test]
fn what_a_collector_does_not_take_is_an_error_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = kept(folder.path());
    let failed = |url: &str| {
        let said = export(&[&path, "--to", url], &[("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret")]);
        assert_eq!(said.code, 5);
        said.err.replace(url, "URL")
    };
    let body = "{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"spans are too old\"}}";
    let partial = Collector::answering(Box::leak(Box::new([("200 OK", "", body)])));
    insta::assert_snapshot!(failed(&partial.url), @"error: failed to send to the collector at URL/v1/traces: it took a part and rejected 3 spans: spans are too old");
    let refusing = Collector::answering(&[("401 Unauthorized", "", "log in first")]);
    insta::assert_snapshot!(failed(&refusing.url), @"error: failed to send to the collector at URL/v1/traces: it answered 401 Unauthorized: log in first");
    assert_eq!(refusing.requests().len(), 1, "a refusal is not asked again");
    // The port is bound and not listened on, so that nothing can listen there.
    let nobody = crate::in_process::NobodyAt::loopback();
    insta::assert_snapshot!(failed(&format!("http://127.0.0.1:{}", nobody.port)), @"error: failed to send to the collector at URL/v1/traces: io: Connection refused (os error 111)");
}

#[test]
fn what_is_asked_wrongly_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = kept(folder.path());
    let refused = |said: Said| {
        assert_eq!((said.code, said.out.as_str()), (2, ""));
        said.err.lines().next().unwrap_or_default().replace(folder.path().to_str().unwrap(), "")
    };
    insta::assert_snapshot!(refused(export(&[&path], &[])), @"error: there is nowhere to export to: name a format (`--format csv`), or a collector (`--to http://127.0.0.1:4318`, OTEL_EXPORTER_OTLP_ENDPOINT)");
    insta::assert_snapshot!(refused(export(&[&path, "--to", "collector:4318"], &[])), @"error: `collector:4318` is not the URL of a collector: it does not begin with `http://` or `https://` and a host; write one such as `http://127.0.0.1:4318`");
    let of_line = |more: &[&str]| refused(plumb(&[&["export", &path], more].concat()));
    insta::assert_snapshot!(of_line(&["--to", "http://a", "--header", "secret"]), @"error: invalid value 'secret' for '--header <NAME=VALUE>': write a name, `=` and a value, such as `x-scope-orgid=lab`");
    insta::assert_snapshot!(of_line(&["--format", "csv", "--to", "http://a"]), @"error: the argument '--format <FORMAT>' cannot be used with '--to <URL>'");
    let missing = folder.path().join("nothing");
    insta::assert_snapshot!(refused(export(&[missing.to_str().unwrap(), "--format", "csv"], &[])), @"error: failed to read a run from /nothing: there is no run.json in it");
}
