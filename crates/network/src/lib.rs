//! The `network` data path: networks between two ends, driven by qperf's tests.

pub mod load;
pub mod metrics;
pub mod options;
pub mod server;
pub mod settings;
pub mod spec;
pub mod system;

mod wire;

pub use settings::Network;
