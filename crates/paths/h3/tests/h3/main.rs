//! Streams from outside: messages of both sides.
#![expect(clippy::unwrap_used, reason = "tests may fail by panicking")]

mod messages;
