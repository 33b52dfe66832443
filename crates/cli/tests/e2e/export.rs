//! `plumb export`: a real run in every format, and collectors that take it, are busy, reject a part, or are not there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::common::{NobodyAt, code, null_experiment, plumb, run, stderr, stdout, write};

/// Runs a null experiment of two cells and returns its directory.
fn measured(directory: &Path) -> String {
    let text = null_experiment(
        "system: { noise: 1% }\nbaseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\n\
         matrix: { system.latency: [5 ms, 8 ms] }\nblocks: { min: 6, max: 6 }\nclaims: [b.throughput >= 2 * a.throughput]",
    );
    let file = write(directory, "test.yaml", text);
    let path = directory.join("run").to_str().unwrap().to_owned();
    let output = run(&["run", file.to_str().unwrap(), "--output", &path]);
    assert!(code(&output) <= 1, "{}", stderr(&output));
    path
}

/// How a collector answers a request: status line, headers, body.
type Answer = (&'static str, &'static str, &'static str);

const TAKEN: Answer = ("200 OK", "", "{\"partialSuccess\":{}}");

/// What a collector was sent: the request's path, its headers in small letters, and its body.
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

/// `plumb export` in an environment that names no collector.
fn export(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = plumb();
    command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env_remove("OTEL_EXPORTER_OTLP_HEADERS");
    command.arg("export").args(arguments).envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn slots_are_rows_that_programs_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = measured(directory.path());
    let csv = export(&[&path, "--format", "csv"], &[]);
    assert_eq!(code(&csv), 0, "{}", stderr(&csv));
    let text = stdout(&csv);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let slots = std::fs::read_to_string(Path::new(&path).join("slots.jsonl")).unwrap();
    let slots: Vec<Value> = slots.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1 + slots.len());
    let column = |name: &str| lines[0].iter().position(|known| *known == name).unwrap();
    for (line, slot) in lines[1..].iter().zip(&slots) {
        let slot = &slot["slot"];
        assert_eq!(line[column("variant")], slot["variant"].as_str().unwrap());
        assert_eq!(line[column("started_at")], slot["started_at"].as_str().unwrap());
        let recorded = &slot["outcome"]["measured"]["measurement"]["readings"]["throughput"]["rate"]["value"];
        assert_eq!(line[column("throughput")].parse::<f64>().ok(), recorded.as_f64());
    }

    let file = directory.path().join("slots.parquet");
    let named = export(&[&path, "--format", "parquet", "--output", file.to_str().unwrap()], &[]);
    assert_eq!(code(&named), 0, "{}", stderr(&named));
    let written = std::fs::read(&file).unwrap();
    assert!(written.starts_with(b"PAR1") && written.ends_with(b"PAR1"));
    let piped = export(&[&path, "--format", "parquet"], &[]);
    assert!(piped.stdout == written, "a pipe gets the bytes of the file, and no line feed");

    let columns = stdout(&export(&[&path, "--format", "columns"], &[]));
    assert_eq!(columns.lines().count(), 1 + lines[0].len(), "each column is explained: {columns}");
    assert!(columns.lines().any(|line| line.starts_with("throughput,1/s,higher,")), "{columns}");
}

#[test]
fn several_runs_share_one_table_and_one_text() {
    let directory = tempfile::tempdir().unwrap();
    let path = measured(directory.path());
    let one = stdout(&export(&[&path, "--format", "csv"], &[])).lines().count();
    let two = stdout(&export(&[&path, &path, "--format", "csv"], &[])).lines().count();
    assert_eq!(two, 2 * one - 1);
    let text = stdout(&export(&[&path, &path, "--format", "prometheus"], &[]));
    let infos: Vec<&str> = text.lines().filter(|line| line.starts_with("plumb_run_info{")).collect();
    assert_eq!(infos.len(), 1, "{infos:?}");
    assert!(
        infos[0].contains("experiment=\"test\",run=\"latest\"") && infos[0].ends_with("} 1"),
        "{infos:?}"
    );
    assert!(text.contains("verdict=\"holds\"} 1\n"), "{text}");
}

