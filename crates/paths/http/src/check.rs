//! Checks of combinations of settings, which no single field can check.

use plumb_path::Fault;

use crate::settings::{HttpSettings, IngressKind, Spoken, TlsVersion};
use crate::{load, system};

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &HttpSettings) -> Result<(), Fault> {
    load::check(&settings.load)?;
    system::check(&settings.system)?;
    let ingress = &settings.system.ingress;
    if ingress.kind == IngressKind::External {
        return Ok(());
    }
    if settings.load.protocol == Spoken::H2 && !ingress.has_h2() {
        let message = "the ingress speaks h1 only; set `system.ingress.protocols: [h1, h2]`";
        return Err(Fault::new("load.protocol", message));
    }
    match settings.load.tls {
        Some(asked) if asked != ingress.tls && ingress.tls != TlsVersion::None => {
            Err(Fault::new("load.tls", format!("the ingress offers {} only", ingress.tls.negotiated())))
        }
        _ => Ok(()),
    }
}
