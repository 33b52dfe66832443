//! From a merged tree to a family's settings: typed, checked, timed, and written down as JSON.

use plumb_path::{Family, Fault, Settings, Timing};

use super::de;
use super::error::Mistake;
use super::node::Node;

/// The longest window and warm-up of a quick run, in ns.
const QUICK_WINDOW_NS: u64 = 1_000_000_000;
const QUICK_WARMUP_NS: u64 = 100_000_000;
/// The most data that a slot of a quick run moves from end to end.
const QUICK_DATA_BYTES: u64 = 128 << 20;

/// Settings that a family has read and found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The settings as JSON text.
    pub json: String,
    /// Length of the measured window in ns.
    pub window_ns: u64,
    /// Length of the warm-up before it in ns.
    pub warmup_ns: u64,
}

/// Why a tree is no family's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// Keys, types or texts are wrong; each mistake has its place.
    Shape(Vec<Mistake>),
    /// The settings do not go together.
    Fault(Fault),
}

impl From<Fault> for Unsettled {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Reads a tree of `system` and `load` as the settings of `F`, shortened where the run is a quick one.
///
/// # Errors
/// Mistakes with their places, or the family's own first fault with its key.
pub fn settle<F: Family>(tree: &Node, quick: bool) -> Result<Settled, Unsettled> {
    let mut settings: F::Settings = de::from_node_thorough(tree).map_err(Unsettled::Shape)?;
    settings.check()?;
    let Timing { window, warmup, data } = settings.timing();
    if quick {
        window.0 = window.0.min(QUICK_WINDOW_NS);
        warmup.0 = warmup.0.min(QUICK_WARMUP_NS);
        data.into_iter().for_each(|data| data.0 = data.0.min(QUICK_DATA_BYTES));
    }
    let (window_ns, warmup_ns) = (window.0, warmup.0);
    if window_ns == 0 {
        return Err(Fault::new("load.duration", "a window above 0 s is due").into());
    }
    let json = serde_json::to_string(&settings)
        .map_err(|error| Fault::new("system", format!("the settings cannot be written as JSON: {error}")))?;
    Ok(Settled { json, window_ns, warmup_ns })
}
