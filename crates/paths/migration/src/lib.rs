//! The `migration` data path: memory of a virtual machine, moved while it runs, by Plumbline's stream engine and by
//! QEMU, with the same codecs, channels, caps and meanings of every number.

mod check;
pub mod engine;
mod evidence;
mod family;
pub mod metrics;
pub mod qemu;
pub mod settings;

pub use family::MIGRATION;
