//! What a data path is: a family of systems with one kind of load, and the protocol by which both are driven.
//!
//! A family declares its settings and metrics and knows how to build the two sides. The sides run in child
//! separate processes ("agents"), so that CPU time is attributed to each exactly and a crash of one is an event
//! and not the end. This crate knows the traits and the wire between runner and agent, and no particular data path
//! but `null`, the synthetic one that drives the harness' own tests.

pub mod agent;
mod data_path;
pub mod drive;
mod erased;
pub mod existing;
pub mod family;
mod joined;
pub mod null;
pub mod portion;
pub mod protocol;
pub mod tool;
pub mod tree;

pub use data_path::{DataPath, find, schema_of};
pub use erased::{AnySettings, PathSettings};
pub use existing::{Existing, RunBy};
pub use family::{
    Family, Fault, Load, Mark, PathError, Place, Processes, Settings, Sides, Snapshot, System, Timing,
    Window, read_target,
};
pub use portion::Portion;
