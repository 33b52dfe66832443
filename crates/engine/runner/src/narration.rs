//! The run's events as lines of its log, and the log's file.
//!
//! No line is written while a window is open: progress is not logged.

use plumb_model::event::PuttingBack;
use plumb_model::{Ending, Event, Run, Slot, SlotOutcome};
use plumb_path::log::Log;
use plumb_store::RunLog;
use tracing::{debug, error, info, warn};

use crate::error::RunError;

/// A run that logs to its directory. Dropping it ends that.
pub(crate) struct Narration(Option<Log>);

impl Narration {
    /// Logs to a file from now on, beginning with what was logged before there was one.
    pub(crate) fn begin(mut file: RunLog, run: &Run) -> Self {
        let log = Log::current();
        if let Some(log) = &log {
            log.write_to(Box::new(move |process, line| file.add(process, line)));
        }
        let plan = &run.header.plan;
        info!(
            experiment = plan.name,
            path = plan.path,
            seed = plan.seed,
            version = run.header.program_version,
            build = run.header.build.as_deref().unwrap_or_default(),
            pid = std::process::id(),
            slots_before = run.slots.len(),
            "the run begins"
        );
        Self(log)
    }

    /// Logs how the run ended.
    pub(crate) fn end(self, ended: &Result<Run, RunError>) {
        match ended {
            Ok(run) if run.ending == Some(Ending::Interrupted) => {
                warn!(slots = run.slots.len(), "the run was interrupted");
            }
            Ok(run) => info!(slots = run.slots.len(), "the run is complete"),
            Err(error) => error!(reason = %error, "the run failed"),
        }
    }
}

impl Drop for Narration {
    fn drop(&mut self) {
        if let Some(log) = &self.0 {
            log.hold();
        }
    }
}

/// Logs an event.
pub(crate) fn narrate(event: &Event) {
    match event {
        Event::VariantSkipped { variant, reason } => info!(variant, reason, "skipped a variant"),
        Event::VariantTried { cell, variant, .. } => info!(cell, variant, "trying a variant out"),
        Event::TrialFailed { variant, reason, .. } => warn!(variant, reason, "the trial failed"),
        Event::CellGivenUp { cell, reason } => warn!(cell, reason, "gave the cell up"),
        Event::SlotStarted { cell, block, position, variant, .. } => {
            info!(cell, block, position, variant, "a slot begins");
        }
        Event::WindowAgreed { open_ns, close_ns } => {
            debug!(open_ns, close_ns, "the window is agreed on");
        }
        Event::SlotRetried { variant, reason } => warn!(variant, reason, "measuring the slot again"),
        Event::SlotFinished { slot } => finished(slot),
        Event::BlockJudged { cell, blocks, verdicts } => {
            let open = verdicts.iter().filter(|verdict| verdict.verdict == plumb_model::Verdict::Undecided);
            info!(cell, blocks, undecided = open.count(), "judged a block");
        }
        Event::PuttingBack(PuttingBack::System { name, .. }) => info!(name, "waiting for a system to stop"),
        Event::PuttingBack(PuttingBack::Changes(_)) => info!("putting changes of hosts back"),
        Event::RunStarted { .. } | Event::SlotProgress { .. } | Event::RunFinished { .. } => {}
    }
}

fn finished(slot: &Slot) {
    let Slot { cell, block, position, variant, took_s, .. } = slot;
    match &slot.outcome {
        SlotOutcome::Measured(_) => debug!(cell, block, position, variant, took_s, "a slot is on disk"),
        SlotOutcome::Failed { reason, .. } => warn!(cell, block, position, variant, reason, "a slot failed"),
    }
}
