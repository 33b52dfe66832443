//! Systems that exist already: their processes are found or named, and measured.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::common::{code, plumb, run, skip, skip_unprivileged, stderr, stdout, wait, wait_until, write};
use crate::systems::ingresses::{installed, serve};

/// nginx with a worker, which answers on a port of loopback until it is dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        // It ends its worker when it is asked to end, and not when it is killed.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn nginx(directory: &Path) -> (Nginx, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "daemon off; pid nginx.pid; error_log error.log; worker_processes 1;\nevents {{}}\nhttp {{ access_log off;\n  limit_req_zone x zone=all:1m rate=10r/s;\n  \
         client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;\n  \
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"hello\\n\"; }}\n    \
         location /error {{ default_type application/json; return 200 '{{\"error\":\"no such user\"}}'; }}\n    \
         location /zipped {{ add_header Content-Encoding gzip; return 200 \"hello\\n\"; }}\n    \
         location /moved {{ return 301 /; }}\n    \
         location /limited {{ limit_req zone=all burst=100; proxy_pass http://127.0.0.1:{port}/; }} }} }}\n"
    );
    write(directory, "nginx.conf", text);
    let mut command = Command::new("nginx");
    let directory = directory.to_str().unwrap();
    command.args(["-p", directory, "-e", "stderr", "-c", "nginx.conf"]).stderr(Stdio::null());
    let server = Nginx(command.spawn().unwrap());
    // It listens before it starts its worker.
    wait_until("nginx to start its worker", || !plumb_host::process::descendants(server.0.id()).is_empty());
    (server, port)
}

/// An experiment on a server that runs already, whose variants have these systems.
fn experiment(port: u16, variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: existing }}\nspec:\n  path: http\n  system:\n    \
         ingress: {{ kind: external, url: \"http://127.0.0.1:{port}/\" }}\n  \
         load: {{ connections: 2, duration: 200 ms, warmup: 50 ms }}\n  noise: {{ others_max: 100% }}\n  \
         baseline: found\n  variants:\n    found: {{}}\n{variants}  blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n"
    )
}

/// The report, the directory and the exit code of a run of this experiment.
fn measured(directory: &Path, experiment: String) -> (Value, String, i32) {
    let file = write(directory, "experiment.yaml", experiment);
    let into = directory.join("run").to_str().unwrap().to_owned();
    let output = run(&["run", file.to_str().unwrap(), "--json", "--output", &into]);
    let report = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    (report, into, code(&output))
}

#[test]
fn a_system_that_exists_has_counters_however_it_is_named() {
    if !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (server, port) = nginx(directory.path());
    // The master alone would have no CPU time: its worker answers.
    let variants = format!(
        "    by-pid: {{ system: {{ ingress: {{ pid: {} }} }} }}\n    by-port: {{ system: {{ ingress: {{ port: {port} }} }} }}\n    \
         built: {{ system: {{ ingress: {{ kind: nginx, url: null, tls: none }} }} }}\n",
        server.0.id()
    );
    // Twice the memory of itself is what no system has.
    let claims = "by-pid.memory_system <= 2 * found.memory_system, by-pid.memory_system >= 1 MB";
    let (report, _, code) = measured(directory.path(), experiment(port, &variants, claims));
    assert!([0, 3, 4].contains(&code), "{code}: {report:#}");
    for variant in report["variants"].as_array().unwrap() {
        let metrics = &variant["metrics"];
        let name = variant["name"].as_str().unwrap();
        let reason = variant["reason"].as_str().unwrap_or_default();
        if reason.contains("read the system's counters in time") {
            skip(&format!("hardware: this machine was too busy to read the counters of {name} in time"));
            continue;
        }
        assert!(metrics["cpu_system"]["median"].as_f64().is_some_and(|cost| cost > 0.0), "{variant:#}");
        let memory = metrics["memory_system"]["median"].as_f64();
        let waited = metrics["run_delay_system"]["median"].as_f64();
        if name == "built" {
            // A system that is built for the run is not read in this way.
            assert_eq!((memory, waited), (None, None));
        } else {
            assert!(memory.unwrap() > 1e6, "{name}: {memory:?}");
            assert!(waited.is_some_and(|share| (0.0..64.0).contains(&share)), "{name}: {waited:?}");
            assert!(metrics["softirq_system"]["median"].as_f64().is_some(), "{name}");
        }
    }
}

#[test]
fn a_limiter_by_delay_is_said_first_and_an_ordinary_server_has_none() {
    if !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_server, port) = nginx(directory.path());
    let limited =
        format!("    limited: {{ system: {{ ingress: {{ url: \"http://127.0.0.1:{port}/limited\" }} }} }}\n");
    let text = experiment(port, &limited, "limited.http_reqs >= 0.1 * found.http_reqs");
    let text = text.replace("duration: 200 ms, warmup: 50 ms", "duration: 2 s, warmup: 500 ms");
    let (report, into, _) = measured(directory.path(), text);
    let cautions = report["cautions"].as_array().unwrap();
    let limiters: Vec<&Value> = cautions.iter().filter(|caution| caution["kind"] == "limiter").collect();
    let [limiter] = limiters[..] else { panic!("{cautions:#?}") };
    assert_eq!(limiter["variant"], "limited");
    assert!(limiter["rate_per_s"].as_f64().is_some_and(|rate| (9.0..=11.0).contains(&rate)), "{limiter}");
    let text = stdout(&run(&["report", &into]));
    assert!(text.contains("limited's rate was as steady as under a limiter"), "{text}");
    let single =
        run(&["http", &format!("http://127.0.0.1:{port}/limited"), "-c", "2", "-d", "3s", "--warmup", "0"]);
    assert!(!stdout(&single).contains("a limiter"), "three seconds are too few: {}", stdout(&single));
}

