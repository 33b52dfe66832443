//! The proof that an engine or a provider did its work.
//!
//! Three questions, from the cheapest to the one that cannot be answered wrongly: has the program its library in
//! memory; did a QAT device count requests; and, where no device counts, did the program spend less CPU time on a
//! handshake than the same program without it.

use plumb_host::facts::HostFacts;
use plumb_host::qat::{QAT_REQUESTS, QAT_TELEMETRY};
use plumb_model::{Evidence, RequiredSaving, facts, statements};
use plumb_path::Snapshot;

use super::as_f64;
use crate::settings::{HttpSettings, IngressKind, Offload};
use crate::system::{LIBRARY_STATE, is_qat};

statements! {
    LIBRARY = "library": "library in the memory of {of}", "{asked}", "{seen}";
    DEVICE = "qat-requests": "requests that QAT devices counted", "at least 1 for every full handshake",
        "{requests} for {full} full handshakes{telemetry}";
}

/// How many requests a device has to have counted for every full handshake. It is one at least, the signature; the
/// counters are read at other moments than the load's, some handshakes apart.
const REQUESTS_PER_HANDSHAKE_MIN: f64 = 0.9;

impl HttpSettings {
    /// Whether the program has the library in its memory. Without it there is nothing to look for; with it nothing is
    /// proven yet.
    pub(super) fn library_evidence(&self, after: &Snapshot) -> Option<Evidence> {
        let asked = self.system.ingress.offload.module()?;
        let mapped = after.states.get(LIBRARY_STATE).map(String::as_str).filter(|mapped| !mapped.is_empty());
        let seen = mapped.unwrap_or("none of that name");
        Some(LIBRARY.evidence(mapped.is_some(), facts![of = self.program(), asked, seen]))
    }

    /// Requests that QAT devices counted, if this host has any whose counters can be read.
    pub(super) fn device_evidence(&self, before: &Snapshot, after: &Snapshot, full: u64) -> Option<Evidence> {
        if !is_qat(&self.system.ingress) {
            return None;
        }
        let requests = after.moved(before, QAT_REQUESTS)?;
        let telemetry = after.states.get(QAT_TELEMETRY).map(|words| format!("; {words}")).unwrap_or_default();
        let holds = full == 0 || as_f64(requests) >= REQUESTS_PER_HANDSHAKE_MIN * as_f64(full);
        Some(DEVICE.evidence(holds, facts![requests, full, telemetry]))
    }

    /// The saving that is required if no device counts, and the settings without offload to compare with.
    pub(crate) fn saving(&self) -> Option<(Self, RequiredSaving)> {
        let asked = self.system.ingress.offload.module()?;
        let mut without = self.clone();
        without.system.ingress.offload = Offload::None;
        without.system.ingress.offload_mode = None;
        let saving = RequiredSaving {
            what: format!("CPU time of {} per full handshake", self.program()),
            component: "ingress".to_owned(),
            per: ("handshakes".to_owned(), "full".to_owned()),
            than: None,
            unless: DEVICE.kind.to_owned(),
            hint: hint(asked, &HostFacts::read_now()),
        };
        Some((without, saving))
    }

    /// How the ingress is called.
    pub(super) fn program(&self) -> &'static str {
        match self.system.ingress.kind {
            IngressKind::Embedded => "the embedded ingress",
            IngressKind::Haproxy => "HAProxy",
            IngressKind::Nginx => "nginx",
            IngressKind::Caddy => "Caddy",
            IngressKind::External => "the external system",
        }
    }
}

