//! One device: what it is, the state that it is in, and why it cannot be used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The purpose of an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AcceleratorKind {
    /// QuickAssist: encryption, private-key operations, compression.
    Qat,
    /// The data streaming accelerator: copies, fills, checksums.
    Dsa,
    /// The in-memory analytics accelerator: compression and scans.
    Iaa,
}

impl AcceleratorKind {
    /// The name as people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Qat => "QAT",
            Self::Dsa => "DSA",
            Self::Iaa => "IAA",
        }
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accelerator {
    /// The purpose.
    pub kind: AcceleratorKind,
    /// The family as its driver calls it, such as `4xxx`.
    pub model: String,
    /// PCI address, such as `0000:6b:00.0`.
    pub address: String,
    /// PCI vendor and device, such as `8086:4940`.
    pub id: String,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// The memory node that it is close to; `None` where the machine has only one.
    pub numa_node: Option<u32>,
    /// The state according to its driver: `up` or `down` for QAT since Linux 6.0, `enabled` or `disabled` for DSA and IAA.
    pub state: Option<String>,
    /// The configuration: services such as `sym` and `asym` for QAT, enabled work queues for DSA and IAA.
    pub services: Vec<String>,
    /// The address of the physical function that this is a virtual function of; `unknown` where a guest cannot see it.
    pub physical_function: Option<String>,
    /// The addresses of its own virtual functions.
    pub virtual_functions: Vec<String>,
    /// How many it could have.
    pub virtual_functions_max: Option<u32>,
    /// Why it cannot be used, and what to do about it.
    pub missing: Option<String>,
    /// Facts to know before relying on it.
    pub notes: Vec<String>,
}

impl Accelerator {
    /// Whether programs on this machine can use it as it is.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.missing.is_none()
    }

    /// Whether it is usable and configured for a service.
    #[must_use]
    pub fn does(&self, kind: AcceleratorKind, service: &str) -> bool {
        self.kind == kind && self.is_usable() && self.services.iter().any(|found| found == service)
    }
}
