//! Checks of combinations of settings, which no single field can check.

use plumb_path::SettingsFault;

use crate::settings::{
    Driver, HttpSettings, IngressKind, IngressSettings, LoadProtocol, SystemSettings, TlsVersion,
};
use crate::{load, system};

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &HttpSettings) -> Result<(), SettingsFault> {
    load::check(&settings.load)?;
    system::check(&settings.system)?;
    check_link(&settings.system)?;
    let ingress = &settings.system.ingress;
    let (driver, protocol) = (settings.load.driver, settings.load.protocol);
    if driver == Driver::K6 && protocol == LoadProtocol::H2 && is_plain(ingress) {
        let message = "k6 speaks HTTP/2 only over TLS (grafana/k6#970); use the native driver, h2load or oha";
        return Err(SettingsFault::new("load.protocol", message));
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
        return Err(SettingsFault::new("load.protocol", message));
    }
    if ingress.kind == IngressKind::Embedded && settings.load.zero_rtt.0 > 0.0 && !ingress.zero_rtt {
        let message = "the ingress accepts no requests in 0-RTT; set `system.ingress.zero_rtt: true`";
        return Err(SettingsFault::new("load.zero_rtt", message));
    }
    match settings.load.tls {
        Some(asked) if asked != ingress.tls && ingress.tls != TlsVersion::None => Err(SettingsFault::new(
            "load.tls",
            format!("the ingress offers {} only", ingress.tls.negotiated()),
        )),
        _ => Ok(()),
    }
}

/// Whether the link can have the effects that are asked for, and there is anything that it could be put before.
fn check_link(system: &SystemSettings) -> Result<(), SettingsFault> {
    let SystemSettings { link, ingress, .. } = system;
    if !link.is_empty() && ingress.kind == IngressKind::External {
        let message =
            "plumb adds a link only to an ingress that it starts; leave out `link` for `kind: external`";
        return Err(SettingsFault::new("system.link", message));
    }
    link.check_between_ends()
}

/// Why a load cannot be on another host than its system.
#[derive(Debug, thiserror::Error)]
#[error("`system.link` joins two namespaces of one host; give both sides the same place, or leave it out")]
pub struct OneHostOnly;

/// Checks whether the load may be on another host than the system.
///
/// # Errors
/// When a link that plumb makes is between them.
pub fn check_spans_hosts(system: &SystemSettings) -> Result<(), OneHostOnly> {
    if system.link.is_empty() { Ok(()) } else { Err(OneHostOnly) }
}

/// Whether the ingress has no TLS for certain. The address of an object in a cluster is not known here.
fn is_plain(ingress: &IngressSettings) -> bool {
    match ingress.kind {
        IngressKind::External => ingress.url.as_deref().is_some_and(|url| url.starts_with("http:")),
        _ => ingress.tls == TlsVersion::None,
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::{ByteRate, Bytes, Span};
    use plumb_path::link::LinkShape;

    use super::*;

    #[test]
    fn a_link_is_between_a_load_and_an_ingress_that_plumb_starts_on_one_host() {
        let with = |link: LinkShape, kind: IngressKind| {
            let ingress = IngressSettings { kind, ..IngressSettings::default() };
            SystemSettings { ingress, link, ..SystemSettings::default() }
        };
        let delay = LinkShape { delay: Some(Span(1)), ..LinkShape::default() };
        let said = |system: &SystemSettings| {
            check_link(system).map_or_else(|fault| fault.to_string(), |()| "none".to_owned())
        };
        assert_eq!(said(&with(delay.clone(), IngressKind::Haproxy)), "none");
        assert_eq!(said(&with(LinkShape::default(), IngressKind::External)), "none");
        let external = said(&with(delay.clone(), IngressKind::External));
        assert_eq!(
            external,
            "system.link: plumb adds a link only to an ingress that it starts; leave out `link` for `kind: external`"
        );
        let rate = LinkShape { rate: Some(ByteRate(1e6)), burst: Some(Bytes(1)), ..LinkShape::default() };
        assert_eq!(
            said(&with(rate, IngressKind::Nginx)),
            "system.link.burst: the rate of `system.link` has no burst; leave it out"
        );
        let seed = LinkShape { seed: Some(1), ..LinkShape::default() };
        assert!(said(&with(seed, IngressKind::Nginx)).starts_with("system.link.seed: "));

        assert!(check_spans_hosts(&with(LinkShape::default(), IngressKind::Nginx)).is_ok());
        let apart = check_spans_hosts(&with(delay, IngressKind::Nginx)).unwrap_err().to_string();
        assert_eq!(
            apart,
            "`system.link` joins two namespaces of one host; give both sides the same place, or leave it out"
        );
    }
}
