//! Checks of a system's settings before it is built.

use std::net::Ipv4Addr;

use plumb_devices::DeviceKind;
use plumb_host::scratch::Scratch;
use plumb_path::link::NoLink;
use plumb_path::{AnyError, Place, SettingsFault};

use super::certificates::Certificates;
use super::config;
use super::haproxy::{self, Haproxy};
use super::installable::{CADDY, HAPROXY, NGINX};
use super::nginx::{self, Nginx};
use super::offload::{Module, is_name_or_path};
use super::protocols;
use crate::settings::{
    IngressKind, IngressSettings, KeyKind, Offload, OffloadMode, OriginKind, SystemSettings, TlsVersion,
};
use crate::url::Url;

/// HAProxy is built for this many (MAX_THREADS), and more than that is a slip of the pen anywhere.
const THREADS_MAX: u32 = 64;
/// The embedded origin keeps its body in memory.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// The longest that an operation may wait for others: more than that is a slip of the pen.
const BATCH_WAIT_NS_MAX: u64 = 1_000_000_000;

/// Checks combinations of settings.
///
/// # Errors
///
/// The first fault, at the key it is about.
pub fn check(spec: &SystemSettings) -> Result<(), SettingsFault> {
    check_url(&spec.ingress)?;
    spec.ingress.run_by().check("system.ingress", spec.ingress.kind == IngressKind::External)?;
    protocols::check(&spec.ingress)?;
    check_threads(&spec.ingress)?;
    check_offload(&spec.ingress)?;
    check_batches(&spec.ingress)?;
    let dialect = match spec.ingress.kind {
        IngressKind::Haproxy => Some(haproxy::DIALECT),
        IngressKind::Nginx => Some(nginx::DIALECT),
        IngressKind::Embedded | IngressKind::Caddy | IngressKind::External => None,
    };
    config::check(&spec.ingress.config, dialect)?;
    test_config(&spec.ingress)?;
    if spec.origin.body.0 > BODY_BYTES_MAX {
        return Err(SettingsFault::new("system.origin.body", "a body has at most 1 GiB"));
    }
    Ok(())
}

/// Has the program test a user's configuration, where it is installed.
fn test_config(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    let program = match ingress.kind {
        IngressKind::Haproxy => HAPROXY,
        IngressKind::Nginx => NGINX,
        IngressKind::Embedded | IngressKind::Caddy | IngressKind::External => return Ok(()),
    };
    if ingress.config.is_empty() || program.find().is_err() {
        return Ok(());
    }
    let fault = |message: String| SettingsFault::new("system.ingress.config", message);
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-config-")
        .map_err(|error| fault(format!("failed to {error}")))?;
    let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 };
    // Any key does: what is tested is the configuration.
    let certificates = match ingress.tls {
        TlsVersion::None => None,
        _ => Some(Certificates::in_scratch(&place.scratch, KeyKind::EcdsaP256, Ipv4Addr::LOCALHOST.into())),
    };
    let test = |certificates: Option<&Certificates>| match ingress.kind {
        IngressKind::Haproxy => Haproxy::test(ingress, &place, certificates),
        _ => Nginx::test(ingress, &place, certificates),
    };
    let tested = certificates.transpose().and_then(|certificates| test(certificates.as_ref()));
    tested.map_err(|error| fault(format!("{} refuses this configuration: {error}", program.title)))
}

/// Whether this host has what the system needs.
///
/// # Errors
///
/// When a program, a library or a CPU feature is missing.
pub fn feasible(spec: &SystemSettings) -> Result<(), AnyError> {
    protocols::feasible(&spec.ingress)?;
    if !spec.link.is_empty() {
        NoLink::check(&spec.link)?;
    }
    match spec.ingress.kind {
        IngressKind::External => return Ok(()),
        IngressKind::Embedded if spec.ingress.offload == Offload::Multibuffer => {
            DeviceKind::Multibuffer.probe()?;
        }
        IngressKind::Embedded => {}
        IngressKind::Caddy => {
            CADDY.find()?;
        }
        IngressKind::Haproxy => {
            HAPROXY.find()?;
            Module::asked_by(&spec.ingress, HAPROXY)?;
        }
        IngressKind::Nginx => {
            NGINX.find()?;
            Module::asked_by(&spec.ingress, NGINX)?;
        }
    }
    match spec.origin.kind {
        OriginKind::Embedded => Ok(()),
        OriginKind::Nginx => {
            NGINX.find()?;
            Ok(())
        }
    }
}

