//! A driver of the Container Storage Interface for volumes under QoS policies.
//!
//! A storage class names a policy of the volumes' database, and a claim on the class becomes a volume under
//! that policy. The [`controller`] changes the database. The [`node`] service creates mounts and devices of
//! volumes, which outlive the driver. Both are plain functions from a request to an answer. Only [`grpc`] has
//! a network and an async runtime. The crate does not know what an experiment is.

pub mod capability;
#[cfg(feature = "client")]
pub mod client;
pub mod controller;
pub mod grpc;
pub mod identity;
pub mod messages;
pub mod node;

mod common;
mod driver;
mod fault;
mod parameters;
mod record;

pub use driver::{Driver, Mode};
pub use fault::{CallError, Lacking};
