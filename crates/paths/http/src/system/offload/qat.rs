//! Counters of this host's QAT devices.

use plumb_host::qat::{QAT_REQUESTS, QAT_TELEMETRY, QatDevice};

use super::library;
use crate::settings::IngressSettings;

/// Whether what an ingress asks for uses QAT devices where there are any. What has another name has devices of another
/// kind, or none, and the counters of QAT would say nothing of it.
pub(crate) fn is_qat(spec: &IngressSettings) -> bool {
    spec.offload.module().is_some_and(|asked| library::stem(asked).to_ascii_lowercase().contains("qat"))
}

/// The sums over all devices; nothing where there is none, so that a device that cannot be read is not a device that
/// counted nothing.
pub(in crate::system) fn device_counters(devices: &[QatDevice]) -> Vec<(String, u64)> {
    let sum = |value: fn(&QatDevice) -> u64| devices.iter().map(value).fold(0, u64::saturating_add);
    let counters = [
        (QAT_REQUESTS, sum(|device| device.counters.requests)),
        ("qat_responses", sum(|device| device.counters.responses)),
    ];
    let counters = counters.map(|(name, value)| (name.to_owned(), value));
    if devices.is_empty() { Vec::new() } else { counters.into() }
}

/// Which devices these are, and how busy they say that they are.
pub(in crate::system) fn device_states(devices: &[QatDevice]) -> Vec<(String, String)> {
    let join = |words: Vec<String>| (!words.is_empty()).then(|| words.join(", "));
    let names = devices.iter().map(|device| device.name.clone()).collect();
    let busy = devices.iter().filter_map(|device| {
        Some(format!("{} has its public-key slices up to {}% busy", device.name, device.public_key_percent?))
    });
    let states = [("qat_devices", join(names)), (QAT_TELEMETRY, join(busy.collect()))];
    states.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use plumb_host::qat::QatCounters;

    use super::*;
    use crate::settings::Offload;

    #[test]
    fn devices_count_for_what_is_named_after_them_alone() {
        let asks = |asked: &str| {
            let offload = Offload::Engine(asked.to_owned());
            is_qat(&IngressSettings { offload, ..IngressSettings::default() })
        };
        assert!(asks("qatengine") && asks("/opt/libqat.so") && !asks("pka") && !asks("/opt/qat/pka.so"));
        assert!(!is_qat(&IngressSettings::default()));
        let device = |name: &str, requests, public_key_percent| QatDevice {
            name: name.to_owned(),
            counters: QatCounters { requests, responses: requests },
            public_key_percent,
        };
        assert_eq!(device_counters(&[]), []);
        let devices = [device("qat_4xxx_0", 17, Some(37)), device("qat_4xxx_1", u64::MAX, None)];
        assert_eq!(device_counters(&devices)[0], (QAT_REQUESTS.to_owned(), u64::MAX));
        let states: Vec<String> =
            device_states(&devices).into_iter().map(|(name, words)| name + ": " + &words).collect();
        insta::assert_snapshot!(states.join("\n"), @"
        qat_devices: qat_4xxx_0, qat_4xxx_1
        qat_telemetry: qat_4xxx_0 has its public-key slices up to 37% busy
        ");
    }
}