/// Where an external system is: either a URL, or one object of a cluster.
fn check_url(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    let fault =
        |key: &str, message: String| Err(SettingsFault::new(format!("system.ingress.{key}"), message));
    let objects = ingress.cluster_objects();
    let is_external = ingress.kind == IngressKind::External;
    match (&ingress.url, objects.as_slice()) {
        (_, [object, ..]) if !is_external => {
            let key = object.kind.key();
            fault(key, format!("`{key}` names a system that exists already; it needs `kind: external`"))
        }
        (Some(_), [object, ..]) => fault(
            object.kind.key(),
            format!("a {} says itself where it leads; leave out `url`", object.kind.name()),
        ),
        (None, [_, second, ..]) => fault(
            second.kind.key(),
            "name the system by only one of `url`, `service`, `ingress`, `route` and `gateway`".to_owned(),
        ),
        (None, [object]) => {
            object.check().or_else(|error| fault(object.kind.key(), error.to_string()))?;
            match ingress.connect {
                Some(_) => fault("connect", "goes with `url`; an object of a cluster has an address".to_owned()),
                None => Ok(()),
            }
        }
        (_, []) if ingress.namespace.is_some() => {
            fault("namespace", "is that of `service`, `ingress`, `route` or `gateway`".to_owned())
        }
        (None, []) if is_external => fault(
            "url",
            "`kind: external` needs a `url`, such as `url: https://example.org/`, or the name of a `service`, `ingress`, \
             `route` or `gateway` of the places' cluster"
                .to_owned(),
        ),
        (Some(url), []) if is_external => {
            Url::parse(url).map(drop).or_else(|error| fault("url", format!("failed to {error}")))
        }
        (Some(_), []) => {
            fault("url", "only `kind: external` has a `url`; the others get one when they start".to_owned())
        }
        (None, []) if ingress.connect.is_some() => {
            fault("connect", "only `kind: external` has an address to connect to".to_owned())
        }
        (None, []) => Ok(()),
    }
}

fn check_threads(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    if (1..=THREADS_MAX).contains(&ingress.threads) {
        return Ok(());
    }
    Err(SettingsFault::new("system.ingress.threads", format!("an ingress has 1 to {THREADS_MAX} threads")))
}

fn check_offload(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    check_kind(ingress)?;
    if ingress.offload != Offload::None && ingress.tls == TlsVersion::None {
        let message = "without TLS there are no private-key operations to offload; set `tls: \"1.2\"` or `tls: \"1.3\"`";
        return Err(SettingsFault::new("system.ingress.offload", message));
    }
    match ingress.workers {
        Some(_) if ingress.offload != Offload::Threads => {
            Err(SettingsFault::new("system.ingress.workers", "only `offload: threads` has workers"))
        }
        Some(workers) if !(1..=THREADS_MAX).contains(&workers) => {
            Err(SettingsFault::new("system.ingress.workers", format!("there are 1 to {THREADS_MAX} workers")))
        }
        _ => Ok(()),
    }
}

/// Which kind of ingress can do what.
fn check_kind(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    let fault = |message: &str| Err(SettingsFault::new("system.ingress.offload", message));
    let is_program = matches!(ingress.kind, IngressKind::Haproxy | IngressKind::Nginx);
    match &ingress.offload {
        Offload::None => Ok(()),
        Offload::Threads | Offload::Multibuffer if ingress.kind == IngressKind::Embedded => Ok(()),
        Offload::Threads | Offload::Multibuffer => fault(
            "only `kind: embedded` offloads to threads or batches; HAProxy and nginx take `{ engine: … }` or `{ provider: … }`",
        ),
        Offload::Engine(_) | Offload::Provider(_) if !is_program => {
            fault("only `kind: haproxy` and `kind: nginx` take an engine or a provider of OpenSSL")
        }
        Offload::Engine(asked) | Offload::Provider(asked) if !is_name_or_path(asked) => fault(
            "an engine or a provider is a name, such as `qatengine`, or the absolute path of its library; it may contain \
             only letters, digits and `._-+/`, because a configuration file holds it",
        ),
        Offload::Engine(_) | Offload::Provider(_) => Ok(()),
    }
}

