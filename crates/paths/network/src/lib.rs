//! The `network` data path: networks between two ends, driven by qperf's tests.
//!
//! Both ends share `wire/`: sockets and options read back, the hello that begins every connection and every flow of datagrams, and
//! the control protocol, one JSON object per line. In `load/`, `prepare` makes a test ready, `flow` and `sender` are the loops, and
//! `run` is the thread that watches them and samples both ends' counters, each on its own clock. The server runs in the system's
//! agent. A load thread enters `NetworkTarget::netns` before it opens sockets.
//!
//! In `system/`, `layout.rs` makes the namespaces and devices of a kind, `half.rs` those of one side where the ends are on two hosts
//! (`far.rs` is the load there), and `apply.rs` applies the settings. `rules.rs` and `ovs.rs` are filters and Open vSwitch,
//! `observe.rs` reads counters and settings, `evidence.rs` turns them into evidence, and `pods.rs` combines all of it into a system.
//! `check.rs` knows which settings go together, and builds a network once to find out what this host can do.

mod check;
pub mod evidence;
mod family;
mod far;
pub mod load;
pub mod metrics;
pub mod options;
mod own_share;
mod placement;
pub mod server;
pub mod settings;
mod share;
pub mod system;
mod tool;
mod wire;

pub use family::NETWORK;
