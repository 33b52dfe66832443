//! The settings of the origin.

use plumb_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which program is the origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// Plumbline's own server of one fixed body.
    #[default]
    Embedded,
    /// nginx from the host's packages.
    Nginx,
}

/// The origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OriginSettings {
    /// Which program.
    pub kind: OriginKind,
    /// The size of the body that it answers with.
    pub body: Bytes,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self { kind: OriginKind::default(), body: Bytes(612) }
    }
}
