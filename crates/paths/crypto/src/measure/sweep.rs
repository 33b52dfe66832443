//! All that one command is to measure: devices by algorithms by batch sizes, numbers in flight and block sizes.

use std::collections::BTreeMap;

use plumb_devices::{DeviceKind, OperationKind, Presence, Unavailable, generate_key};
use plumb_model::{Bytes, Measurement, Span};
use plumb_path::tool::{DrivenLoad, NotInstalled};
use plumb_path::{Load, Mark, PathError, Window};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::openssl_speed::{OPENSSL, OpensslSpeed};
use super::{Algorithm, Bench, Work};
use crate::error::CryptoError;

/// The points to measure, as lists whose combinations are meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// The devices.
    pub devices: Vec<DeviceKind>,
    /// Whether `openssl speed` is a source too.
    pub openssl_speed: bool,
    /// The algorithms.
    pub algorithms: Vec<Algorithm>,
    /// Private-key operations in one pass.
    pub batches: Vec<u32>,
    /// Private-key operations at a time.
    pub in_flight: Vec<u32>,
    /// Sizes of blocks for AEAD and hashes.
    pub blocks: Vec<Bytes>,
}

/// Who measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A device here.
    Device(DeviceKind),
    /// The program `openssl`.
    OpensslSpeed,
}

/// Why this machine does not have a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// It does not have the device.
    #[error(transparent)]
    Device(#[from] Unavailable),
    /// It does not have the program.
    #[error(transparent)]
    Program(#[from] NotInstalled),
}

impl Source {
    /// All sources, devices first.
    pub const ALL: [Self; 4] = [
        Self::Device(DeviceKind::SoftwareOpenssl),
        Self::Device(DeviceKind::SoftwareAwsLc),
        Self::Device(DeviceKind::Multibuffer),
        Self::OpensslSpeed,
    ];

    /// The source of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// Whether this machine has it.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn probe(self) -> Result<Presence, Absent> {
        match self {
            Self::Device(device) => Ok(device.probe()?),
            Self::OpensslSpeed => {
                let file = OPENSSL.find()?;
                Ok(Presence { file: None, version: OPENSSL.version_of(&file) })
            }
        }
    }

    /// The name in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device(device) => device.name(),
            Self::OpensslSpeed => "openssl-speed",
        }
    }
}

/// One thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The device or program that does the work.
    pub source: Source,
    /// The work.
    pub work: Work,
}

/// A point with what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The work, and the source that did it.
    pub point: Point,
    /// `ops`, and of devices here `op_latency` and `cpu_load`.
    pub measurement: Measurement,
}

impl Sweep {
    /// Every point, algorithm by algorithm. What makes no difference to a point is not varied: batches and numbers in
    /// flight for blocks and for `openssl speed`, batches beyond what the device or the number in flight can fill, blocks
    /// for private keys.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let devices = self.devices.iter().copied().map(Source::Device);
        let sources: Vec<Source> =
            devices.chain(self.openssl_speed.then_some(Source::OpensslSpeed)).collect();
        let mut points: Vec<Point> = Vec::new();
        for &algorithm in &self.algorithms {
            for &source in &sources {
                points.extend(self.works(algorithm, source).into_iter().map(|work| Point { source, work }));
            }
        }
        points
    }

    fn works(&self, algorithm: Algorithm, source: Source) -> Vec<Work> {
        let width = match source {
            Source::Device(device) if !algorithm.is_done_by(device) => return Vec::new(),
            Source::Device(device) if !algorithm.is_bulk() => device.width() as u32,
            _ => 1,
        };
        let mut works: Vec<Work> = Vec::new();
        for &batch in &self.batches {
            for &in_flight in &self.in_flight {
                for &block in &self.blocks {
                    let alone = algorithm.is_bulk() || source == Source::OpensslSpeed;
                    let in_flight = if alone { 1 } else { in_flight };
                    let batch = batch.min(width).min(in_flight);
                    let block = if algorithm.is_bulk() { block } else { Bytes(0) };
                    let work = Work { algorithm, batch, in_flight, block };
                    if !works.contains(&work) {
                        works.push(work);
                    }
                }
            }
        }
        works
    }
}

/// Private keys for signatures, generated when one is first asked for.
#[derive(Debug, Default)]
pub struct Keys {
    by_kind: BTreeMap<OperationKind, Zeroizing<Vec<u8>>>,
}

