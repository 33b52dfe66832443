//! The settings of a load as the command line of a tool.

use std::path::{Path, PathBuf};

use plumb_host::Error;
use plumb_model::{Bytes, Span};
use plumb_path::tool::{self, Invocation};
use serde_json::json;

use super::abilities::window_bits;
use crate::settings::{Driver, LoadProtocol, LoadSettings, Reuse, TlsVersion};
use crate::url::Url;

/// ab keeps 40 bytes for each request that it may make, and stops after that many.
const AB_REQUESTS_MAX: u64 = 2_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Has k6 count its requests by protocol: a summary shows only those tags of a metric that have a threshold. Thresholds of a script
/// replace these.
const K6_CONFIG: &str =
    r#"{"thresholds":{"http_reqs{proto:HTTP/1.1}":["count>=0"],"http_reqs{proto:HTTP/2.0}":["count>=0"]}}"#;
/// Where vegeta writes the time of each request.
pub(super) const VEGETA_RESULTS: &str = "vegeta.bin";

/// The tool is to run for this long, to the next whole second, as most tools know no others.
pub(super) fn invocation(
    settings: &LoadSettings,
    url: &Url,
    window_ns: u64,
    scratch: &Path,
) -> Result<Invocation, Error> {
    let seconds = tool::whole_seconds(window_ns);
    let address = address(settings, url);
    let (mut arguments, output) = match settings.driver {
        Driver::Native => (Vec::new(), None),
        Driver::Wrk => (wrk(settings, seconds), None),
        Driver::Ab => (ab(settings, seconds), None),
        Driver::H2load => (h2load(settings, seconds), None),
        Driver::K6 => k6(settings, &address, seconds, scratch)?,
        Driver::Vegeta => (vegeta(settings, &address, seconds, scratch)?, None),
        Driver::Oha => (oha(settings, seconds), None),
    };
    arguments.extend(settings.options.iter().cloned());
    if !matches!(settings.driver, Driver::K6 | Driver::Vegeta) {
        arguments.push(address);
    }
    let passing = vec![url.authority.clone(), scratch.display().to_string()];
    // k6 speaks h2 wherever the server does, and has no option against it (grafana/k6#936).
    let is_kept = settings.driver == Driver::K6 && settings.protocol == LoadProtocol::H1;
    let environment = is_kept.then(|| ("GODEBUG", "http2client=0".to_owned())).into_iter().collect();
    Ok(Invocation {
        arguments,
        output,
        environment,
        inherited: vec!["K6_BROWSER_ENABLED"],
        passing,
        ..Invocation::default()
    })
}

fn address(settings: &LoadSettings, url: &Url) -> String {
    let scheme = if url.is_tls { "https" } else { "http" };
    let path = crate::load::request::path(settings, url);
    format!("{scheme}://{}{path}", url.authority)
}

fn owned<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// Headers as `-H` takes them, with `Connection: close` where each request is to have its own connection.
fn headers(settings: &LoadSettings, closes: bool) -> Vec<String> {
    let host = settings.host.iter().map(|host| format!("Host: {host}"));
    let others = settings.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    let close = (closes && settings.reuse == Reuse::None).then(|| "Connection: close".to_owned());
    host.chain(others).chain(close).flat_map(|header| ["-H".to_owned(), header]).collect()
}

fn wrk(settings: &LoadSettings, seconds: u64) -> Vec<String> {
    let mut arguments = owned(["--latency", "-t"]);
    arguments.push(settings.threads.to_string());
    arguments.extend(["-c".to_owned(), settings.connections.to_string()]);
    arguments.extend(["-d".to_owned(), format!("{seconds}s")]);
    arguments.extend(["--timeout".to_owned(), format!("{}s", whole_seconds(settings.timeout))]);
    arguments.extend(headers(settings, true));
    arguments
}

