//! From a merged tree to a data path's settings: typed, checked and timed.

use plumb_path::tree::{Mistake, Node};
use plumb_path::{DataPath, Fault, PathSettings, Timing};

/// The longest window and warm-up of a quick run, in ns.
const QUICK_WINDOW_NS: u64 = 1_000_000_000;
const QUICK_WARMUP_NS: u64 = 100_000_000;
/// The most data that a slot of a quick run moves from end to end.
const QUICK_DATA_BYTES: u64 = 128 << 20;

/// Settings that a data path has read and accepted.
#[derive(Debug)]
pub struct Settled {
    /// The settings.
    pub settings: PathSettings,
    /// The same as JSON text, for the run's header.
    pub json: String,
    /// Length of the measured window in ns.
    pub window_ns: u64,
    /// Length of the warm-up before it in ns.
    pub warmup_ns: u64,
}

/// Why a tree is not valid as settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsettled {
    /// Keys, types or texts are wrong; each mistake has its place.
    Shape(Vec<Mistake>),
    /// The settings contradict each other.
    Fault(Fault),
}

impl From<Fault> for Unsettled {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Reads a tree of `system` and `load` as the settings of a data path, shortened for a quick run.
///
/// # Errors
/// Mistakes with their places, or the data path's first fault with its key.
pub fn settle(path: &DataPath, tree: &Node, quick: bool) -> Result<Settled, Unsettled> {
    let (mut window_ns, mut warmup_ns) = (0, 0);
    let mut adjust = |Timing { window, warmup, data }: Timing<'_>| {
        if quick {
            window.0 = window.0.min(QUICK_WINDOW_NS);
            warmup.0 = warmup.0.min(QUICK_WARMUP_NS);
            data.into_iter().for_each(|data| data.0 = data.0.min(QUICK_DATA_BYTES));
        }
        (window_ns, warmup_ns) = (window.0, warmup.0);
    };
    let settings = path.read(tree).map_err(Unsettled::Shape)?.checked(&mut adjust)?;
    if window_ns == 0 {
        return Err(Fault::new("load.duration", "a window must be longer than 0 s").into());
    }
    let json = settings.to_json().map_err(|error| Fault::new("system", format!("failed to {error}")))?;
    Ok(Settled { settings, json: json.to_string(), window_ns, warmup_ns })
}
