//! The programs that can drive the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that drives the load: Plumbline's own generator, or a tool that it starts and whose output it reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Plumbline's own load generator.
    #[default]
    Native,
    /// wrk.
    Wrk,
    /// ab, the benchmark of the Apache HTTP server.
    Ab,
    /// h2load.
    H2load,
    /// k6, with Plumbline's script or with `script`.
    K6,
    /// vegeta.
    Vegeta,
    /// oha 1.9 or later.
    Oha,
}

impl Driver {
    /// The program's name; `None` for Plumbline's own generator.
    #[must_use]
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Native => None,
            Self::Wrk => Some("wrk"),
            Self::Ab => Some("ab"),
            Self::H2load => Some("h2load"),
            Self::K6 => Some("k6"),
            Self::Vegeta => Some("vegeta"),
            Self::Oha => Some("oha"),
        }
    }
}
