//! Caddy as the ingress.
//!
//! It has no cheap count of requests or handshakes: its metrics need the admin endpoint, and its access log writes hundreds of bytes
//! for a request. So the load's own view is the only evidence of what Caddy served.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use plumb_host::process::Signal;
use plumb_path::{PathError, Place};
use serde_json::{Value, json};

use super::certificates::Certificates;
use super::installable::CADDY;
use super::offload::{Environment, may_give_up_root};
use super::program::{Program, Recipe};
use super::readiness::{Answered, Expected};
use crate::settings::{IngressSettings, TlsVersion};

/// Relative to Caddy's working directory.
const CONFIG: &str = "caddy.json";

/// Starts one in front of an origin.
pub(super) fn start(
    spec: &IngressSettings,
    origin_port: u16,
    place: &Place,
    expected: Expected<'_>,
) -> Result<(Program, Answered), PathError> {
    let recipe = Recipe {
        program: CADDY,
        directory: place.scratch.join("caddy"),
        arguments: &["run", "--config", CONFIG],
        config_name: CONFIG,
        config: &|port| {
            let at = SocketAddr::new(expected.address, port);
            Ok(format!("{:#}\n", config(spec, at, origin_port)))
        },
        environment: environment(spec.threads),
        death_signal: Signal::KILL,
        secrets: expected.certificates.map(Certificates::files).unwrap_or_default(),
        working_directory: None,
        is_nobody: may_give_up_root(None),
    };
    Program::start(&recipe, expected)
}

/// The state that Caddy reports: its name and version.
pub(super) fn states(program: &Program) -> BTreeMap<String, String> {
    BTreeMap::from([("program".to_owned(), format!("{} {}", CADDY.title, program.version))])
}

/// Caddy keeps files in the user's directories, and Go starts as many threads for its code as `GOMAXPROCS` says.
fn environment(threads: u32) -> Environment {
    let homes = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, PathBuf::from(".")));
    let threads = ("GOMAXPROCS", PathBuf::from(threads.to_string()));
    Environment { files: Vec::new(), variables: homes.into_iter().chain([threads]).collect() }
}

/// The configuration: no admin endpoint, no certificates by Caddy, no redirects, and nothing of the user's (`persist`).
fn config(spec: &IngressSettings, at: SocketAddr, origin_port: u16) -> Value {
    let is_plain = spec.tls == TlsVersion::None;
    let (mut protocols, alpn): (Vec<&str>, &[&str]) = match (spec.has_h2(), is_plain) {
        (false, _) => (vec!["h1"], &["http/1.1"]),
        (true, true) => (vec!["h1", "h2c"], &[]),
        (true, false) => (vec!["h1", "h2"], &["h2", "http/1.1"]),
    };
    if spec.has_h3() {
        protocols.push("h3");
    }
    let mut server = json!({
        "listen": [at.to_string()],
        "protocols": protocols,
        "automatic_https": { "disable": true },
        "idle_timeout": "60s",
        "routes": [{ "handle": [{
            "handler": "reverse_proxy",
            "upstreams": [{ "dial": format!("127.0.0.1:{origin_port}") }],
            "transport": {
                "protocol": "http",
                "versions": ["1.1"],
                "compression": false,
                "dial_timeout": "5s",
                "response_header_timeout": "30s",
                "keep_alive": { "idle_timeout": "60s", "max_idle_conns": 0, "max_idle_conns_per_host": 256 },
            },
        }] }],
    });
    let mut apps = json!({});
    if !is_plain {
        let version = if spec.tls == TlsVersion::V12 { "tls1.2" } else { "tls1.3" };
        server["tls_connection_policies"] = json!([{
            "protocol_min": version,
            "protocol_max": version,
            "alpn": alpn,
            "curves": ["x25519", "secp256r1", "secp384r1"],
        }]);
        apps["tls"] = json!({
            "certificates": { "load_files": [{ "certificate": "leaf.pem", "key": "key.pem" }] },
            "disable_ocsp_stapling": true,
            "session_tickets": { "disabled": !spec.tickets },
        });
    }
    apps["http"] = json!({ "servers": { "ingress": server } });
    json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "logging": { "logs": { "default": { "level": "ERROR" } } },
        "storage": { "module": "file_system", "root": "storage" },
        "apps": apps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::IngressKind;
    use crate::settings::Spoken::{H1, H2};

    #[test]
    fn protocols_are_those_of_the_server_and_of_alpn() {
        let whole = |tls, protocols: &[_]| {
            let (kind, protocols) = (IngressKind::Caddy, protocols.to_vec());
            let spec = IngressSettings { kind, tls, protocols, ..IngressSettings::default() };
            config(&spec, SocketAddr::from(([127, 0, 0, 1], 1)), 2)
        };
        let lines = whole(TlsVersion::V13, &[H1]).to_string().replace("},", "},\n");
        insta::assert_snapshot!(lines, @r#"
        {"admin":{"config":{"persist":false},
        "disabled":true},
        "apps":{"http":{"servers":{"ingress":{"automatic_https":{"disable":true},
        "idle_timeout":"60s","listen":["127.0.0.1:1"],"protocols":["h1"],"routes":[{"handle":[{"handler":"reverse_proxy","transport":{"compression":false,"dial_timeout":"5s","keep_alive":{"idle_timeout":"60s","max_idle_conns":0,"max_idle_conns_per_host":256},
        "protocol":"http","response_header_timeout":"30s","versions":["1.1"]},
        "upstreams":[{"dial":"127.0.0.1:2"}]}]}],"tls_connection_policies":[{"alpn":["http/1.1"],"curves":["x25519","secp256r1","secp384r1"],"protocol_max":"tls1.3","protocol_min":"tls1.3"}]}}},
        "tls":{"certificates":{"load_files":[{"certificate":"leaf.pem","key":"key.pem"}]},
        "disable_ocsp_stapling":true,"session_tickets":{"disabled":false}}},
        "logging":{"logs":{"default":{"level":"ERROR"}}},
        "storage":{"module":"file_system","root":"storage"}}
        "#);
        let protocols = |tls, protocols: &[_]| {
            let server = &whole(tls, protocols)["apps"]["http"]["servers"]["ingress"];
            format!("{} {}", server["protocols"], server["tls_connection_policies"][0]["alpn"])
        };
        assert_eq!(protocols(TlsVersion::V13, &[H1, H2]), r#"["h1","h2"] ["h2","http/1.1"]"#);
        assert_eq!(protocols(TlsVersion::None, &[H1, H2]), r#"["h1","h2c"] null"#);
    }
}
