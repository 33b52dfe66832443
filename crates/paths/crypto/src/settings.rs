//! The `system` and `load` of a `crypto` experiment as types.

use plumb_devices::DeviceKind;
use plumb_model::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::Algorithm;

/// The settings of a `crypto` experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CryptoSettings {
    /// The device that does the operations.
    pub system: SystemSettings,
    /// Which operations, and how many at a time.
    pub load: LoadSettings,
}

/// The device that does the operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSettings {
    /// The device.
    pub device: DeviceKind,
}

/// The driver of the load: Plumbline's own loop, or a tool that it starts and whose output it reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Plumbline's own loop around a device.
    #[default]
    Native,
    /// `openssl speed -elapsed`.
    Openssl,
}

impl Driver {
    /// The program; `None` for Plumbline's own loop.
    #[must_use]
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Native => None,
            Self::Openssl => Some("openssl"),
        }
    }
}

/// Which operations, and how many at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The driver of the load: `native`, or `openssl` for `openssl speed`, which takes `algorithm`, `block`, `duration` and the keys
    /// that name it.
    pub driver: Driver,
    /// `openssl`: further options for its command line.
    pub options: Vec<String>,
    /// `openssl`: processes at a time, its `-multi`.
    pub threads: u32,
    /// `openssl`: operations that a process has under way at a time, its `-async_jobs`; absent, one.
    pub async_jobs: Option<u32>,
    /// `openssl`: the engine to use.
    pub engine: Option<String>,
    /// `openssl`: the only provider to load.
    pub provider: Option<String>,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Private-key operations in one pass, from 1 to 8. A device without lanes does one at a time whatever this says.
    pub batch: u32,
    /// Private-key operations at a time, waiting or in a pass. AEAD and hashes run one after another.
    pub in_flight: u32,
    /// The size of the blocks of AEAD and hashes.
    pub block: Bytes,
    /// The measured window.
    pub duration: Span,
    /// The time before the window, which is not measured.
    pub warmup: Span,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            options: Vec::new(),
            threads: 1,
            async_jobs: None,
            engine: None,
            provider: None,
            algorithm: Algorithm::default(),
            batch: 8,
            in_flight: 8,
            block: Bytes(16_384),
            duration: Span(2_000_000_000),
            warmup: Span(250_000_000),
        }
    }
}

/// The part of the system that the load needs.
#[derive(Serialize, Deserialize)]
pub(crate) struct CryptoTarget {
    /// The private key in PKCS#8, as base64; generated for the run and worth nothing after it.
    pub(crate) key: Option<String>,
}
