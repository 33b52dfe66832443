//! TLS against a server on rustls whose settings a test chooses.

mod auto;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumb_model::{NoticeKind, Percent};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, version};

use super::*;
use crate::settings::TlsVersion;

/// An authority, and certificates by it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        // Its name is its own, so that no other one's certificate is taken for one of its.
        params.distinguished_name.push(DnType::CommonName, format!("{:02x?}", &key.public_key_raw()[1..9]));
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn certify(&self, name: &str) -> (Vec<CertificateDer<'static>>, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (vec![certificate.der().clone()], key)
    }
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::try_from(key.serialize_der()).unwrap()
}

struct Settings {
    versions: Vec<&'static rustls::SupportedProtocolVersion>,
    provider: CryptoProvider,
    name: &'static str,
    asks_client: bool,
    alpn: Vec<Vec<u8>>,
    /// The name that the first connection has instead of `alpn`.
    first_alpn: Option<&'static str>,
    refuses_sessions: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            versions: vec![&version::TLS12, &version::TLS13],
            provider: aws_lc_rs::default_provider(),
            name: "127.0.0.1",
            asks_client: false,
            alpn: Vec::new(),
            first_alpn: None,
            refuses_sessions: false,
        }
    }
}

fn server(authority: &Authority, settings: Settings) -> Server {
    let provider = Arc::new(settings.provider);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&settings.versions)
        .unwrap();
    let builder = if settings.asks_client {
        let mut roots = RootCertStore::empty();
        roots.add(authority.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let (chain, key) = authority.certify(settings.name);
    let mut config = builder.with_single_cert(chain, private(&key)).unwrap();
    config.alpn_protocols = settings.alpn;
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    let (config, is_first) = (Arc::new(config), AtomicBool::new(true));
    Server::start_with(
        "https",
        move |stream| {
            let mut config = Arc::clone(&config);
            if settings.refuses_sessions {
                // Tickets are given out, under a key that no later connection knows.
                let config = Arc::make_mut(&mut config);
                config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
                config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
            }
            if is_first.swap(false, Ordering::SeqCst)
                && let Some(alpn) = settings.first_alpn
            {
                Arc::make_mut(&mut config).alpn_protocols = vec![alpn.into()];
            }
            Box::new(StreamOwned::new(ServerConnection::new(config).unwrap(), stream))
        },
        |conversation| {
            while let Some(head) = conversation.request() {
                let closes = head.contains("Connection: close");
                let connection = if closes { "Connection: close\r\n" } else { "" };
                let answer = format!("HTTP/1.1 200 OK\r\n{connection}Content-Length: 2\r\n\r\nok");
                if !conversation.say(&answer) || closes {
                    return;
                }
            }
        },
    )
}

fn run(spec: &LoadSettings, authority: &Authority, settings: Settings) -> Measurement {
    let server = server(authority, settings);
    measure_trusting(spec, &server.url, Some(authority.pem()))
}

fn failure(spec: &LoadSettings, authority: &Authority, settings: Settings) -> String {
    let measurement = run(spec, authority, settings);
    assert_eq!((measurement.work, measurement.errors.len()), (0, 1), "{:?}", measurement.errors);
    measurement.errors.into_keys().next().unwrap()
}

/// The only observed value of a property.
fn only(measurement: &Measurement, property: &str) -> String {
    let values: Vec<&String> = measurement.observed[property].keys().collect();
    assert_eq!(values.len(), 1, "{property}: {values:?}");
    values[0].clone()
}

#[test]
fn exactly_what_is_asked_for_is_negotiated() {
    let authority = Authority::new();
    let cases = [
        (
            TlsVersion::V12,
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "secp384r1",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        ),
        (
            TlsVersion::V12,
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "x25519",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        ),
        (TlsVersion::V13, "TLS_AES_128_GCM_SHA256", "secp256r1", "TLS_AES_128_GCM_SHA256"),
        (TlsVersion::V13, "TLS_AES_256_GCM_SHA384", "X25519MLKEM768", "TLS_AES_256_GCM_SHA384"),
    ];
    for (tls, cipher, group, iana) in cases {
        let own = |text: &str| Some(text.to_owned());
        let spec =
            LoadSettings { tls: Some(tls), cipher: own(cipher), group: own(group), ..fresh_connections() };
        let measurement = run(&spec, &authority, Settings::default());
        assert!(measurement.work > 0, "{cipher}: {:?}", measurement.errors);
        assert_eq!(
            (only(&measurement, "cipher"), only(&measurement, "group")),
            (iana.to_owned(), group.to_owned())
        );
        let version = if tls == TlsVersion::V12 { "TLSv1.2" } else { "TLSv1.3" };
        assert_eq!(only(&measurement, "tls_version"), version);
        assert_eq!(only(&measurement, "alpn"), "none");
    }
}

#[test]
fn a_protocol_is_agreed_on_and_another_one_than_http1_is_refused() {
    let authority = Authority::new();
    let offers = |alpn: &str| LoadSettings {
        alpn: alpn.split(',').map(str::to_owned).collect(),
        ..fresh_connections()
    };
    let with = |alpn: &str| Settings { alpn: vec![alpn.as_bytes().to_vec()], ..Settings::default() };
    assert_eq!(only(&run(&offers("http/1.1"), &authority, with("http/1.1")), "alpn"), "http/1.1");
    assert_eq!(
        failure(&offers("h2,http/1.1"), &authority, with("h2")),
        "tls: the server chose a protocol other than HTTP/1.1; offer only `http/1.1`, or set --protocol h2 (load.protocol)"
    );
    let refused = failure(&offers("http/1.1"), &authority, with("h2"));
    assert_eq!(
        refused,
        "tls alert: no_application_protocol; check --protocol and --alpn (load.protocol, load.alpn)"
    );
}

#[test]
fn connections_in_use_are_observed_though_they_were_made_before_the_window() {
    let spec = LoadSettings { warmup: Span(1000 * MS), ..spec() };
    let measurement = run(&spec, &Authority::new(), Settings::default());
    assert_eq!(measurement.observed_count("tls_version", "TLSv1.3"), 2);
    assert_eq!(
        (count_of(&measurement, "handshakes_full"), count_of(&measurement, "handshakes_resumed")),
        (0, 0)
    );
    assert!(statistic_ms(&measurement, "http_req_tls_handshaking", Statistic::Max) < f64::EPSILON);
}

#[test]
fn certificates_are_verified_unless_any_will_do() {
    let authority = Authority::new();
    let server = server(&Authority::new(), Settings::default());
    let trusting = |spec: &LoadSettings| measure_trusting(spec, &server.url, Some(authority.pem()));
    let refused = trusting(&fresh_connections());
    assert_eq!(refused.work, 0);
    let why = refused.errors.keys().next().unwrap();
    assert!(why.starts_with("tls: certificate not trusted: ") && why.contains("--ca"), "{why}");
    assert!(trusting(&LoadSettings { insecure: true, ..fresh_connections() }).work > 0);
    let other = || Settings { name: "example.org", ..Settings::default() };
    let why = failure(&fresh_connections(), &authority, other());
    assert!(why.starts_with("tls: certificate for another name") && why.contains("--sni"), "{why}");
    let named = LoadSettings { sni: Some("example.org".to_owned()), ..fresh_connections() };
    assert!(run(&named, &authority, other()).work > 0);
}

#[test]
fn a_server_that_refuses_is_quoted_by_the_alert_that_it_sends() {
    let authority = Authority::new();
    let only_13 = || Settings { versions: vec![&version::TLS13], ..Settings::default() };
    let tls12 = LoadSettings { tls: Some(TlsVersion::V12), ..fresh_connections() };
    let version = "tls alert: protocol_version; check --tls (load.tls)";
    assert_eq!(failure(&tls12, &authority, only_13()), version);
    let openssl =
        LoadSettings { cipher: Some("ECDHE-ECDSA-AES128-SHA256".to_owned()), ..fresh_connections() };
    assert_eq!(failure(&openssl, &authority, only_13()), version);
    let none_shared = failure(&openssl, &authority, Settings::default());
    assert!(none_shared.starts_with("tls alert: handshake_failure; check --group"), "{none_shared}");
}

#[test]
fn a_client_certificate_is_shown_where_one_is_asked_for() {
    let authority = Authority::new();
    let asking = || Settings { asks_client: true, ..Settings::default() };
    let required = failure(&fresh_connections(), &authority, asking());
    assert!(required.starts_with("tls alert: certificate_required; name one"), "{required}");
    let (chain, key) = authority.certify("client");
    let chain = openssl::x509::X509::from_der(&chain[0]).unwrap().to_pem().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [chain, key.serialize_pem().into_bytes()].concat()).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let spec = LoadSettings { client_certificate: Some(path), ..fresh_connections() };
    assert!(run(&spec, &authority, asking()).work > 0);
}

