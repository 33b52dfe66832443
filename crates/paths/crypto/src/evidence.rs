//! The evidence that a slot did what was asked.

use plumb_devices::DeviceKind;
use plumb_model::{Evidence, Measurement, facts, statements};
use plumb_path::tool;

use crate::measure::openssl_speed::ENGINE;
use crate::measure::{Fill, fill};
use crate::settings::CryptoSettings;

statements! {
    USED_ENGINE = "crypto-engine": "engine", "{asked}", "{seen}";
    DEVICE = "crypto-device": "device", "{asked}", "{devices}: {libraries}";
    OPERATIONS = "device-operations": "operations that the device counted", "{asked}{slack}", "{counted}";
    FILL = "device-fill": "operations in a pass of the device", "{possible}", "{mean:.2} on average over {passes} passes";
    FAULTS = "device-faults": "wrong results that were caught", "0", "{caught}";
}

/// How full passes have to be, of what the batch size and the number in flight allow.
const FILL_SHARE_MIN: f64 = 0.9;

/// Proof, from counters before and after the window, that a slot did what was asked.
pub fn evidence(settings: &CryptoSettings, measurement: &Measurement) -> Vec<Evidence> {
    if let Some(program) = settings.load.driver.program() {
        let driver = tool::evidence(measurement, program, program);
        return driver.into_iter().chain(settings.engine_evidence(measurement)).collect();
    }
    let mut evidence = vec![settings.device_evidence(measurement), settings.operations_evidence(measurement)];
    evidence.extend(settings.fill_evidence(measurement));
    evidence.push(faults_evidence(measurement));
    evidence
}

impl CryptoSettings {
    /// The engine that `openssl speed` used, where one was asked for.
    fn engine_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let asked = self.load.engine.as_deref()?;
        let holds = measurement.work > 0 && measurement.observed_count(ENGINE, asked) == measurement.work;
        Some(USED_ENGINE.evidence(holds, facts![asked, seen = holds.then_some(asked)]))
    }

    fn device_evidence(&self, measurement: &Measurement) -> Evidence {
        let device = self.system.device.name();
        let keys =
            |property| measurement.values_of(property).map(|(value, _)| value).collect::<Vec<_>>().join(", ");
        let holds = measurement.work > 0 && measurement.observed_count("device", device) == measurement.work;
        DEVICE.evidence(holds, facts![asked = device, devices = keys("device"), libraries = keys("library")])
    }

    /// The device's own count against the load's. An operation may have begun before the window or end after it.
    fn operations_evidence(&self, measurement: &Measurement) -> Evidence {
        let counted: u64 = measurement.values_of("operations").map(|(_, count)| count).sum();
        let asked = measurement.work * self.load.algorithm.operations();
        let slack = if self.load.algorithm.is_bulk() { 0 } else { u64::from(self.load.in_flight) };
        let holds = counted > 0 && counted.abs_diff(asked) <= slack;
        let slack = if slack == 0 { String::new() } else { format!(", give or take {slack}") };
        OPERATIONS.evidence(holds, facts![asked, slack, counted])
    }

    /// Whether passes were as full as batch size and number in flight allow: what a multi-buffer device lives on.
    fn fill_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        if self.system.device != DeviceKind::Multibuffer {
            return None;
        }
        let Fill { mean, passes } = fill(measurement).unwrap_or(Fill { mean: 0.0, passes: 0 });
        let possible = self.load.batch.min(self.load.in_flight);
        let holds = mean >= FILL_SHARE_MIN * f64::from(possible);
        Some(FILL.evidence(holds, facts![possible, mean, passes]))
    }
}

fn faults_evidence(measurement: &Measurement) -> Evidence {
    let caught = measurement.observed_count("faults", "caught");
    FAULTS.evidence(caught == 0, facts![caught])
}

#[cfg(test)]
mod tests {
    use plumb_model::{Bytes, Span};
    use plumb_path::{Settings as _, Sides};