impl Keys {
    /// The key for signatures of a kind, in PKCS#8.
    pub(super) fn key_for(&mut self, kind: OperationKind) -> Result<&[u8], CryptoError> {
        match self.by_kind.entry(kind) {
            std::collections::btree_map::Entry::Occupied(entry) => Ok(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => Ok(entry.insert(generate_key(kind)?)),
        }
    }
}

impl Point {
    /// Measures it. `openssl speed` takes whole seconds, at least one, and has no warm-up.
    ///
    /// # Errors
    ///
    /// When the device or the program is not there, or fails.
    pub fn measure(
        self,
        keys: &mut Keys,
        warmup: Span,
        window: Span,
        mark: &mut dyn FnMut(Mark),
    ) -> Result<Row, CryptoError> {
        let measurement = match self.source {
            Source::Device(device) => {
                let key = self.work.algorithm.signature().map(|kind| keys.key_for(kind)).transpose()?;
                Bench::new(device, self.work, key)?.measure(window_of(warmup, window), mark)
            }
            Source::OpensslSpeed => speed_measurement(self.work, window)?,
        };
        Ok(Row { point: self, measurement })
    }
}

/// It has no part in the rounds of the devices, so nobody is told of its window.
fn speed_measurement(work: Work, window: Span) -> Result<Measurement, PathError> {
    let mut load = DrivenLoad::new(OpensslSpeed::new(work.algorithm, work.block))?;
    load.measure(window_of(Span(0), window), &mut |_| ())
}

fn window_of(warmup: Span, window: Span) -> Window {
    Window::at_once(warmup.0, window.0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;

    #[test]
    fn only_what_makes_a_difference_is_varied() {
        let sweep = Sweep {
            devices: vec![DeviceKind::SoftwareOpenssl, DeviceKind::Multibuffer],
            openssl_speed: true,
            algorithms: vec![Algorithm::Rsa2048, Algorithm::Aes128Gcm],
            batches: vec![1, 8],
            in_flight: vec![1, 20],
            blocks: vec![Bytes(64), Bytes(1024)],
        };
        let words: Vec<String> = sweep
            .points()
            .iter()
            .map(|Point { source, work }| {
                let Work { algorithm, batch, in_flight, block } = work;
                format!("{} {algorithm} {batch} {in_flight} {block}", source.name())
            })
            .collect();
        insta::assert_snapshot!(words.join("\n"), @"
        software-openssl rsa-2048 1 1 0 B
        software-openssl rsa-2048 1 20 0 B
        multibuffer rsa-2048 1 1 0 B
        multibuffer rsa-2048 1 20 0 B
        multibuffer rsa-2048 8 20 0 B
        openssl-speed rsa-2048 1 1 0 B
        software-openssl aes-128-gcm 1 1 64 B
        software-openssl aes-128-gcm 1 1 1 KiB
        openssl-speed aes-128-gcm 1 1 64 B
        openssl-speed aes-128-gcm 1 1 1 KiB
        ");
    }

    #[test]
    fn every_device_here_measures_every_algorithm_that_it_does() {
        let devices: Vec<DeviceKind> =
            DeviceKind::ALL.into_iter().filter(|kind| kind.probe().is_ok()).collect();
        let sweep = Sweep {
            devices,
            openssl_speed: false,
            algorithms: Algorithm::ALL.to_vec(),
            batches: vec![3],
            in_flight: vec![5],
            blocks: vec![Bytes(100)],
        };
        let mut keys = Keys::default();
        let (mut opened, mut closed) = (0, 0);
        let mut mark = |mark| match mark {
            Mark::Opened => opened += 1,
            Mark::Closed => closed += 1,
            Mark::Agreed { .. } | Mark::Progress { .. } => {}
        };
        let points = sweep.points();
        for point in &points {
            let row = point.measure(&mut keys, Span(0), Span(20_000_000), &mut mark).unwrap();
            let measurement = &row.measurement;
            let Source::Device(device) = point.source else { panic!("{point:?}") };
            assert!(measurement.work > 0 && measurement.errors.is_empty(), "{row:?}");
            assert_eq!(measurement.observed_count("device", device.name()), measurement.work);
            for metric in metrics::METRICS {
                assert!(measurement.readings.contains_key(metric.name), "{}", metric.name);
            }
            // The device's own count: each unit of work, give or take what was begun before and was not done yet.
            let counted: u64 = measurement.observed["operations"].values().sum();
            assert!(counted.abs_diff(measurement.work * point.work.algorithm.operations()) <= 5, "{row:?}");
        }
        assert_eq!((opened, closed), (points.len(), points.len()));
    }
}
