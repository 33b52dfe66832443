//! The experiment file: from YAML text to a plan that is typed, merged and expanded.
//!
//! ```text
//! bytes ─ parse ─▶ tree ─ document ─▶ outer form ─ matrix, variants ─▶ a tree for each cell and variant
//!                                                    ─ settle ─▶ typed settings ─ plan ─▶ Plan
//! ```
//!
//! Every step works on a tree whose nodes know where they were written ([`node`]), so that whatever is wrong is
//! reported with its line, its text and what would be right, and as much of it at once as can be found at once.

mod de;
mod document;
pub mod error;
mod matrix;
mod merge;
pub mod node;
mod parse;
mod plan;
mod schema;
mod settle;
mod variants;

pub use error::{FileError, Mistake};
pub use node::Node;
pub use parse::MAX_BYTES;
pub use plan::{ReadOptions, read};
pub use schema::{schema, schema_of};
pub use settle::{Settled, Unsettled, settle};

#[cfg(test)]
mod tests;