fn ab(settings: &LoadSettings, seconds: u64) -> Vec<String> {
    let mut arguments = owned(["-q", "-l", "-r"]);
    arguments.extend(["-c".to_owned(), settings.connections.to_string()]);
    arguments.extend(["-t".to_owned(), seconds.to_string(), "-n".to_owned(), AB_REQUESTS_MAX.to_string()]);
    arguments.extend(["-s".to_owned(), whole_seconds(settings.timeout).to_string()]);
    if settings.reuse == Reuse::KeepAlive {
        arguments.push("-k".to_owned());
    }
    let version = match settings.tls {
        Some(TlsVersion::V12) => Some("TLS1.2"),
        Some(TlsVersion::V13) => Some("TLS1.3"),
        Some(TlsVersion::None) | None => None,
    };
    arguments.extend(version.into_iter().flat_map(|version| ["-f".to_owned(), version.to_owned()]));
    arguments.extend(settings.cipher.iter().flat_map(|cipher| ["-Z".to_owned(), cipher.clone()]));
    arguments.extend(headers(settings, false));
    arguments
}

fn h2load(settings: &LoadSettings, seconds: u64) -> Vec<String> {
    let mut arguments = match settings.protocol {
        LoadProtocol::H1 => owned(["--h1"]),
        LoadProtocol::H2 | LoadProtocol::H3 | LoadProtocol::Auto => {
            vec!["-m".to_owned(), settings.streams.to_string()]
        }
    };
    arguments.extend(["-t".to_owned(), settings.threads.to_string()]);
    arguments.extend(["-c".to_owned(), settings.connections.to_string()]);
    arguments.extend(["-D".to_owned(), seconds.to_string()]);
    arguments.extend(announced(settings));
    arguments.extend(settings.cipher.iter().map(|cipher| format!("--ciphers={cipher}")));
    arguments.extend(headers(settings, false));
    arguments
}

/// Options for the settings that differ from the defaults. h2load has the same defaults.
fn announced(settings: &LoadSettings) -> impl Iterator<Item = String> {
    let default = LoadSettings::default();
    let bits = |name: &str, window: Bytes, default: Bytes| {
        let bits = window_bits(window).filter(|_| window != default)?;
        Some(format!("--{name}-bits={bits}"))
    };
    let bytes = |name: &str, value: Bytes, default: Bytes| {
        (value != default).then(|| format!("--{name}-size={}", value.0))
    };
    [
        bits("connection-window", settings.windows.connection, default.windows.connection),
        bits("window", settings.windows.stream, default.windows.stream),
        bytes("max-frame", settings.max_frame, default.max_frame),
        bytes("header-table", settings.header_table, default.header_table),
    ]
    .into_iter()
    .flatten()
}

/// k6 runs the user's script, or one that makes the requests that the settings ask for.
fn k6(
    settings: &LoadSettings,
    address: &str,
    seconds: u64,
    scratch: &Path,
) -> Result<(Vec<String>, Option<PathBuf>), Error> {
    let summary = scratch.join("k6-summary.json");
    let script = match &settings.script {
        Some(script) => PathBuf::from(script),
        None => {
            let path = scratch.join("plumb.js");
            written(&path, &script_of(settings, seconds))?;
            path
        }
    };
    let config = scratch.join("k6-config.json");
    written(&config, K6_CONFIG)?;
    let mut arguments = owned(["run", "--quiet", "--no-color", "--no-usage-report"]);
    arguments.push(format!("--config={}", config.display()));
    arguments.push(format!("--summary-export={}", summary.display()));
    arguments.push("--summary-trend-stats=avg,min,med,max,p(90),p(95),p(99),p(99.9)".to_owned());
    arguments.extend(["--address".to_owned(), String::new()]);
    arguments.extend(["-e".to_owned(), format!("URL={address}")]);
    arguments.push(script.display().to_string());
    Ok((arguments, Some(summary)))
}

