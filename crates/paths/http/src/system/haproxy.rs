//! HAProxy as the ingress.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use plumb_host::cpu::thread_cpu_times_of;
use plumb_host::process::Signal;
use plumb_path::{PathError, Place};

use super::certificates::Certificates;
use super::config::{self, CONFIG_STATE, ConfigError, Dialect};
use super::installable::HAPROXY;
use super::offload::{Environment, LIBRARY_STATE, Module, may_give_up_root};
use super::program::{Program, Recipe};
use super::protocols::counter;
use super::readiness::{Answered, Expected, here};
use crate::settings::{IngressSettings, Spoken, TlsVersion};

/// The state that has the number of threads.
const THREADS_STATE: &str = "threads";
/// In HAProxy's directory.
const STATS_SOCKET: &str = "stats.sock";
/// HAProxy's directory as HAProxy reaches it. `nobody` may not be able to walk the whole path, which may also be too long for
/// a socket's address.
const HOME: &str = "/proc/self/fd/0";

/// A running HAProxy.
#[derive(Debug)]
pub(super) struct Haproxy {
    program: Program,
    /// The module that does private-key operations, if not OpenSSL itself.
    module: Option<Module>,
    /// The configuration's summary in evidence, unless it is plumb's own.
    config: Option<String>,
}

impl Haproxy {
    /// Has HAProxy test a configuration. Without the words for a module of OpenSSL, which are not the user's.
    pub(super) fn test(
        spec: &IngressSettings,
        place: &Place,
        certificates: Option<&Certificates>,
    ) -> Result<(), PathError> {
        Program::test(&recipe(place, None, certificates, &|port| config(spec, "", here(port), 1)), "-c")
    }

    /// Starts one in front of an origin.
    pub(super) fn start(
        spec: &IngressSettings,
        origin_port: u16,
        place: &Place,
        expected: Expected<'_>,
    ) -> Result<(Self, Answered), PathError> {
        let module = Module::asked_by(spec, HAPROXY).map_err(PathError::new)?;
        let words = module.as_ref().map(Module::haproxy).unwrap_or_default();
        let config = |port| config(spec, &words, SocketAddr::new(expected.address, port), origin_port);
        let recipe = recipe(place, module.as_ref(), expected.certificates, &config);
        let (program, proof) = Program::start(&recipe, expected)?;
        Ok((Self { program, module, config: expected_config(spec) }, proof))
    }

    pub(super) fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(super) fn port(&self) -> u16 {
        self.program.port()
    }

    /// HAProxy's own counters.
    pub(super) fn counters(&self) -> Result<BTreeMap<String, u64>, PathError> {
        let answer = self.ask("show stat")?;
        counters(&answer).ok_or_else(|| {
            PathError::new("read HAProxy's statistics: there are no lines for frontend and backend")
        })
    }

    /// HAProxy's report on itself.
    pub(super) fn states(&self) -> Result<BTreeMap<String, String>, PathError> {
        let answer = self.ask("show info")?;
        let value = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let library = self.module.as_ref().map(|module| module.mapped(self.program.pid()));
        let states = [
            ("program", Some(self.program.version.as_str())),
            (THREADS_STATE, value("Nbthread")),
            (LIBRARY_STATE, library.as_deref()),
            (CONFIG_STATE, self.config.as_deref().map(|config| self.program.config_state(config))),
        ];
        Ok(states
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect())
    }

    /// CPU time of its threads, in ns, if there are several. HAProxy counts requests and connections of all threads together. (`show
    /// activity` counts calls of tasks by thread, and the connections that a thread accepted, mostly before the window.) A module may
    /// start further threads, which have no name to tell them by: if there are more threads than HAProxy was given, this is empty.
    pub(super) fn worker_cpu_ns(&self, states: &BTreeMap<String, String>) -> BTreeMap<String, u64> {
        let threads = thread_cpu_times_of(self.program.pid());
        let is_all = states.get(THREADS_STATE).is_some_and(|known| *known == threads.len().to_string());
        let named = threads.iter().map(|(tid, ns)| (tid.to_string(), *ns));
        if is_all && threads.len() > 1 { named.collect() } else { BTreeMap::new() }
    }

    fn ask(&self, question: &str) -> Result<String, PathError> {
        self.program
            .ask(STATS_SOCKET, &format!("{question}\n"))
            .map_err(|error| PathError::new(format!("ask HAProxy to {question}: {error}")))
    }
}

