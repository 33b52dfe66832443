//! Tests readers of foreign bytes with inputs that are nearly right.
//!
//! A target starts from valid inputs, changes them at random ([`mutator`], [`json`]) and calls a reader with each. Nearly valid inputs
//! pass the first checks of a format, where random bytes end. An input with a new outcome (another error, another shape of the result)
//! becomes a start for more. That takes the place of coverage feedback, which would need a nightly compiler.
//!
//! Linking this crate counts the allocations of each thread ([`memory`]), so only tests link it.

mod input_file;
mod json;
mod memory;
mod mutator;
mod random;
mod target;

pub use memory::peak_bytes_of;
pub use mutator::Mutator;
pub use target::Target;
