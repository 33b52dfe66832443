//! What one measurement of devices found: names and numbers, before they are shown.

use plumb_crypto::measure::Absent;
use plumb_model::Measurement;

/// Everything that one measurement of devices found.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceTable {
    /// The program with its version.
    pub program: String,
    /// The CPU as its maker calls it, where the machine says so.
    pub cpu: Option<String>,
    /// How long each row was measured, in seconds.
    pub duration_s: f64,
    /// In how many rounds, each with two windows of every row.
    pub rounds: u32,
    /// The devices that were asked for.
    pub devices: Vec<DeviceFound>,
    /// What was measured, in the order in which it is to be shown.
    pub rows: Vec<DeviceRow>,
    /// Sentences about what cannot be trusted.
    pub warnings: Vec<String>,
}

/// A device, or a program that measures one, and whether this machine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFound {
    /// Its name.
    pub name: String,
    /// Its library's name and version, or what is missing.
    pub library: Result<String, Absent>,
    /// The file of a library that was loaded at run time.
    pub file: Option<String>,
    /// Its results that were compared with another implementation's and were right; `None` where none can be had.
    pub answers: Option<u64>,
}

/// One kind of work on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceRow {
    /// The device's name.
    pub device: String,
    /// Whether it is one of those that others are compared with.
    pub is_software: bool,
    /// The algorithm's name.
    pub algorithm: String,
    /// What sort of work that is, such as `key exchange`.
    pub class: String,
    /// How much of it at a time.
    pub work: RowWork,
    /// Operations in a pass on average, where a device does more than one.
    pub fill: Option<f64>,
    /// The operations per second of each window, in the order in which they were measured.
    pub rates_per_s: Vec<f64>,
    /// All windows together: `ops`, and of devices here `op_latency` and `cpu_load`.
    pub total: Measurement,
}

/// How much work at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowWork {
    /// Operations on keys.
    Keys {
        /// Operations in one pass, at most.
        batch: u32,
        /// Operations at a time, waiting or in a pass.
        in_flight: u32,
    },
    /// Blocks, one after another.
    Blocks {
        /// Their size.
        bytes: u64,
    },
}
