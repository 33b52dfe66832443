//! A client for single requests that measure nothing.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// A client that follows no redirects and takes every status for an answer. `insecure` accepts any certificate.
pub fn client(is_https: bool, insecure: bool, time: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .root_certs(roots(is_https && !insecure))
        .disable_verification(insecure)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(time))
        .build();
    config.into()
}

/// The certificates of authorities that this host trusts. They are read only where they are needed, as that takes some ms.
fn roots(is_needed: bool) -> RootCerts {
    let trusted = if is_needed { rustls_native_certs::load_native_certs().certs } else { Vec::new() };
    let trusted: Vec<_> = trusted.iter().map(|one| Certificate::from_der(one.as_ref()).to_owned()).collect();
    RootCerts::new_with_certs(&trusted)
}
