//! A system that was built here, of whatever parts.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use plumb_devices::Batcher;
use plumb_host::cpu::{CpuTime, thread_cpu_times, tree_cpu_time};
use plumb_ingress::{Config, EmbeddedIngress, Http2, Http3, KeyOperations, OriginServer, Timeouts, Tls};
use plumb_model::CpuCost;
use plumb_path::link::LinkedEnds;
use plumb_path::{PathError, Place, Snapshot, System};
use rustls::version::{TLS12, TLS13};

use super::certificates::Certificates;
use super::haproxy::Haproxy;
use super::nginx::Nginx;
use super::program::Program;
use super::readiness::{self, Answered, Expected};
use super::{caddy, offload};
use crate::settings::{
    IngressKind, IngressSettings, Offload, OffloadMode, OriginKind, OriginSettings, Spoken, SystemSettings,
    TlsVersion,
};
use crate::target::Target;

/// The ingress and the origin, and how they are reached.
#[derive(Debug)]
pub(super) struct Running {
    // Ended in this order: an origin that ends first makes errors of requests that are on their way.
    ingress: Option<Ingress>,
    origin: Option<Origin>,
    /// The link between the load and the ingress.
    link: Option<LinkedEnds>,
    target: Target,
    states: BTreeMap<String, String>,
    cpu_at_start: CpuTime,
    /// Whether QAT devices are to be asked what they counted.
    uses_qat: bool,
    has_h3: bool,
}

#[derive(Debug)]
enum Ingress {
    Embedded(EmbeddedIngress),
    Haproxy(Haproxy),
    Nginx(Nginx),
    Caddy(Program),
}

#[derive(Debug)]
enum Origin {
    Embedded(OriginServer),
    Nginx(Box<Nginx>),
}

impl Running {
    pub(super) fn start(spec: &SystemSettings, place: &Place) -> Result<Self, PathError> {
        let cpu_at_start = own_cpu()?;
        let link = (!spec.link.is_empty()).then(|| LinkedEnds::join(&spec.link)).transpose()?;
        if let Some(link) = &link {
            link.enter_system()?;
        }
        let reached_at = if link.is_some() { Some(LinkedEnds::ADDRESS) } else { place.address };
        let address = reached_at.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let certificates = match spec.ingress.tls {
            TlsVersion::None => None,
            TlsVersion::V12 | TlsVersion::V13 => {
                Some(Certificates::in_scratch(&place.scratch, spec.ingress.key, address)?)
            }
        };
        let origin = Origin::start(&spec.origin, place)?;
        let expected = Expected {
            address,
            certificates: certificates.as_ref(),
            protocol: if spec.ingress.has_h1() { Spoken::H1 } else { Spoken::H2 },
            body_bytes: spec.origin.body.0,
        };
        let (ingress, proof) = Ingress::start(&spec.ingress, origin.port(), place, expected)?;
        if let Some(link) = &link {
            link.resolve_addresses()?;
        }
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let authority = match reached_at {
            Some(address) => SocketAddr::new(address, ingress.port()).to_string(),
            None => format!("localhost:{}", ingress.port()),
        };
        let target = Target {
            url: format!("{scheme}://{authority}/"),
            ca_pem: certificates.map(|certificates| certificates.ca_pem),
            connect: None,
            netns: link.as_ref().map(LinkedEnds::path_of_load),
        };
        let states = states(&spec.ingress, proof);
        let uses_qat = offload::is_qat(&spec.ingress);
        let (ingress, origin) = (Some(ingress), Some(origin));
        let has_h3 = spec.ingress.has_h3();
        Ok(Self { ingress, origin, link, target, states, cpu_at_start, uses_qat, has_h3 })
    }
}

#[cfg(test)]
impl Running {
    /// The ingress' process, if it is a program.
    pub(super) fn ingress_pid(&mut self) -> Option<u32> {
        self.ingress.as_mut()?.program().map(|program| program.pid())
    }
}

