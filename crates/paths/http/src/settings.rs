//! The `system` and `load` of an HTTP experiment as types.
//!
//! Every struct is flat with a `kind` beside optional fields, and not an enum per kind: variants are deep merges, and
//! a variant that changes only `kind` must leave its neighbours standing. What a kind does not use is checked in
//! `check.rs`.

mod announced;
mod config;
mod congestion;
mod driver;
mod ingress;
mod load;
mod origin;
mod sockets;
mod tls;
mod windows;

use plumb_path::link::LinkShape;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use announced::Announced;
pub use config::ConfigSettings;
pub use congestion::CongestionControl;
pub use driver::Driver;
pub use ingress::{IngressKind, IngressSettings, Offload, OffloadMode};
pub use load::{LoadProtocol, LoadSettings, Reuse, Spoken};
pub use origin::{OriginKind, OriginSettings};
pub use sockets::Sockets;
pub use tls::{KeyKind, TlsVersion};
pub use windows::WindowSettings;

/// The settings of an HTTP experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// The system under test.
    pub system: SystemSettings,
    /// The load.
    pub load: LoadSettings,
}

/// The system under test: an ingress in front of an origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSettings {
    /// The ingress, which terminates TLS and forwards.
    pub ingress: IngressSettings,
    /// The origin, which answers.
    pub origin: OriginSettings,
    /// A link between the load and the ingress that is worse than the machine. The origin is on the ingress' side.
    #[serde(skip_serializing_if = "LinkShape::is_empty")]
    pub link: LinkShape,
}
