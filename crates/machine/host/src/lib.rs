//! The only door to the machine: processes, /proc, /sys, cgroups, CPU accounting, facts.
//!
//! Every other crate is kept from spawning processes and from reading or writing kernel files, so that
//! what Plumbline does to a host can be read in one place. Nothing here knows what an experiment is.
//!
//! Parsers of kernel text take `&str` and are total: a kernel that writes something unforeseen costs a
//! missing value, never a panic.

pub mod acceleration;
pub mod accelerators;
pub mod address;
pub mod assessment;
pub mod cpu;
pub mod demand;
pub mod epoll;
pub mod extents;
pub mod facts;
pub mod limits;
pub mod loop_device;
pub mod memory;
pub mod mounts;
pub mod named_file;
pub mod network;
pub mod noise;
pub mod process;
pub mod qat;
pub mod scratch;
pub mod service;
pub mod settings;
pub mod signals;
pub mod tcp_info;
pub mod time;

pub mod cgroup;
mod cpu_set;
mod error;
mod ethtool;
mod own_build;
mod procfs;
mod text;
#[cfg(test)]
mod unprivileged;

pub use cgroup::Throttling;
pub use error::Error;
pub use network::namespace;
pub use own_build::{file_digest, own_build, own_program};