/// CPU time of this process and of all programs that it started.
fn own_cpu() -> Result<CpuTime, PathError> {
    Ok(tree_cpu_time(std::process::id())?)
}

/// The settings that were asked for, and the proving request's observations of them.
fn states(spec: &IngressSettings, proof: Answered) -> BTreeMap<String, String> {
    let offload = match &spec.offload {
        Offload::None => "none".to_owned(),
        Offload::Threads => "threads".to_owned(),
        Offload::Multibuffer => "multibuffer".to_owned(),
        Offload::Engine(asked) => format!("engine {asked}"),
        Offload::Provider(asked) => format!("provider {asked}"),
    };
    let states = [
        ("tls", Some(proof.tls)),
        ("cipher", proof.cipher),
        ("key", (spec.tls != TlsVersion::None).then(|| spec.key.name().to_owned())),
        ("offload", Some(offload)),
    ];
    states.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

impl System for Running {
    fn target(&self) -> serde_json::Value {
        serde_json::json!(self.target)
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let (Some(ingress), Some(origin)) = (&mut self.ingress, &mut self.origin) else {
            return Err(PathError::new("take a snapshot of the system: it was stopped"));
        };
        ingress.check()?;
        origin.check()?;
        let mut components = ingress.cpu_ns()?;
        components.insert("origin".to_owned(), origin.cpu_ns()?);
        let cpu = own_cpu()?.saturating_sub(self.cpu_at_start);
        let mut states = self.states.clone();
        states.extend(ingress.states()?);
        let mut counters = ingress.counters()?;
        if self.has_h3 {
            let dropped = ingress.datagrams_dropped()?;
            counters.extend(dropped.map(|count| ("datagrams_dropped".to_owned(), count)));
        }
        let workers = ingress.workers();
        let worker_cpu_ns = if workers.is_empty() { ingress.worker_cpu_ns(&states) } else { BTreeMap::new() };
        if self.uses_qat {
            let devices = plumb_host::qat::qat_devices();
            counters.extend(offload::device_counters(&devices));
            states.extend(offload::device_states(&devices));
        }
        let mut cpu = CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, components };
        if let Some(link) = &self.link {
            link.subtract_link_cpu(&mut cpu);
        }
        let mut snapshot = Snapshot { cpu, counters, states, workers, worker_cpu_ns, ..Snapshot::default() };
        if let Some(link) = &self.link {
            link.observe(&mut snapshot)?;
        }
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        let ingress = self.ingress.take().map_or(Ok(()), Ingress::stop);
        let origin = self.origin.take().map_or(Ok(()), Origin::stop);
        ingress.and(origin)
    }
}

/// CPU time of this process's threads of a name, in ns.
fn threads_cpu_ns(prefix: &str) -> Result<u64, PathError> {
    Ok(thread_cpu_times(prefix)?.iter().map(|thread| thread.cpu_ns).sum())
}

fn program_cpu_ns(program: &Program) -> Result<u64, PathError> {
    Ok(tree_cpu_time(program.pid())?.total_ns())
}

impl Ingress {
    fn start(
        spec: &IngressSettings,
        origin_port: u16,
        place: &Place,
        expected: Expected<'_>,
    ) -> Result<(Self, Answered), PathError> {
        Ok(match spec.kind {
            IngressKind::Embedded => {
                let ingress = embedded_ingress(spec, origin_port, place, expected)?;
                let proof = prove("the embedded ingress", ingress.port(), expected, || ingress.has_ended())?;
                (Self::Embedded(ingress), proof)
            }
            IngressKind::Haproxy => {
                let (ingress, proof) = Haproxy::start(spec, origin_port, place, expected)?;
                (Self::Haproxy(ingress), proof)
            }
            IngressKind::Nginx => {
                let (ingress, proof) = Nginx::start_ingress(spec, origin_port, place, expected)?;
                (Self::Nginx(ingress), proof)
            }
            IngressKind::Caddy => {
                let (ingress, proof) = caddy::start(spec, origin_port, place, expected)?;
                (Self::Caddy(ingress), proof)
            }
            IngressKind::External => {
                return Err(PathError::new("build an external system: it exists already"));
            }
        })
    }

