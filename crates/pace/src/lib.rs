//! When work is due and when it ends: arrival schedules, the frame of a measurement, stop rules, retries.
//!
//! Nothing here reads a clock: times are nanoseconds on the caller's own time line. So schedules can be tested
//! without waiting, and every thread of a load can work from the same intended times.

pub mod backoff;
pub mod budget;
pub mod frame;
pub mod proportion;
pub mod schedule;

pub use backoff::Backoff;
pub use budget::Budget;
pub use frame::Frame;
pub use proportion::Proportion;
pub use schedule::{Schedule, Share};
