//! The places of a run: this host, and others by ssh or as pods of a cluster. This crate starts agents there, compares clocks, reads
//! the hosts' counters, and makes and undoes the changes of variants.
//!
//! A *keeper* (`plumb keep`) does on another host what this crate does here.

mod agent;
mod array;
mod check;
mod child_agent;
mod clock;
mod clock_offset;
mod connection_error;
mod endpoints;
mod error;
mod facts;
mod host_reading;
pub mod host_tunings;
mod hosts;
mod intake;
mod keeper;
mod link;
mod node;
mod objects;
mod place;
mod process_log;
mod remote;
mod service;
mod slot_error;
mod treatments;
mod wire;

pub use agent::{Agent, GLANCE, unexpected};
pub use check::{CheckedHost, CheckedHosts, check, told_by};
pub use child_agent::{Launch, Rights};
pub use clock::{Clock, HostClock, Patience, SimulatedClock};
pub use clock_offset::ClockOffset;
pub use error::HostError;
pub use facts::host_lines;
pub use host_reading::{HostReading, SeenHost, SeenHosts, noise_by_machine};
pub use hosts::{Connections, Hosts, HostsInWindow, HostsInWords, Layout, Side, TreatedHost};
pub use keeper::keep;
pub use link::{Ended, Link, Received};
pub use node::SeenNode;
pub use objects::Objects;
pub use process_log::ProcessLog;
pub use slot_error::SlotError;

#[cfg(test)]
mod scripted;
