//! Streams from outside: messages of both sides, illegal input, and nearly valid bytes.
#![expect(clippy::unwrap_used, reason = "tests may fail by panicking")]

mod fuzz;
mod illegal;
mod messages;
mod peers;
mod refusals;
