//! Runs experiments: from an experiment to blocks, slots and a stream of events.
//!
//! The runner knows data paths only through [`plumb_path::DataPath`], and the caller only as a function that takes events. It knows
//! sides through agents and the line protocol, or calls them in its own process where their settings allow that. It decides no exit
//! code and draws nothing.

mod agent_executor;
mod dispatcher;
mod error;
mod executor;
mod foreign;
mod in_process;
mod moment;
mod narration;
mod order;
mod prepare;
mod search;
mod seen_slot;
mod session;
mod time_left;
mod treatments;
mod window_run;

pub use agent_executor::AgentExecutor;
pub use dispatcher::{Dispatched, Outlets, dispatch};
pub use error::RunError;
pub use executor::{Executor, Measured, Searching, SlotOrder};
pub use in_process::InProcess;
pub use order::block_order;
pub use prepare::{Planned, prepare};
pub use session::Session;
pub use time_left::at_most_s;

// `scripted.rs` belongs to `plumb-places` and takes these names from the crate that includes it.
#[cfg(test)]
use plumb_places::{Agent, Ended, Link, ProcessLog, Received, SimulatedClock};
#[cfg(test)]
#[path = "../../places/src/scripted.rs"]
mod scripted;
#[cfg(test)]
mod tests;
