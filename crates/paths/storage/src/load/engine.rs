//! How reads and writes reach the storage. One engine per job, used by one thread.

mod interface;
mod libaio;
pub mod nbd;
mod null;
mod psync;
mod timed;
mod uring;

pub use interface::{Completion, Engine, Request};

use std::fs::File;
use std::sync::Arc;

use super::buffers::Buffers;
use super::error::Error;
use crate::nbd_address::NbdAddress;
use crate::settings::EngineKind;

/// How engines reach the storage.
#[derive(Debug, Clone)]
pub enum Handle {
    /// Not at all.
    Null,
    /// By a file descriptor.
    File(Arc<File>),
    /// By a connection of each job.
    Nbd(Arc<NbdAddress>),
}

/// Builds the engine of one job. `buffers` outlive it.
///
/// # Errors
/// When the kernel does not have it, or forbids it.
pub fn build(
    kind: EngineKind,
    handle: &Handle,
    depth: u32,
    buffers: &Buffers,
) -> Result<Box<dyn Engine>, Error> {
    Ok(match handle {
        Handle::Null => Box::new(null::Null::new(depth)),
        Handle::Nbd(address) => Box::new(nbd::Nbd::connect(address, depth)?),
        Handle::File(file) => match kind {
            EngineKind::IoUring => Box::new(uring::Uring::new(file, depth, buffers)?),
            EngineKind::Libaio => Box::new(libaio::Libaio::new(file, depth)?),
            EngineKind::Psync => Box::new(psync::Psync::new(file)?),
        },
    })
}
