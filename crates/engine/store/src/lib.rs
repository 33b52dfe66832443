//! The run directory: written slot by slot, versioned, read back whole.
//!
//! ```text
//! DIR/run.json         what was known before the first slot (format plumbline.run-directory/1)
//! DIR/experiment.yaml  the experiment file, byte for byte
//! DIR/slots.jsonl      one line a slot, on disk before the next slot begins
//! DIR/end.json         how it ended; absent while it runs and after a kill
//! DIR/log.jsonl        what each process of the run logged; reports do not read it
//! DIR/now.json         what it does at this moment; absent before and after
//! DIR/lock             held by the run that writes
//! ```
//!
//! Only the last line can be cut short by a kill or a full disk, because every line before it was synced.
//! Readers drop it. A writer locks `lock` before it first looks at the directory, so that two runs cannot
//! share it. `run.json` also holds the text of the experiment as it ran, even if the file was edited since.
//!
//! A directory may be damaged, or come from another user. Reading it enforces bounds and does not follow
//! links.

mod bounds;
mod directory;
mod error;
mod folder;
mod following;
mod now;
mod record;
mod run_log;

pub use directory::{RunDirectory, edited_experiment, read_run, write_report};
pub use error::StoreError;
pub use folder::{make_unique, run_name};
pub use following::{Following, Stamp, is_being_written, lock_of, now};
pub use now::{Now, Phase};
pub use run_log::RunLog;
