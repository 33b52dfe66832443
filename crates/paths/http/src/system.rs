//! Systems under test of the `http` data path: an ingress in front of an origin, built, proven to answer, and
//! watched.

mod caddy;
mod certificates;
mod check;
mod config;
mod destinations;
mod directives;
mod error;
mod external;
mod haproxy;
mod included;
mod installable;
mod nginx;
mod offload;
mod program;
mod protocols;
mod readiness;
mod running;
mod template;
#[cfg(test)]
mod tests;
mod version;

use plumb_path::{PathError, Place, System};

use crate::settings::{IngressKind, IngressSettings, SystemSettings};
use running::Running;

pub(crate) use check::{check, feasible};
pub(crate) use config::CONFIG_STATE;
pub use error::{Refusal, Syntax, TemplateError};
pub(crate) use external::foreign;
pub(crate) use offload::{LIBRARY_STATE, is_qat};
pub(crate) use protocols::{ZERO_RTT_COUNTER, counter, installed};
pub use template::{NginxTemplate, nginx_template};

/// The summary of the ingress' configuration in evidence; `None` for plumb's own.
pub(crate) fn expected_config(ingress: &IngressSettings) -> Option<String> {
    match ingress.kind {
        IngressKind::Haproxy => haproxy::expected_config(ingress),
        IngressKind::Nginx => nginx::expected_config(ingress),
        IngressKind::Embedded | IngressKind::Caddy | IngressKind::External => None,
    }
}

/// Builds and starts an HTTP system, and proves that it answers.
///
/// Programs are started as children that die with the calling thread: call it from one that lives as long as the
/// system is to live. With a link, that thread stays in the system's network namespace.
///
/// # Errors
///
/// When a program is missing or does not start, or the system does not answer within 10 s.
pub(crate) fn http_system(spec: &SystemSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
    if spec.ingress.kind == IngressKind::External {
        return Ok(Box::new(external::find(&spec.ingress, place.address)?));
    }
    Ok(Box::new(Running::start(spec, place)?))
}
