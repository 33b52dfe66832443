//! What plumb-readers reads from the outputs of other tools, and what it refuses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod door;
mod endings;
mod figures;
mod fixtures;
mod fuzz;
mod values;
