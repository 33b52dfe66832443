//! The hosts of a run, on which agents run: so far this one.

mod clock;
mod here;
mod link;
mod sight;

pub(crate) use clock::Clock;
pub use here::Launch;
pub(crate) use here::{Local, Rights};
pub(crate) use link::{Link, Received};
pub(crate) use sight::HostSight;
pub use sight::noise_between;