    /// The program; `None` for the embedded ingress.
    fn program(&mut self) -> Option<&mut Program> {
        match self {
            Self::Embedded(_) => None,
            Self::Haproxy(ingress) => Some(ingress.program()),
            Self::Nginx(ingress) => Some(ingress.program()),
            Self::Caddy(program) => Some(program),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Embedded(ingress) => ingress.port(),
            Self::Haproxy(ingress) => ingress.port(),
            Self::Nginx(ingress) => ingress.port(),
            Self::Caddy(program) => program.port(),
        }
    }

    fn check(&mut self) -> Result<(), PathError> {
        match self {
            Self::Embedded(ingress) => check_embedded("ingress", ingress.has_ended()),
            _ => self.program().map_or(Ok(()), Program::check),
        }
    }

    fn cpu_ns(&mut self) -> Result<BTreeMap<String, u64>, PathError> {
        let (ingress_ns, worker_ns) = match self.program() {
            None => (threads_cpu_ns("ingress-")?, threads_cpu_ns("worker-")?),
            Some(program) => (program_cpu_ns(program)?, 0),
        };
        Ok(BTreeMap::from([("ingress".to_owned(), ingress_ns), ("worker".to_owned(), worker_ns)]))
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, PathError> {
        match self {
            Self::Embedded(ingress) => Ok(ingress.counters()),
            Self::Haproxy(ingress) => ingress.counters(),
            Self::Nginx(ingress) => ingress.counters(),
            Self::Caddy(_) => Ok(BTreeMap::new()),
        }
    }

    /// Datagrams that the kernel dropped at its sockets, or at all of its network namespace, unless the ingress counts them itself.
    fn datagrams_dropped(&mut self) -> Result<Option<u64>, PathError> {
        match self {
            Self::Nginx(ingress) => ingress.program().datagrams_dropped(),
            Self::Caddy(program) => program.datagrams_dropped(),
            // It has a socket for each connection, and the count disappears with it.
            Self::Haproxy(ingress) => ingress.program().datagrams_dropped_in_namespace(),
            Self::Embedded(_) => Ok(None),
        }
    }

    /// Requests by worker, as far as the last reading of its counters has them, if it has several and counts them.
    fn workers(&self) -> BTreeMap<String, u64> {
        match self {
            Self::Embedded(ingress) => ingress.requests_by_thread(),
            Self::Nginx(ingress) => ingress.workers(),
            Self::Haproxy(_) | Self::Caddy(_) => BTreeMap::new(),
        }
    }

    /// CPU time by worker, in ns, if it has several and they are threads or processes.
    fn worker_cpu_ns(&self, states: &BTreeMap<String, String>) -> BTreeMap<String, u64> {
        match self {
            Self::Haproxy(ingress) => ingress.worker_cpu_ns(states),
            Self::Nginx(ingress) => ingress.worker_cpu_ns(),
            Self::Embedded(_) | Self::Caddy(_) => BTreeMap::new(),
        }
    }

    fn states(&mut self) -> Result<BTreeMap<String, String>, PathError> {
        match self {
            Self::Embedded(ingress) => Ok(ingress.states()),
            Self::Haproxy(ingress) => ingress.states(),
            Self::Nginx(ingress) => Ok(ingress.states()),
            Self::Caddy(program) => Ok(caddy::states(program)),
        }
    }

    /// Dropping the embedded one ends it.
    fn stop(mut self) -> Result<(), PathError> {
        self.program().map_or(Ok(()), Program::stop)
    }
}

/// The streams of an h2 or h3 connection to the embedded ingress at a time: as many as HAProxy allows one of h2.
const STREAMS_DEFAULT: u32 = 100;

/// Starts the embedded ingress as the settings have it.
fn embedded_ingress(
    spec: &IngressSettings,
    origin_port: u16,
    place: &Place,
    Expected { address, certificates, .. }: Expected<'_>,
) -> Result<EmbeddedIngress, PathError> {
    let tls = certificates.map(|Certificates { leaf, key, .. }| Tls {
        version: if spec.tls == TlsVersion::V12 { &TLS12 } else { &TLS13 },
        tickets: spec.tickets,
        leaf,
        key,
        key_operations: key_operations(spec, place),
    });
    let (threads, timeouts) = (spec.threads, Timeouts::default());
    let streams_max = spec.streams.unwrap_or(STREAMS_DEFAULT);
    let http2 = spec.has_h2().then(|| Http2 { streams_max, is_alone: !spec.has_h1() });
    let http3 = spec.has_h3().then_some(Http3 { streams_max, takes_zero_rtt: spec.zero_rtt });
    let config = Config { address, origin_port, threads, tls, http2, http3, timeouts };
    EmbeddedIngress::start(&config).map_err(|error| PathError::new(error.to_string()))
}

fn key_operations(spec: &IngressSettings, place: &Place) -> KeyOperations {
    match (&spec.offload, spec.offload_mode.unwrap_or_default()) {
        (Offload::None | Offload::Engine(_) | Offload::Provider(_), _) => KeyOperations::Inline,
        (Offload::Threads, _) => {
            KeyOperations::Workers(spec.workers.map_or(place.cpus, |workers| workers as usize))
        }
        (Offload::Multibuffer, OffloadMode::Sync) => KeyOperations::OneByOne,
        (Offload::Multibuffer, OffloadMode::Async) => {
            let wait_ns_max = spec.batch_wait.map_or(Batcher::<()>::BOUND_NS, |wait| wait.0);
            KeyOperations::Batches { wait_ns_max }
        }
    }
}

impl Origin {
    fn start(spec: &OriginSettings, place: &Place) -> Result<Self, PathError> {
        let body_bytes = spec.body.0;
        match spec.kind {
            OriginKind::Embedded => {
                let failed = |reason: String| PathError::new(format!("start the embedded origin: {reason}"));
                let size = usize::try_from(body_bytes).map_err(|error| failed(error.to_string()))?;
                let origin = OriginServer::start(size).map_err(|error| failed(error.to_string()))?;
                prove("the embedded origin", origin.port(), Expected::of_origin(body_bytes), || {
                    origin.has_ended()
                })?;
                Ok(Self::Embedded(origin))
            }
            OriginKind::Nginx => Ok(Self::Nginx(Box::new(Nginx::start_origin(body_bytes, place)?))),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Embedded(origin) => origin.port(),
            Self::Nginx(origin) => origin.port(),
        }
    }

