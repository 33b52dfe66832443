//! The times at which work begins and ends: arrival schedules and who lags them, the frame of a measurement and its seconds,
//! gaps between completions, stop rules, retries.
//!
//! Nothing here reads a clock: times are nanoseconds on the caller's own time line. So schedules can be tested
//! without waiting, and every thread of a load can work from the same intended times.

pub mod backoff;
pub mod budget;
pub mod closing;
pub mod frame;
pub mod gaps;
pub mod lateness;
pub mod proportion;
pub mod schedule;
pub mod seconds;
mod sync;

#[cfg(all(test, loom))]
mod orders;

pub use backoff::Backoff;
pub use budget::Budget;
pub use closing::{Closing, End};
pub use frame::Frame;
pub use gaps::Gaps;
pub use lateness::Lateness;
pub use proportion::Proportion;
pub use schedule::{Schedule, Share};
pub use seconds::Seconds;
