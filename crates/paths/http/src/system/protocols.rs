//! The HTTP versions of an ingress: checks of the settings, and of the installed program.

use plumb_path::{AnyError, Server, SettingsFault};

use super::installable::{CADDY, HAPROXY, Installable, NGINX};
use super::version::Version;
use crate::settings::{IngressKind, IngressSettings, Offload, Spoken, TlsVersion};

/// From this version of nginx on, `http2` is a directive, and a port without TLS serves both h1 and h2. Before, it was a word of
/// `listen`.
pub(super) const HTTP2_DIRECTIVE: Version = Version([1, 25, 1]);
/// A larger number is a typing error.
const STREAMS_MAX: u32 = 65_535;

/// The counter of requests that the ingress has answered in a protocol.
pub(crate) fn counter(protocol: Spoken) -> &'static str {
    match protocol {
        Spoken::H1 => "requests_h1",
        Spoken::H2 => "requests_h2",
        Spoken::H3 => "requests_h3",
    }
}

/// The counter of handshakes after requests in 0-RTT that the ingress took.
pub(crate) const ZERO_RTT_COUNTER: &str = "handshakes_zero_rtt";

fn lacks_zero_rtt(ingress: &IngressSettings) -> Option<&'static str> {
    match ingress.kind {
        _ if !ingress.zero_rtt => None,
        IngressKind::Embedded if !ingress.has_h3() => {
            Some("the ingress accepts requests in 0-RTT over HTTP/3 only; add h3 to `protocols`")
        }
        IngressKind::Embedded if !ingress.tickets => Some("0-RTT needs sessions; leave out `tickets: false`"),
        IngressKind::Embedded => None,
        IngressKind::Caddy | IngressKind::Haproxy | IngressKind::Nginx | IngressKind::External => {
            Some("only the embedded ingress has this setting")
        }
    }
}

/// Checks `protocols`, `streams` and `zero_rtt`.
///
/// # Errors
/// The first fault, at its key.
pub(super) fn check(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    let fault =
        |key: &str, message: String| Err(SettingsFault::new(format!("system.ingress.{key}"), message));
    let protocols = &ingress.protocols;
    if protocols.is_empty() {
        return fault("protocols", "name at least one of `h1`, `h2` and `h3`, such as `[h1, h2]`".to_owned());
    }
    if (1..protocols.len()).any(|at| protocols[..at].contains(&protocols[at])) {
        return fault("protocols", "name each protocol once".to_owned());
    }
    if ingress.protocols != [Spoken::H1] && ingress.kind == IngressKind::External {
        let message = "an external system speaks what its own configuration says; leave out `protocols`";
        return fault("protocols", message.to_owned());
    }
    if let Some(why) = lacks_h3(ingress) {
        return fault("protocols", why.to_owned());
    }
    if let Some(why) = needs_h1(ingress) {
        return fault("protocols", format!("{why}; add h1, and choose with `load.protocol`"));
    }
    if let Some(why) = lacks_zero_rtt(ingress) {
        return fault("zero_rtt", why.to_owned());
    }
    match ingress.streams {
        None => Ok(()),
        Some(_) if !ingress.has_h2() && !ingress.has_h3() => {
            fault("streams", "only h2 and h3 have streams; add one with `protocols: [h1, h2]`".to_owned())
        }
        Some(_) if ingress.kind == IngressKind::Caddy => {
            fault("streams", "Caddy has no setting for the streams of a connection".to_owned())
        }
        Some(streams) if !(1..=STREAMS_MAX).contains(&streams) => {
            fault("streams", format!("a connection has 1 to {STREAMS_MAX} streams"))
        }
        Some(_) => Ok(()),
    }
}

/// Why an ingress cannot speak h3, if it is to.
fn lacks_h3(ingress: &IngressSettings) -> Option<&'static str> {
    match ingress.kind {
        _ if !ingress.has_h3() => None,
        _ if ingress.tls != TlsVersion::V13 => Some("h3 needs TLS 1.3; set `tls: \"1.3\"`"),
        IngressKind::Caddy if !ingress.has_h1() => {
            Some("Caddy speaks h3 beside h1; write `[h1, h3]` or `[h1, h2, h3]`")
        }
        _ if ingress.protocols == [Spoken::H3] => {
            Some("h3 needs another version beside it; write `[h1, h3]`, `[h2, h3]` or `[h1, h2, h3]`")
        }
        _ if ingress.offload != Offload::None => Some(
            "a handshake of h3 runs inside QUIC, which cannot set it aside while a device works; leave out h3 or `offload`",
        ),
        _ => None,
    }
}

