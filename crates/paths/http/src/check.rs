//! Checks of combinations of settings, which no single field can check.

use plumb_path::Fault;

use crate::settings::{Driver, HttpSettings, IngressKind, IngressSettings, LoadProtocol, TlsVersion};
use crate::{load, system};

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &HttpSettings) -> Result<(), Fault> {
    load::check(&settings.load)?;
    system::check(&settings.system)?;
    let ingress = &settings.system.ingress;
    let (driver, protocol) = (settings.load.driver, settings.load.protocol);
    if driver == Driver::K6 && protocol == LoadProtocol::H2 && is_plain(ingress) {
        let message = "k6 speaks HTTP/2 only over TLS (grafana/k6#970); use the native driver, h2load or oha";
        return Err(Fault::new("load.protocol", message));
    }
    if ingress.kind == IngressKind::External {
        return Ok(());
    }
    let other = match protocol {
        LoadProtocol::H2 if !ingress.has_h2() => {
            Some("the ingress speaks h1 only; set `system.ingress.protocols: [h1, h2]`")
        }
        LoadProtocol::H3 if !ingress.has_h3() => {
            Some("the ingress does not speak h3; set `system.ingress.protocols: [h1, h2, h3]`")
        }
        LoadProtocol::H1 if !ingress.has_h1() => Some("the ingress does not speak h1; set `protocol: h2`"),
        LoadProtocol::Auto if !ingress.has_h1() && ingress.tls == TlsVersion::None => {
            Some("without TLS, `auto` is h1, and the ingress speaks h2 only; set `protocol: h2`")
        }
        _ => None,
    };
    if let Some(message) = other {
        return Err(Fault::new("load.protocol", message));
    }
    match settings.load.tls {
        Some(asked) if asked != ingress.tls && ingress.tls != TlsVersion::None => {
            Err(Fault::new("load.tls", format!("the ingress offers {} only", ingress.tls.negotiated())))
        }
        _ => Ok(()),
    }
}

/// Whether the ingress has no TLS for certain. The address of an object in a cluster is not known here.
fn is_plain(ingress: &IngressSettings) -> bool {
    match ingress.kind {
        IngressKind::External => ingress.url.as_deref().is_some_and(|url| url.starts_with("http:")),
        _ => ingress.tls == TlsVersion::None,
    }
}
