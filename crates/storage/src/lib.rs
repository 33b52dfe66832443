//! The `storage` data path: files, block devices and NBD exports, driven by a load of one event loop per job.

pub mod load;
pub mod metrics;
pub mod settings;
pub mod spec;
pub mod system;

pub use settings::Storage;