/// Why an ingress cannot speak h2 alone, if it is to.
fn needs_h1(ingress: &IngressSettings) -> Option<&'static str> {
    match ingress.kind {
        _ if ingress.has_h1() => None,
        IngressKind::Nginx if ingress.tls != TlsVersion::None => {
            Some("over TLS, nginx offers `http/1.1` beside `h2`, whatever its configuration")
        }
        IngressKind::Caddy => Some("Caddy refuses a configuration with h2 and without h1"),
        _ => None,
    }
}

/// Why an installed program cannot speak what the settings ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lacks {
    #[error("this {} was built without h2: `{} {}` does not list it", program.title, program.command, program.build_argument)]
    H2 { program: Installable },
    #[error(
        "nginx {installed} serves h1 and h2 on one port only over TLS; without TLS, that needs nginx {HTTP2_DIRECTIVE} or later"
    )]
    PlainH2 { installed: Version },
    #[error(
        "nginx {installed} serves h1 wherever it serves h2; h2 alone needs nginx before {HTTP2_DIRECTIVE}"
    )]
    H2Alone { installed: Version },
    #[error(
        "this {} was built without h3: `{} {}` does not list it; that of Debian 13 has it",
        program.title,
        program.command,
        program.build_argument
    )]
    H3 { program: Installable },
}

/// Whether the installed program speaks the protocols of the settings.
///
/// # Errors
/// When it lacks one of them, or does not run.
pub(super) fn feasible(ingress: &IngressSettings) -> Result<(), AnyError> {
    let (program, marks) = match ingress.kind {
        _ if !ingress.has_h2() && !ingress.has_h3() => return Ok(()),
        IngressKind::Haproxy => (HAPROXY, HAPROXY_MARKS),
        IngressKind::Nginx => (NGINX, NGINX_MARKS),
        // Every Caddy 2 speaks h2 and h3.
        IngressKind::Embedded | IngressKind::Caddy | IngressKind::External => return Ok(()),
    };
    let file = program.find()?;
    Ok(lack(program, marks, &program.build(&file)?, ingress)?)
}

