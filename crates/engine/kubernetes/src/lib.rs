//! Kubernetes as a place: pods in which agents run, and streams to and from them.
//!
//! A Job without pods, the run's *lease* (`lease.rs`), owns everything that a run creates. The Job has a
//! deadline that the runner keeps moving. Once the runner stops, Kubernetes deletes the Job and all that it
//! owns.
//!
//! The client is asynchronous and runs on its own thread. The public interface blocks.

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
pub use change::ChangedObject;
pub use error::{Error, Unfound};
pub use exec::Exec;
pub use pod::NODE_ROOT;
pub use pods::{PodSeen, Pods};
pub use volume::VolumeOnArray;