/// vegeta reads what to ask for from a file.
fn vegeta(
    settings: &LoadSettings,
    address: &str,
    seconds: u64,
    scratch: &Path,
) -> Result<Vec<String>, Error> {
    let targets = scratch.join("vegeta-targets");
    written(&targets, &format!("{} {address}\n", settings.method))?;
    let rate = settings.rate.map_or("0".to_owned(), |rate| format!("{}/1s", rate.0.round()));
    // How many CPUs it uses stands before the command.
    let mut arguments = vec![format!("-cpus={}", settings.threads)];
    arguments.extend(owned(["attack", "-insecure", "-http2=false"]));
    arguments.push(format!("-duration={seconds}s"));
    arguments.push(format!("-rate={rate}"));
    // As many workers as connections, from the start on and at most.
    arguments.extend(
        ["workers", "max-workers", "connections"].map(|key| format!("-{key}={}", settings.connections)),
    );
    arguments.push(format!("-timeout={}s", whole_seconds(settings.timeout)));
    arguments.push(format!("-keepalive={}", settings.reuse == Reuse::KeepAlive));
    arguments.push(format!("-targets={}", targets.display()));
    arguments.push(format!("-output={}", scratch.join(VEGETA_RESULTS).display()));
    if let Some(body) = &settings.body {
        let path = scratch.join("vegeta-body");
        written(&path, body)?;
        arguments.push(format!("-body={}", path.display()));
    }
    let pairs = headers(settings, false);
    let values = pairs.chunks(2).filter_map(|pair| pair.get(1));
    arguments.extend(values.map(|header| format!("-header={header}")));
    Ok(arguments)
}

fn written(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|cause| Error::Write { path: path.to_owned(), cause })
}

fn oha(settings: &LoadSettings, seconds: u64) -> Vec<String> {
    let mut arguments = owned(["--no-tui", "--output-format", "json", "--insecure", "--http-version"]);
    match settings.protocol {
        LoadProtocol::H1 | LoadProtocol::Auto => arguments.push("1.1".to_owned()),
        LoadProtocol::H2 | LoadProtocol::H3 => {
            arguments.extend(["2".to_owned(), "-p".to_owned(), settings.streams.to_string()])
        }
    }
    arguments.extend(["-z".to_owned(), format!("{seconds}s")]);
    arguments.extend(["-c".to_owned(), settings.connections.to_string()]);
    arguments.extend(["-t".to_owned(), format!("{}s", whole_seconds(settings.timeout))]);
    arguments.extend(["-m".to_owned(), settings.method.clone()]);
    arguments.extend(settings.body.iter().flat_map(|body| ["-d".to_owned(), body.clone()]));
    arguments.extend(settings.rate.iter().flat_map(|rate| ["-q".to_owned(), format!("{}", rate.0.round())]));
    if settings.reuse == Reuse::None {
        arguments.push("--disable-keepalive".to_owned());
    }
    arguments.extend(headers(settings, false));
    arguments
}

fn script_of(settings: &LoadSettings, seconds: u64) -> String {
    let version = match settings.tls {
        Some(TlsVersion::V12) => Some("tls1.2"),
        Some(TlsVersion::V13) => Some("tls1.3"),
        Some(TlsVersion::None) | None => None,
    };
    let mut options = json!({
        "vus": settings.connections,
        "duration": format!("{seconds}s"),
        "insecureSkipTLSVerify": true,
        "noConnectionReuse": settings.reuse == Reuse::None,
        "discardResponseBodies": true,
        "summaryTimeUnit": "ms",
    });
    if let Some(version) = version {
        options["tlsVersion"] = json!(version);
    }
    let mut headers = settings.headers.clone();
    headers.extend(settings.host.iter().map(|host| ("Host".to_owned(), host.clone())));
    let parameters = json!({
        "headers": headers,
        "timeout": format!("{}s", whole_seconds(settings.timeout)),
    });
    format!(
        "import http from 'k6/http';\nexport const options = {options};\nexport default function () {{\n  \
         http.request({}, __ENV.URL, {}, {parameters});\n}}\n",
        json!(settings.method),
        settings.body.as_ref().map_or(json!(null), |body| json!(body))
    )
}

fn whole_seconds(span: Span) -> u64 {
    span.0.div_ceil(SECOND_NS).max(1)
}

#[cfg(test)]
mod tests {
    use plumb_model::Rate;

    use super::*;

    fn arguments(driver: Driver, change: impl Fn(&mut LoadSettings)) -> String {
        let mut settings = LoadSettings { driver, connections: 20, ..LoadSettings::default() };
        change(&mut settings);
        let url = Url::parse("https://127.0.0.1:8443/x").unwrap();
        let scratch = tempfile::tempdir().unwrap();
        invocation(&settings, &url, 1_500_000_000, scratch.path()).unwrap().arguments.join(" ")
    }

