//! The proof that an engine or a provider did its work.
//!
//! Three questions, from the cheapest to the one that cannot be answered wrongly: has the program its library in
//! memory; did a QAT device count requests; and, where no device counts, did the program spend less CPU time on a
//! handshake than the same program without it.

use plumb_host::facts::HostFacts;
use plumb_model::{Evidence, RequiredSaving};
use plumb_path::Snapshot;

use super::as_f64;
use crate::spec::{HttpSettings, IngressKind, Offload};
use crate::system::{LIBRARY_STATE, QAT_REQUESTS, QAT_TELEMETRY};

/// The `what` of evidence from a device's own counters.
const DEVICE_EVIDENCE: &str = "requests that QAT devices counted";

/// How many requests a device has to have counted for every full handshake. It is one at least, the signature; the
/// counters are read at other moments than the load's, some handshakes apart.
const REQUESTS_PER_HANDSHAKE_MIN: f64 = 0.9;

impl HttpSettings {
    /// The name or path of the engine or provider that the ingress is to use.
    fn module(&self) -> Option<&str> {
        match &self.system.ingress.offload {
            Offload::Engine(asked) | Offload::Provider(asked) => Some(asked),
            Offload::None | Offload::Threads | Offload::Multibuffer => None,
        }
    }

    /// Whether the program has the library in its memory. Without it there is nothing to look for; with it nothing is
    /// proven yet.
    pub(super) fn library_evidence(&self, after: &Snapshot) -> Option<Evidence> {
        let asked = self.module()?;
        let mapped = after.states.get(LIBRARY_STATE).map_or("", String::as_str);
        Some(Evidence {
            what: format!("library in the memory of {}", self.program()),
            expected: asked.to_owned(),
            observed: if mapped.is_empty() { "none of that name".to_owned() } else { mapped.to_owned() },
            holds: !mapped.is_empty(),
        })
    }

    /// What QAT devices counted, where there are any whose counters can be read.
    pub(super) fn device_evidence(&self, before: &Snapshot, after: &Snapshot, full: u64) -> Option<Evidence> {
        self.module()?;
        let requests = after.moved(before, QAT_REQUESTS)?;
        let telemetry = after.states.get(QAT_TELEMETRY).map(|words| format!("; {words}")).unwrap_or_default();
        Some(Evidence {
            what: DEVICE_EVIDENCE.to_owned(),
            expected: "at least 1 for every full handshake".to_owned(),
            observed: format!("{requests} for {full} full handshakes{telemetry}"),
            holds: full == 0 || as_f64(requests) >= REQUESTS_PER_HANDSHAKE_MIN * as_f64(full),
        })
    }

    /// What has to be saved where no device counts, and the settings that it is saved against.
    pub(super) fn saving(&self) -> Option<(Self, RequiredSaving)> {
        let asked = self.module()?;
        let mut without = self.clone();
        without.system.ingress.offload = Offload::None;
        without.system.ingress.offload_mode = None;
        let saving = RequiredSaving {
            what: format!("CPU time of {} per full handshake", self.program()),
            component: "ingress".to_owned(),
            per: ("handshakes".to_owned(), "full".to_owned()),
            than: None,
            unless: DEVICE_EVIDENCE.to_owned(),
            hint: hint(asked, &HostFacts::read()),
        };
        Some((without, saving))
    }

    /// How the ingress is called.
    pub(super) fn program(&self) -> &'static str {
        match self.system.ingress.kind {
            IngressKind::Embedded => "the embedded ingress",
            IngressKind::Haproxy => "HAProxy",
            IngressKind::Nginx => "nginx",
            IngressKind::External => "the external system",
        }
    }
}

/// What Intel's engine and provider need in order to do anything without a device. That they look at the CPU's maker is
/// in QAT_Engine's source (github.com/intel/QAT_Engine 1.9.0, `e_qat.c`, `qat_sw_cpu_support`).
fn hint(asked: &str, host: &HostFacts) -> Option<String> {
    if !asked.contains("qatengine") && !asked.contains("qatprovider") {
        return None;
    }
    let cpu = host.cpu_model.as_deref().unwrap_or("one of an unknown model");
    Some(match host.cpu_vendor.as_deref() {
        Some("GenuineIntel") => format!(
            "without a QAT device, Intel's QAT_Engine takes private-key operations over only on CPUs with AVX-512 IFMA and \
             VAES and in asynchronous mode, and leaves them to OpenSSL otherwise; this CPU is {cpu}"
        ),
        _ => format!(
            "without a QAT device, Intel's QAT_Engine takes private-key operations over only on Intel CPUs, and leaves \
             them to OpenSSL on all others while it says that it is available; this CPU is {cpu}"
        ),
    })
}
