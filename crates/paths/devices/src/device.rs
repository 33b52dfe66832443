//! Devices: what does private-key operations, one at a time or eight in one pass, behind one type.
//!
//! A device belongs to one thread; its counters can be read from any. It takes operations by value of their kind and
//! gives each a result or a reason, so that one bad operation never costs the others theirs.

use std::fmt;
use std::sync::Arc;

use openssl::error::ErrorStack;
use plumb_host::cpu::current_thread_cpu_ns;

use crate::algorithm::OperationKind;
use crate::aws_lc::AwsLc;
use crate::break_even::{self, BreakEven};
use crate::counters::Counters;
use crate::device_kind::{DeviceKind, LANES};
use crate::error::{DeviceError, Unavailable};
use crate::key::SigningKey;
use crate::library::Library;
use crate::multibuffer::Multibuffer;
use crate::openssl_device::OpenSsl;
use crate::operation::{Lane, Operation, Outcome};

impl DeviceKind {
    /// Whether this machine has it.
    ///
    /// # Errors
    ///
    /// What is missing, and what to install.
    pub fn probe(self) -> Result<Presence, Unavailable> {
        match self {
            Self::SoftwareOpenssl => {
                Ok(Presence { file: None, version: openssl::version::version().to_owned() })
            }
            Self::SoftwareAwsLc => Ok(Presence { file: None, version: "AWS-LC by aws-lc-rs".to_owned() }),
            Self::Multibuffer => Library::load().map(|library| Presence::of_library(&library)),
        }
    }
}

/// The parts of a device on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// The file, or the name by which the loader found it, of a library that is loaded at run time.
    pub file: Option<String>,
    /// The library's own words for its name and version.
    pub version: String,
}

impl Presence {
    fn of_library(library: &Library) -> Self {
        Self { file: Some(library.path().display().to_string()), version: library.version() }
    }
}

enum Engine {
    AwsLc(AwsLc),
    OpenSsl(OpenSsl),
    /// The lanes, and what does operations that are not worth a pass.
    Multibuffer(Box<Multibuffer>, AwsLc),
}

/// A device of one thread.
pub struct Device {
    kind: DeviceKind,
    engine: Engine,
    break_even: BreakEven,
    counters: Arc<Counters>,
}

