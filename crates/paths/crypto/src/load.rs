//! The side of the load: the device at work, in this process and on one thread.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plumb_model::Measurement;
use plumb_path::{Load, Mark, PathError, Window};
use zeroize::Zeroizing;

use crate::measure::Bench;
use crate::settings::{CryptoSettings, CryptoTarget};

/// A load that drives the settings' device.
///
/// # Errors
///
/// When the device is not there, or cannot use the key.
pub(crate) fn device_load(
    settings: &CryptoSettings,
    target: &CryptoTarget,
) -> Result<Box<dyn Load>, PathError> {
    let key = target.key.as_ref().map(|key| STANDARD.decode(key).map(Zeroizing::new)).transpose();
    let key = key.map_err(|error| PathError::new(format!("read the system's key: {error}")))?;
    let key = key.as_deref().map(Vec::as_slice);
    let bench = Bench::new(settings.system.device, settings.work(), key);
    Ok(Box::new(DeviceLoad { bench: bench.map_err(|error| PathError::new(error.to_string()))? }))
}

struct DeviceLoad {
    bench: Bench,
}

impl Load for DeviceLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        Ok(self.bench.measure(window, mark))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use plumb_path::{Place, Settings};

    use super::*;
    use crate::measure::Algorithm;
    use plumb_devices::DeviceKind;

    #[test]
    fn a_slot_is_measured_with_the_systems_key_and_its_evidence_holds() {
        let place = Place { scratch: PathBuf::from("/tmp"), cpus: 1, address: None, number: 0 };
        let devices = DeviceKind::ALL.into_iter().filter(|device| device.probe().is_ok());
        for device in devices {
            for algorithm in [Algorithm::Rsa2048, Algorithm::P256, Algorithm::Sha256] {
                let mut settings = CryptoSettings::default();
                settings.system.device = device;
                settings.load.algorithm = algorithm;
                settings.load.in_flight = 20;
                if !algorithm.is_done_by(device) {
                    continue;
                }
                let mut system = settings.system(&place).unwrap();
                let mut load = settings.load(&system.target(), &place).unwrap();
                let window = Window::at_once(1_000_000, 100_000_000, 1);
                let measurement = load.measure(window, &mut |_| {}).unwrap();
                let evidence = crate::evidence::evidence(&settings, &measurement);
                assert!(
                    evidence.iter().all(|evidence| evidence.holds),
                    "{device} {algorithm}: {evidence:#?}"
                );
                assert!(measurement.window_ns >= 100_000_000 && measurement.work > 0);
                system.stop().unwrap();
            }
        }
    }

    #[test]
    fn a_key_of_another_kind_is_no_load() {
        let settings = CryptoSettings::default();
        for target in [
            CryptoTarget { key: None },
            CryptoTarget { key: Some("AAAA".to_owned()) },
            CryptoTarget { key: Some("?".to_owned()) },
        ] {
            assert!(device_load(&settings, &target).is_err());
        }
        let mut ecdsa = CryptoSettings::default();
        ecdsa.load.algorithm = Algorithm::EcdsaP256;
        let place = Place { scratch: PathBuf::from("/tmp"), cpus: 1, address: None, number: 0 };
        let other = ecdsa.system(&place).unwrap().target();
        assert!(settings.load(&other, &place).is_err());
    }
}
