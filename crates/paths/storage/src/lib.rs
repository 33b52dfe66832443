//! The `storage` data path: files, block devices and NBD exports, driven by a load of one event loop per job.

mod check;
pub mod evidence;
mod family;
pub mod load;
pub mod metrics;
mod nbd_address;
mod pattern;
mod policy;
pub mod settings;
mod share;
pub mod system;

pub use family::STORAGE;
