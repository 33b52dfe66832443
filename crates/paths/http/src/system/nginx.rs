//! nginx, as the ingress and as the origin.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;

use plumb_host::cpu::{CpuTime, process_cpu_time};
use plumb_host::process::{Signal, descendants, has_words};
use plumb_ingress::text;
use plumb_path::{PathError, Place};

use super::certificates::Certificates;
use super::config::{self, CONFIG_STATE, ConfigError, Dialect};
use super::installable::NGINX;
use super::offload::{Environment, LIBRARY_STATE, Module, may_give_up_root};
use super::program::{Program, Recipe};
use super::protocols::{HTTP2_DIRECTIVE, counter};
use super::readiness::{Answered, Expected, here};
use super::version::Version;
use crate::settings::{ConfigSettings, IngressSettings, Spoken, TlsVersion};

/// Relative to nginx's working directory: a whole path may be longer than a socket's address can be.
const STATUS_SOCKET: &str = "status.sock";

/// The protocol and the worker of each request, in nginx's working directory.
const REQUEST_LOG: &str = "requests.log";

/// `-e`: what goes wrong before the configuration is read is not to go to the host's own log.
const ARGUMENTS: [&str; 6] = ["-p", ".", "-e", "stderr", "-c", "nginx.conf"];

/// The words in the command line of a worker, which is a child of the master.
const WORKER: &str = "nginx: worker process";

/// A running nginx.
#[derive(Debug)]
pub(super) struct Nginx {
    program: Program,
    /// The module that does private-key operations, if not OpenSSL itself.
    module: Option<Module>,
    /// The configuration's summary in evidence, unless it is plumb's own.
    config: Option<String>,
    /// Requests for its status, which it counts like others.
    status_requests: u64,
    /// The protocol and the worker of each request, where it speaks several protocols.
    requests: Option<RequestLog>,
}

impl Nginx {
    /// Has nginx test a configuration. Without the words for a module of OpenSSL, which are not the user's.
    pub(super) fn test(
        spec: &IngressSettings,
        place: &Place,
        certificates: Option<&Certificates>,
    ) -> Result<(), PathError> {
        let is_nobody = may_give_up_root(None);
        let versions = Versions::of_installed(spec)?;
        let config = |port| config(spec, "", (here(port), 1), is_nobody, versions);
        let directory = place.scratch.join("nginx-ingress");
        Program::test(
            &recipe(directory, Environment::default(), (spec.threads, is_nobody), &config, certificates),
            "-t",
        )
    }

    /// Starts one as the ingress in front of an origin.
    pub(super) fn start_ingress(
        spec: &IngressSettings,
        origin_port: u16,
        place: &Place,
        expected: Expected<'_>,
    ) -> Result<(Self, Answered), PathError> {
        let module = Module::asked_by(spec, NGINX).map_err(PathError::new)?;
        let words = module.as_ref().map(Module::nginx).unwrap_or_default();
        let is_nobody = may_give_up_root(module.as_ref());
        let versions = Versions::of_installed(spec)?;
        let config = |port| {
            let at = SocketAddr::new(expected.address, port);
            config(spec, &words, (at, origin_port), is_nobody, versions)
        };
        let directory = place.scratch.join("nginx-ingress");
        let environment = Environment::new(module.as_ref(), ".");
        let recipe =
            recipe(directory, environment, (spec.threads, is_nobody), &config, expected.certificates);
        let (program, proof) = Program::start(&recipe, expected)?;
        let config = expected_config(spec);
        // A user's template may have another log in its place.
        let requests = File::open(recipe.directory.join(REQUEST_LOG)).ok().map(RequestLog::new);
        Ok((Self { program, module, config, status_requests: 0, requests }, proof))
    }

    /// Starts one as the origin of a static file.
    pub(super) fn start_origin(body_bytes: u64, place: &Place) -> Result<Self, PathError> {
        let home = place.scratch.join("nginx-origin");
        let directory = home.join("files");
        let content = usize::try_from(body_bytes).map(text);
        let write = |content| {
            fs::create_dir_all(&directory).and_then(|()| fs::write(directory.join("body"), content))
        };
        content.map_err(std::io::Error::other).and_then(write).map_err(|error| {
            PathError::new(format!("write the origin's body into {}: {error}", directory.display()))
        })?;
        let expected = Expected::of_origin(body_bytes);
        let is_nobody = may_give_up_root(None);
        let config = |port| origin(port, is_nobody);
        let recipe = recipe(home, Environment::default(), (1, is_nobody), &config, None);
        let (program, _) = Program::start(&recipe, expected)?;
        Ok(Self { program, module: None, config: None, status_requests: 0, requests: None })
    }

