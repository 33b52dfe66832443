//! What Prometheus is told of each run, kept until the run changes: a server is asked every few seconds, and reading a run takes
//! time that a measurement beside it would notice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use plumb_export::RunSamples;

use crate::shelf::{Shelf, Summary};

/// See the module.
#[derive(Debug, Default)]
pub struct Samples {
    kept: Mutex<HashMap<String, Kept>>,
}

#[derive(Debug, Clone)]
struct Kept {
    /// The summary that was current. The shelf makes another when the run has changed.
    of: Arc<Summary>,
    samples: Arc<RunSamples>,
}

impl Samples {
    /// The samples of some runs, but for those that cannot be read any more. Those of all others are forgotten.
    pub fn of(&self, shelf: &Shelf, runs: &[Arc<Summary>]) -> Vec<Arc<RunSamples>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|id, _| runs.iter().any(|run| run.id == *id));
        let mut found = Vec::new();
        for run in runs {
            let known = kept.get(&run.id).filter(|known| Arc::ptr_eq(&known.of, run));
            let Some(samples) = known.map(|known| Arc::clone(&known.samples)).or_else(|| read(shelf, run))
            else {
                continue;
            };
            kept.insert(run.id.clone(), Kept { of: Arc::clone(run), samples: Arc::clone(&samples) });
            found.push(samples);
        }
        found
    }
}

fn read(shelf: &Shelf, run: &Summary) -> Option<Arc<RunSamples>> {
    let opened = shelf.open(&run.id)?.ok()?;
    let opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Arc::new(RunSamples::of(opened.run(), opened.judgement())))
}
