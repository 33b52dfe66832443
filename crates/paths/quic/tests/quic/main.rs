//! Connections in memory: whole exchanges, and datagrams and frames that are nearly right.
#![expect(clippy::unwrap_used, reason = "tests may fail by panicking")]

mod changes;
mod exchange;
mod fuzz;
mod host;
mod offers;
mod pair;
mod script;
mod tampering;
