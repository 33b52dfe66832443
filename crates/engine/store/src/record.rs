//! The on-disk form of a run: envelopes with the name of the format around the in-memory types.
//!
//! The format's number increases when a change could mislead an older reader. A new optional field does not
//! increase it.

use plumb_model::{Ending, Header, Slot};
use serde::{Deserialize, Serialize};

/// The format of the whole directory.
pub(crate) const FORMAT: &str = "plumbline.run-directory/1";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeaderRecord {
    pub(crate) format: String,
    /// The experiment file's text; absent in older runs.
    #[serde(default)]
    pub(crate) experiment: Option<String>,
    #[serde(flatten)]
    pub(crate) header: Header,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SlotRecord {
    pub(crate) slot: Slot,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    pub(crate) ending: Ending,
    pub(crate) took_s: f64,
}
