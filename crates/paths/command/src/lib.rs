//! The `command` data path: any program as the load, run again and again, with its time, its CPU time and its memory.
//!
//! The program is measured from outside: what the kernel counts for it, and what it writes. A system may be started beside it.

mod check;
mod evidence;
mod extract;
mod family;
mod line;
mod load;
pub mod metrics;
mod notes;
mod program;
pub mod settings;
mod shell;
mod system;
mod tally;
mod target;
mod words;

pub use family::COMMAND;
pub use settings::{CommandSettings, Exits, LoadSettings, MetricSettings, Shell, SystemSettings};
