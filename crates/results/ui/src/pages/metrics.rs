//! The metrics for Prometheus: the latest results of each experiment, and the run under way.

use std::collections::BTreeMap;
use std::sync::Arc;

use plumb_export::{PROMETHEUS_TYPE, RunSamples};

use crate::asked::Asked;
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::shelf::{State, Summary};
use crate::site::Site;

/// The text that Prometheus reads.
///
/// # Errors
/// None so far.
pub fn metrics(site: &Site, _: &Asked) -> Result<PageResponse, RequestError> {
    let runs = newest(site.shelf.list().runs);
    let samples = site.samples.of_runs(&site.shelf, &runs);
    Ok(PageResponse::asset(PROMETHEUS_TYPE, &RunSamples::text(samples.iter().map(Arc::as_ref))))
}

/// The newest ended run and the newest run without an end of each experiment. The text shows no others.
fn newest(runs: Vec<Arc<Summary>>) -> Vec<Arc<Summary>> {
    let mut newest: BTreeMap<(String, bool), Arc<Summary>> = BTreeMap::new();
    for run in runs.into_iter().filter(|run| run.state != State::Unreadable) {
        let is_ended = !matches!(run.state, State::Running | State::Killed);
        let best = newest.entry((run.name.clone(), is_ended)).or_insert_with(|| Arc::clone(&run));
        if best.started_at < run.started_at {
            *best = run;
        }
    }
    newest.into_values().collect()
}