    fn check(&mut self) -> Result<(), PathError> {
        match self {
            Self::Embedded(origin) => check_embedded("origin", origin.has_ended()),
            Self::Nginx(origin) => origin.program().check(),
        }
    }

    fn cpu_ns(&mut self) -> Result<u64, PathError> {
        match self {
            Self::Embedded(_) => threads_cpu_ns("origin-"),
            Self::Nginx(origin) => program_cpu_ns(origin.program()),
        }
    }

    fn stop(self) -> Result<(), PathError> {
        match self {
            Self::Embedded(origin) => {
                drop(origin);
                Ok(())
            }
            Self::Nginx(mut origin) => origin.program().stop(),
        }
    }
}

fn check_embedded(name: &str, has_ended: bool) -> Result<(), PathError> {
    if has_ended {
        Err(PathError::new(format!("keep the embedded {name} running: its thread has ended")))
    } else {
        Ok(())
    }
}

fn prove(
    title: &str,
    port: u16,
    expected: Expected<'_>,
    has_ended: impl Fn() -> bool,
) -> Result<Answered, PathError> {
    let check = || check_embedded(title.trim_start_matches("the embedded "), has_ended());
    readiness::prove(port, expected, check)?
        .map_err(|reason| PathError::new(format!("get the origin's answer from {title}: {reason}")))
}
