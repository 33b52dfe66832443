//! The offer of TLS, as the settings have it, and the parameters that both sides agreed on.

use std::path::Path;

use plumb_host::named_file;
use plumb_path::{PathError, SettingsFault};

use super::names::{self, Cipher, Group, NameError};
use crate::settings::{LoadProtocol, LoadSettings, Spoken, TlsVersion};
use crate::target::Target;
use crate::url::Url;

/// Which certificates are trusted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// All.
    Anything,
    /// Certificates that this host trusts.
    Host,
    /// Certificates signed by these authorities, in PEM.
    Authorities(Vec<u8>),
}

/// The offer to the server.
#[derive(Debug, Clone)]
pub struct Offer {
    /// Whether TLS 1.2 is offered.
    pub tls12: bool,
    /// Whether TLS 1.3 is offered.
    pub tls13: bool,
    /// The only cipher suite, or the library's own choice.
    pub cipher: Option<Cipher>,
    /// The only key-exchange group, or the default ones.
    pub group: Option<Group>,
    /// The name that the certificate must be for, and that is sent unless it is an address.
    pub server_name: String,
    /// Application protocols.
    pub alpn: Vec<String>,
    /// Which certificates are trusted.
    pub trust: Trust,
    /// PEM of the client's certificate chain and key.
    pub identity: Option<Vec<u8>>,
}

/// Checks what a load asks of TLS, and understands its names.
///
/// # Errors
/// The first fault.
pub fn check(spec: &LoadSettings) -> Result<(), SettingsFault> {
    versions_and_names(spec).map(drop)?;
    if spec.alpn.iter().any(|protocol| protocol.is_empty() || protocol.len() > 255) {
        return Err(SettingsFault::new(
            "load.alpn",
            "a protocol's name has 1 to 255 bytes, such as `http/1.1`",
        ));
    }
    let can_speak = |alpn: &String| {
        [Spoken::H1, Spoken::H2, Spoken::H3]
            .iter()
            .any(|one| spec.protocol.may_be(*one) && is_spoken(*one, alpn))
    };
    if !spec.alpn.is_empty() && !spec.alpn.iter().any(can_speak) {
        let message = match spec.protocol {
            LoadProtocol::H1 => {
                "the load speaks HTTP/1.1; offer `http/1.1`, alone or among others, or set `protocol: h2`"
            }
            LoadProtocol::H2 => {
                "the load speaks HTTP/2; offer `h2`, alone or among others, or set `protocol: h1`"
            }
            LoadProtocol::H3 => {
                "the load speaks HTTP/3; offer `h3`, alone or among others, or set `protocol: h2`"
            }
            LoadProtocol::Auto => "the load speaks HTTP/1.1 and HTTP/2; offer `http/1.1`, `h2` or both",
        };
        return Err(SettingsFault::new("load.alpn", message));
    }
    Ok(())
}

/// Whether the sides speak a protocol that agreed on this ALPN identifier, or on `none`.
pub fn is_spoken(spoken: Spoken, alpn: &str) -> bool {
    match spoken {
        Spoken::H1 => matches!(alpn, "http/1.1" | "http/1.0" | "none"),
        Spoken::H2 => alpn == "h2",
        Spoken::H3 => alpn == "h3",
    }
}

