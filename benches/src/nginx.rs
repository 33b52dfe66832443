//! The server of the HTTP rows: nginx with one worker on one CPU, plain, with TLS and, in a newer version, with QUIC.

use crate::Outcome;
use std::fs;
use std::path::Path;
use std::time::Duration;

use plumb_host::cpu::CpuSet;
use plumb_host::process::{Child, Command, Signal, Stream, run_for_output, which};
use plumb_host::scratch::Scratch;

/// Length of the page, as the default page of nginx in the seeds' documents has.
pub const PAGE_BYTES: u64 = 612;
/// Length of the file `large`.
pub const LARGE_BYTES: u64 = 1 << 20;
/// Where `scripts/install-tools.sh lab` puts Debian 13's nginx.
const OF_DEBIAN_13: &str = "/opt/plumb-tests/debian13/bin/nginx";

/// A server that runs until it is dropped.
pub struct Nginx {
    child: Child,
    _scratch: Scratch,
    /// Port of the plain server.
    pub plain_port: u16,
    /// Port of the TLS server.
    pub tls_port: u16,
    /// Port of the server that speaks HTTP/2 without TLS.
    pub h2_port: u16,
    /// Port of the server that speaks HTTP/3; nothing listens there unless the program has QUIC.
    pub h3_port: u16,
}

impl Nginx {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

fn free_port() -> Outcome<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.local_addr().map(|address| address.port()).map_err(Into::into)
}

/// Starts nginx with a page of [`PAGE_BYTES`].
pub fn start(cpus: &CpuSet) -> Outcome<Nginx> {
    let program = which("nginx").ok_or("nginx is not installed; on Debian: apt-get install nginx-light")?;
    start_program(&program, cpus)
}

/// Starts an nginx that speaks HTTP/3; `None` if this machine has none.
pub fn start_with_h3(cpus: &CpuSet) -> Outcome<Option<Nginx>> {
    let program = which("nginx").into_iter().chain([OF_DEBIAN_13.into()]).find(|program| has_h3(program));
    program.map(|program| start_program(&program, cpus)).transpose()
}

fn has_h3(program: &Path) -> bool {
    let said = run_for_output(program, ["-V"], Duration::from_secs(10));
    said.is_ok_and(|said| said.stderr.contains("http_v3_module"))
}

fn start_program(program: &Path, cpus: &CpuSet) -> Outcome<Nginx> {
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-bench-")?;
    let root = scratch.path();
    certificate(root)?;
    fs::write(root.join("index.html"), "x".repeat(PAGE_BYTES as usize))?;
    fs::write(root.join("large"), "x".repeat(LARGE_BYTES as usize))?;
    let (plain_port, tls_port, h2_port, h3_port) = (free_port()?, free_port()?, free_port()?, free_port()?);
    // oha waits at its end until its connections have been idle for long.
    let quic = if has_h3(program) {
        format!(
            "server {{ listen 127.0.0.1:{h3_port} quic reuseport; http3 on; quic_gso on; keepalive_timeout 1s; }}"
        )
    } else {
        String::new()
    };
    let configuration = format!(
        "daemon off; master_process off; worker_processes 1; pid {root}/pid; error_log {root}/error.log warn;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; server_tokens off; keepalive_requests 1000000000; sendfile on; tcp_nodelay on;\n\
         client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;\n\
         uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5; root {root};\n\
         server {{ listen 127.0.0.1:{plain_port} backlog=4096; }}\n\
         server {{ listen 127.0.0.1:{h2_port} http2 backlog=4096; }}\n\
         ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; ssl_protocols TLSv1.2 TLSv1.3;\n\
         server {{ listen 127.0.0.1:{tls_port} ssl backlog=4096; }} {quic} }}\n",
        root = root.display()
    );
    let file = root.join("nginx.conf");
    fs::write(&file, configuration)?;
    let log = fs::File::create(root.join("stderr"))?;
    let child = Command::new(program)
        .args(["-c".into(), file.into_os_string()])
        .stderr(Stream::File(log))
        .pin(cpus.clone())
        .dies_with_parent(Signal::TERM)
        .spawn()?;
    wait_for(plain_port).map_err(|error| {
        let words = fs::read_to_string(root.join("stderr")).unwrap_or_default();
        format!("nginx does not answer: {error}; {words}")
    })?;
    Ok(Nginx { child, _scratch: scratch, plain_port, tls_port, h2_port, h3_port })
}

fn wait_for(port: u16) -> Outcome {
    let mut last = String::new();
    for _ in 0..200 {
        match std::net::TcpStream::connect(("127.0.0.1", port)) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
        plumb_host::time::sleep(Duration::from_millis(25));
    }
    Err(last.into())
}

fn certificate(root: &Path) -> Outcome {
    let path = |name: &str| root.join(name).display().to_string();
    let arguments = [
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        &path("key.pem"),
        "-out",
        &path("cert.pem"),
    ];
    let output = run_for_output("openssl", arguments, Duration::from_secs(30))?;
    if output.exit.is_success() {
        Ok(())
    } else {
        Err(format!("openssl made no certificate: {}", output.stderr).into())
    }
}
