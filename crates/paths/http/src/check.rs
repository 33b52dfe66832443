//! What no single field of the settings can check.

use plumb_path::Fault;

use crate::settings::{HttpSettings, IngressKind, TlsVersion};
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
    match settings.load.tls {
        Some(asked) if asked != ingress.tls && ingress.tls != TlsVersion::None => {
            Err(Fault::new("load.tls", format!("the ingress offers {} only", ingress.tls.negotiated())))
        }
        _ => Ok(()),
    }
}
