//! The server of the HTTP/3 rows: Caddy on one CPU, which answers from memory and from a file.

use std::fs;
use std::time::Duration;

use plumb_host::cpu::CpuSet;
use plumb_host::process::{Child, Command, Signal, Stream, which};
use plumb_host::scratch::Scratch;

use crate::Outcome;
use crate::nginx::{PAGE_BYTES, certificate, free_port, wait_for};

/// Length of the file of the row about bytes.
pub const FILE_BYTES: usize = 1 << 20;

/// A server that runs until it is dropped.
pub struct Caddy {
    child: Child,
    _scratch: Scratch,
    /// Port of TCP and of UDP.
    pub port: u16,
}

impl Caddy {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// Starts Caddy with a page of [`PAGE_BYTES`], and with a file of [`FILE_BYTES`] at `/file`.
pub fn start(cpus: &CpuSet) -> Outcome<Caddy> {
    let program = which("caddy").ok_or("Caddy is not installed; on Debian: apt-get install caddy")?;
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-bench-")?;
    let root = scratch.path();
    certificate(root)?;
    fs::write(root.join("file"), "x".repeat(FILE_BYTES))?;
    let port = free_port()?;
    let page = "x".repeat(PAGE_BYTES as usize);
    let configuration = serde_json::json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "logging": { "logs": { "default": { "level": "ERROR" } } },
        "storage": { "module": "file_system", "root": root.join("storage") },
        "apps": {
            "tls": { "certificates": { "load_files": [
                { "certificate": root.join("cert.pem"), "key": root.join("key.pem") },
            ] } },
            "http": { "servers": { "bench": {
                "listen": [format!("127.0.0.1:{port}")],
                "protocols": ["h1", "h2", "h3"],
                "automatic_https": { "disable": true },
                "tls_connection_policies": [{}],
                "routes": [
                    { "match": [{ "path": ["/file"] }], "handle": [{ "handler": "file_server", "root": root }] },
                    { "handle": [{ "handler": "static_response", "body": page }] },
                ],
            } } },
        },
    });
    let file = root.join("caddy.json");
    fs::write(&file, configuration.to_string())?;
    let child = Command::new(program)
        .args(["run".into(), "--config".into(), file.into_os_string()])
        .env("GOMAXPROCS", "1")
        .env("HOME", root)
        .stdout(Stream::Null)
        .stderr(Stream::File(fs::File::create(root.join("stderr"))?))
        .pin(cpus.clone())
        .dies_with_parent(Signal::TERM)
        .spawn()?;
    wait_for(port).map_err(|error| {
        let words = fs::read_to_string(root.join("stderr")).unwrap_or_default();
        format!("Caddy does not answer: {error}; {words}")
    })?;
    // It listens to UDP right after TCP.
    plumb_host::time::sleep(Duration::from_millis(200));
    Ok(Caddy { child, _scratch: scratch, port })
}
