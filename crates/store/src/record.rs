//! The form of a run on disk: envelopes with a format's name around the types in memory.
//!
//! The format's number goes up when a reader of the old form could be misled; new optional fields do not count.

use plumb_model::{Ending, Header, Slot};
use serde::{Deserialize, Serialize};

/// The format of the whole directory.
pub(crate) const FORMAT: &str = "plumbline.run-directory/1";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeaderRecord {
    pub(crate) format: String,
    /// The experiment file's text; absent in runs from before it was kept here.
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