    pub(super) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(super) fn port(&self) -> u16 {
        self.program.port()
    }

    /// nginx' own counters: requests, by protocol if it speaks several. It counts neither handshakes nor connections
    /// to the origin.
    pub(super) fn counters(&mut self) -> Result<BTreeMap<String, u64>, PathError> {
        let status = self
            .program
            .ask(STATUS_SOCKET, "GET / HTTP/1.0\r\n\r\n")
            .map_err(|error| PathError::new(format!("ask nginx for its status: {error}")))?;
        self.status_requests += 1;
        let requests = requests(&status).ok_or_else(|| {
            PathError::new(format!("read nginx's status: there are no requests in {status:?}"))
        })?;
        let mut counters =
            BTreeMap::from([("requests".to_owned(), requests.saturating_sub(self.status_requests))]);
        if let Some(log) = &mut self.requests {
            log.count_new().map_err(|error| PathError::new(format!("read {REQUEST_LOG}: {error}")))?;
            let counted = [(Spoken::H1, log.h1), (Spoken::H2, log.h2), (Spoken::H3, log.h3)];
            counters.extend(counted.map(|(protocol, count)| (counter(protocol).to_owned(), count)));
        }
        Ok(counters)
    }

    /// Requests by worker process, as far as the log has been read, if there are several workers.
    pub(super) fn workers(&self) -> BTreeMap<String, u64> {
        let Some(log) = &self.requests else { return BTreeMap::new() };
        // A worker without a request is not in the log.
        self.by_worker(|pid| Some(log.workers.get(&pid).copied().unwrap_or(0)))
    }

    /// CPU time by worker process, in ns, if there are several. It needs no log, which would cost every request.
    pub(super) fn worker_cpu_ns(&self) -> BTreeMap<String, u64> {
        self.by_worker(|pid| process_cpu_time(pid).ok().map(CpuTime::total_ns))
    }

    /// A figure of each worker process by its pid; empty if there is one worker.
    fn by_worker(&self, figure: impl Fn(u32) -> Option<u64>) -> BTreeMap<String, u64> {
        let pids = descendants(self.program.pid()).into_iter().filter(|pid| has_words(*pid, WORKER));
        let workers: BTreeMap<String, u64> =
            pids.filter_map(|pid| Some((pid.to_string(), figure(pid)?))).collect();
        if workers.len() > 1 { workers } else { BTreeMap::new() }
    }

    pub(super) fn states(&self) -> BTreeMap<String, String> {
        let library = self.module.as_ref().map(|module| module.mapped(self.program.pid()));
        let config = self.config.as_deref().map(|config| self.program.config_state(config).to_owned());
        let states = [
            ("program", Some(self.program.version.clone())),
            (LIBRARY_STATE, library),
            (CONFIG_STATE, config),
        ];
        states.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

fn recipe<'a>(
    directory: PathBuf,
    environment: Environment,
    (workers, is_nobody): (u32, bool),
    config: &'a dyn Fn(u16) -> Result<String, ConfigError>,
    certificates: Option<&Certificates>,
) -> Recipe<'a> {
    Recipe {
        program: NGINX,
        directory,
        environment,
        arguments: &ARGUMENTS,
        config_name: "nginx.conf",
        config,
        secrets: certificates.map(Certificates::files).unwrap_or_default(),
        working_directory: None,
        is_nobody,
        // Workers do not end with a master that is killed, but with one that is asked to end.
        death_signal: if has_master(workers) { Signal::TERM } else { Signal::KILL },
    }
}

/// nginx's log of requests, as far as it has been read.
#[derive(Debug)]
struct RequestLog {
    file: BufReader<File>,
    /// The last line, as long as its end is not written.
    line: Vec<u8>,
    h1: u64,
    h2: u64,
    h3: u64,
    /// By the worker's pid.
    workers: BTreeMap<u32, u64>,
}

impl RequestLog {
    fn new(file: File) -> Self {
        let file = BufReader::with_capacity(64 << 10, file);
        Self { file, line: Vec::new(), h1: 0, h2: 0, h3: 0, workers: BTreeMap::new() }
    }

    /// Counts the requests that were written since it was last called.
    fn count_new(&mut self) -> io::Result<()> {
        while self.file.read_until(b'\n', &mut self.line)? > 0 && self.line.ends_with(b"\n") {
            self.count();
            self.line.clear();
        }
        Ok(())
    }

