//! Events of a run: the one stream that the progress line, the log and any display consume.

use serde::{Deserialize, Serialize};

use crate::{ClaimVerdict, Slot, Span};

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// The run begins or goes on.
    RunStarted {
        /// The run directory.
        directory: String,
        /// The seed of the orders.
        seed: u64,
        /// Slots already on disk from before.
        resumed_slots: usize,
    },
    /// A variant cannot run on this host.
    VariantSkipped {
        /// The name.
        variant: String,
        /// Why.
        reason: String,
    },
    /// A variant is tried out before the first block of a cell.
    VariantTried {
        /// Index of the cell.
        cell: usize,
        /// Position among the variants that are tried, from 0.
        position: u32,
        /// How many are tried.
        of: u32,
        /// The variant.
        variant: String,
    },
    /// A variant could not be measured when it was tried out.
    TrialFailed {
        /// The variant.
        variant: String,
        /// Why; it completes "failed to …".
        reason: String,
        /// Whether it would fail at any other time as well, so that its slots are not measured.
        is_lasting: bool,
    },
    /// A cell ends after its first block, as nothing in it can be compared.
    CellGivenUp {
        /// Index of the cell.
        cell: usize,
        /// Why; it completes "failed to measure …".
        reason: String,
    },
    /// A slot begins.
    SlotStarted {
        /// Index of the cell.
        cell: usize,
        /// Index of the block.
        block: u32,
        /// Position within the block, from 0.
        position: u32,
        /// Slots in the block.
        of: u32,
        /// The variant.
        variant: String,
        /// The time left in seconds, at most and probably.
        left_s: TimeLeft,
    },
    /// The slot's load has said when its window opens and closes, in ns of the runner's monotonic clock.
    WindowAgreed {
        /// When it opens.
        open_ns: u64,
        /// When it closes.
        close_ns: u64,
    },
    /// About once a second while a slot is measured.
    SlotProgress {
        /// Units of work done so far in the window.
        work: u64,
        /// Time since the window opened, in ns.
        elapsed_ns: u64,
        /// Units of work under way at a time, where the load keeps that number steady.
        in_flight: Option<f64>,
    },
    /// Somebody outside the run killed an agent, and the slot is measured again.
    SlotRetried {
        /// The variant.
        variant: String,
        /// Why it failed.
        reason: String,
    },
    /// A slot is on disk.
    SlotFinished {
        /// The slot.
        slot: Box<Slot>,
    },
    /// A block is complete and every claim was judged again.
    BlockJudged {
        /// Index of the cell.
        cell: usize,
        /// Complete blocks in that cell.
        blocks: u32,
        /// All verdicts so far.
        verdicts: Vec<ClaimVerdict>,
    },
    /// The run was interrupted, and puts something back before it ends.
    PuttingBack(PuttingBack),
    /// The run is over.
    RunFinished {
        /// Whether it was interrupted.
        interrupted: bool,
    },
}

/// A change that an interrupted measurement undoes before it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PuttingBack {
    /// A system that takes long to stop.
    System {
        /// The variant that it belongs to.
        name: String,
        /// How long stopping may take.
        at_most: Span,
    },
    /// Changes of hosts, in the words of the experiment.
    Changes(Vec<String>),
}

/// An honest time left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeLeft {
    /// If every cell goes to its last block.
    pub at_most_s: f64,
    /// If undecided claims need what the data so far suggest.
    pub probably_s: f64,
}
