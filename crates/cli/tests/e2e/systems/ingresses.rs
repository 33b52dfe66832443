//! Ingresses through the built program: the embedded one, HAProxy and nginx, with a user's configuration too; and a load that is
//! itself the limit.
//!
//! A test that needs a program which is not installed says so and is counted as skipped by name.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{
    code, plumb, processes_with_files_in, run, skip, skip_unprivileged, slots_on_disk, stderr, stdout, wait,
    wait_until, write,
};
use serde_json::{Value, json};

pub fn installed(program: &str) -> bool {
    let found = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/sbin", "/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).exists());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// An experiment at a rate at which no thread waits for a CPU.
fn experiment(variants: &str, blocks: u32) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: http\n\
         \x20 system: {{ ingress: {{ tls: \"1.2\", key: ecdsa-p256 }}, origin: {{ body: 612 B }} }}\n\
         \x20 load: {{ connections: 4, rate: 200 /s, reuse: none, duration: 600 ms, warmup: 100 ms, \
         checks: [\"status == 200\", \"body length == 612 B\"] }}\n\
         \x20 noise: {{ others_max: 100% }}\n  baseline: software\n  variants:\n    software: {{}}\n{variants}\
         \x20 blocks: {{ min: {blocks}, max: {blocks} }}\n  claims: []\n"
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
fn check_variant<'j>(json: &'j Value, name: &str) -> &'j [Value] {
    let variants = json["variants"].as_array().unwrap();
    let variant = variants.iter().find(|variant| variant["name"] == name).unwrap();
    assert_eq!(variant["state"], "measured", "{name}: {}", variant["reason"]);
    assert!(variant["metrics"]["http_reqs"]["median"].as_f64().unwrap() > 0.0, "{name}");
    assert!((variant["metrics"]["checks"]["median"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{name}");
    let evidence = variant["evidence"].as_array().unwrap();
    assert!(evidence.len() >= 2, "{name}: {evidence:?}");
    assert!(evidence.iter().all(|row| row["holds"] == true), "{name}: {evidence:#?}");
    evidence
}

/// Every form of the embedded ingress, and every program.
const FORMS: [(&str, &str); 12] = [
    ("threads", "system: { ingress: { offload: threads } }"),
    ("plain", "system: { ingress: { tls: none } }"),
    ("tls13", "system: { ingress: { tls: \"1.3\" } }"),
    ("rsa", "system: { ingress: { key: rsa-2048 } }"),
    ("resumed", "load: { resumption: 100% }"),
    ("keep-alive", "load: { reuse: keep-alive }"),
    ("h3", "system: { ingress: { tls: \"1.3\", protocols: [h1, h2, h3] } }, load: { protocol: h3 }"),
    ("haproxy", "system: { ingress: { kind: haproxy } }"),
    ("nginx", "system: { ingress: { kind: nginx } }"),
    ("nginx-origin", "system: { origin: { kind: nginx } }"),
    ("haproxy-resumed", "system: { ingress: { kind: haproxy } }, load: { resumption: 100% }"),
    ("nginx-resumed", "system: { ingress: { kind: nginx, tls: \"1.3\" } }, load: { resumption: 100% }"),
];

const TEMPLATE: &str = "{{main}}events {}\nhttp {\n  access_log off;\n  server {\n    listen {{listen}};\n{{tls}}    location / { \
                        proxy_pass http://{{origin}}; }\n  }\n{{http}}}\n";

/// A user's configuration, and what the evidence has to say of it.
fn configured(template: &Path) -> [(&'static str, String, &'static str); 4] {
    [
        (
            "haproxy-lines",
            "{ kind: haproxy, config: { global: \"tune.bufsize 32768\", defaults: \"timeout client 30s\" } }".to_owned(),
            "global: tune.bufsize 32768; defaults: timeout client 30s",
        ),
        (
            "nginx-lines",
            "{ kind: nginx, threads: 2, config: { server: \"ssl_session_cache shared:mine:1m;\", location: \"proxy_buffering off;\" } }"
                .to_owned(),
            "server: ssl_session_cache shared:mine:1m;; location: proxy_buffering off;",
        ),
        (
            "template-in-a-file",
            format!("{{ kind: nginx, config: {{ path: {} }} }}", template.display()),
            "lines of hash",
        ),
        ("template", format!("{{ kind: nginx, config: {{ template: {} }} }}", json!(TEMPLATE)), "lines of hash"),
    ]
}

#[test]
fn every_kind_of_ingress_is_built_as_configured_proven_and_removed() {
    if !installed("haproxy") || !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let configured = configured(&write(directory.path(), "nginx.conf", TEMPLATE));
    let forms = FORMS.map(|(name, settings)| format!("    {name}: {{ {settings} }}\n"));
    let with_files = configured
        .each_ref()
        .map(|(name, ingress, _)| format!("    {name}: {{ system: {{ ingress: {ingress} }} }}\n"));
    let (code, json) = run_experiment(&experiment(&(forms.concat() + &with_files.concat()), 2));
    assert_eq!(code, 0, "{json:#}");
    for (name, _) in [("software", "")].iter().chain(&FORMS) {
        check_variant(&json, name);
    }
    let observed = configured.map(|(name, _, line)| {
        let evidence = check_variant(&json, name);
        let row = evidence.iter().find(|row| row["what"] == "configuration of the ingress").unwrap();
        let observed = row["observed"].as_str().unwrap();
        assert!(row["expected"] == row["observed"] && observed.contains(line), "{name}: {row}");
        observed
    });
    assert_eq!(observed[2], observed[3], "one template, from a file and from the experiment");
}

#[test]
fn what_a_program_says_against_a_configuration_is_said_before_anything_starts() {
    if !installed("haproxy") || !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let said = |ingress: &str| {
        let variant = format!("    mine: {{ system: {{ ingress: {ingress} }} }}\n");
        let file = write(directory.path(), "configs.yaml", experiment(&variant, 2));
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let haproxy = said("{ kind: haproxy, config: { global: \"tune.nosuch 1\" } }");
    for part in ["configs.yaml:12:", "HAProxy refuses this configuration: ", "unknown keyword 'tune.nosuch'"]
    {
        assert!(haproxy.contains(part), "{haproxy}");
    }
    let nginx = said("{ kind: nginx, config: { server: \"no_such 1;\" } }");
    for part in ["unknown directive \"no_such\"", "that line is `no_such 1;`"] {
        assert!(nginx.contains(part), "{nginx}");
    }
}

/// A line of `/proc/PID/status` as the number that it holds in base 16.
fn status(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t")).unwrap();
    u64::from_str_radix(value, 16).unwrap()
}

#[test]
fn agents_have_no_rights_that_their_side_does_not_need_and_end_with_the_runner() {
    /// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`: the files of other users.
    const ALL_FILES: u64 = 1 << 1 | 1 << 2;
    if !installed("haproxy") || !installed("nginx") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let variants = "    haproxy: { system: { ingress: { kind: haproxy } } }\n    nginx: { system: { ingress: { kind: nginx, threads: 2 } } }\n";
    let file = write(directory.path(), "test.yaml", experiment(variants, 200));
    let path = directory.path().join("run");
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--output", path.to_str().unwrap(), "--quiet"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a block of six slots", || slots_on_disk(&path) >= 6);
    let own = status(child.id(), "CapEff");
    let logs = |pid: u32| std::fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
    let all = processes_with_files_in(directory.path());
    let agents: Vec<(u32, String)> = all
        .iter()
        .map(|pid| (*pid, logs(*pid).display().to_string()))
        .filter(|(pid, _)| is_agent(*pid))
        .collect();
    assert_eq!(agents.len(), 4, "three systems and the load: {agents:?}");
    for (pid, log) in &agents {
        assert_eq!(status(*pid, "NoNewPrivs"), 1, "{log}");
        let expected = if log.contains("/load-") { own & ALL_FILES } else { own };
        assert_eq!(status(*pid, "CapEff"), expected, "{log}");
        assert_eq!(status(*pid, "CapPrm"), expected, "{log}");
    }
    assert!(agents.iter().any(|(_, log)| log.contains("/load-")), "{agents:?}");
    assert!(all.len() >= agents.len() + 3, "HAProxy, nginx and its workers: {all:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("everything to end", || processes_with_files_in(directory.path()).is_empty());
}

/// Whether a process is `plumb agent`.
fn is_agent(pid: u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(b"agent")
}

/// A server that answers every request with 200 and two bytes, and counts nothing.
pub fn small_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    serve(listener);
    port
}

/// Answers on a thread of this process.
pub fn serve(listener: TcpListener) {
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
fn a_load_under_a_cpu_quota_says_that_it_was_held_up() {
    let Some(quota) = Quota::make() else {
        return skip_unprivileged("make control groups with a CPU quota");
    };
    let url = format!("http://127.0.0.1:{}/", small_server());
    let mut load = plumb();
    load.args(["http", &url, "-c", "4", "-d", "1s", "--warmup", "500ms", "--json"]);
    let load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::fs::write(quota.0.join("cgroup.procs"), load.id().to_string()).unwrap();
    let output = wait(load);
    let json: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let load = &json["load"];
    assert!(load["busiest_thread"].as_f64().unwrap() < 0.5, "{load}");
    // On a busy machine it may get less than the quota, and the server may be late as well.
    assert!(load["waited"].as_f64().unwrap() > 0.1, "{load}");
    assert!(["quota", "neighbour", "steal"].iter().any(|cause| load["shortage"] == *cause), "{load}");
}
