//! The driver of the load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The driver of the load: Plumbline's own generator, or a tool that it starts and whose output it reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Plumbline's own load generator.
    #[default]
    Native,
    /// fio, with these settings or with `job`.
    Fio,
    /// dbench's script, at `script`.
    Dbench,
}

impl Driver {
    /// The program; `None` for Plumbline's own generator.
    #[must_use]
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Native => None,
            Self::Fio => Some("fio"),
            Self::Dbench => Some("dbench"),
        }
    }
}

/// A suite of loads, one after the other, in place of the one that the settings describe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Suite {
    /// The one load of the settings.
    #[default]
    None,
    /// dbench's nine jobs with its block sizes and depths. Each has a ninth of `duration` and of `warmup`.
    Dbench,
}