    /// Counts the request of a line such as `HTTP/2.0 4711`. The protocol of a request that nginx cannot read is empty.
    fn count(&mut self) {
        let count = match self.line.strip_prefix(b"HTTP/").and_then(|rest| rest.first()) {
            Some(b'3') => &mut self.h3,
            Some(b'2') => &mut self.h2,
            _ => &mut self.h1,
        };
        *count += 1;
        let pid = self.line.trim_ascii_end().rsplit(|byte| *byte == b' ').next();
        let pid = pid.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        pid.into_iter().for_each(|pid| *self.workers.entry(pid).or_default() += 1);
    }
}

/// How nginx is told to speak HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Http2 {
    Off,
    /// By a word of `listen`.
    Listen,
    /// By a directive.
    Directive,
}

/// The versions of HTTP beside 1.1 that nginx is told to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Versions {
    http2: Http2,
    has_h3: bool,
}

impl Versions {
    const H1_ALONE: Self = Self { http2: Http2::Off, has_h3: false };

    /// Those of the settings, by an nginx that knows `http2` as a directive if `knows_directive`.
    fn new(spec: &IngressSettings, knows_directive: bool) -> Self {
        let http2 = match spec.has_h2() {
            false => Http2::Off,
            true if knows_directive => Http2::Directive,
            true => Http2::Listen,
        };
        Self { http2, has_h3: spec.has_h3() }
    }

    fn of_installed(spec: &IngressSettings) -> Result<Self, PathError> {
        if !spec.has_h2() {
            return Ok(Self::new(spec, true));
        }
        let version = NGINX.version(&NGINX.find().map_err(PathError::new)?)?;
        let is_new = Version::find_in(&version).is_none_or(|version| version >= HTTP2_DIRECTIVE);
        Ok(Self::new(spec, is_new))
    }

    /// Lines for `http`.
    fn lines(self, streams: Option<u32>) -> String {
        let on = (self.http2 == Http2::Directive).then(|| "    http2 on;\n".to_owned());
        let limit = |name: &str| Some(format!("    {name}_max_concurrent_streams {};\n", streams?));
        let limits = [
            (self.http2 != Http2::Off).then(|| limit("http2")).flatten(),
            self.has_h3.then(|| limit("http3")).flatten(),
        ];
        on.into_iter().chain(limits.into_iter().flatten()).collect()
    }

    /// The value of `listen`, and for HTTP/3 a second `listen`. Without `reuseport`, workers would take each other's datagrams.
    fn listen(self, at: SocketAddr, ssl: &str, workers: u32) -> String {
        let word = if self.http2 == Http2::Listen { " http2" } else { "" };
        let reuse = if workers > 1 { " reuseport" } else { "" };
        let quic = if self.has_h3 { format!(";\n        listen {at} quic{reuse}") } else { String::new() };
        format!("{at}{ssl}{word} backlog=4096{quic}")
    }

    /// The log of `http`: with HTTP/1.1 alone every request has the same protocol, and nothing is written. Lines are gathered for some
    /// milliseconds, which costs a request less than a microsecond.
    fn log(self) -> String {
        if self == Self::H1_ALONE {
            return "    access_log off;\n".to_owned();
        }
        format!(
            "    log_format request '$server_protocol $pid';
    access_log {REQUEST_LOG} request buffer=64k flush=10ms;
"
        )
    }
}

/// The third number in the line after `server accepts handled requests` (`ngx_http_stub_status_module`).
fn requests(status: &str) -> Option<u64> {
    let (_, after) = status.split_once("server accepts handled requests")?;
    after.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// One worker needs no master, and then there is one process only to be ended.
fn has_master(workers: u32) -> bool {
    workers > 1
}

/// How the configurations of the ingress and of its origin begin.
macro_rules! opening {
    () => {
        "{{main}}
events {
    worker_connections 8192;
}

http {
{{log}}    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_timeout 60s;
    keepalive_requests 1000000000;
    client_max_body_size 0;
    default_type text/plain;
"
    };
}

/// How nginx is configured.
pub(super) const DIALECT: Dialect = Dialect {
    sections: &["main", "events", "http", "upstream", "server", "location"],
    placeholders: &[
        ("main", true),
        ("http", true),
        ("log", false),
        ("listen", true),
        ("tls", false),
        ("origin", false),
        ("port", false),
        ("threads", false),
    ],
    has_braces: true,
    converter: "`plumb init --nginx-config FILE` writes an experiment that has them; ",
    template: concat!(
        opening!(),
        "
    upstream origin {
        server {{origin}};
        keepalive 256;
        keepalive_requests 1000000000;
    }

    server {
        listen {{listen}};
        server_name localhost;
{{tls}}
        location / {
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_connect_timeout 5s;
            proxy_read_timeout 30s;
            proxy_set_header Connection \"\";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
        }
    }
{{http}}}
"
    ),
};

/// The origin's configuration.
const ORIGIN: Dialect = Dialect {
    template: concat!(
        opening!(),
        "    open_file_cache max=16 inactive=1d;
    open_file_cache_valid 1d;

    server {
        listen {{listen}};
        root files;
        # A static file takes GET and HEAD only; the other methods get the same answer by this way.
        error_page 405 =200 /body;
        location / {
            rewrite ^ /body break;
        }
    }
{{http}}}
"
    ),
    ..DIALECT
};

