//! The `storage` data path: files, block devices and NBD exports, driven by a load of one event loop per job.
//!
//! In `load/`, `device` opens a target and finds data that a write would destroy, `job` is the event loop of one thread, and
//! `engine/` hands requests to the kernel. `offsets`, `pattern` and `ledger` choose the blocks, their content, and the content to
//! expect. `load/tool/` runs fio or dbench instead.
//!
//! `system/` knows an array only by its REST interface, so it treats Plumbline's and a real one alike. `volumes` serves a volume made
//! for the run, in the system's own process. With `layer: kernel` it is a loop device that disappears with its last user, and the load
//! enters a control group while it measures.

mod check;
pub mod evidence;
mod family;
pub mod load;
pub mod metrics;
mod nbd_address;
mod pattern;
mod policy;
pub mod settings;
mod share;
pub mod system;

pub use family::STORAGE;
