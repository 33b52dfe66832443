//! Volumes under QoS policies: what an experiment on storage puts under test.
//!
//! A volume is a sparse file that is served by NBD. What it may do in a second is decided by a policy ([`policy`]),
//! enforced by a limiter ([`limiter`]) that keeps account of the time for which it was what held operations up, and spoken
//! to by any NBD client ([`nbd`]). Which volumes and policies exist is kept in a database ([`state`]), and made real by
//! [`Service`]. Nothing here generates load or knows what an experiment is.

pub mod limiter;
pub mod nbd;
pub mod policy;
pub mod private;
pub mod state;

mod service;
mod volume;
mod waiter;

pub use service::{Report, Service, ServiceError, VolumeFault, VolumeReport};
pub use volume::{Volume, VolumeLimiter};
