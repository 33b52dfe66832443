//! Volumes under QoS policies: what an experiment on storage puts under test.
//!
//! A volume is a sparse file that is served by NBD. What it may do in a second is decided by a policy, enforced by a
//! limiter ([`limiter`]) that keeps account of the time for which it was what held operations up, and spoken to by any
//! NBD client ([`nbd`]). Nothing here generates load or knows what an experiment is.

pub mod limiter;
pub mod nbd;

mod volume;

pub use volume::{Volume, VolumeLimiter};
