//! The `migration` data path: memory of a virtual machine, moved while it runs, by Plumbline's stream engine and by
//! QEMU, with the same codecs, channels, caps and meanings of every number.
//!
//! In `engine/`, `source/` sends and `destination/` receives; each is a side of a slot. `packet.rs` is the format on the wire,
//! `pace.rs` the cap, `dirty/` makes and finds the guest's writes, `wire/` has the sockets. A window is a number of migrations,
//! each into fresh memory. The engine compares all of that memory afterwards. CPU time is counted from the start of a migration
//! until the guest runs at the destination. Both sides are measured, so neither is ever "load-bound"; only the guest's writer can
//! be.
//!
//! In `qemu/`, the source is a child of the load's agent, and the destination a child of the system's; both are fresh for each
//! migration. `qmp.rs` is the client, `abilities.rs` finds out what the binary can do, `control.rs` is the channel between the two
//! agents.

mod check;
pub mod engine;
mod evidence;
mod family;
pub mod metrics;
pub mod qemu;
pub mod settings;
#[cfg(test)]
mod tests;

pub use family::MIGRATION;
