//! Cautions, found in the table of slots.
//!
//! `leading` finds those that a reader must know before any figure (`Caution::leads`), `counted` the others. They call two
//! files that find cautions beside other work on the same facts: `work.rs` does it for variants that did different work,
//! `imported.rs` for runs that another tool measured.

mod counted;
mod leading;

pub(crate) use counted::{collect as counted, control_differs};
pub(crate) use leading::{after_effects, collect as leading};
