//! The experiment file: from YAML text to a plan that is typed, merged and expanded.
//!
//! ```text
//! bytes ─ parse ─▶ tree ─ document ─▶ outer form ─ matrix, variants ─▶ a tree for each cell and variant
//!                                                    ─ settle ─▶ cells of typed settings ─ claims, plan ─▶ Plan
//! ```
//!
//! Every step works on a tree whose nodes know where they were written ([`plumb_path::tree`]). Each mistake
//! is therefore reported with its line, its text and what would be right. One report holds as many mistakes
//! as can be found at once.

mod claims;
mod document;
mod error;
mod matrix;
mod merge;
mod parse;
mod places;
mod plan;
mod schema;
mod settle;
mod variants;

pub use error::FileError;
pub use parse::MAX_BYTES;
pub use places::read_places;
pub use plan::{Experiment, ReadOptions, read_experiment};
pub use schema::schema;
pub use settle::long_quick_trial_ns;

#[cfg(test)]
mod tests;
