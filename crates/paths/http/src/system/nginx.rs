//! nginx, as the ingress and as the origin.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use plumb_host::process::Signal;
use plumb_ingress::text;
use plumb_path::{PathError, Place};

use super::certificates::Certificates;
use super::config::{self, CONFIG_STATE, ConfigError, Dialect};
use super::installable::NGINX;
use super::offload::{Environment, LIBRARY_STATE, Module, may_give_up_root};
use super::program::{Program, Recipe};
use super::readiness::{Answered, Expected, here};
use crate::settings::{ConfigSettings, IngressSettings, TlsVersion};

/// Relative to nginx's working directory: a whole path may be longer than a socket's address can be.
const STATUS_SOCKET: &str = "status.sock";

/// `-e`: what goes wrong before the configuration is read is not to go to the host's own log.
const ARGUMENTS: [&str; 6] = ["-p", ".", "-e", "stderr", "-c", "nginx.conf"];

/// A running nginx.
#[derive(Debug)]
pub(super) struct Nginx {
    program: Program,
    /// What does its private-key operations, if not OpenSSL itself.
    module: Option<Module>,
    /// What evidence shows of its configuration, where that is not plumb's own.
    config: Option<String>,
    /// Requests for its status, which it counts like others.
    status_requests: u64,
}

impl Nginx {
    /// Has nginx test a configuration. Without the words for a module of OpenSSL, which are not the user's.
    pub(super) fn test(
        spec: &IngressSettings,
        place: &Place,
        certificates: Option<&Certificates>,
    ) -> Result<(), PathError> {
        let is_nobody = may_give_up_root(None);
        let config = |port| config(spec, "", (here(port), 1), is_nobody);
        let directory = place.scratch.join("nginx-ingress");
        Program::test(&recipe(
            directory,
            Environment::default(),
            (spec.threads, is_nobody),
            &config,
            certificates,
        ))
    }

    /// Starts one as the ingress in front of an origin.
    pub(super) fn start_ingress(
        spec: &IngressSettings,
        origin_port: u16,
        place: &Place,
        expected: Expected<'_>,
    ) -> Result<(Self, Answered), PathError> {
        let module = Module::of(spec, NGINX).map_err(PathError::new)?;
        let words = module.as_ref().map(Module::nginx).unwrap_or_default();
        let is_nobody = may_give_up_root(module.as_ref());
        let config =
            |port| config(spec, &words, (SocketAddr::new(expected.address, port), origin_port), is_nobody);
        let directory = place.scratch.join("nginx-ingress");
        let environment = Environment::new(module.as_ref(), ".");
        let recipe =
            recipe(directory, environment, (spec.threads, is_nobody), &config, expected.certificates);
        let (program, proof) = Program::start(&recipe, expected)?;
        Ok((Self { program, module, config: expected_config(spec), status_requests: 0 }, proof))
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
        let expected = Expected { address: Ipv4Addr::LOCALHOST.into(), certificates: None, body_bytes };
        let is_nobody = may_give_up_root(None);
        let config = |port| origin(port, is_nobody);
        let recipe = recipe(home, Environment::default(), (1, is_nobody), &config, None);
        let (program, _) = Program::start(&recipe, expected)?;
        Ok(Self { program, module: None, config: None, status_requests: 0 })
    }

    pub(super) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(super) fn port(&self) -> u16 {
        self.program.port
    }

    /// What nginx counts itself: requests. It has no counter of handshakes or of connections to the origin.
    pub(super) fn counters(&mut self) -> Result<BTreeMap<String, u64>, PathError> {
        let status = self
            .program
            .ask(STATUS_SOCKET, "GET / HTTP/1.0\r\n\r\n")
            .map_err(|error| PathError::new(format!("ask nginx for its status: {error}")))?;
        self.status_requests += 1;
        let requests = requests(&status).ok_or_else(|| {
            PathError::new(format!("read nginx's status: there are no requests in {status:?}"))
        })?;
        Ok(BTreeMap::from([("requests".to_owned(), requests.saturating_sub(self.status_requests))]))
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
        test_argument: "-t",
        secrets: certificates.map(Certificates::files).unwrap_or_default(),
        working_directory: None,
        is_nobody,
        // Workers do not end with a master that is killed, but with one that is asked to end.
        death_signal: if has_master(workers) { Signal::TERM } else { Signal::KILL },
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
    access_log off;
    sendfile on;
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

/// What plumb needs of every configuration: outside of all blocks, and in `http`.
fn needs(workers: u32, is_nobody: bool, words: &str) -> [(&'static str, String); 2] {
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
    let http = format!(
        "    client_body_temp_path temp-client;
    proxy_temp_path temp-proxy;
    fastcgi_temp_path temp-fastcgi;
    uwsgi_temp_path temp-uwsgi;
    scgi_temp_path temp-scgi;

    server {{
        listen unix:{STATUS_SOCKET};
        location / {{
            stub_status;
        }}
    }}
"
    );
    [("main", main), ("http", http)]
}

fn origin(port: u16, is_nobody: bool) -> Result<String, ConfigError> {
    let [main, http] = needs(1, is_nobody, "");
    let values = [main, http, ("listen", format!("127.0.0.1:{port} backlog=4096"))];
    config::text(&ConfigSettings::default(), ORIGIN, &values)
}

/// What evidence shows of the configuration, whatever its ports are; `None` where it is plumb's own.
pub(super) fn expected_config(spec: &IngressSettings) -> Option<String> {
    config::expected(&spec.config, || config(spec, "", (here(0), 0), true))
}

/// The ingress' configuration, with the words that have it use a module of OpenSSL.
fn config(
    spec: &IngressSettings,
    words: &str,
    (at, origin_port): (SocketAddr, u16),
    is_nobody: bool,
) -> Result<String, ConfigError> {
    let has_tls = spec.tls != TlsVersion::None;
    let (ssl, tls) = if has_tls { (" ssl", tls(spec)) } else { ("", String::new()) };
    let [main, http] = needs(spec.threads, is_nobody, words);
    let values = [
        main,
        http,
        ("listen", format!("{at}{ssl} backlog=4096")),
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
