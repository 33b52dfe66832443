//! End to end, through the built `plumb`. Tests at the top level need no root and measure nothing real; those in [`systems`] do, and
//! those in [`lab`] need more than this machine has by itself.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start programs, wait for them, say what they skip, and stop at the first surprise"
)]

mod command;
mod commands;
mod common;
mod endings;
mod gate;
mod history;
mod lab;
mod log;
mod single;
mod systems;
mod ui;
mod verdicts;
