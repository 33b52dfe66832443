//! Data paths: families of systems with one kind of load, and the protocol that drives both.
//!
//! A family declares its settings and metrics, and builds the two sides. The sides run in separate child
//! processes ("agents"). CPU time is thus attributed to each side exactly, and a crash of one does not end
//! the run. This crate knows the traits and the protocol between runner and agent. The only data path that it
//! knows is `null`, the synthetic one that drives the harness' own tests.

pub mod agent;
mod capacity;
mod data_path;
pub mod drive;
pub mod existing;
pub mod family;
mod joined;
pub mod link;
pub mod log;
pub mod null;
pub mod portion;
pub mod protocol;
mod settings;
mod timing;
pub mod tool;
pub mod tree;

pub use capacity::{Capacity, CapacitySettings, TRIAL_PER_LIMIT, rate_per_s};
pub use data_path::{DataPath, find, schema_of};
pub use existing::{Existing, Foreign, RunBy};
pub use family::{
    AnyError, Load, Mark, PathError, Place, Processes, SettingsFault, Sides, Snapshot, System, Window,
    read_target,
};
pub use portion::Portion;
pub use settings::{
    About, AnySettings, Facts, LinkMaker, LoadFacts, PathSettings, Remark, SeenWindow, Server, Settings,
    SystemFacts,
};
pub use timing::Timing;