fn check_batches(ingress: &IngressSettings) -> Result<(), SettingsFault> {
    let (mode, wait) = (ingress.offload_mode, ingress.batch_wait);
    if mode.is_some() && matches!(ingress.offload, Offload::None | Offload::Threads) {
        let message = "only `offload: multibuffer`, an engine and a provider have a mode";
        return Err(SettingsFault::new("system.ingress.offload_mode", message));
    }
    if mode == Some(OffloadMode::Async) && ingress.kind == IngressKind::Nginx {
        let message =
            "nginx waits for every operation, so it has `offload_mode: sync` only; HAProxy has both";
        return Err(SettingsFault::new("system.ingress.offload_mode", message));
    }
    let key = "system.ingress.batch_wait";
    match wait {
        Some(_) if ingress.offload != Offload::Multibuffer => {
            Err(SettingsFault::new(key, "only `offload: multibuffer` gathers batches"))
        }
        Some(_) if mode == Some(OffloadMode::Sync) => Err(SettingsFault::new(
            key,
            "`offload_mode: sync` does one operation at a time and waits for no others",
        )),
        Some(wait) if wait.0 > BATCH_WAIT_NS_MAX => {
            Err(SettingsFault::new(key, "an operation waits for at most 1 s"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::{Bytes, Span};

    use super::*;

    fn fault(change: impl FnOnce(&mut SystemSettings)) -> String {
        let mut spec = SystemSettings::default();
        change(&mut spec);
        check(&spec).map_or_else(|fault| fault.to_string(), |()| "none".to_owned())
    }

    fn engine(spec: &mut SystemSettings, kind: IngressKind, asked: &str, mode: Option<OffloadMode>) {
        let ingress = &mut spec.ingress;
        (ingress.kind, ingress.offload, ingress.offload_mode) =
            (kind, Offload::Engine(asked.to_owned()), mode);
    }

    fn multibuffer(spec: &mut SystemSettings, mode: Option<OffloadMode>, wait_ns: u64) {
        let ingress = &mut spec.ingress;
        ingress.offload = Offload::Multibuffer;
        (ingress.offload_mode, ingress.batch_wait) = (mode, Some(Span(wait_ns)));
    }

    #[test]
    fn combinations_that_mean_nothing_are_faults() {
        assert_eq!(fault(|_| ()), "none");
        let faults = [
            fault(|spec| spec.ingress.kind = IngressKind::External),
            fault(|spec| spec.ingress.url = Some("http://localhost/".to_owned())),
            fault(|spec| spec.ingress.threads = 0),
            fault(|spec| spec.ingress.threads = 65),
            fault(|spec| (spec.ingress.kind, spec.ingress.offload) = (IngressKind::Nginx, Offload::Threads)),
            fault(|spec| (spec.ingress.tls, spec.ingress.offload) = (TlsVersion::None, Offload::Threads)),
            fault(|spec| spec.ingress.workers = Some(2)),
            fault(|spec| (spec.ingress.workers, spec.ingress.offload) = (Some(0), Offload::Threads)),
            fault(|spec| spec.origin.body = Bytes(BODY_BYTES_MAX + 1)),
            fault(|spec| {
                (spec.ingress.kind, spec.ingress.offload) = (IngressKind::Haproxy, Offload::Multibuffer)
            }),
            fault(|spec| (spec.ingress.tls, spec.ingress.offload) = (TlsVersion::None, Offload::Multibuffer)),
            fault(|spec| spec.ingress.offload_mode = Some(OffloadMode::Async)),
            fault(|spec| spec.ingress.batch_wait = Some(Span(200_000))),
            fault(|spec| multibuffer(spec, Some(OffloadMode::Sync), 200_000)),
            fault(|spec| multibuffer(spec, None, BATCH_WAIT_NS_MAX + 1)),
            fault(|spec| multibuffer(spec, Some(OffloadMode::Async), 0)),
            fault(|spec| engine(spec, IngressKind::Embedded, "qatengine", None)),
            fault(|spec| engine(spec, IngressKind::Haproxy, "", None)),
            fault(|spec| engine(spec, IngressKind::Haproxy, "a b", None)),
            fault(|spec| engine(spec, IngressKind::Haproxy, "lib/a.so", None)),
            fault(|spec| engine(spec, IngressKind::Haproxy, "/opt/$HOME/a.so", None)),
            fault(|spec| engine(spec, IngressKind::Nginx, "qatengine", Some(OffloadMode::Async))),
            fault(|spec| engine(spec, IngressKind::Nginx, "qatengine", None)),
            fault(|spec| engine(spec, IngressKind::Haproxy, "/opt/a-1_2.so", Some(OffloadMode::Sync))),
        ];
        insta::assert_snapshot!(faults.join("\n"), @r#"
        system.ingress.url: `kind: external` needs a `url`, such as `url: https://example.org/`, or the name of a `service`, `ingress`, `route` or `gateway` of the places' cluster
        system.ingress.url: only `kind: external` has a `url`; the others get one when they start
        system.ingress.threads: an ingress has 1 to 64 threads
        system.ingress.threads: an ingress has 1 to 64 threads
        system.ingress.offload: only `kind: embedded` offloads to threads or batches; HAProxy and nginx take `{ engine: … }` or `{ provider: … }`
        system.ingress.offload: without TLS there are no private-key operations to offload; set `tls: "1.2"` or `tls: "1.3"`
        system.ingress.workers: only `offload: threads` has workers
        system.ingress.workers: there are 1 to 64 workers
        system.origin.body: a body has at most 1 GiB
        system.ingress.offload: only `kind: embedded` offloads to threads or batches; HAProxy and nginx take `{ engine: … }` or `{ provider: … }`
        system.ingress.offload: without TLS there are no private-key operations to offload; set `tls: "1.2"` or `tls: "1.3"`
        system.ingress.offload_mode: only `offload: multibuffer`, an engine and a provider have a mode
        system.ingress.batch_wait: only `offload: multibuffer` gathers batches
        system.ingress.batch_wait: `offload_mode: sync` does one operation at a time and waits for no others
        system.ingress.batch_wait: an operation waits for at most 1 s
        none
        system.ingress.offload: only `kind: haproxy` and `kind: nginx` take an engine or a provider of OpenSSL
        system.ingress.offload: an engine or a provider is a name, such as `qatengine`, or the absolute path of its library; it may contain only letters, digits and `._-+/`, because a configuration file holds it
        system.ingress.offload: an engine or a provider is a name, such as `qatengine`, or the absolute path of its library; it may contain only letters, digits and `._-+/`, because a configuration file holds it
        system.ingress.offload: an engine or a provider is a name, such as `qatengine`, or the absolute path of its library; it may contain only letters, digits and `._-+/`, because a configuration file holds it
        system.ingress.offload: an engine or a provider is a name, such as `qatengine`, or the absolute path of its library; it may contain only letters, digits and `._-+/`, because a configuration file holds it
        system.ingress.offload_mode: nginx waits for every operation, so it has `offload_mode: sync` only; HAProxy has both
        none
        none
        "#);
    }

    #[test]
    fn an_object_of_a_cluster_stands_for_a_url() {
        let fault = |url: Option<&str>, service: Option<&str>, route: Option<&str>, kind| {
            fault(|spec| {
                let text = |text: Option<&str>| text.map(str::to_owned);
                spec.ingress.kind = kind;
                (spec.ingress.url, spec.ingress.service, spec.ingress.route) =
                    (text(url), text(service), text(route));
            })
        };
        let external = IngressKind::External;
        assert_eq!(fault(None, Some("web:80"), None, external), "none");
        let faults = [
            fault(Some("http://a/"), Some("web"), None, external),
            fault(None, Some("web"), Some("web"), external),
            fault(None, None, Some("web:80"), external),
            fault(None, Some("web"), None, IngressKind::Nginx),
        ];
        insta::assert_snapshot!(faults.join("\n"), @r"
        system.ingress.service: a Service says itself where it leads; leave out `url`
        system.ingress.route: name the system by only one of `url`, `service`, `ingress`, `route` and `gateway`
        system.ingress.route: a Route has no port to choose; give its name alone
        system.ingress.service: `service` names a system that exists already; it needs `kind: external`
        ");
    }

    #[test]
    fn an_external_system_needs_a_url_that_is_one() {
        let external = |url: &str| {
            fault(|spec| {
                (spec.ingress.kind, spec.ingress.url) = (IngressKind::External, Some(url.to_owned()))
            })
        };
        assert_eq!(external("https://example.org:8443/path"), "none");
        for url in ["", "example.org", "ftp://example.org/", "http://", "http://a:99999/"] {
            assert!(external(url).starts_with("system.ingress.url: "), "{url:?}: {}", external(url));
        }
    }
}
