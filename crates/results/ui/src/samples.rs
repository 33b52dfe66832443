//! The Prometheus samples of each run, cached until the run changes. Prometheus asks every few seconds, and
//! reading a run takes time that would disturb a measurement on the same host.

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
    /// The summary from which the samples were made. The shelf makes another one when the run changes.
    of: Arc<Summary>,
    samples: Arc<RunSamples>,
}

impl Samples {
    /// The samples of these runs, without those that can no longer be read. Forgets the samples of all other
    /// runs.
    pub fn of_runs(&self, shelf: &Shelf, runs: &[Arc<Summary>]) -> Vec<Arc<RunSamples>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|id, _| runs.iter().any(|run| run.id == *id));
        let mut found = Vec::new();
        for run in runs {
            let known = kept.get(&run.id).filter(|known| Arc::ptr_eq(&known.of, run));
            let Some(samples) =
                known.map(|known| Arc::clone(&known.samples)).or_else(|| read_samples(shelf, run))
            else {
                continue;
            };
            kept.insert(run.id.clone(), Kept { of: Arc::clone(run), samples: Arc::clone(&samples) });
            found.push(samples);
        }
        found
    }
}

fn read_samples(shelf: &Shelf, run: &Summary) -> Option<Arc<RunSamples>> {
    let opened = shelf.open(&run.id)?.ok()?;
    let opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Arc::new(RunSamples::of_run(opened.run(), opened.judgement())))
}