/// The offer in ALPN if the settings have none. Without ALPN a server takes a connection for one of HTTP/1.1 (RFC 9113, section 3.2).
fn usual_alpn(protocol: LoadProtocol) -> Vec<String> {
    let names: &[&str] = match protocol {
        LoadProtocol::H1 => &[],
        LoadProtocol::H2 => &["h2"],
        LoadProtocol::H3 => &["h3"],
        LoadProtocol::Auto => &["h2", "http/1.1"],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}

struct Asked {
    tls12: bool,
    tls13: bool,
    cipher: Option<Cipher>,
    group: Option<Group>,
}

fn versions_and_names(spec: &LoadSettings) -> Result<Asked, SettingsFault> {
    let fault = |key: &'static str| move |error: NameError| SettingsFault::new(key, error);
    let cipher = spec.cipher.as_deref().map(names::cipher).transpose().map_err(fault("load.cipher"))?;
    let group =
        spec.group.as_deref().map(names::key_exchange_group).transpose().map_err(fault("load.group"))?;
    let fits = |is_tls13: bool| cipher.as_ref().is_none_or(|cipher| cipher.is_tls13 == is_tls13);
    let asks = |version: TlsVersion| spec.tls.is_none_or(|asked| asked == version);
    let is_quic = spec.protocol == LoadProtocol::H3;
    let (tls12, tls13) =
        (!is_quic && asks(TlsVersion::V12) && fits(false), asks(TlsVersion::V13) && fits(true));
    if is_quic && !(tls13 && is_in_rustls(cipher.as_ref(), group)) {
        let (key, why) = match (&spec.cipher, &spec.group) {
            _ if spec.tls == Some(TlsVersion::V12) => ("load.tls", "HTTP/3 needs TLS 1.3"),
            (Some(_), _) => ("load.cipher", "HTTP/3 has the cipher suites of TLS 1.3 only"),
            _ => ("load.group", "the TLS library of HTTP/3 does not have this group"),
        };
        return Err(SettingsFault::new(key, why));
    }
    if let (false, false, Some(name)) = (tls12, tls13, &spec.cipher) {
        let version = if fits(true) { "1.3" } else { "1.2" };
        return Err(SettingsFault::new(
            "load.cipher",
            format!("`{name}` belongs to TLS {version}; set `tls` to that"),
        ));
    }
    if !is_in_rustls(cipher.as_ref(), group) && group.is_some_and(|group| group.openssl.is_none()) {
        let message = "no TLS library here has both this group and the cipher suite that was asked for";
        return Err(SettingsFault::new("load.group", message));
    }
    Ok(Asked { tls12, tls13, cipher, group })
}

fn is_in_rustls(cipher: Option<&Cipher>, group: Option<Group>) -> bool {
    cipher.is_none_or(|cipher| cipher.rustls.is_some()) && group.is_none_or(|group| group.rustls.is_some())
}

impl Offer {
    /// The offer of a load to a target.
    ///
    /// # Errors
    /// When a file cannot be read, or what was asked for cannot be offered.
    pub fn new(spec: &LoadSettings, target: &Target, url: &Url) -> Result<Self, PathError> {
        let asked = versions_and_names(spec).map_err(|fault| PathError::new(fault.message))?;
        let read = |path: &String| named_file::read_file(Path::new(path));
        let trust = match (&spec.ca, &target.ca_pem) {
            _ if spec.insecure => Trust::Anything,
            (Some(path), _) => Trust::Authorities(read(path)?),
            (None, Some(pem)) => Trust::Authorities(pem.clone().into_bytes()),
            (None, None) => Trust::Host,
        };
        Ok(Self {
            tls12: asked.tls12,
            tls13: asked.tls13,
            cipher: asked.cipher,
            group: asked.group,
            server_name: spec.sni.clone().unwrap_or_else(|| url.name()),
            alpn: if spec.alpn.is_empty() { usual_alpn(spec.protocol) } else { spec.alpn.clone() },
            trust,
            identity: spec.client_certificate.as_ref().map(read).transpose()?,
        })
    }

    /// Whether rustls has all of it.
    #[must_use]
    pub fn is_in_rustls(&self) -> bool {
        is_in_rustls(self.cipher.as_ref(), self.group)
    }
}

/// The part that session resumption had in a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionUse {
    /// The handshake was to be full.
    #[default]
    Unasked,
    /// The handshake was to resume a session, but the load had none: the server has sent none, or all are used up.
    Missing,
    /// The handshake offered a session. The server decides whether to resume it.
    Offered,
}

impl SessionUse {
    /// Converts from whether the connection was to resume a session, and whether it had one to offer.
    #[must_use]
    pub fn new(resumes: bool, has_session: bool) -> Self {
        match (resumes, has_session) {
            (false, _) => Self::Unasked,
            (true, false) => Self::Missing,
            (true, true) => Self::Offered,
        }
    }
}

