//! The driver of the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where Plumbline's own servers listen when nothing else is said.
pub const DEFAULT_PORT: u16 = 19_766;

/// The driver of the load: Plumbline's own generator, or a tool that it starts at both ends and whose output it reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Plumbline's own load generator.
    #[default]
    Native,
    /// qperf.
    Qperf,
    /// iperf3.
    Iperf3,
    /// sockperf.
    Sockperf,
    /// netperf.
    Netperf,
}

impl Driver {
    /// The program; `None` for Plumbline's own generator.
    #[must_use]
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Native => None,
            Self::Qperf => Some("qperf"),
            Self::Iperf3 => Some("iperf3"),
            Self::Sockperf => Some("sockperf"),
            Self::Netperf => Some("netperf"),
        }
    }

    /// Where its servers listen when nothing else is said.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Self::Native => DEFAULT_PORT,
            Self::Qperf => 19_765,
            Self::Iperf3 => 5_201,
            Self::Sockperf => 11_111,
            Self::Netperf => 12_865,
        }
    }
}
