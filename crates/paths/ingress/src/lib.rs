//! The embedded ingress, a TLS-terminating reverse proxy, and the embedded origin behind it.
//!
//! Neither measures anything or knows an experiment. The caller reads the counters and decides what they prove.

mod config;
mod http1;
mod net;
mod origin;
mod proxy;
#[cfg(test)]
mod tests;

pub use config::{Config, Http2, Http3, KeyOperations, Timeouts, Tls};
pub use http1::{Answer, Answers};
pub use origin::{OriginServer, text};
pub use proxy::{EmbeddedIngress, IngressError, PairError};
