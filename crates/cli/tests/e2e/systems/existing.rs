//! Systems that exist already: their processes are found or named, and measured.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{code, run, skip, stderr, stdout, unless_busy, wait_until, write};

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
        "daemon off; pid nginx.pid; error_log error.log; worker_processes 1;\nevents {{}}\nhttp {{ access_log off;\n  \
         client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;\n  \
         server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"hello\\n\"; }} }} }}\n"
    );
    write(directory, "nginx.conf", text);
    let mut command = Command::new("nginx");
    let directory = directory.to_str().unwrap();
    command.args(["-p", directory, "-e", "stderr", "-c", "nginx.conf"]).stderr(Stdio::null());
    let server = Nginx(command.spawn().unwrap());
    wait_until("nginx to answer", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    (server, port)
}

fn experiment(directory: &Path, port: u16, named: &str, claim: &str) -> std::path::PathBuf {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: existing }}\nspec:\n  path: http\n  system:\n    \
         ingress: {{ kind: external, url: \"http://127.0.0.1:{port}/\" }}\n  load: {{ connections: 2, duration: 200 ms, warmup: 50 ms }}\n  \
         baseline: found\n  variants:\n    found: {{}}\n    named: {{ system: {{ ingress: {{ {named} }} }} }}\n    \
         built: {{ system: {{ ingress: {{ kind: nginx, url: null, tls: none }} }} }}\n  blocks: {{ min: 2, max: 2 }}\n  claims: [{claim}]\n"
    );
    write(directory, "existing.yaml", text)
}

#[test]
fn a_system_that_exists_has_counters_however_it_is_named() {
    if Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        return skip("nginx is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let (server, port) = nginx(directory.path());
    for (at, named) in [format!("pid: {}", server.0.id()), format!("port: {port}")].iter().enumerate() {
        // Twice the memory of itself is what no system has.
        let claim = "named.memory_system <= 2 * found.memory_system, named.memory_system >= 1 MB";
        let file = experiment(directory.path(), port, named, claim);
        let (into, output) = unless_busy(|attempt| {
            let into = directory.path().join(format!("run{at}-{attempt}"));
            let output = run(&["run", file.to_str().unwrap(), "--json", "--output", into.to_str().unwrap()]);
            (into, output)
        });
        assert!(into.join("slots.jsonl").exists());
        assert!([0, 3, 4].contains(&code(&output)), "{}", stderr(&output));
        let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        for variant in report["variants"].as_array().unwrap() {
            let metrics = &variant["metrics"];
            let name = variant["name"].as_str().unwrap();
            assert!(metrics["cpu_system"]["median"].as_f64().unwrap() > 0.0, "{name}");
            let memory = metrics["memory_system"]["median"].as_f64();
            let waited = metrics["run_delay_system"]["median"].as_f64();
            match name {
                // A system that is built for the run is not read in this way.
                "built" => assert_eq!((memory, waited), (None, None)),
                _ => {
                    assert!(memory.unwrap() > 1e6, "{name}: {memory:?}");
                    assert!(waited.is_some_and(|share| (0.0..64.0).contains(&share)), "{name}: {waited:?}");
                    assert!(metrics["softirq_system"]["median"].as_f64().is_some(), "{name}");
                }
            }
        }
    }
}

#[test]
fn what_is_known_of_existing_systems_alone_is_refused_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let said = |named: &str, claim: &str| {
        let output = run(&["check", experiment(directory.path(), 1, named, claim).to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let built = said("port: 1", "built.memory_system <= 2 * found.memory_system");
    assert!(built.contains("`memory_system` is measured of external systems alone"), "{built}");
    let twice = said("port: 1, pid: 1", "named.memory_system <= 2 * found.memory_system");
    assert!(twice.contains("only one of `pid`, `unit`, `cgroup` and `port`"), "{twice}");
}
