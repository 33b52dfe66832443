//! Volumes under QoS policies: the system that an experiment on storage tests.
//!
//! The limiter decides by virtual scheduling, two rates at once, fair between connections. It takes the time as a number, so its
//! promises are tested exactly. The server's event loops do page-cache I/O themselves and leave operations that wait for a disk, such
//! as reads of uncached data (`RWF_NOWAIT`), to a few threads. Commands write to the database and a running server polls it several
//! times a second, so the two need no protocol.
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
