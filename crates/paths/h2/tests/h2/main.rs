//! Connections from outside: illegal input, two ends together, and nearly valid bytes.
#![expect(clippy::unwrap_used, reason = "tests may fail by panicking")]

mod connection;
mod fuzz;
mod illegal;