/// The lines that plumb needs in every configuration: outside of all blocks, and in `http`.
fn needs(workers: u32, is_nobody: bool, words: &str, versions: Versions) -> [(&'static str, String); 3] {
    let master = if has_master(workers) { "on" } else { "off" };
    // The workers of a master that stays root would change to `nobody`, which cannot read root's files.
    let stays_root = !is_nobody && rustix::process::geteuid().is_root();
    let user = if stays_root { "user root;\n" } else { "" };
    let main = format!(
        "{words}daemon off;
master_process {master};
worker_processes {workers};
{user}pid nginx.pid;
error_log stderr error;
"
    );
    let silent = if versions == Versions::H1_ALONE { "" } else { "        access_log off;\n" };
    let http = format!(
        "    client_body_temp_path temp-client;
    proxy_temp_path temp-proxy;
    fastcgi_temp_path temp-fastcgi;
    uwsgi_temp_path temp-uwsgi;
    scgi_temp_path temp-scgi;

    server {{
        listen unix:{STATUS_SOCKET};
{silent}        location / {{
            stub_status;
        }}
    }}
"
    );
    [("main", main), ("http", http), ("log", versions.log())]
}

fn origin(port: u16, is_nobody: bool) -> Result<String, ConfigError> {
    let [main, http, log] = needs(1, is_nobody, "", Versions::H1_ALONE);
    let values = [main, http, log, ("listen", format!("127.0.0.1:{port} backlog=4096"))];
    config::text(&ConfigSettings::default(), ORIGIN, &values)
}

/// The summary of the configuration in evidence, whatever its ports are; `None` for plumb's own.
pub(super) fn expected_config(spec: &IngressSettings) -> Option<String> {
    config::expected(&spec.config, || config(spec, "", (here(0), 0), true, Versions::new(spec, true)))
}

/// The ingress' configuration, with the words that have it use a module of OpenSSL.
fn config(
    spec: &IngressSettings,
    words: &str,
    (at, origin_port): (SocketAddr, u16),
    is_nobody: bool,
    versions: Versions,
) -> Result<String, ConfigError> {
    let has_tls = spec.tls != TlsVersion::None;
    let (ssl, tls) = if has_tls { (" ssl", tls(spec)) } else { ("", String::new()) };
    let [main, (_, http), log] = needs(spec.threads, is_nobody, words, versions);
    let values = [
        main,
        ("http", format!("{}{http}", versions.lines(spec.streams))),
        log,
        ("listen", versions.listen(at, ssl, spec.threads)),
        ("tls", tls),
        ("origin", format!("127.0.0.1:{origin_port}")),
        ("port", at.port().to_string()),
        ("threads", spec.threads.to_string()),
    ];
    config::text(&spec.config, DIALECT, &values)
}

fn tls(spec: &IngressSettings) -> String {
    let version = if spec.tls == TlsVersion::V12 { "TLSv1.2" } else { "TLSv1.3" };
    // The cache holds what clients without tickets resume from.
    let (tickets, cache) = if spec.tickets { ("on", "shared:sessions:16m") } else { ("off", "off") };
    format!(
        "        ssl_certificate leaf.pem;
        ssl_certificate_key key.pem;
        ssl_protocols {version};
        ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL;
        ssl_ecdh_curve X25519:prime256v1:secp384r1;
        ssl_session_tickets {tickets};
        ssl_session_cache {cache};
"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::settings::Spoken::{H1, H2, H3};

    fn text(protocols: &[Spoken], streams: Option<u32>, threads: u32, knows_directive: bool) -> String {
        let protocols = protocols.to_vec();
        let spec = IngressSettings { protocols, streams, threads, ..IngressSettings::default() };
        config(&spec, "", (here(1), 2), true, Versions::new(&spec, knows_directive)).unwrap()
    }

    /// Lines that h1 alone does not have.
    fn new_lines(protocols: &[Spoken], streams: Option<u32>, threads: u32, knows_directive: bool) -> String {
        let h1 = text(&[H1], None, threads, knows_directive);
        let text = text(protocols, streams, threads, knows_directive);
        let new: Vec<&str> = text.lines().filter(|line| !h1.contains(line)).collect();
        new.join("\n")
    }

    #[test]
    fn with_h1_alone_the_configuration_knows_nothing_of_h2() {
        insta::assert_snapshot!(text(&[H1], None, 1, true), @r#"
        daemon off;
        master_process off;
        worker_processes 1;
        pid nginx.pid;
        error_log stderr error;

        events {
            worker_connections 8192;
        }

        http {
            access_log off;
            sendfile on;
            tcp_nopush on;
            tcp_nodelay on;
            keepalive_timeout 60s;
            keepalive_requests 1000000000;
            client_max_body_size 0;
            default_type text/plain;

            upstream origin {
                server 127.0.0.1:2;
                keepalive 256;
                keepalive_requests 1000000000;
            }

            server {
                listen 127.0.0.1:1 ssl backlog=4096;
                server_name localhost;
                ssl_certificate leaf.pem;
                ssl_certificate_key key.pem;
                ssl_protocols TLSv1.3;
                ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL;
                ssl_ecdh_curve X25519:prime256v1:secp384r1;
                ssl_session_tickets on;
                ssl_session_cache shared:sessions:16m;

                location / {
                    proxy_pass http://origin;
                    proxy_http_version 1.1;
                    proxy_connect_timeout 5s;
                    proxy_read_timeout 30s;
                    proxy_set_header Connection "";
                    proxy_set_header Host $host;
                    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                    proxy_set_header X-Forwarded-Proto $scheme;
                }
            }
            client_body_temp_path temp-client;
            proxy_temp_path temp-proxy;
            fastcgi_temp_path temp-fastcgi;
            uwsgi_temp_path temp-uwsgi;
            scgi_temp_path temp-scgi;

            server {
                listen unix:status.sock;
                location / {
                    stub_status;
                }
            }
        }
        "#);
    }

    #[test]
    fn h2_is_a_word_or_a_directive_by_the_version() {
        insta::assert_snapshot!(new_lines(&[H1, H2], Some(8), 1, false), @"
            log_format request '$server_protocol $pid';
            access_log requests.log request buffer=64k flush=10ms;
                listen 127.0.0.1:1 ssl http2 backlog=4096;
            http2_max_concurrent_streams 8;
                access_log off;
        ");
        insta::assert_snapshot!(new_lines(&[H1, H2], Some(8), 1, true), @"
            log_format request '$server_protocol $pid';
            access_log requests.log request buffer=64k flush=10ms;
            http2 on;
            http2_max_concurrent_streams 8;
                access_log off;
        ");
    }

    #[test]
    fn h3_listens_beside_the_others_in_each_worker() {
        insta::assert_snapshot!(new_lines(&[H1, H3], None, 1, true), @"
            log_format request '$server_protocol $pid';
            access_log requests.log request buffer=64k flush=10ms;
                listen 127.0.0.1:1 quic;
                access_log off;
        ");
        insta::assert_snapshot!(new_lines(&[H1, H2, H3], Some(8), 2, true), @"
            log_format request '$server_protocol $pid';
            access_log requests.log request buffer=64k flush=10ms;
                listen 127.0.0.1:1 quic reuseport;
            http2 on;
            http2_max_concurrent_streams 8;
            http3_max_concurrent_streams 8;
                access_log off;
        ");
    }

    #[test]
    fn the_log_of_requests_is_counted_as_it_grows() {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        let mut log = RequestLog::new(written.reopen().unwrap());
        let mut counted_after = |text: &str| {
            written.write_all(text.as_bytes()).unwrap();
            log.count_new().unwrap();
            ([log.h1, log.h2, log.h3], log.workers.clone())
        };
        assert_eq!(
            counted_after("HTTP/2.0 71\nHTTP/1.1 72\nHTTP/2.0 7"),
            ([1, 1, 0], [(71, 1), (72, 1)].into())
        );
        assert_eq!(
            counted_after("1\nHTTP/1.0 71\n 72\nHTTP/3.0 72\n"),
            ([3, 2, 1], [(71, 3), (72, 3)].into())
        );
    }
}