/// The words for h2 and h3 in a program's report of its build.
type Marks = [&'static str; 2];

const HAPROXY_MARKS: Marks = [" h2 : ", " quic : "];
const NGINX_MARKS: Marks = ["--with-http_v2_module", "--with-http_v3_module"];

/// Looks for the installed program of an ingress, with its version and the protocols of its build.
pub(crate) fn installed(kind: IngressKind) -> Option<fn() -> Option<Server>> {
    match kind {
        IngressKind::Haproxy => Some(|| server(HAPROXY, HAPROXY_MARKS)),
        IngressKind::Nginx => Some(|| server(NGINX, NGINX_MARKS)),
        // What its versions print has neither mark.
        IngressKind::Caddy => Some(|| server(CADDY, [""; 2])),
        IngressKind::Embedded | IngressKind::External => None,
    }
}

fn server(program: Installable, [h2, h3]: Marks) -> Option<Server> {
    let file = program.find().ok()?;
    let version = Version::find_in(&program.version(&file).ok()?)?;
    let build = program.build(&file).ok()?;
    let marks = [(Spoken::H1, ""), (Spoken::H2, h2), (Spoken::H3, h3)];
    let spoken = marks.into_iter().filter(|(_, mark)| build.contains(mark));
    let speaks = spoken.map(|(protocol, _)| protocol.name()).collect();
    Some(Server { name: format!("{} {version}", program.title), speaks })
}

/// Fails if the program lacks a protocol, by its own report of its build.
fn lack(program: Installable, [h2, h3]: Marks, build: &str, ingress: &IngressSettings) -> Result<(), Lacks> {
    if ingress.has_h3() && !build.contains(h3) {
        return Err(Lacks::H3 { program });
    }
    if !ingress.has_h2() {
        return Ok(());
    }
    if !build.contains(h2) {
        return Err(Lacks::H2 { program });
    }
    let is_plain_nginx = program == NGINX && ingress.tls == TlsVersion::None;
    let Some(installed) = build.lines().next().and_then(Version::find_in).filter(|_| is_plain_nginx) else {
        return Ok(());
    };
    match (ingress.has_h1(), installed < HTTP2_DIRECTIVE) {
        (true, true) => Err(Lacks::PlainH2 { installed }),
        (false, false) => Err(Lacks::H2Alone { installed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Spoken::{H1, H2, H3};

    #[test]
    fn a_server_is_named_with_what_its_build_lists() {
        let of = |kind| installed(kind).map(|look| look());
        assert_eq!((of(IngressKind::Embedded), of(IngressKind::External)), (None, None));
        for (kind, program) in
            [(IngressKind::Haproxy, HAPROXY), (IngressKind::Nginx, NGINX), (IngressKind::Caddy, CADDY)]
        {
            let Some(server) = of(kind).unwrap() else {
                assert!(program.find().is_err(), "{} is installed", program.title);
                continue;
            };
            assert!(server.name.starts_with(program.title), "{server:?}");
            assert_eq!(server.speaks.first(), Some(&"h1"));
            let can = |protocols: &[Spoken]| {
                let (protocols, tls) = (protocols.to_vec(), TlsVersion::V13);
                feasible(&IngressSettings { kind, protocols, tls, ..IngressSettings::default() }).is_ok()
            };
            assert_eq!(server.speaks.contains(&"h2"), can(&[H1, H2]), "{server:?}");
            assert_eq!(server.speaks.contains(&"h3"), can(&[H1, H3]), "{server:?}");
        }
    }

    #[test]
    fn protocols_are_one_or_both() {
        let with = |kind, protocols: &[Spoken], streams| {
            let protocols = protocols.to_vec();
            let ingress = IngressSettings { kind, protocols, streams, ..IngressSettings::default() };
            check(&ingress).map_or_else(|fault| fault.to_string(), |()| "none".to_owned())
        };
        let (haproxy, external) = (IngressKind::Haproxy, IngressKind::External);
        assert_eq!(with(haproxy, &[H2, H1], Some(8)), "none");
        assert_eq!(with(IngressKind::Embedded, &[H1, H2], Some(8)), "none");
        assert_eq!(with(external, &[H1], None), "none");
        assert_eq!(with(IngressKind::Embedded, &[H2], Some(8)), "none");
        assert_eq!(with(haproxy, &[H2], None), "none");
        let faults = [
            with(haproxy, &[], None),
            with(IngressKind::Nginx, &[H2], None),
            with(IngressKind::Caddy, &[H2], None),
            with(external, &[H2], None),
            with(haproxy, &[H1, H1], None),
            with(haproxy, &[H1, H2, H2], None),
            with(external, &[H1, H2], None),
            with(haproxy, &[H1], Some(8)),
            with(IngressKind::Caddy, &[H1, H2], Some(8)),
            with(haproxy, &[H1, H2], Some(0)),
            with(haproxy, &[H1, H2], Some(STREAMS_MAX + 1)),
        ];
        insta::assert_snapshot!(faults.join("\n"), @"
        system.ingress.protocols: name at least one of `h1`, `h2` and `h3`, such as `[h1, h2]`
        system.ingress.protocols: over TLS, nginx offers `http/1.1` beside `h2`, whatever its configuration; add h1, and choose with `load.protocol`
        system.ingress.protocols: Caddy refuses a configuration with h2 and without h1; add h1, and choose with `load.protocol`
        system.ingress.protocols: an external system speaks what its own configuration says; leave out `protocols`
        system.ingress.protocols: name each protocol once
        system.ingress.protocols: name each protocol once
        system.ingress.protocols: an external system speaks what its own configuration says; leave out `protocols`
        system.ingress.streams: only h2 and h3 have streams; add one with `protocols: [h1, h2]`
        system.ingress.streams: Caddy has no setting for the streams of a connection
        system.ingress.streams: a connection has 1 to 65535 streams
        system.ingress.streams: a connection has 1 to 65535 streams
        ");
    }

    #[test]
    fn h3_goes_beside_others_where_its_handshakes_can_be_done() {
        let with = |kind, tls, offload, protocols: &[Spoken]| {
            let protocols = protocols.to_vec();
            let ingress = IngressSettings { kind, tls, offload, protocols, ..IngressSettings::default() };
            check(&ingress).map_or_else(|fault| fault.to_string(), |()| "none".to_owned())
        };
        let (embedded, v13, none) = (IngressKind::Embedded, TlsVersion::V13, Offload::None);
        for protocols in [&[H1, H3][..], &[H1, H2, H3], &[H2, H3]] {
            assert_eq!(with(embedded, v13, none.clone(), protocols), "none");
            assert_eq!(with(IngressKind::Haproxy, v13, none.clone(), protocols), "none");
        }
        assert_eq!(with(IngressKind::Nginx, v13, none.clone(), &[H1, H3]), "none");
        let faults = [
            with(embedded, v13, none.clone(), &[H3]),
            with(embedded, TlsVersion::None, none.clone(), &[H1, H3]),
            with(embedded, TlsVersion::V12, none.clone(), &[H1, H3]),
            with(embedded, v13, Offload::Threads, &[H1, H3]),
            with(embedded, v13, Offload::Multibuffer, &[H1, H2, H3]),
            with(IngressKind::Haproxy, v13, Offload::Provider("p".to_owned()), &[H1, H3]),
            with(IngressKind::Nginx, v13, none.clone(), &[H2, H3]),
            with(IngressKind::Caddy, v13, none, &[H2, H3]),
        ];
        insta::assert_snapshot!(faults.join("\n"), @"
        system.ingress.protocols: h3 needs another version beside it; write `[h1, h3]`, `[h2, h3]` or `[h1, h2, h3]`
        system.ingress.protocols: h3 needs TLS 1.3; set `tls: \"1.3\"`
        system.ingress.protocols: h3 needs TLS 1.3; set `tls: \"1.3\"`
        system.ingress.protocols: a handshake of h3 runs inside QUIC, which cannot set it aside while a device works; leave out h3 or `offload`
        system.ingress.protocols: a handshake of h3 runs inside QUIC, which cannot set it aside while a device works; leave out h3 or `offload`
        system.ingress.protocols: a handshake of h3 runs inside QUIC, which cannot set it aside while a device works; leave out h3 or `offload`
        system.ingress.protocols: over TLS, nginx offers `http/1.1` beside `h2`, whatever its configuration; add h1, and choose with `load.protocol`
        system.ingress.protocols: Caddy speaks h3 beside h1; write `[h1, h3]` or `[h1, h2, h3]`
        ");
    }

    #[test]
    fn a_version_that_lacks_a_protocol_is_named() {
        let nginx = |build: &str, tls, protocols: &[Spoken]| {
            let ingress =
                IngressSettings { tls, protocols: protocols.to_vec(), ..IngressSettings::default() };
            let lacking = lack(NGINX, NGINX_MARKS, build, &ingress);
            lacking.map_or_else(|lacks| lacks.to_string(), |()| "nothing".to_owned())
        };
        let old = "nginx version: nginx/1.22.1\nconfigure arguments: --with-http_v2_module";
        let new = "nginx version: nginx/1.26.3\nconfigure arguments: --with-http_v2_module";
        let (both, plain) = (&[H1, H2], TlsVersion::None);
        assert_eq!(nginx(old, TlsVersion::V13, both), "nothing");
        assert_eq!([nginx(new, plain, both), nginx(old, plain, &[H2])], ["nothing", "nothing"]);
        insta::assert_snapshot!(nginx(new, plain, &[H2]), @"nginx 1.26.3 serves h1 wherever it serves h2; h2 alone needs nginx before 1.25.1");
        insta::assert_snapshot!(nginx(old, plain, both), @"nginx 1.22.1 serves h1 and h2 on one port only over TLS; without TLS, that needs nginx 1.25.1 or later");
        insta::assert_snapshot!(nginx("nginx version: nginx/1.26.3", TlsVersion::V13, both), @"this nginx was built without h2: `nginx -V` does not list it");
        insta::assert_snapshot!(nginx(new, TlsVersion::V13, &[H1, H3]), @"this nginx was built without h3: `nginx -V` does not list it; that of Debian 13 has it");
    }
}
