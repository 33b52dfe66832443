//! Names of cipher suites and key-exchange groups, which TLS library has them, and names of protocols.
//!
//! A cipher suite has two names in use, IANA's and OpenSSL's; both are understood. rustls comes first, as it costs
//! the load less; OpenSSL stands in for what rustls leaves out.

use std::borrow::Cow;

use openssl::ssl::{Ssl, SslContext, SslMethod};
use plumb_model::name::suggestion;
use rustls::SupportedCipherSuite;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};

use crate::settings::Spoken;

/// A name that neither library knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No cipher suite has it.
    #[error("`{name}` is not a cipher suite; {}", nearest(.near.as_deref()))]
    Cipher {
        /// The name.
        name: String,
        /// The known name that it resembles.
        near: Option<String>,
    },
    /// No key-exchange group has it.
    #[error(
        "`{_0}` is not a key-exchange group; {}",
        suggestion(_0, GROUPS.iter().map(|(names, _)| names[0]))
    )]
    Group(String),
}

fn nearest(name: Option<&str>) -> Cow<'static, str> {
    match name {
        Some(name) => format!("did you mean `{name}`?").into(),
        None => "`openssl ciphers -stdname` lists the known ones".into(),
    }
}

/// A cipher suite that was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Cipher {
    /// OpenSSL's name; for TLS 1.3 the same as IANA's.
    pub openssl: String,
    /// Whether it belongs to TLS 1.3, and so to no earlier version.
    pub is_tls13: bool,
    /// rustls's suite, if it has it.
    pub rustls: Option<SupportedCipherSuite>,
}

/// A key-exchange group that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// OpenSSL's name; `None` where it lacks the group.
    pub openssl: Option<&'static str>,
    /// rustls's group; `None` where it lacks it.
    pub rustls: Option<&'static dyn SupportedKxGroup>,
}

