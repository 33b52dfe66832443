//! The decision between the kernel's link and Plumbline's own: the latter where the kernel cannot delay and lose packets (netem), or is
//! asked for what its netem is not told here.

use plumb_host::Error;
use plumb_host::network::{LinkTerms, has_netem};
use plumb_path::LinkMaker;
use plumb_path::link::{LinkShape, link_terms};

use crate::options::{Fastpath, Switch};
use crate::settings::{SystemKind, SystemSettings};

/// A setting that Plumbline's own link does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("plumb makes this link, and its devices do not have {what}; leave out `system.{key}`")]
pub struct NotOnOwnLink {
    key: &'static str,
    what: &'static str,
}

/// The effects of Plumbline's own link; `None` where the kernel makes the link, or nothing is wrong with it.
///
/// # Errors
/// When the kernel does not say whether it can.
pub(super) fn terms(link: &LinkShape) -> Result<Option<LinkTerms>, Error> {
    if !link.is_impaired() || (!link.needs_own() && has_netem()?) {
        return Ok(None);
    }
    Ok(Some(link_terms(link)))
}

/// The maker of the link; `None` where nothing is wrong with it, or the kernel does not say whether it can.
#[must_use]
pub fn link_maker(link: &LinkShape) -> Option<LinkMaker> {
    let is_own = terms(link).ok()?.is_some();
    link.is_impaired().then_some(if is_own { LinkMaker::Plumbline } else { LinkMaker::Kernel })
}

/// The first of the settings that its devices do not have, if Plumbline makes the link.
///
/// # Errors
/// As [`terms`].
pub(super) fn lacking(spec: &SystemSettings) -> Result<Option<NotOnOwnLink>, Error> {
    if terms(&spec.link)?.is_none() {
        return Ok(None);
    }
    let is_on = |switch: Option<Switch>| switch.is_some_and(Switch::is_on);
    let settings = [
        (spec.queues > 1, "queues", "a second queue"),
        (is_on(spec.offloads.tso), "offloads.tso", "segmentation (TSO)"),
        (is_on(spec.offloads.tx_checksum), "offloads.tx_checksum", "checksums"),
        (is_on(spec.offloads.gro), "offloads.gro", "merging of received packets (GRO)"),
        (
            spec.kind == SystemKind::Bridge && spec.fastpath == Fastpath::Redirect,
            "fastpath",
            "a peer to which an eBPF program could hand packets",
        ),
    ];
    let asked = settings.into_iter().find(|(is_asked, ..)| *is_asked);
    Ok(asked.map(|(_, key, what)| NotOnOwnLink { key, what }))
}
