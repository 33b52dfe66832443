//! The only door to the machine: processes, /proc, /sys, cgroups, CPU accounting, facts.
//!
//! Every other crate is kept from spawning processes and from reading or writing kernel files, so that
//! what Plumbline does to a host can be read in one place. Nothing here knows what an experiment is.
//!
//! Parsers of kernel text take `&str` and are total: a kernel that writes something unforeseen costs a
//! missing value, never a panic.

pub mod cpu;
pub mod process;
pub mod time;

mod error;
mod procfs;

pub use error::Error;