/// rustls's suites by their two names.
const RUSTLS_SUITES: [(&str, &str, SupportedCipherSuite); 9] = {
    use cipher_suite as suite;
    [
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
        (
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_CHACHA20_POLY1305_SHA256",
            suite::TLS13_CHACHA20_POLY1305_SHA256,
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        (
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
            suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
            suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
            suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
    ]
};

/// IANA's name of a suite of rustls.
#[must_use]
pub fn iana_name(suite: SupportedCipherSuite) -> &'static str {
    RUSTLS_SUITES.iter().find(|(_, _, known)| *known == suite).map_or("unknown", |(iana, ..)| iana)
}

/// The cipher suite of that name.
///
/// # Errors
/// When neither library knows it.
pub fn cipher(name: &str) -> Result<Cipher, NameError> {
    let matches = |known: &str| known.eq_ignore_ascii_case(name);
    if let Some((_, openssl, suite)) =
        RUSTLS_SUITES.iter().find(|(iana, openssl, _)| matches(iana) || matches(openssl))
    {
        let openssl = (*openssl).to_owned();
        return Ok(Cipher { openssl, is_tls13: suite.tls13().is_some(), rustls: Some(*suite) });
    }
    let known = openssl_ciphers();
    if let Some(cipher) = known.iter().find(|cipher| matches(&cipher.iana) || matches(&cipher.openssl)) {
        return Ok(Cipher { openssl: cipher.openssl.clone(), is_tls13: cipher.is_tls13, rustls: None });
    }
    let names = || known.iter().flat_map(|cipher| [cipher.iana.as_str(), cipher.openssl.as_str()]);
    let near = plumb_model::name::did_you_mean(name, names()).map(str::to_owned);
    Err(NameError::Cipher { name: name.to_owned(), near })
}

/// The name under which a cipher suite is reported, IANA's, from OpenSSL's name for it.
#[must_use]
pub fn reported_cipher(name: &str) -> String {
    let known = openssl_ciphers();
    let named = known.iter().find(|cipher| cipher.openssl.eq_ignore_ascii_case(name));
    named.map_or(name, |cipher| &cipher.iana).to_owned()
}

struct OpensslCipher {
    iana: String,
    openssl: String,
    is_tls13: bool,
}

/// Every suite that the OpenSSL on this host knows: those of all code points for which it has a name.
fn openssl_ciphers() -> Vec<OpensslCipher> {
    let code_points: Vec<u8> = (0..=u16::MAX)
        .filter(|code| matches!(code >> 8, 0 | 0x13 | 0xc0 | 0xcc))
        .flat_map(u16::to_be_bytes)
        .collect();
    let suites = SslContext::builder(SslMethod::tls())
        .and_then(|context| Ssl::new(&context.build()))
        .and_then(|ssl| ssl.bytes_to_cipher_list(&code_points, false));
    let Ok(lists) = suites else { return Vec::new() };
    lists
        .suites
        .iter()
        .map(|cipher| OpensslCipher {
            iana: cipher.standard_name().unwrap_or(cipher.name()).to_owned(),
            openssl: cipher.name().to_owned(),
            is_tls13: cipher.version() == "TLSv1.3",
        })
        .collect()
}

/// Groups by the names in use, the first of each row being the one that is shown.
const GROUPS: [(&[&str], Group); 11] = [
    (&["x25519"], group(Some("X25519"), Some(kx_group::X25519))),
    (&["secp256r1", "prime256v1", "P-256"], group(Some("prime256v1"), Some(kx_group::SECP256R1))),
    (&["secp384r1", "P-384"], group(Some("secp384r1"), Some(kx_group::SECP384R1))),
    (&["secp521r1", "P-521"], group(Some("secp521r1"), None)),
    (&["x448"], group(Some("X448"), None)),
    (&["ffdhe2048"], group(Some("ffdhe2048"), None)),
    (&["ffdhe3072"], group(Some("ffdhe3072"), None)),
    (&["ffdhe4096"], group(Some("ffdhe4096"), None)),
    (&["X25519MLKEM768"], group(None, Some(kx_group::X25519MLKEM768))),
    (&["SecP256r1MLKEM768"], group(None, Some(kx_group::SECP256R1MLKEM768))),
    (&["MLKEM768"], group(None, Some(kx_group::MLKEM768))),
];

const fn group(openssl: Option<&'static str>, rustls: Option<&'static dyn SupportedKxGroup>) -> Group {
    Group { openssl, rustls }
}

/// The key-exchange group of that name.
///
/// # Errors
/// When neither library knows it.
pub fn key_exchange_group(name: &str) -> Result<Group, NameError> {
    let row = GROUPS.iter().find(|(names, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
    row.map(|(_, group)| *group).ok_or_else(|| NameError::Group(name.to_owned()))
}

/// The name under which a group is reported, from the one that a library uses for it.
#[must_use]
pub fn reported_group(name: &str) -> String {
    let row = GROUPS.iter().find(|(names, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
    row.map_or_else(|| name.to_owned(), |(names, _)| names[0].to_owned())
}

/// Whether two names mean the same cipher suite, whichever library's they are.
#[must_use]
pub fn is_same_cipher(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
        || matches!((cipher(one), cipher(other)), (Ok(one), Ok(other)) if one.openssl == other.openssl)
}

/// Whether two names mean the same key-exchange group.
#[must_use]
pub fn is_same_group(one: &str, other: &str) -> bool {
    reported_group(one).eq_ignore_ascii_case(&reported_group(other))
}

/// Whether a tool's name for a protocol means this one. `h2c` is HTTP/2 without TLS.
pub fn is_same_protocol(spoken: Spoken, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    match spoken {
        Spoken::H1 => matches!(name.as_str(), "http/1.1" | "http/1.0"),
        Spoken::H2 => matches!(name.as_str(), "h2" | "h2c" | "http/2.0"),
        Spoken::H3 => matches!(name.as_str(), "h3" | "http/3" | "http/3.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_of_a_suite_mean_the_same() {
        let pairs = [
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", true),
            ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256", false),
            ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA", false),
        ];
        for (iana, openssl, is_in_rustls) in pairs {
            let cipher = cipher(iana).unwrap();
            assert_eq!(cipher, super::cipher(openssl).unwrap());
            assert_eq!((cipher.rustls.is_some(), cipher.is_tls13), (is_in_rustls, false), "{iana}");
            assert_eq!(cipher.openssl, openssl);
            assert_eq!([iana, openssl].map(reported_cipher), [iana, iana]);
        }
        assert!(cipher("TLS_AES_128_CCM_SHA256").unwrap().is_tls13);
        assert!(cipher("tls_aes_128_gcm_sha256").unwrap().is_tls13);
    }

    #[test]
    fn every_suite_of_the_table_is_named_as_openssl_names_it() {
        let known = openssl_ciphers();
        for (iana, openssl, suite) in RUSTLS_SUITES {
            let cipher = known.iter().find(|cipher| cipher.iana == iana).unwrap();
            assert_eq!((cipher.openssl.as_str(), cipher.is_tls13), (openssl, suite.tls13().is_some()));
            assert_eq!(iana_name(suite), iana);
        }
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        let errors = [
            cipher("ECDHE-RSA-AES256-GCM-SHA385").unwrap_err(),
            cipher("rot13").unwrap_err(),
            key_exchange_group("x25520").unwrap_err(),
            key_exchange_group("p").unwrap_err(),
        ];
        insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n"), @r"
        `ECDHE-RSA-AES256-GCM-SHA385` is not a cipher suite; did you mean `ECDHE-RSA-AES256-GCM-SHA384`?
        `rot13` is not a cipher suite; `openssl ciphers -stdname` lists the known ones
        `x25520` is not a key-exchange group; did you mean `x25519`?
        `p` is not a key-exchange group; known: x25519, secp256r1, secp384r1, secp521r1, x448, ffdhe2048, ffdhe3072, ffdhe4096, X25519MLKEM768, SecP256r1MLKEM768, MLKEM768
        ");
    }
}
