//! The congestion control by its name in experiment files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An algorithm that controls congestion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 9002, section 7).
    NewReno,
    /// BBR, which the QUIC library calls experimental.
    Bbr,
}

impl CongestionControl {
    /// The name in settings and evidence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
        }
    }
}