#[test]
fn a_load_keeps_clear_of_a_pinned_server_and_the_report_says_where_its_threads_ran() {
    if !installed("nginx") {
        return;
    }
    let available = plumb_host::cpu::available_cpus().unwrap();
    let load = plumb_host::cpu::split_sides(&available).load;
    let last = load.iter().last().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (server, port) = nginx(directory.path());
    for process in std::iter::once(server.0.id()).chain(plumb_host::process::descendants(server.0.id())) {
        let mut pin = Command::new("taskset");
        pin.args(["-pc", &last.to_string(), &process.to_string()]).stdout(Stdio::null());
        assert!(pin.status().unwrap().success());
    }
    // In a shorter window, a busy machine may let none of its threads run when they are looked at.
    let text = experiment(port, "  control: true\n", "").replace("duration: 200 ms", "duration: 1 s");
    let (report, into, _) = measured(directory.path(), text);
    let placement = &report["variants"][0]["placement"];
    assert_eq!((&placement["ran"], &placement["allowed"]), (&json!([last]), &json!([last])));
    // With one CPU there is nothing to choose.
    let is_clear = !placement["load"].as_array().unwrap().contains(&json!(last));
    assert_eq!(is_clear, available.len() > 1, "{placement}");
    let text = stdout(&run(&["report", &into, "--full"]));
    assert!(text.contains(&format!("server threads were seen on CPU {last}")), "{text}");
    let page = stdout(&run(&["report", &into, "--format", "markdown"]));
    assert!(page.contains(&format!("{last} (it runs already) and ")), "{page}");
}

#[test]
fn variants_whose_answers_differ_say_so_first_and_their_claims_carry_it() {
    if !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_server, port) = nginx(directory.path());
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let variant = |path: &str| {
        format!("    {}: {{ system: {{ ingress: {{ url: \"{}\" }} }} }}\n", &path[1..], url(path))
    };
    let variants: String = ["/same", "/error", "/zipped", "/moved"].map(variant).concat();
    let claims = "moved.http_reqs >= 0.1 * found.http_reqs, error.checks >= 0%";
    let (report, into, _) = measured(directory.path(), experiment(port, &variants, claims));
    let cautions = report["cautions"].as_array().unwrap();
    let of = |variant: &str, kind: &str| {
        cautions.iter().find(|caution| caution["variant"] == variant && caution["kind"] == kind)
    };
    let differ = |variant: &str| -> Vec<String> {
        let all = of(variant, "different-work").unwrap_or_else(|| panic!("{variant}: {cautions:#?}"))["differences"].clone();
        let name = |one: &Value| one["property"].as_str().or(one["what"].as_str()).unwrap().to_owned();
        all.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(differ("error"), ["content_type", "body"]);
    assert_eq!(differ("zipped"), ["content_encoding"]);
    assert_eq!(differ("moved"), ["status", "content_type", "body"]);
    assert!(of("same", "different-work").is_none(), "{cautions:#?}");
    assert_eq!(of("moved", "redirects").unwrap()["share"], 1.0);
    assert_eq!(report["claims"][0]["different_work"], true);

    let text = stdout(&run(&["report", &into]));
    let first: Vec<&str> = text.lines().take(12).collect();
    assert!(first.concat().contains("different work: "), "{text}");
    let single = stdout(&run(&["http", &url("/moved"), "-d", "1s", "-c", "1"]));
    assert!(single.starts_with("✗ 100% of the answers are redirects, which count as success"), "{single}");
}

/// The result of a run under a process 1 of that name, which alone has the server's listening socket; `None` without the right to
/// make one.
fn under_process_1(name: &str) -> Option<Value> {
    let unshare = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    if !Command::new("unshare").args(unshare).arg("true").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let held = std::os::fd::OwnedFd::from(listener.try_clone().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        "test.yaml",
        experiment(port, "    again: { load: { connections: 1 } }\n", "found.http_reqs > 1 /s"),
    );
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
fn a_socket_that_process_1_holds_for_a_service_is_told_from_a_containers_server() {
    // As systemd does for a unit that it starts on demand, a shell as process 1 of a PID namespace has the socket open.
    let Some(json) = under_process_1("systemd") else {
        return skip_unprivileged("make PID namespaces");
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
    // The shell itself spends nothing while it waits, so there is no CPU time to show.
    let json = under_process_1("server").unwrap();
    let warnings = json["warnings"].to_string();
    assert!(!warnings.contains("only process 1"), "{warnings}");
}