/// The part that 0-RTT had in a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZeroRtt {
    /// The first requests were to wait for the handshake.
    #[default]
    Unasked,
    /// They were not to wait, but the load had no session that allows it.
    Missing,
    /// The server took them.
    Accepted,
    /// The server did not take them, and they were sent again after the handshake.
    Rejected,
}

/// The parameters that both sides agreed on in a handshake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Negotiated {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite's IANA name.
    pub cipher: &'static str,
    /// The key-exchange group, `none` where no key was exchanged.
    pub group: String,
    /// The application protocol, `none` where none was agreed on.
    pub alpn: String,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
    /// Whether this side offered one.
    pub session: SessionUse,
    /// Whether the first requests waited for the handshake.
    pub zero_rtt: ZeroRtt,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(tls: Option<TlsVersion>, cipher: Option<&str>, group: Option<&str>) -> String {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let spec = LoadSettings { tls, cipher: own(cipher), group: own(group), ..LoadSettings::default() };
        let fault = check(&spec).unwrap_err();
        fault.to_string()
    }

    #[test]
    fn what_cannot_be_offered_is_refused() {
        let faults = [
            fault(Some(TlsVersion::V13), Some("ECDHE-RSA-AES256-GCM-SHA384"), None),
            fault(Some(TlsVersion::V12), Some("TLS_AES_128_GCM_SHA256"), None),
            fault(None, Some("ECDHE-RSA-AES128-SHA256"), Some("X25519MLKEM768")),
            fault(None, None, Some("x25518")),
        ];
        insta::assert_snapshot!(faults.join("\n"), @r"
        load.cipher: `ECDHE-RSA-AES256-GCM-SHA384` belongs to TLS 1.2; set `tls` to that
        load.cipher: `TLS_AES_128_GCM_SHA256` belongs to TLS 1.3; set `tls` to that
        load.group: no TLS library here has both this group and the cipher suite that was asked for
        load.group: `x25518` is not a key-exchange group; did you mean `x25519`?
        ");
    }

    #[test]
    fn what_http_3_cannot_offer_is_refused() {
        let h3 = || LoadSettings { protocol: LoadProtocol::H3, ..LoadSettings::default() };
        let own = |text: &str| Some(text.to_owned());
        let faults = [
            check(&LoadSettings { tls: Some(TlsVersion::V12), ..h3() }),
            check(&LoadSettings { cipher: own("ECDHE-RSA-AES256-GCM-SHA384"), ..h3() }),
            check(&LoadSettings { alpn: vec!["h2".to_owned()], ..h3() }),
        ];
        let texts = faults.map(|fault| fault.unwrap_err().to_string());
        insta::assert_snapshot!(texts.join("\n"), @"
        load.tls: HTTP/3 needs TLS 1.3
        load.cipher: HTTP/3 has the cipher suites of TLS 1.3 only
        load.alpn: the load speaks HTTP/3; offer `h3`, alone or among others, or set `protocol: h2`
        ");
        let offered = Offer::new(&h3(), &Target::default(), &Url::parse("https://a/").unwrap()).unwrap();
        assert_eq!((offered.tls12, offered.tls13, offered.alpn), (false, true, vec!["h3".to_owned()]));
    }

    #[test]
    fn a_device_is_refused_as_a_certificate() {
        let device = || Some("/dev/null".to_owned());
        let specs = [
            LoadSettings { ca: device(), ..LoadSettings::default() },
            LoadSettings { client_certificate: device(), insecure: true, ..LoadSettings::default() },
        ];
        for spec in specs {
            let url = Url::parse("https://127.0.0.1/").unwrap();
            let error = Offer::new(&spec, &Target::default(), &url).unwrap_err();
            assert_eq!(error.to_string(), "read /dev/null: it is a character device, not a file");
        }
    }

    #[test]
    fn a_cipher_suite_decides_the_version() {
        let spec = LoadSettings {
            cipher: Some("ECDHE-RSA-AES256-GCM-SHA384".to_owned()),
            ..LoadSettings::default()
        };
        let asked = versions_and_names(&spec).unwrap();
        assert!(asked.tls12 && !asked.tls13 && is_in_rustls(asked.cipher.as_ref(), asked.group));
    }
}
