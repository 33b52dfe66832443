//! Real systems through the built program: the embedded ingress, HAProxy, nginx; and `plumb http` on its own.
//!
//! A test that needs a program which is not installed says so and is counted as skipped by name.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{
    NobodyAt, code, plumb, processes_with_files_in, run, signal, skip, skip_unprivileged, slots_on_disk,
    stderr, stdout, wait, wait_for_threads, wait_until, write,
};
use serde_json::Value;

pub fn installed(program: &str) -> bool {
    let found = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/sbin", "/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).exists());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

fn experiment(variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: http\n\
         \x20 system: {{ ingress: {{ tls: \"1.2\", key: ecdsa-p256 }}, origin: {{ body: 612 B }} }}\n\
         \x20 load: {{ connections: 4, reuse: none, duration: 200 ms, warmup: 400 ms, checks: [\"status == 200\", \"body length == 612 B\"] }}\n\
         \x20 baseline: software\n  variants:\n    software: {{}}\n{variants}  blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n"
    )
}

/// Runs an experiment, and returns its JSON once everything that it started is gone.
fn run_experiment(text: &str) -> (i32, Value) {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", text);
    let path = directory.path().join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--seed", "2", "--json", "--output", path.to_str().unwrap()]);
    let json = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert!(processes_with_files_in(directory.path()).is_empty(), "processes are left");
    let left: Vec<_> = std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("scratch")), "{left:?}");
    (code(&output), json)
}

/// All evidence of a variant holds, and it answered.
fn check_variant(json: &Value, name: &str) {
    let variants = json["variants"].as_array().unwrap();
    let variant = variants.iter().find(|variant| variant["name"] == name).unwrap();
    assert_eq!(variant["state"], "measured", "{name}: {}", variant["reason"]);
    assert!(variant["metrics"]["http_reqs"]["median"].as_f64().unwrap() > 0.0, "{name}");
    assert!((variant["metrics"]["checks"]["median"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{name}");
    let evidence = variant["evidence"].as_array().unwrap();
    assert!(evidence.len() >= 2, "{name}: {evidence:?}");
    assert!(evidence.iter().all(|row| row["holds"] == true), "{name}: {evidence:#?}");
}

#[test]
fn the_embedded_ingress_in_all_its_forms() {
    let (code, json) = run_experiment(&experiment(
        "    threads: { system: { ingress: { offload: threads } } }\n\
         \x20   plain: { system: { ingress: { tls: none } } }\n\
         \x20   tls13: { system: { ingress: { tls: \"1.3\" } } }\n\
         \x20   rsa: { system: { ingress: { key: rsa-2048 } } }\n\
         \x20   resumed: { load: { resumption: 100% } }\n\
         \x20   keep-alive: { load: { reuse: keep-alive } }\n",
        "software.checks >= 99%",
    ));
    assert_eq!(code, 0, "{json:#}");
    for name in ["software", "threads", "plain", "tls13", "rsa", "resumed"] {
        check_variant(&json, name);
    }
}

#[test]
fn haproxy_and_nginx_are_built_proven_and_removed() {
    if !installed("haproxy") || !installed("nginx") {
        return;
    }
    let (code, json) = run_experiment(&experiment(
        "    haproxy: { system: { ingress: { kind: haproxy } } }\n\
         \x20   nginx: { system: { ingress: { kind: nginx } } }\n\
         \x20   nginx-origin: { system: { origin: { kind: nginx } } }\n\
         \x20   haproxy-resumed: { system: { ingress: { kind: haproxy } }, load: { resumption: 100% } }\n\
         \x20   nginx-resumed: { system: { ingress: { kind: nginx, tls: \"1.3\" } }, load: { resumption: 100% } }\n",
        "haproxy.checks >= 99%",
    ));
    assert_eq!(code, 0, "{json:#}");
    for name in ["haproxy", "nginx", "nginx-origin", "haproxy-resumed", "nginx-resumed"] {
        check_variant(&json, name);
    }
}

#[test]
fn a_killed_runner_takes_haproxy_and_nginx_along() {
    if !installed("haproxy") || !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let text = experiment(
        "    haproxy: { system: { ingress: { kind: haproxy } } }\n    nginx: { system: { ingress: { kind: nginx, threads: 2 } } }\n",
        "",
    )
    .replace("max: 2", "max: 200")
    .replace("min: 2", "min: 200");
    let file = write(directory.path(), "test.yaml", text);
    let path = directory.path().join("run");
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--output", path.to_str().unwrap(), "--quiet"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a block of six slots", || slots_on_disk(&path) >= 6);
    assert!(processes_with_files_in(directory.path()).len() >= 6);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("everything to end", || processes_with_files_in(directory.path()).is_empty());
}

/// A line of `/proc/PID/status` as the number that it holds in base 16.
fn status(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap();
    u64::from_str_radix(value, 16).unwrap()
}

#[test]
fn agents_have_no_rights_that_their_side_does_not_need() {
    /// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`: the files of other users.
    const ALL_FILES: u64 = 1 << 1 | 1 << 2;
    let directory = tempfile::tempdir().unwrap();
    let threads = "    threads: { system: { ingress: { offload: threads } } }\n";
    let text = experiment(threads, "").replace("min: 2, max: 2", "min: 200, max: 200");
    let file = write(directory.path(), "test.yaml", text);
    let path = directory.path().join("run");
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--output", path.to_str().unwrap(), "--quiet"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the first slot", || slots_on_disk(&path) >= 1);
    let own = status(child.id(), "CapEff");
    let agents: Vec<(u32, String)> = processes_with_files_in(directory.path())
        .into_iter()
        .filter(|pid| *pid != child.id())
        .map(|pid| (pid, std::fs::read_link(format!("/proc/{pid}/fd/2")).unwrap().display().to_string()))
        .collect();
    assert_eq!(agents.len(), 3, "two systems and the load: {agents:?}");
    for (pid, log) in &agents {
        assert_eq!(status(*pid, "NoNewPrivs"), 1, "{log}");
        let expected = if log.contains("/load-") { own & ALL_FILES } else { own };
        assert_eq!(status(*pid, "CapEff"), expected, "{log}");
        assert_eq!(status(*pid, "CapPrm"), expected, "{log}");
    }
    assert!(agents.iter().any(|(_, log)| log.contains("/load-")), "{agents:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("everything to end", || processes_with_files_in(directory.path()).is_empty());
}

/// A server that answers every request with 200 and two bytes, and counts nothing.
pub fn small_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(listener);
    port
}

/// Answers on a thread of this process.
fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
}

fn answer(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
        }
        if writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

#[test]
fn plumb_http_makes_the_requests_that_were_asked_for() {
    let url = format!("http://127.0.0.1:{}/", small_server());
    let output = run(&["http", &url, "-c", "4", "-n", "1000", "--json", "--check", "status == 200"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["format"], "plumbline.measurement/1");
    assert_eq!(json["metrics"]["http_reqs"]["count"], 1000);
    let output = run(&["http", &url, "-n", "100", "--check", "status == 201"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("status == 201"), "{}", stdout(&output));
}

/// A control group that may use 3% of a CPU, until the test ends.
struct Quota(PathBuf);

impl Quota {
    /// `None` where the kernel or a missing privilege does not let this test make one.
    fn make() -> Option<Self> {
        let name = format!("plumb-test-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu");
        let (directory, files) = if v1.exists() {
            (v1.join(name), vec![("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "3000")])
        } else {
            (Path::new("/sys/fs/cgroup").join(name), vec![("cpu.max", "3000 100000")])
        };
        std::fs::create_dir(&directory).ok()?;
        let quota = Self(directory);
        let is_set = files.into_iter().all(|(file, text)| std::fs::write(quota.0.join(file), text).is_ok());
        is_set.then_some(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_load_under_a_cpu_quota_is_the_limit_and_says_so() {
    let Some(quota) = Quota::make() else {
        return skip_unprivileged("make control groups with a CPU quota");
    };
    let url = format!("http://127.0.0.1:{}/", small_server());
    let mut load = plumb();
    load.args(["http", &url, "-c", "4", "-d", "2s", "--warmup", "1s", "--json"]);
    let load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::write(quota.0.join("cgroup.procs"), load.id().to_string()).unwrap();
    let output = wait(load);
    let json: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let load = &json["load"];
    assert!(load["busiest_thread"].as_f64().unwrap() < 0.5, "{load}");
    assert_eq!(
        (&load["load_bound"], &load["shortage"]),
        (&Value::Bool(true), &Value::from("quota")),
        "{load}"
    );
}

/// An experiment on a server that runs already, with `more` in its settings.
fn on_existing(port: u16, more: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: http\n\
         \x20 system: {{ ingress: {{ kind: external, url: \"http://127.0.0.1:{port}/\"{more} }} }}\n\
         \x20 load: {{ connections: 4, duration: 300 ms, warmup: 100 ms }}\n\
         \x20 baseline: a\n  variants:\n    a: {{}}\n    b: {{ load: {{ connections: 2 }} }}\n  blocks: {{ min: 2, max: 2 }}\n\
         \x20 claims: [a.http_reqs > 1 /s]\n"
    )
}

#[test]
fn a_local_server_that_runs_already_is_the_system_and_its_cpu_time_is_known() {
    if !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let root = directory.path().to_str().unwrap();
    let configuration = write(
        directory.path(),
        "nginx.conf",
        format!(
            "daemon off; master_process on; worker_processes 1; pid {root}/pid; error_log {root}/error.log;\n\
             events {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:{port}; return 200 ok; }} }}\n"
        ),
    );
    let mut server = Command::new("nginx");
    server.env("PATH", "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin:/sbin:/bin");
    server.args(["-p", root, "-c", configuration.to_str().unwrap()]).stderr(Stdio::null());
    let mut server = server.spawn().unwrap();
    wait_until("nginx to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let median = |more: &str| {
        let (_, json) = run_experiment(&on_existing(port, more));
        let variant = json["variants"].as_array().unwrap()[0].clone();
        variant["metrics"]["cpu_system"]["median"].as_f64().unwrap_or_else(|| panic!("{variant:#}"))
    };
    assert!(median("") > 0.0, "found by its socket");
    // The master alone would have no CPU time: its workers answer.
    assert!(median(&format!(", pid: {}", server.id())) > 0.0);
    signal(server.id(), "TERM");
    server.wait().unwrap();
}

/// The result of a run under a process 1 of that name, which alone has the server's listening socket; `None` without the right to
/// make one.
fn under_process_1(name: &str) -> Option<Value> {
    let unshare = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", on_existing(listener.local_addr().unwrap().port(), ""));
    serve(listener);
    // A process has the name under which its program was executed.
    let init = directory.path().join(name);
    std::os::unix::fs::symlink("/bin/sh", &init).unwrap();
    let mut command = Command::new("unshare");
    command.args(unshare).arg(init).args(["-c", "\"$@\" < /dev/null; exit $?", "sh"]);
    command.arg(plumb().get_program()).arg("run").args([&file, Path::new("--json"), Path::new("--output")]);
    command.arg(directory.path().join("run")).stdin(held).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait(command.spawn().unwrap());
    Some(serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output))))
}

#[test]
fn a_socket_that_process_1_holds_for_a_service_leaves_its_cpu_time_unknown() {
    // As systemd does for a unit that it starts on demand, a shell as process 1 of a PID namespace has the socket open.
    let Some(json) = under_process_1("systemd") else {
        return skip("root is needed");
    };
    let metrics = &json["variants"][0]["metrics"];
    assert!(metrics["http_reqs"]["median"].as_f64().unwrap() > 0.0, "{json:#}");
    assert_eq!(metrics["cpu_system"]["median"], Value::Null, "{metrics:#}");
    let warnings = json["warnings"].to_string();
    assert!(
        warnings.contains("CPU time is not known: only process 1 (systemd) listens at 127.0.0.1:"),
        "{warnings}"
    );
    assert!(warnings.contains("name the system's `unit`, `cgroup` or `pid`"), "{warnings}");
}

#[test]
fn a_server_that_is_a_containers_process_1_is_no_init() {
    let Some(json) = under_process_1("server") else {
        return skip("root is needed");
    };
    // The shell itself spends nothing while it waits, so there is no CPU time to show.
    let warnings = json["warnings"].to_string();
    assert!(!warnings.contains("only process 1"), "{warnings}");
}

#[test]
fn a_process_is_named_for_a_system_that_exists_only() {
    let directory = tempfile::tempdir().unwrap();
    let text = on_existing(1, ", pid: 1, unit: x");
    let both = write(directory.path(), "both.yaml", &text);
    let message = stderr(&run(&["check", both.to_str().unwrap()]));
    assert!(
        message.contains("name the system by only one of `pid`, `unit`, `cgroup` and `port`"),
        "{message}"
    );
    let built = write(
        directory.path(),
        "built.yaml",
        experiment("    b: { load: { connections: 2 } }\n", "").replace("tls: \"1.2\"", "pid: 1"),
    );
    let message = stderr(&run(&["check", built.to_str().unwrap()]));
    assert!(message.contains("`pid` names the processes of a system that runs already"), "{message}");
}

#[test]
fn plumb_http_says_why_it_cannot_measure() {
    let unused = NobodyAt::loopback();
    let output = run(&["http", &format!("http://127.0.0.1:{}/", unused.port), "-d", "300ms"]);
    assert_eq!(code(&output), 5);
    let all = stdout(&output) + &stderr(&output);
    assert!(all.contains("refused"), "{all}");
    for (arguments, part) in [
        (vec!["http", "gopher://x/"], "http"),
        (vec!["http", "http://127.0.0.1:1/", "--check", "status = 200"], "status"),
        (vec!["http", "http://127.0.0.1:1/", "-d", "5 parsec"], "is not a unit"),
        (vec!["http", "http://127.0.0.1:1/", "--cipher", "ROT13"], "ROT13"),
        (vec!["http", "http://127.0.0.1:1/", "-H", "novalue"], "no colon"),
        (vec!["http", "http://no-such-host.invalid/", "-d", "300ms"], "no-such-host.invalid"),
    ] {
        let output = run(&arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

/// nginx with one worker that resumes tickets and logs whether it did.
struct Nginx {
    child: Child,
    directory: tempfile::TempDir,
    plain: u16,
    tls: u16,
}

impl Nginx {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().display().to_string();
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (plain, tls) = (port(), port());
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
            .args(["-keyout", &format!("{root}/key.pem"), "-out", &format!("{root}/cert.pem")])
            .output()
            .unwrap();
        assert!(made.status.success());
        let configuration = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ log_format r '$ssl_session_reused'; client_body_temp_path {root}/1; proxy_temp_path {root}/2;\n\
             fastcgi_temp_path {root}/3; uwsgi_temp_path {root}/4; scgi_temp_path {root}/5;\n\
             server {{ listen 127.0.0.1:{plain}; access_log off; return 200 ok; }}\n\
             server {{ listen 127.0.0.1:{tls} ssl; access_log {root}/reused.log r; ssl_certificate {root}/cert.pem;\n\
             ssl_certificate_key {root}/key.pem; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets on; return 200 ok; }} }}\n"
        );
        let file = write(directory.path(), "nginx.conf", configuration);
        let nginx: PathBuf = ["/usr/sbin/nginx", "/usr/bin/nginx", "/sbin/nginx"]
            .iter()
            .map(PathBuf::from)
            .find(|path| path.exists())
            .unwrap();
        let mut command = Command::new(nginx);
        command
            .args(["-c", file.to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        wait_until("nginx", || TcpStream::connect(("127.0.0.1", plain)).is_ok());
        Self { child, directory, plain, tls }
    }

    /// (full, resumed) by its own log, of the lines from `skip` on.
    fn logged(&self, skip: usize) -> (usize, usize) {
        let log = std::fs::read_to_string(self.directory.path().join("reused.log")).unwrap_or_default();
        let resumed = log.lines().skip(skip).filter(|line| *line == "r").count();
        (log.lines().count() - skip - resumed, resumed)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn resumption_is_what_was_asked_and_the_server_agrees() {
    if !installed("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let url = format!("https://localhost:{}/", nginx.tls);
    for tls in ["1.2", "1.3"] {
        for (share, least, most) in [("0%", 0.0, 0.0), ("50%", 0.45, 0.55), ("100%", 0.99, 1.0)] {
            let before = nginx.logged(0).0 + nginx.logged(0).1;
            let arguments =
                ["http", &url, "-c", "4", "-n", "1000", "--reuse", "none", "--insecure", "--tls", tls];
            let output = run(&[&arguments[..], &["--resumption", share, "--json"]].concat());
            assert_eq!(code(&output), 0, "TLS {tls}, {share}: {} {}", stdout(&output), stderr(&output));
            let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
            let resumed = json["observed"]["handshakes_resumed"].as_f64().unwrap();
            let full = json["observed"]["handshakes_full"].as_f64().unwrap();
            let ours = resumed / (resumed + full);
            assert!((least..=most).contains(&ours), "TLS {tls}, {share}: {full} full, {resumed} resumed");
            wait_until("nginx to write its log", || {
                let (full, resumed) = nginx.logged(before);
                full + resumed >= 1000
            });
            let (_, theirs) = nginx.logged(before);
            assert!(
                (theirs as f64 - resumed).abs() <= 8.0,
                "TLS {tls}, {share}: nginx counts {theirs}, we {resumed}"
            );
        }
    }
}

#[test]
fn a_stalled_server_shows_in_the_latency_by_intended_start() {
    if !installed("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let url = format!("http://127.0.0.1:{}/", nginx.plain);
    let mut command = plumb();
    command.args(["http", &url, "-c", "10", "--rate", "500/s", "-d", "6s", "--json", "--quiet"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_threads(&child);
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(nginx.child.id(), "STOP");
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(nginx.child.id(), "CONT");
    let output = wait(child);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let p99 = json["metrics"]["http_req_duration"]["p99"].as_f64().unwrap();
    assert!(
        p99 > 1000.0,
        "p99 by intended start is {p99} ms, although a third of the requests met a stall of up to 2 s"
    );
    let median_service = json["metrics"]["http_req_service"]["med"].as_f64().unwrap();
    assert!(median_service < 1000.0, "{median_service}");
}
