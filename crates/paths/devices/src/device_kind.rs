//! The names of the devices, which settings and errors need as well as the devices themselves.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many operations libcrypto_mb does in one pass.
pub const LANES: usize = 8;

/// Which device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// The OpenSSL that this program is linked with.
    #[default]
    SoftwareOpenssl,
    /// AWS-LC, which rustls uses.
    SoftwareAwsLc,
    /// Intel's libcrypto_mb: eight operations in one pass of AVX-512 IFMA instructions.
    Multibuffer,
}

impl DeviceKind {
    /// All devices.
    pub const ALL: [Self; 3] = [Self::SoftwareOpenssl, Self::SoftwareAwsLc, Self::Multibuffer];

    /// The name, as in an experiment file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SoftwareOpenssl => "software-openssl",
            Self::SoftwareAwsLc => "software-aws-lc",
            Self::Multibuffer => "multibuffer",
        }
    }

    /// How many operations it does in one pass.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::SoftwareOpenssl | Self::SoftwareAwsLc => 1,
            Self::Multibuffer => LANES,
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
