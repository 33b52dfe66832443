//! A run in memory with its judgement, which follows its directory.

use std::path::{Path, PathBuf};

use plumb_judge::{judge, judge_claims};
use plumb_model::{Ending, Judgement, Plan, Run, Slot};
use plumb_report::PastLook;
use plumb_store::{Following, Stamp, StoreError, is_being_written};

use super::state::State;

/// The largest slots file that is read, in bytes: its slots take several times as much memory. `plumb report`
/// has no such limit.
const SLOTS_BYTES_MAX: u64 = 256 << 20;

/// Why a run cannot be read. Completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It has too many slots.
    #[error(
        "read {}: its slots have {} MiB, and the page reads at most {}; `plumb report` has no such limit",
        path.display(),
        bytes >> 20,
        SLOTS_BYTES_MAX >> 20
    )]
    TooLarge {
        /// The directory.
        path: PathBuf,
        /// The size of its slots.
        bytes: u64,
    },
    /// The directory cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// See the module.
#[derive(Debug)]
pub struct Opened {
    following: Following,
    /// Whether a process was writing it just before it was read. A run writes its end before it releases its
    /// directory.
    was_written: bool,
    judgement: Judgement,
    looks: Vec<PastLook>,
    /// How many slots the looks cover.
    looked_at: usize,
    /// The report, once a request needed it.
    report: Option<String>,
}

impl Opened {
    /// Reads a directory.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_directory(path: &Path) -> Result<Self, OpenError> {
        let bytes = Stamp::of_directory(path).slots_bytes();
        if bytes > SLOTS_BYTES_MAX {
            return Err(OpenError::TooLarge { path: path.to_owned(), bytes });
        }
        let was_written = is_being_written(path);
        let following = Following::open(path, SLOTS_BYTES_MAX)?;
        let judgement = judge(&following.run().header.plan, &following.run().slots);
        Ok(Self { following, was_written, judgement, looks: Vec::new(), looked_at: 0, report: None })
    }

    /// Reads added slots, and judges again if the run has changed. Returns whether it has.
    ///
    /// # Errors
    /// As [`Opened::read_directory`].
    pub fn go_on(&mut self) -> Result<bool, OpenError> {
        let before = self.run().slots.len();
        self.was_written = is_being_written(self.following.path());
        let is_changed = self.following.go_on()?;
        if is_changed {
            let run = self.following.run();
            self.judgement = judge(&run.header.plan, &run.slots);
            self.report = None;
            if run.slots.len() < before {
                (self.looks, self.looked_at) = (Vec::new(), 0);
            }
        }
        Ok(is_changed)
    }

    /// The run as far as it was read.
    #[must_use]
    pub fn run(&self) -> &Run {
        self.following.run()
    }

    /// The state of the run when it was last read.
    #[must_use]
    pub fn state(&self) -> State {
        match self.run().ending {
            Some(Ending::Complete) => State::Complete,
            Some(Ending::Interrupted) => State::Interrupted,
            Some(Ending::Failed) => State::Failed,
            None if self.was_written => State::Running,
            None => State::Killed,
        }
    }

    /// The judgement of its slots.
    #[must_use]
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// The report as the inside of a page.
    pub fn report(&mut self) -> &str {
        let (run, judgement) = (self.following.run(), &self.judgement);
        self.report.get_or_insert_with(|| plumb_report::html_report(run, judgement))
    }

    /// The verdicts after each complete block, as the run saw them then.
    pub fn looks(&mut self) -> &[PastLook] {
        let run = self.following.run();
        let (plan, slots) = (&run.header.plan, &run.slots);
        for count in self.looked_at + 1..=slots.len() {
            let last = &slots[count - 1];
            if ends_its_block(plan, &slots[..count]) {
                let verdicts = judge_claims(plan, &slots[..count]);
                self.looks.push(PastLook { cell: last.cell, blocks: last.block + 1, verdicts });
            }
        }
        self.looked_at = slots.len();
        &self.looks
    }
}

/// Whether the last of these slots completes its block.
fn ends_its_block(plan: &Plan, slots: &[Slot]) -> bool {
    let Some(last) = slots.last() else { return false };
    let runnable = plan.cells[last.cell].variants.iter().filter(|planned| planned.skipped.is_none()).count();
    let is_beside = |slot: &&Slot| (slot.cell, slot.block) == (last.cell, last.block);
    slots.iter().rev().take_while(is_beside).count() == runnable * plan.slots_of_each()
}
