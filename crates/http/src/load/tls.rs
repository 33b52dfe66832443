//! What TLS is to be offered, and by which library: settings in, [`Security`] for each thread out.

use std::fs;

use plumb_path::{Fault, PathError};

use super::names::{self, Cipher, Group};
use super::transport::Security;
use super::url::Url;
use super::{tls_openssl, tls_rustls};
use crate::settings::{LoadSpec, Target, TlsVersion};

/// Which certificates are trusted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// All.
    Anything,
    /// Those that this host trusts.
    Host,
    /// Those signed by these authorities, PEM.
    Authorities(Vec<u8>),
}

/// What is offered to the server.
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
pub fn check(spec: &LoadSpec) -> Result<(), Fault> {
    versions_and_names(spec).map(drop)?;
    if spec.alpn.iter().any(|protocol| protocol.is_empty() || protocol.len() > 255) {
        return Err(Fault::new("load.alpn", "a protocol's name has 1 to 255 bytes, such as `http/1.1`"));
    }
    Ok(())
}

struct Asked {
    tls12: bool,
    tls13: bool,
    cipher: Option<Cipher>,
    group: Option<Group>,
}

fn versions_and_names(spec: &LoadSpec) -> Result<Asked, Fault> {
    let fault = |key: &'static str| move |message: String| Fault::new(key, message);
    let cipher = spec.cipher.as_deref().map(names::cipher).transpose().map_err(fault("load.cipher"))?;
    let group =
        spec.group.as_deref().map(names::key_exchange_group).transpose().map_err(fault("load.group"))?;
    let fits = |is_tls13: bool| cipher.as_ref().is_none_or(|cipher| cipher.is_tls13 == is_tls13);
    let asks = |version: TlsVersion| spec.tls.is_none_or(|asked| asked == version);
    let (tls12, tls13) = (asks(TlsVersion::V12) && fits(false), asks(TlsVersion::V13) && fits(true));
    if let (false, false, Some(name)) = (tls12, tls13, &spec.cipher) {
        let version = if fits(true) { "1.3" } else { "1.2" };
        return Err(Fault::new(
            "load.cipher",
            format!("`{name}` belongs to TLS {version}; set `tls` to that"),
        ));
    }
    let asked = Asked { tls12, tls13, cipher, group };
    if !asked.is_in_rustls() && asked.group.is_some_and(|group| group.openssl.is_none()) {
        let message = "no TLS library here has both this group and the cipher suite that was asked for";
        return Err(Fault::new("load.group", message));
    }
    Ok(asked)
}

impl Asked {
    fn is_in_rustls(&self) -> bool {
        self.cipher.as_ref().is_none_or(|cipher| cipher.rustls.is_some())
            && self.group.is_none_or(|group| group.rustls.is_some())
    }
}

impl Offer {
    /// What a load offers to a target.
    ///
    /// # Errors
    /// When a file cannot be read, or what was asked for cannot be offered.
    pub fn new(spec: &LoadSpec, target: &Target, url: &Url) -> Result<Self, PathError> {
        let asked = versions_and_names(spec).map_err(|fault| PathError::new(fault.message))?;
        let read =
            |path: &String| fs::read(path).map_err(|cause| PathError::new(format!("read {path}: {cause}")));
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
            server_name: spec.sni.clone().unwrap_or_else(|| url.host.clone()),
            alpn: spec.alpn.clone(),
            trust,
            identity: spec.client_certificate.as_ref().map(read).transpose()?,
        })
    }

    /// The security of one thread's connections. Each thread has sessions of its own.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or the host trusts nobody.
    pub fn security(&self, connections: usize) -> Result<Security, PathError> {
        let is_in_rustls = self.cipher.as_ref().is_none_or(|cipher| cipher.rustls.is_some())
            && self.group.is_none_or(|group| group.rustls.is_some());
        let security = if is_in_rustls {
            tls_rustls::Client::new(self, connections).map(Security::Rustls)
        } else {
            tls_openssl::Client::new(self, connections).map(Security::OpenSsl)
        };
        security.map_err(PathError::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(tls: Option<TlsVersion>, cipher: Option<&str>, group: Option<&str>) -> String {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let spec = LoadSpec { tls, cipher: own(cipher), group: own(group), ..LoadSpec::default() };
        let fault = check(&spec).unwrap_err();
        format!("{}: {}", fault.key, fault.message)
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
    fn a_cipher_suite_decides_the_version() {
        let spec = LoadSpec { cipher: Some("ECDHE-RSA-AES256-GCM-SHA384".to_owned()), ..LoadSpec::default() };
        let asked = versions_and_names(&spec).unwrap();
        assert!(asked.tls12 && !asked.tls13 && asked.is_in_rustls());
    }
}
