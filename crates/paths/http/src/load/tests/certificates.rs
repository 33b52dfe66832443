//! Certificates as people make them by hand, which curl accepts: against a server on OpenSSL.

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{SslAcceptor, SslMethod, SslVerifyMode};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509Name};

use super::*;
use crate::settings::TlsVersion;

const PAST: &str = "20200101000000Z";
const FUTURE: &str = "20990101000000Z";

/// A certificate with its key.
struct Made(X509, PKey<Private>);

impl Made {
    fn pem(&self) -> String {
        String::from_utf8(self.0.to_pem().unwrap()).unwrap()
    }
}

fn elliptic() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn rsa() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap()
}

/// A certificate for `name`, signed by `by` or by itself. One of version 1 has no extensions, as `openssl x509 -req` made it
/// for years; one of version 3 is an authority for 127.0.0.1, as `openssl req -x509 -addext` makes it.
fn certificate(name: &str, key: PKey<Private>, version: i32, valid: [&str; 2], by: Option<&Made>) -> Made {
    let mut subject = X509Name::builder().unwrap();
    subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
    let subject = subject.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(version - 1).unwrap();
    builder.set_serial_number(&BigNum::from_u32(7).unwrap().to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&subject).unwrap();
    builder.set_issuer_name(by.map_or(&*subject, |by| by.0.subject_name())).unwrap();
    builder.set_pubkey(&key).unwrap();
    let [from, to] = valid.map(|time| Asn1Time::from_str(time).unwrap());
    builder.set_not_before(&from).unwrap();
    builder.set_not_after(&to).unwrap();
    if version == 3 {
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        let address =
            SubjectAlternativeName::new().ip("127.0.0.1").build(&builder.x509v3_context(None, None));
        builder.append_extension(address.unwrap()).unwrap();
    }
    builder.sign(by.map_or(&key, |by| &by.1), MessageDigest::sha256()).unwrap();
    Made(builder.build(), key)
}

fn self_signed() -> Made {
    certificate("self", elliptic(), 3, [PAST, FUTURE], None)
}

/// A server with a certificate, which asks clients for one of `clients`.
fn server(own: &Made, clients: Option<&Made>) -> Server {
    let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    acceptor.set_certificate(&own.0).unwrap();
    acceptor.set_private_key(&own.1).unwrap();
    if let Some(authority) = clients {
        let mut store = X509StoreBuilder::new().unwrap();
        store.add_cert(authority.0.clone()).unwrap();
        acceptor.set_cert_store(store.build());
        acceptor.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    }
    let acceptor = acceptor.build();
    Server::start_with(
        "https",
        move |stream| {
            acceptor
                .accept(stream)
                .map_or_else(|_| Box::new(std::io::Cursor::new(Vec::new())) as _, |it| Box::new(it) as _)
        },
        |conversation| {
            while conversation.request().is_some() {
                conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        },
    )
}

fn few(tls: TlsVersion) -> LoadSettings {
    LoadSettings { tls: Some(tls), requests: Some(4), duration: Span(60_000 * MS), ..fresh_connections() }
}

fn check_good(spec: &LoadSettings, server: &Server, ca: &Made) {
    let measurement = measure_trusting(spec, &server.url, Some(ca.pem()));
    assert_eq!((measurement.work, measurement.errors), (4, [].into()), "{:?}", spec.tls);
}

fn why(spec: &LoadSettings, server: &Server, ca: &Made) -> String {
    let measurement =
        measure_trusting(&LoadSettings { requests: Some(1), ..spec.clone() }, &server.url, Some(ca.pem()));
    assert_eq!(measurement.work, 0);
    measurement.errors.into_keys().next().unwrap()
}

#[test]
fn a_certificate_that_signs_itself_is_trusted_where_it_is_named() {
    let own = self_signed();
    let server = server(&own, None);
    for tls in [TlsVersion::V12, TlsVersion::V13] {
        check_good(&few(tls), &server, &own);
        let other = why(&few(tls), &server, &self_signed());
        assert!(
            other.contains("not trusted: ") && other.contains("--ca") && other.contains("--insecure"),
            "{other}"
        );
    }
}

#[test]
fn a_certificate_of_version_1_is_accepted_from_a_server() {
    let authority = self_signed();
    for key in [elliptic(), rsa()] {
        // Its name is in the common name only.
        let server = server(&certificate("v1.example", key, 1, [PAST, FUTURE], Some(&authority)), None);
        for tls in [TlsVersion::V12, TlsVersion::V13] {
            let spec = LoadSettings { sni: Some("v1.example".to_owned()), ..few(tls) };
            check_good(&spec, &server, &authority);
        }
    }
}

#[test]
fn a_certificate_of_version_1_is_shown_to_a_server() {
    let authority = self_signed();
    let own = certificate("client", rsa(), 1, [PAST, FUTURE], Some(&authority));
    let server = server(&authority, Some(&authority));
    let file = tempfile::NamedTempFile::new().unwrap();
    let key = own.1.private_key_to_pem_pkcs8().unwrap();
    std::fs::write(file.path(), [own.pem().as_bytes(), &key].concat()).unwrap();
    let client_certificate = Some(file.path().to_str().unwrap().to_owned());
    for tls in [TlsVersion::V12, TlsVersion::V13] {
        let spec = LoadSettings { client_certificate: client_certificate.clone(), ..few(tls) };
        check_good(&spec, &server, &authority);
    }
    // A key that belongs to another certificate is found before anything is sent.
    std::fs::write(file.path(), [authority.pem().as_bytes(), &key].concat()).unwrap();
    let target = Target { url: server.url.clone(), ca_pem: Some(authority.pem()), ..Target::default() };
    let spec = LoadSettings { client_certificate, ..spec() };
    let error = http_load(&spec, &target).err().unwrap().to_string();
    assert!(error.contains("does not match its key"), "{error}");
}

#[test]
fn what_is_wrong_with_a_certificate_is_told_with_the_flag_that_helps() {
    let authority = self_signed();
    let with = |valid| server(&certificate("x", elliptic(), 3, valid, Some(&authority)), None);
    let expired = why(&few(TlsVersion::V13), &with([PAST, "20200102000000Z"]), &authority);
    assert_eq!(expired, "tls: certificate expired; accept any certificate with --insecure (load.insecure)");
    let early = why(&few(TlsVersion::V13), &with([FUTURE, "21000101000000Z"]), &authority);
    assert!(early.starts_with("tls: certificate not valid yet") && early.contains("clock"), "{early}");
}
