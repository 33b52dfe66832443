//! Which HTTP versions an ingress can be asked to speak.

use plumb_path::Fault;

use crate::settings::{IngressKind, IngressSettings, Protocol};

/// More than this is a slip of the pen.
const STREAMS_MAX: u32 = 65_535;

/// Checks `protocols` and `streams`.
///
/// # Errors
/// The first fault, at its key.
pub(super) fn check(ingress: &IngressSettings) -> Result<(), Fault> {
    let fault = |key: &str, message: String| Err(Fault::new(format!("system.ingress.{key}"), message));
    match ingress.protocols.as_slice() {
        [Protocol::H1] | [Protocol::H1, Protocol::H2] | [Protocol::H2, Protocol::H1] => {}
        [] => return fault("protocols", "an ingress speaks `[h1]` or `[h1, h2]`".to_owned()),
        [Protocol::H2] => {
            let message = "`plumb` uses h1 to test whether an ingress answers; write `[h1, h2]`, from which the load chooses";
            return fault("protocols", message.to_owned());
        }
        [_, ..] => return fault("protocols", "name each protocol once".to_owned()),
    }
    if let (true, Some(reason)) = (ingress.has_h2(), refusal(ingress.kind)) {
        return fault("protocols", reason.to_owned());
    }
    match ingress.streams {
        None => Ok(()),
        Some(_) if !ingress.has_h2() => {
            fault("streams", "only h2 has streams; add it with `protocols: [h1, h2]`".to_owned())
        }
        Some(streams) if !(1..=STREAMS_MAX).contains(&streams) => {
            fault("streams", format!("a connection has 1 to {STREAMS_MAX} streams"))
        }
        Some(_) => Ok(()),
    }
}

/// Why `plumb` cannot have this kind speak HTTP/2.
fn refusal(kind: IngressKind) -> Option<&'static str> {
    match kind {
        IngressKind::External => {
            Some("an external system speaks what its own configuration says; leave out `protocols`")
        }
        IngressKind::Embedded => Some("the embedded ingress speaks h1 only"),
        IngressKind::Nginx => Some("nginx speaks h1 only here"),
        IngressKind::Haproxy => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Protocol::{H1, H2};

    #[test]
    fn protocols_are_h1_alone_or_beside_h2() {
        let with = |kind, protocols: &[Protocol], streams| {
            let protocols = protocols.to_vec();
            let ingress = IngressSettings { kind, protocols, streams, ..IngressSettings::default() };
            check(&ingress).map_or_else(|fault| fault.to_string(), |()| "none".to_owned())
        };
        let (haproxy, external) = (IngressKind::Haproxy, IngressKind::External);
        assert_eq!(with(haproxy, &[H2, H1], Some(8)), "none");
        assert_eq!(with(external, &[H1], None), "none");
        let faults = [
            with(haproxy, &[], None),
            with(haproxy, &[H2], None),
            with(haproxy, &[H1, H1], None),
            with(haproxy, &[H1, H2, H2], None),
            with(external, &[H1, H2], None),
            with(IngressKind::Embedded, &[H1, H2], None),
            with(haproxy, &[H1], Some(8)),
            with(haproxy, &[H1, H2], Some(0)),
            with(haproxy, &[H1, H2], Some(STREAMS_MAX + 1)),
        ];
        insta::assert_snapshot!(faults.join("\n"), @"
        system.ingress.protocols: an ingress speaks `[h1]` or `[h1, h2]`
        system.ingress.protocols: `plumb` uses h1 to test whether an ingress answers; write `[h1, h2]`, from which the load chooses
        system.ingress.protocols: name each protocol once
        system.ingress.protocols: name each protocol once
        system.ingress.protocols: an external system speaks what its own configuration says; leave out `protocols`
        system.ingress.protocols: the embedded ingress speaks h1 only
        system.ingress.streams: only h2 has streams; add it with `protocols: [h1, h2]`
        system.ingress.streams: a connection has 1 to 65535 streams
        system.ingress.streams: a connection has 1 to 65535 streams
        ");
    }
}
