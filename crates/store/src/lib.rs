//! The run directory: written slot by slot, versioned, read back whole.
//!
//! ```text
//! DIR/run.json         what was known before the first slot (format plumbline.run-directory/1)
//! DIR/experiment.yaml  the experiment file, byte for byte
//! DIR/slots.jsonl      one line a slot, on disk before the next slot begins
//! DIR/end.json         how it ended; absent while it runs and after a kill
//! ```
//!
//! A line that a kill or a full disk cut short is the last one, and is dropped when the directory is read: every
//! line before it was synced. Whoever writes holds a lock on `run.json`, so that two runs cannot share a directory.

mod directory;
mod error;
mod record;

pub use directory::{RunDirectory, read};
pub use error::StoreError;
