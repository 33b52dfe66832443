//! Work that an event loop leaves to the workers.

use super::wire::Request;

/// The action.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Sync,
    Discard {
        offset: u64,
        bytes: u64,
        then_sync: bool,
    },
    Zero {
        offset: u64,
        bytes: u64,
        then_sync: bool,
    },
    /// Brings a read into memory from `done` on, which was replied before, to `until`.
    Fetch {
        request: Request,
        done: u32,
        until: u32,
        /// The volume is below its floor.
        is_owed: bool,
    },
}
