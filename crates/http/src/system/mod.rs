//! Systems under test of the `http` data path: an ingress in front of an origin, built, proven to answer, and
//! watched.

mod certificates;
mod http1;
mod ingress;
mod net;
mod origin;
mod readiness;

use std::collections::BTreeMap;

use plumb_host::cpu::{CpuTime, thread_cpu_times, tree_cpu_time};
use plumb_model::CpuCost;
use plumb_path::{PathError, Place, Snapshot, System};

use crate::spec::{IngressSpec, SystemSpec, Target, TlsVersion};
use certificates::Certificates;
use ingress::{EmbeddedIngress, Timeouts};
use origin::OriginServer;
use readiness::Proof;

/// Builds and starts an HTTP system, and proves that it answers.
///
/// Programs are started as children that die with the calling thread: call it from one that lives as long as the
/// system is to live.
///
/// # Errors
///
/// When a program is missing or does not start, or the system does not answer within 10 s.
pub fn http_system(spec: &SystemSpec, place: &Place) -> Result<Box<dyn System>, PathError> {
    Ok(Box::new(Built::start(spec, place)?))
}

struct Built {
    // Dropped in this order: an origin that ends first makes errors of requests that are on their way.
    ingress: EmbeddedIngress,
    origin: OriginServer,
    target: Target,
    states: BTreeMap<String, String>,
    cpu_at_start: CpuTime,
}

impl Built {
    fn start(spec: &SystemSpec, place: &Place) -> Result<Self, PathError> {
        let cpu_at_start = tree_cpu_time(std::process::id())?;
        let certificates = match spec.ingress.tls {
            TlsVersion::None => None,
            TlsVersion::V12 | TlsVersion::V13 => {
                Some(Certificates::in_scratch(&place.scratch, spec.ingress.key)?)
            }
        };
        let origin = OriginServer::start(spec.origin.body.0 as usize)
            .map_err(|error| PathError::new(format!("start the embedded origin: {error}")))?;
        let workers = spec.ingress.workers.map_or(place.cpus, |workers| workers as usize);
        let ingress = EmbeddedIngress::start(
            &spec.ingress,
            origin.port(),
            certificates.as_ref(),
            workers,
            Timeouts::default(),
        )?;
        let port = ingress.port();
        let proof =
            readiness::prove(port, certificates.as_ref(), spec.origin.body.0, || Ok::<(), PathError>(()))?
                .map_err(|reason| PathError::new(format!("get an answer from the system: {reason}")))?;
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let target = Target {
            url: format!("{scheme}://localhost:{port}/"),
            ca_pem: certificates.map(|certificates| certificates.ca_pem),
        };
        Ok(Self { states: states(&spec.ingress, proof), ingress, origin, target, cpu_at_start })
    }
}

fn states(spec: &IngressSpec, proof: Proof) -> BTreeMap<String, String> {
    let mut states =
        BTreeMap::from([("tls".to_owned(), proof.tls), ("threads".to_owned(), spec.threads.to_string())]);
    states.extend(proof.cipher.map(|cipher| ("cipher".to_owned(), cipher)));
    states
}

impl System for Built {
    fn target(&self) -> serde_json::Value {
        serde_json::to_value(&self.target).unwrap_or_default()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let cpu = tree_cpu_time(std::process::id())?.saturating_sub(self.cpu_at_start);
        let of_threads = |prefix: &str| -> Result<u64, PathError> {
            Ok(thread_cpu_times(prefix)?.iter().map(|thread| thread.cpu_ns).sum())
        };
        let mut components = BTreeMap::new();
        for name in ["ingress", "worker", "origin"] {
            components.insert(name.to_owned(), of_threads(&format!("{name}-"))?);
        }
        let totals = self.ingress.totals();
        let counters = [
            ("handshakes_full", totals.handshakes_full),
            ("handshakes_resumed", totals.handshakes_resumed),
            ("key_operations_inline", totals.key_operations_inline),
            ("key_operations_device", totals.key_operations_device),
            ("requests", totals.requests),
            ("upstream_connects", totals.upstream_connects),
        ];
        Ok(Snapshot {
            cpu: CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, components },
            counters: counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            states: self.states.clone(),
        })
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}
