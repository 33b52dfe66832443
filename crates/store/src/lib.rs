//! The run directory: written slot by slot, versioned, read back whole.
//!
//! ```text
//! DIR/run.json         what was known before the first slot (format plumbline.run-directory/1)
//! DIR/experiment.yaml  the experiment file, byte for byte
//! DIR/slots.jsonl      one line a slot, on disk before the next slot begins
//! DIR/end.json         how it ended; absent while it runs and after a kill
//! DIR/now.json         what it does at this moment; absent before and after
//! DIR/lock             held by the run that writes
//! ```
//!
//! A line that a kill or a full disk cut short is the last one, and is dropped when the directory is read: every
//! line before it was synced. A writer holds a lock on `lock` from before the first look at the directory, so that two
//! runs cannot share it. The experiment's text is also in `run.json`: that is what ran, whatever became of the file since.
//!
//! A directory may be damaged, or come from another user. Reading it enforces bounds and does not follow links.

mod bounds;
mod directory;
mod error;
mod folder;
mod following;
mod now;
mod record;

pub use directory::{RunDirectory, read, write_report};
pub use error::StoreError;
pub use folder::{make_unique, run_name};
pub use following::{Following, Stamp, is_being_written, lock_of, now};
pub use now::{Now, Phase};
