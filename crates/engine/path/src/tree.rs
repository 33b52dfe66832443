//! The tree of settings that a person wrote, and typed reading of it, which reports every mistake at its
//! place.

mod de;
mod mistake;
mod node;

pub use de::{from_node, from_node_thorough};
pub use mistake::{MAX_MISTAKES, Mistake, Mistakes, hint, printable};
pub use node::{Location, Node, Scalar, Value};
