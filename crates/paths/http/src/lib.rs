//! The `http` data path: a TLS ingress in front of an origin, driven by a thread-per-core HTTP/1.1 load generator.

mod check;
mod evidence;
mod family;
pub mod load;
mod metrics;
pub mod settings;
mod share;
pub mod system;
mod target;
mod url;

pub use family::HTTP;
pub use target::Target;