#[test]
fn a_collector_gets_each_slot_as_a_span_and_each_result_as_a_point() {
    let directory = tempfile::tempdir().unwrap();
    let path = measured(directory.path());
    let collector = Collector::answering(&[TAKEN]);
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken,X-Scope=elsewhere");
    let output = export(&[&path, "--to", &collector.url, "--header", "x-scope=lab"], &[headers]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("sent 1 run to {}", collector.url)), "{}", stderr(&output));
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
    let slots = std::fs::read_to_string(Path::new(&path).join("slots.jsonl")).unwrap().lines().count();
    let of_slots = spans.iter().filter(|span| span["name"].as_str().unwrap().starts_with("slot "));
    assert_eq!(of_slots.count(), slots);
    let metrics = requests[1].body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    for name in ["plumb.metric.throughput", "plumb.ratio", "plumb.ratio.low", "plumb.claim"] {
        assert!(metrics.iter().any(|metric| metric["name"] == name), "no {name}");
    }

    let again = Collector::answering(&[TAKEN]);
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", again.url.as_str());
    assert_eq!(code(&export(&[&path], &[endpoint])), 0);
    let bodies = |requests: Vec<Request>| requests.into_iter().map(|it| it.body).collect::<Vec<_>>();
    assert!(bodies(again.requests()) == bodies(requests), "the same run is sent as the same");

    let lines = stdout(&export(&[&path, "--format", "otlp"], &[]));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines == bodies(again.requests()), "the file has what is sent");
}

#[test]
fn a_collector_that_is_busy_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = measured(directory.path());
    let busy: Answer = ("503 Service Unavailable", "Retry-After: 0\r\n", "{\"message\":\"queue full\"}");
    let answers: &'static [Answer] = Box::leak(Box::new([busy, busy, TAKEN]));
    let collector = Collector::answering(answers);
    let output = export(&[&path, "--to", &collector.url], &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(collector.requests().len(), 4, "three times the traces, once the metrics");

    let always = Collector::answering(Box::leak(Box::new([busy])));
    let output = export(&[&path, "--to", &always.url], &[]);
    assert_eq!((code(&output), always.requests().len()), (5, 5));
    let said = stderr(&output);
    assert!(said.contains("503 Service Unavailable: queue full, 5 times in a row"), "{said}");

    let patient = Collector::answering(&[("429 Too Many Requests", "Retry-After: 3600\r\n", "")]);
    let output = export(&[&path, "--to", &patient.url], &[]);
    assert_eq!((code(&output), patient.requests().len()), (5, 1), "nobody waits for an hour");
    assert!(stderr(&output).contains("asks for 3600 s of patience"), "{}", stderr(&output));
}

#[test]
fn what_a_collector_does_not_take_is_an_error_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = measured(directory.path());
    let failed = |url: &str| {
        let output = export(&[&path, "--to", url], &[("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret")]);
        assert!(!stderr(&output).contains("s3cret"), "{}", stderr(&output));
        (code(&output), stderr(&output))
    };
    let body = "{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"spans are too old\"}}";
    let partial = Collector::answering(Box::leak(Box::new([("200 OK", "", body)])));
    let (exit, said) = failed(&partial.url);
    assert!(exit == 5 && said.contains("took a part and rejected 3 spans: spans are too old"), "{said}");

    let refusing = Collector::answering(&[("401 Unauthorized", "", "log in first")]);
    let (exit, said) = failed(&refusing.url);
    assert!(exit == 5 && said.contains("it answered 401 Unauthorized: log in first"), "{said}");
    assert_eq!(refusing.requests().len(), 1, "a refusal is not asked again");

    let nobody = NobodyAt::loopback();
    let (exit, said) = failed(&format!("http://127.0.0.1:{}", nobody.port));
    assert!(exit == 5 && said.contains(&format!("127.0.0.1:{}/v1/traces", nobody.port)), "{said}");
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn what_is_asked_wrongly_is_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = measured(directory.path());
    let missing = directory.path().join("nothing").to_str().unwrap().to_owned();
    for (arguments, said) in [
        (vec![path.as_str()], "nowhere to export to"),
        (vec![&path, "--to", "collector:4318"], "is not the URL of a collector"),
        (vec![&path, "--to", "http://a", "--header", "secret"], "write a name, `=` and a value"),
        (vec![&path, "--format", "csv", "--to", "http://a"], "cannot be used with"),
        (vec![&missing, "--format", "csv"], "nothing"),
    ] {
        let output = export(&arguments, &[]);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}
