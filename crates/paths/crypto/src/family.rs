//! Devices alone as a data path.

use std::borrow::Cow;

use plumb_devices::DeviceKind;
use plumb_model::{Evidence, Question, Statistic};
use plumb_path::{
    About, AnyError, DataPath, Load, PathError, Place, Remark, SeenWindow, Settings, SettingsFault, Sides,
    System, Timing, read_target,
};
use serde_json::Value;

use crate::measure::{Algorithm, Work};
use crate::settings::{CryptoSettings, CryptoTarget, Driver};
use crate::{check, evidence, load, metrics, system, tool};

/// The data path `crypto`.
pub const CRYPTO: DataPath = DataPath::with_settings::<CryptoSettings>(About {
    units: "operations",
    questions: &[Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("in_flight")]) }],
    system_is_unprivileged: true,
    load_is_unprivileged: true,
    ..About::new("crypto", metrics::METRICS)
});

impl CryptoSettings {
    pub(crate) fn work(&self) -> Work {
        let load = &self.load;
        Work { algorithm: load.algorithm, batch: load.batch, in_flight: load.in_flight, block: load.block }
    }
}

/// An algorithm that the device does not do.
#[derive(Debug, thiserror::Error)]
#[error("{device} does not do {algorithm}; it does RSA, ECDSA, X25519 and P-256")]
struct NotDone {
    device: DeviceKind,
    algorithm: Algorithm,
}

impl Settings for CryptoSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        check::check(self)
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        if self.load.driver != Driver::Native {
            if at.load {
                tool::feasible()?;
            }
            return Ok(());
        }
        let (device, algorithm) = (self.system.device, self.load.algorithm);
        if !algorithm.is_done_by(device) {
            return Err(NotDone { device, algorithm }.into());
        }
        // The load does the operations; the system only makes the key.
        if at.load {
            device.probe()?;
        }
        Ok(())
    }

    fn remark(&self, metric: &str, statistic: Option<Statistic>) -> Option<Remark> {
        tool::lacks(&self.load, metric, statistic).map(Remark::Lacks)
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing::new(&mut self.load.duration, &mut self.load.warmup)
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        seen.measurement.map(|it| evidence::evidence(self, it)).unwrap_or_default()
    }

    fn system(&self, _: &Place) -> Result<Box<dyn System>, PathError> {
        system::key_holder(self.load.algorithm)
    }

    fn load(&self, target: &Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
        let target: CryptoTarget = read_target(target)?;
        match tool::driven_load(&self.load)? {
            Some(driven) => Ok(driven),
            None => load::device_load(self, &target),
        }
    }
}