fn recipe<'a>(
    place: &Place,
    module: Option<&Module>,
    certificates: Option<&Certificates>,
    config: &'a dyn Fn(u16) -> Result<String, ConfigError>,
) -> Recipe<'a> {
    Recipe {
        program: HAPROXY,
        environment: Environment::new(module, HOME),
        directory: place.scratch.join("haproxy"),
        secrets: certificates.map(Certificates::files).unwrap_or_default(),
        is_nobody: may_give_up_root(module),
        // In the foreground, and without a master process.
        arguments: &["-db", "-f", "/proc/self/fd/0/haproxy.cfg"],
        // Once HAProxy has read its configuration, it changes back to the directory where it started, by the whole path.
        // `nobody` may not be able to walk that path.
        working_directory: Some("/"),
        config_name: "haproxy.cfg",
        config,
        death_signal: Signal::KILL,
    }
}

/// From `show stat`: a header of names and a line for each frontend, server and backend (management guide, 9.1). A stream is a
/// request, also in HTTP/1.
fn counters(csv: &str) -> Option<BTreeMap<String, u64>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next()?.trim_start_matches("# ").split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let row = |kind: &str| rows.iter().find(|row| row.get(1) == Some(&kind));
    let (frontend, backend) = (row("FRONTEND")?, row("BACKEND")?);
    let value = |row: &[&str], name: &str| {
        let column = names.iter().position(|&other| other == name)?;
        row.get(column)?.parse::<u64>().ok()
    };
    let counters = [
        ("requests", value(frontend, "req_tot")),
        // Despite its name, the second counts a frontend's streams in the line of the frontend.
        (counter(Spoken::H1), value(frontend, "h1_total_streams")),
        (counter(Spoken::H2), value(frontend, "h2_backend_total_streams")),
        // The load sends no trailers, so each request has one block of fields.
        (counter(Spoken::H3), value(frontend, "h3_headers")),
        ("upstream_connects", value(backend, "connect")),
        ("handshakes_full", value(frontend, "ssl_sess")),
        ("handshakes_resumed", value(frontend, "ssl_reused_sess")),
    ];
    Some(counters.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// How HAProxy is configured.
pub(super) const DIALECT: Dialect = Dialect {
    sections: &["global", "defaults", "frontend", "backend"],
    placeholders: &[
        ("global", true),
        ("tls", false),
        ("bind", true),
        ("origin", false),
        ("protocol", false),
        ("port", false),
        ("threads", false),
    ],
    has_braces: false,
    converter: "",
    template: "global
{{global}}{{tls}}
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 30s
    timeout http-keep-alive 60s
    option http-keep-alive
    http-reuse always

frontend ingress
    bind {{bind}}
    option forwardfor
    http-request set-header X-Forwarded-Proto {{protocol}}
    default_backend origin

backend origin
    server origin {{origin}}
",
};

/// The summary of the configuration in evidence, whatever its ports are; `None` for plumb's own.
pub(super) fn expected_config(spec: &IngressSettings) -> Option<String> {
    config::expected(&spec.config, || config(spec, "", here(0), 0))
}

/// The configuration, with the words that have it use a module of OpenSSL.
fn config(
    spec: &IngressSettings,
    words: &str,
    at: SocketAddr,
    origin_port: u16,
) -> Result<String, ConfigError> {
    let threads = spec.threads;
    let has_tls = spec.tls != TlsVersion::None;
    let (alpn, only) = match (spec.has_h1(), spec.has_h2()) {
        (true, true) => ("h2,http/1.1", ""),
        (true, false) => ("http/1.1", ""),
        // Without `proto`, HAProxy serves clients that do not offer h2 by h1.
        (false, _) => ("h2", " proto h2"),
    };
    let secret = format!(" ssl crt {HOME}/bundle.pem alpn ");
    let quic = if at.is_ipv4() { "quic4" } else { "quic6" };
    let http3 = if spec.has_h3() { format!("\n    bind {quic}@{at}{secret}h3") } else { String::new() };
    let (tls, bind, protocol) = if has_tls {
        (format!("{words}{}", tls(spec)), format!("{secret}{alpn}{only}{http3}"), "https")
    } else {
        // Without TLS, HAProxy knows h2 by its first bytes (`option disable-h2-upgrade`).
        (String::new(), only.to_owned(), "http")
    };
    let limit = |name: &str| spec.streams.map(|streams| format!("    tune.{name} {streams}\n"));
    let limits = [
        spec.has_h2().then(|| limit("h2.max-concurrent-streams")).flatten(),
        spec.has_h3().then(|| limit("quic.frontend.max-streams-bidi")).flatten(),
        // HAProxy speaks QUIC by OpenSSL only with this word. With other libraries it has no effect.
        spec.has_h3().then(|| "    limited-quic\n".to_owned()),
    ];
    let global = format!(
        "    nbthread {threads}\n    stats socket unix@{HOME}/{STATS_SOCKET} mode 600 level operator\n{}",
        limits.into_iter().flatten().collect::<String>()
    );
    let values = [
        ("global", global),
        ("tls", tls),
        ("bind", format!("{at}{bind}")),
        ("origin", format!("127.0.0.1:{origin_port}")),
        ("protocol", protocol.to_owned()),
        ("port", at.port().to_string()),
        ("threads", threads.to_string()),
    ];
    config::text(&spec.config, DIALECT, &values)
}

fn tls(spec: &IngressSettings) -> String {
    let version = if spec.tls == TlsVersion::V12 { "TLSv1.2" } else { "TLSv1.3" };
    // The cache holds what clients without tickets resume from.
    let (tickets, cache) =
        if spec.tickets { ("", "") } else { (" no-tls-tickets", "    tune.ssl.cachesize 0\n") };
    format!(
        "    ssl-default-bind-options ssl-min-ver {version} ssl-max-ver {version}{tickets}
    ssl-default-bind-ciphers ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL
    ssl-default-bind-curves X25519:P-256:P-384
    tune.ssl.default-dh-param 2048
{cache}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Spoken::{H1, H2};

    #[test]
    fn h2_and_its_streams_are_words_of_bind_and_global() {
        let text = |tls, protocols: &[_], streams| {
            let protocols = protocols.to_vec();
            let spec = IngressSettings { tls, protocols, streams, ..IngressSettings::default() };
            config(&spec, "", here(1), 2).unwrap()
        };
        let plain = text(TlsVersion::None, &[H1], None);
        assert_eq!(
            text(TlsVersion::None, &[H1, H2], None),
            plain,
            "it tells them apart by their first bytes"
        );
        let h1 = text(TlsVersion::V13, &[H1], None);
        insta::assert_snapshot!(h1, @"
        global
            nbthread 1
            stats socket unix@/proc/self/fd/0/stats.sock mode 600 level operator
            ssl-default-bind-options ssl-min-ver TLSv1.3 ssl-max-ver TLSv1.3
            ssl-default-bind-ciphers ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES:!aNULL
            ssl-default-bind-curves X25519:P-256:P-384
            tune.ssl.default-dh-param 2048

        defaults
            mode http
            timeout connect 5s
            timeout client 60s
            timeout server 30s
            timeout http-keep-alive 60s
            option http-keep-alive
            http-reuse always

        frontend ingress
            bind 127.0.0.1:1 ssl crt /proc/self/fd/0/bundle.pem alpn http/1.1
            option forwardfor
            http-request set-header X-Forwarded-Proto https
            default_backend origin

        backend origin
            server origin 127.0.0.1:2
        ");
        let h2 = text(TlsVersion::V13, &[H1, H2], Some(8));
        let new: Vec<&str> = h2.lines().filter(|line| !h1.contains(line)).collect();
        insta::assert_snapshot!(new.join("\n"), @"
            tune.h2.max-concurrent-streams 8
            bind 127.0.0.1:1 ssl crt /proc/self/fd/0/bundle.pem alpn h2,http/1.1
        ");
        let alone = [TlsVersion::V13, TlsVersion::None].map(|tls| text(tls, &[H2], None));
        let binds = alone.iter().flat_map(|text| text.lines()).filter(|line| line.contains(" bind "));
        insta::assert_snapshot!(binds.collect::<Vec<_>>().join("\n"), @"
            bind 127.0.0.1:1 ssl crt /proc/self/fd/0/bundle.pem alpn h2 proto h2
            bind 127.0.0.1:1 proto h2
        ");
    }

    #[test]
    fn requests_are_counted_by_protocol() {
        let csv = "# pxname,svname,req_tot,ssl_sess,h2_backend_total_streams,h1_total_streams\n\
                   ingress,FRONTEND,7,2,3,4\norigin,BACKEND,7,,,\n";
        let counted = counters(csv).unwrap();
        assert_eq!((counted["requests"], counted["requests_h1"], counted["requests_h2"]), (7, 4, 3));
    }
}