#[test]
fn sessions_are_resumed_exactly_as_often_as_asked() {
    let authority = Authority::new();
    for (tls, share) in
        [(TlsVersion::V12, 0.0), (TlsVersion::V13, 0.0), (TlsVersion::V12, 0.25), (TlsVersion::V13, 0.75)]
    {
        let spec = LoadSettings {
            connections: 1,
            tls: Some(tls),
            resumption: Percent(share),
            warmup: Span(1000 * MS),
            requests: Some(200),
            duration: Span(60_000 * MS),
            ..fresh_connections()
        };
        let measurement = run(&spec, &authority, Settings::default());
        let resumed = count_of(&measurement, "handshakes_resumed");
        let full = count_of(&measurement, "handshakes_full");
        let expected = share * (resumed + full) as f64;
        assert!((resumed as f64 - expected).abs() <= 1.0, "{tls:?} {share}: {resumed} resumed, {full} full");
        assert_eq!(measurement.errors, [].into());
    }
}

#[test]
fn a_server_that_refuses_sessions_is_told_from_a_load_that_offers_none() {
    let authority = Authority::new();
    for tls in [TlsVersion::V12, TlsVersion::V13] {
        let spec = LoadSettings {
            tls: Some(tls),
            resumption: Percent(1.0),
            requests: Some(40),
            duration: Span(60_000 * MS),
            ..fresh_connections()
        };
        let refuses = Settings { refuses_sessions: true, ..Settings::default() };
        let measurement = run(&spec, &authority, refuses);
        let session = |value| measurement.observed_count("sessions", value);
        let full = count_of(&measurement, "handshakes_full");
        assert_eq!((session("accepted"), full), (0, 40), "{tls:?}");
        assert_eq!(session("offered") + session("none to offer"), 40, "{tls:?}");
        assert!(session("none to offer") <= 2, "one for each connection: {}", session("none to offer"));
        assert!(
            measurement.notices.iter().any(|it| it.kind == NoticeKind::FewResumptions),
            "{:?}",
            measurement.notices
        );
    }
}
