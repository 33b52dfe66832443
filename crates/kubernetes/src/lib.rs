//! Kubernetes as a place: pods in which agents run, and streams to and from them.
//!
//! Everything that is made for a run belongs to one Job without pods, its *lease* (`lease.rs`). The Job has a deadline that the runner
//! moves while it lives. When it no longer does, Kubernetes deletes the Job and all that belongs to it.
//!
//! The client is asynchronous and has a thread of its own. What is public here is not: callers wait.

mod access;
mod api;
mod change;
mod endpoint;
mod error;
mod exec;
mod facts;
mod lease;
mod pod;
mod pods;
mod rollout;
mod service;
mod volume;

pub use access::Right;
pub use api::Cluster;
pub use change::Target;
pub use error::Error;
pub use exec::Exec;
pub use pod::NODE_ROOT;
pub use pods::{PodSeen, Pods};
pub use volume::VolumeOnArray;
