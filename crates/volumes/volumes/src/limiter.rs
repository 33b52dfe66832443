//! The limits of a volume per second: operations and bytes at once, shared fairly, to the nanosecond.
//!
//! - [`Limits`] say how much.
//! - The virtual schedule decides when the next operation may begin (GCRA, the virtual-scheduling form of ITU-T
//!   I.371, annex A).
//! - [`Limiter`] lets connections wait in turn, and keeps the account that is the evidence.
//! - [`Floor`] says how much there should be at least, for those who decide what goes first.
//!
//! Time is given to all of it, so that every property can be tested exactly.

mod account;
mod floor;
mod limits;
mod shared;
mod sync;
mod turns;
mod virtual_schedule;

#[cfg(all(test, loom))]
mod orders;
#[cfg(test)]
mod tests;

pub use account::{Account, Binding};
pub use floor::Floor;
pub use limits::{Cost, Limits};
pub use shared::{Admission, Limiter};
pub use turns::Flow;
