//! The embedded ingress, a TLS-terminating reverse proxy, and the embedded origin behind it.
//!
//! They measure nothing and know no experiment: whoever starts one reads its counters and decides what they prove.

mod config;
pub mod http1;
mod net;
mod origin;
mod proxy;

pub use config::{Config, KeyOperations, Timeouts, Tls};
pub use origin::{OriginServer, text};
pub use proxy::{EmbeddedIngress, IngressError};
