//! Connections from outside: what no peer may send, what two of them do together, and bytes that are nearly right.
#![expect(clippy::unwrap_used, reason = "tests may fail by panicking")]

mod connection;
mod fuzz;
mod illegal;