    #[test]
    fn settings_become_options() {
        assert_eq!(
            arguments(Driver::Wrk, |settings| settings.reuse = Reuse::None),
            "--latency -t 1 -c 20 -d 2s --timeout 30s -H Connection: close https://127.0.0.1:8443/x"
        );
        assert_eq!(
            arguments(Driver::Ab, |settings| {
                settings.tls = Some(TlsVersion::V12);
                settings.cipher = Some("ECDHE-RSA-AES256-GCM-SHA384".to_owned());
            }),
            "-q -l -r -c 20 -t 2 -n 2000000 -s 30 -k -f TLS1.2 -Z ECDHE-RSA-AES256-GCM-SHA384 https://127.0.0.1:8443/x"
        );
        assert_eq!(
            arguments(Driver::Oha, |settings| {
                settings.reuse = Reuse::None;
                settings.rate = Some(Rate(50.0));
            }),
            "--no-tui --output-format json --insecure --http-version 1.1 -z 2s -c 20 -t 30s -m GET -q 50 --disable-keepalive \
             https://127.0.0.1:8443/x"
        );
        assert_eq!(
            arguments(Driver::Oha, |settings| {
                settings.protocol = LoadProtocol::H2;
                settings.streams = 8;
            }),
            "--no-tui --output-format json --insecure --http-version 2 -p 8 -z 2s -c 20 -t 30s -m GET https://127.0.0.1:8443/x"
        );
        let of_vegeta = arguments(Driver::Vegeta, |settings| settings.rate = Some(Rate(50.0)));
        assert!(
            of_vegeta.starts_with(
                "-cpus=1 attack -insecure -http2=false -duration=2s -rate=50/1s -workers=20 -max-workers=20 -connections=20"
            ),
            "{of_vegeta}"
        );
        assert_eq!(
            arguments(Driver::H2load, |settings| settings.options = vec!["--rate=5".to_owned()]),
            "--h1 -t 1 -c 20 -D 2 --rate=5 https://127.0.0.1:8443/x"
        );
        assert_eq!(
            arguments(Driver::H2load, |settings| {
                settings.protocol = LoadProtocol::H2;
                settings.streams = 8;
            }),
            "-m 8 -t 1 -c 20 -D 2 https://127.0.0.1:8443/x"
        );
        assert_eq!(
            arguments(Driver::H2load, |settings| {
                settings.protocol = LoadProtocol::H2;
                settings.windows.stream = Bytes((16 << 10) - 1);
                settings.max_frame = Bytes(1 << 20);
                settings.header_table = Bytes(0);
            }),
            "-m 1 -t 1 -c 20 -D 2 --window-bits=14 --max-frame-size=1048576 --header-table-size=0 https://127.0.0.1:8443/x"
        );
    }

    #[test]
    fn k6_is_kept_from_h2_unless_the_load_asks_for_it() {
        let environment = |driver, protocol| {
            let settings = LoadSettings { driver, protocol, ..LoadSettings::default() };
            let url = Url::parse("https://127.0.0.1:8443/x").unwrap();
            let scratch = tempfile::tempdir().unwrap();
            invocation(&settings, &url, 1_500_000_000, scratch.path()).unwrap().environment
        };
        assert_eq!(environment(Driver::K6, LoadProtocol::H1), [("GODEBUG", "http2client=0".to_owned())]);
        assert_eq!(environment(Driver::K6, LoadProtocol::H2), []);
        assert_eq!(environment(Driver::Oha, LoadProtocol::H1), []);
    }

    #[test]
    fn a_script_of_k6_asks_for_what_the_settings_say() {
        let settings = LoadSettings {
            driver: Driver::K6,
            reuse: Reuse::None,
            tls: Some(TlsVersion::V13),
            body: Some("a \"b\"".to_owned()),
            method: "POST".to_owned(),
            host: Some("a.example".to_owned()),
            ..LoadSettings::default()
        };
        let script = script_of(&settings, 3);
        assert!(
            script.contains("\"noConnectionReuse\":true") && script.contains("\"tlsVersion\":\"tls1.3\""),
            "{script}"
        );
        assert!(script.contains("http.request(\"POST\", __ENV.URL, \"a \\\"b\\\"\","), "{script}");
        assert!(script.contains("\"headers\":{\"Host\":\"a.example\"}"), "{script}");
        assert!(script.contains("\"duration\":\"3s\"") && script.contains("\"vus\":10"), "{script}");
    }
}