    use super::*;
    use crate::measure::Algorithm;

    fn settings(change: impl FnOnce(&mut CryptoSettings)) -> CryptoSettings {
        let mut settings = CryptoSettings::default();
        change(&mut settings);
        settings
    }

    fn measurement(work: u64, observed: &[(&str, &str, u64)]) -> Measurement {
        let mut measurement = Measurement { work, ..Measurement::default() };
        for (property, value, count) in observed {
            measurement
                .observed
                .entry((*property).to_owned())
                .or_default()
                .insert((*value).to_owned(), *count);
        }
        measurement
    }

    fn broken(settings: &CryptoSettings, measurement: &Measurement) -> Vec<String> {
        let evidence = super::evidence(settings, measurement);
        evidence.into_iter().filter(|evidence| !evidence.holds).map(|evidence| evidence.what).collect()
    }

    #[test]
    fn what_was_asked_for_holds() {
        let software = measurement(
            100,
            &[("device", "software-openssl", 100), ("operations", "rsa-2048", 107), ("passes", "1", 107)],
        );
        assert_eq!(broken(&CryptoSettings::default(), &software), [""; 0]);
        let multibuffer = settings(|settings| {
            settings.system.device = DeviceKind::Multibuffer;
            settings.load.algorithm = Algorithm::X25519;
        });
        let exchanges = measurement(
            100,
            &[
                ("device", "multibuffer", 100),
                ("operations", "x25519-generate", 104),
                ("operations", "x25519-derive", 100),
                ("passes", "8", 25),
                ("passes", "4", 1),
            ],
        );
        assert_eq!(broken(&multibuffer, &exchanges), [""; 0]);
    }

    #[test]
    fn what_silently_did_not_happen_is_found() {
        let multibuffer = settings(|settings| settings.system.device = DeviceKind::Multibuffer);
        let fallback = measurement(
            100,
            &[("device", "software-openssl", 100), ("operations", "rsa-2048", 100), ("passes", "1", 100)],
        );
        assert_eq!(broken(&multibuffer, &fallback), ["device", "operations in a pass of the device"]);
        let uncounted = measurement(100, &[("device", "multibuffer", 100), ("passes", "8", 13)]);
        assert_eq!(broken(&multibuffer, &uncounted), ["operations that the device counted"]);
        let faulty = measurement(
            100,
            &[
                ("device", "multibuffer", 100),
                ("operations", "rsa-2048", 100),
                ("passes", "8", 13),
                ("faults", "caught", 1),
            ],
        );
        assert_eq!(broken(&multibuffer, &faulty), ["wrong results that were caught"]);
        let nothing = measurement(0, &[]);
        assert_eq!(
            broken(&CryptoSettings::default(), &nothing),
            ["device", "operations that the device counted"]
        );
    }

    #[test]
    fn numbers_out_of_range_are_refused_at_their_keys() {
        let key = |change: fn(&mut CryptoSettings)| settings(change).check().unwrap_err().key;
        assert_eq!(key(|settings| settings.load.batch = 9), "load.batch");
        assert_eq!(key(|settings| settings.load.in_flight = 0), "load.in_flight");
        assert_eq!(key(|settings| settings.load.block = Bytes(0)), "load.block");
        assert_eq!(key(|settings| settings.load.duration = Span(0)), "load.duration");
        assert_eq!(CryptoSettings::default().check(), Ok(()));
    }

    #[test]
    fn a_device_that_does_not_do_the_algorithm_is_not_feasible() {
        let settings = settings(|settings| {
            settings.system.device = DeviceKind::Multibuffer;
            settings.load.algorithm = Algorithm::Aes128Gcm;
        });
        assert_eq!(
            settings.feasible(Sides::BOTH).unwrap_err().to_string(),
            "multibuffer does not do aes-128-gcm; it does RSA, ECDSA, X25519 and P-256"
        );
        CryptoSettings::default().feasible(Sides::BOTH).unwrap();
    }
}