impl fmt::Debug for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Device").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Device {
    /// Opens the device.
    ///
    /// # Errors
    ///
    /// When this machine does not have it.
    pub fn open(kind: DeviceKind) -> Result<Self, DeviceError> {
        let engine = match kind {
            DeviceKind::SoftwareAwsLc => Engine::AwsLc(AwsLc::new()),
            DeviceKind::SoftwareOpenssl => {
                let cause = |error: ErrorStack| error.to_string();
                let opened = OpenSsl::new().map_err(|error| DeviceError::OpenSsl {
                    what: "find the curve P-256",
                    cause: cause(error),
                })?;
                Engine::OpenSsl(opened)
            }
            DeviceKind::Multibuffer => Multibuffer::new()
                .map(|multibuffer| Engine::Multibuffer(Box::new(multibuffer), AwsLc::new()))
                .map_err(|cause| DeviceError::Unavailable { device: kind, cause })?,
        };
        Ok(Self { kind, engine, break_even: BreakEven::default(), counters: Arc::default() })
    }

    /// Which device it is.
    #[must_use]
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// The device's parts on this machine.
    #[must_use]
    pub fn presence(&self) -> Presence {
        match &self.engine {
            Engine::Multibuffer(multibuffer, _) => Presence::of_library(multibuffer.library()),
            Engine::AwsLc(_) | Engine::OpenSsl(_) => {
                self.kind.probe().unwrap_or(Presence { file: None, version: String::new() })
            }
        }
    }

    /// Counters of the work done so far. Any thread may read them.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// A private key, prepared for this device or another of its kind.
    ///
    /// # Errors
    ///
    /// See [`SigningKey::from_der`].
    pub fn signing_key(&self, der: &[u8]) -> Result<SigningKey, DeviceError> {
        SigningKey::from_der(self.kind, der)
    }

    /// Has the multi-buffer device do in software what is not worth a pass. Without this everything goes to the lanes.
    pub fn set_break_even(&mut self, break_even: BreakEven) {
        self.break_even = break_even;
    }

    /// Finds the break-even of this machine for a key's signatures and for key exchanges, by CPU time. It takes some
    /// passes of each kind, about 50 ms with an RSA key of 4096 bits, and is the same for every device of the kind.
    ///
    /// Nothing of it is counted. For a device without lanes it is the default.
    #[must_use]
    pub fn find_break_even(&self, key: Option<&Arc<SigningKey>>) -> BreakEven {
        if self.kind.width() == 1 {
            return BreakEven::default();
        }
        let Ok(mut probe) = Self::open(self.kind) else { return BreakEven::default() };
        let mut break_even = BreakEven::default();
        for sample in break_even::samples(key) {
            let Some(outcome) = probe.compare(&sample, &mut break_even) else { continue };
            if let Outcome::Key(key) = outcome {
                let peer = key.public().to_vec();
                probe.compare(&Operation::Derive { key, peer }, &mut break_even);
            }
        }
        break_even
    }

    /// Measures one operation on the lanes and in software, and returns what came out.
    fn compare(&mut self, operation: &Operation, break_even: &mut BreakEven) -> Option<Outcome> {
        let kind = operation.kind();
        let one = std::slice::from_ref(operation);
        let mut cost_ns = |break_even| {
            self.set_break_even(break_even);
            let mut least_ns = u64::MAX;
            for _ in 0..4 {
                let from_ns = current_thread_cpu_ns();
                let is_done = self.run(one).iter().all(Result::is_ok);
                let took_ns = current_thread_cpu_ns().saturating_sub(from_ns);
                least_ns = least_ns.min(if is_done { took_ns } else { u64::MAX });
            }
            least_ns
        };
        let pass_ns = cost_ns(BreakEven::default());
        let software_ns = cost_ns(BreakEven::default().with(kind, LANES));
        *break_even = break_even.measured(kind, pass_ns, software_ns);
        self.run(one).pop()?.ok()
    }

    /// Does operations, and returns a result for each in the same order.
    ///
    /// Neighbours of one kind share a pass, up to the device's width; so a batch is best of one kind.
    pub fn run(&mut self, operations: &[Operation]) -> Vec<Lane> {
        let mut results = Vec::with_capacity(operations.len());
        let width = self.kind.width();
        for batch in operations.chunk_by(|a, b| a.kind() == b.kind()).flat_map(|run| run.chunks(width)) {
            self.run_batch(batch[0].kind(), batch, &mut results);
        }
        results
    }

    fn run_batch(&mut self, kind: OperationKind, batch: &[Operation], results: &mut Vec<Lane>) {
        let before = results.len();
        match &mut self.engine {
            Engine::AwsLc(device) => results.extend(batch.iter().map(|operation| device.run(operation))),
            Engine::OpenSsl(device) => results.extend(batch.iter().map(|operation| device.run(operation))),
            Engine::Multibuffer(_, software) if batch.len() < self.break_even.fill_min(kind) => {
                results.extend(batch.iter().map(|operation| software.run(operation)));
                self.counters.ran_in_software(kind, &results[before..]);
                return;
            }
            Engine::Multibuffer(device, _) => results.extend(device.run(kind, batch)),
        }
        self.counters.ran(kind, &results[before..]);
    }

    #[cfg(test)]
    pub(crate) fn multibuffer(&mut self) -> Option<&mut Multibuffer> {
        match &mut self.engine {
            Engine::Multibuffer(multibuffer, _) => Some(multibuffer),
            _ => None,
        }
    }
}
