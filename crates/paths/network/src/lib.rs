//! The `network` data path: networks between two ends, driven by qperf's tests.

mod check;
pub mod evidence;
mod family;
mod far;
pub mod load;
pub mod metrics;
pub mod options;
mod own_share;
mod placement;
pub mod server;
pub mod settings;
mod share;
pub mod system;
mod tools;
mod wire;

pub use family::NETWORK;
