//! The tree of settings that a person wrote, and how typed values are read from it with every mistake in its place.

mod de;
mod mistake;
mod node;

pub use de::{from_node, from_node_thorough};
pub use mistake::{MAX_MISTAKES, Mistake, collect, hint, keep, printable};
pub use node::{Location, Node, Scalar, Value};