/// The conditions under which Intel's engine and provider work without a device. That they look at the CPU's maker is
/// in QAT_Engine's source (github.com/intel/QAT_Engine 1.9.0, `e_qat.c`, `qat_sw_cpu_support`).
fn hint(asked: &str, host: &HostFacts) -> Option<String> {
    if !asked.contains("qatengine") && !asked.contains("qatprovider") {
        return None;
    }
    let cpu = host.cpu_model.as_deref().unwrap_or("one of an unknown model");
    Some(match host.cpu_vendor.as_deref() {
        Some("GenuineIntel") => format!(
            "without a QAT device, Intel's QAT_Engine takes over private-key operations only on CPUs with AVX-512 \
             IFMA and VAES and in asynchronous mode, and leaves them to OpenSSL otherwise; this CPU is {cpu}"
        ),
        _ => format!(
            "without a QAT device, Intel's QAT_Engine takes over private-key operations only on Intel CPUs, and \
             leaves them to OpenSSL on all others, though it says that it is available; this CPU is {cpu}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::OffloadMode;

    fn settings(asked: &str) -> HttpSettings {
        let mut settings = HttpSettings::default();
        settings.system.ingress.kind = IngressKind::Haproxy;
        settings.system.ingress.offload = Offload::Engine(asked.to_owned());
        settings.system.ingress.offload_mode = Some(OffloadMode::Sync);
        settings
    }

    fn snapshot(requests: Option<u64>, library: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.counters.extend(requests.map(|requests| (QAT_REQUESTS.to_owned(), requests)));
        snapshot.states.insert(LIBRARY_STATE.to_owned(), library.to_owned());
        snapshot
    }

    fn evidence_in_words(evidence: Option<Evidence>) -> String {
        evidence.map_or_else(
            || "none".to_owned(),
            |row| format!("{}: {} ({}): {}", row.what, row.observed, row.expected, row.holds),
        )
    }

    #[test]
    fn devices_have_to_count_a_request_for_every_handshake() {
        let settings = settings("qatengine");
        let moved = |before, after, full| {
            evidence_in_words(settings.device_evidence(
                &snapshot(Some(before), ""),
                &snapshot(Some(after), ""),
                full,
            ))
        };
        let mut busy = snapshot(Some(4000), "");
        busy.states.insert(
            QAT_TELEMETRY.to_owned(),
            "qat_4xxx_0 has its public-key slices up to 37% busy".to_owned(),
        );
        let said = [
            moved(1000, 4000, 1000),
            moved(1000, 1000, 1000),
            moved(1000, 1890, 1000),
            moved(1000, 1000, 0),
            evidence_in_words(settings.device_evidence(&snapshot(Some(1000), ""), &busy, 1000)),
            evidence_in_words(settings.device_evidence(&snapshot(None, ""), &snapshot(None, ""), 1000)),
            evidence_in_words(HttpSettings::default().device_evidence(&busy, &busy, 1000)),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        requests that QAT devices counted: 3000 for 1000 full handshakes (at least 1 for every full handshake): true
        requests that QAT devices counted: 0 for 1000 full handshakes (at least 1 for every full handshake): false
        requests that QAT devices counted: 890 for 1000 full handshakes (at least 1 for every full handshake): false
        requests that QAT devices counted: 0 for 0 full handshakes (at least 1 for every full handshake): true
        requests that QAT devices counted: 3000 for 1000 full handshakes; qat_4xxx_0 has its public-key slices up to 37% busy (at least 1 for every full handshake): true
        none
        none
        ");
    }

    #[test]
    fn a_library_that_is_not_in_memory_is_found_out() {
        let said =
            |library| evidence_in_words(settings("qatengine").library_evidence(&snapshot(None, library)));
        insta::assert_snapshot!([said("/usr/lib/engines-3/qatengine.so"), said("")].join("\n"), @"
        library in the memory of HAProxy: /usr/lib/engines-3/qatengine.so (qatengine): true
        library in the memory of HAProxy: none of that name (qatengine): false
        ");
        assert_eq!(HttpSettings::default().library_evidence(&Snapshot::default()), None);
    }

    #[test]
    fn what_it_saves_is_seen_against_the_same_settings_without_it() {
        let mut without = settings("qatengine");
        without.system.ingress.offload = Offload::None;
        without.system.ingress.offload_mode = None;
        let (found, saving) = settings("qatengine").saving().unwrap();
        assert_eq!(found, without);
        assert_eq!((saving.what.as_str(), saving.than), ("CPU time of HAProxy per full handshake", None));
        assert!(saving.hint.is_some());
        assert_eq!(settings("pka").saving().unwrap().1.hint, None);
        assert_eq!(without.saving(), None);
    }

    #[test]
    fn who_has_another_maker_s_cpu_is_told_so() {
        let host = |vendor: &str, model: &str| HostFacts {
            cpu_vendor: Some(vendor.to_owned()),
            cpu_model: Some(model.to_owned()),
            ..HostFacts::default()
        };
        let amd = hint("qatengine", &host("AuthenticAMD", "AMD EPYC 9B14"));
        let intel = hint("/opt/qatprovider.so", &host("GenuineIntel", "Intel(R) Xeon(R) Gold 6230"));
        insta::assert_snapshot!([amd, intel].map(Option::unwrap).join("\n"), @"
        without a QAT device, Intel's QAT_Engine takes over private-key operations only on Intel CPUs, and leaves them to OpenSSL on all others, though it says that it is available; this CPU is AMD EPYC 9B14
        without a QAT device, Intel's QAT_Engine takes over private-key operations only on CPUs with AVX-512 IFMA and VAES and in asynchronous mode, and leaves them to OpenSSL otherwise; this CPU is Intel(R) Xeon(R) Gold 6230
        ");
    }
}
