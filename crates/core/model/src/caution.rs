//! Reasons not to rely on a run as it stands, as facts. The report makes sentences of them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Evidence, LoadHealth, Notice, OrderSource, VariantState, named};

named! {
    /// The quantity that shows how a system's workers share the work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum WorkerMeasure: name {
        /// Units of work, as the system counts them.
        Work = "work",
        /// CPU time, if the system does not count work by worker.
        CpuTime = "cpu-time",
    }
}

/// A reason not to rely on a run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caution {
    /// A variant did different work from the baseline, though its settings do not ask for it.
    DifferentWork {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The baseline.
        baseline: String,
        /// Their differences.
        differences: Vec<WorkDifference>,
    },
    /// A variant kept another number of units of work in flight than the baseline, and differs from it in more than that.
    InFlight {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The baseline.
        baseline: String,
        /// The name of the units of work, in the plural.
        units: String,
        /// How many the variant kept in flight.
        variant_in_flight: f64,
        /// How many the baseline kept in flight.
        baseline_in_flight: f64,
    },
    /// More than one in a hundred of a variant's answers led elsewhere.
    Redirects {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The share of its answers, from 0 to 1.
        share: f64,
    },
    /// A variant's rate was the same in every second of all its slots while its units of work waited, as under a limiter.
    Limiter {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The name of the units of work, in the plural.
        units: String,
        /// Units of work per second.
        rate_per_s: f64,
        /// Units of work in flight, on average.
        in_flight: f64,
        /// The mean time of a unit of work, in ns.
        mean_ns: f64,
        /// The shortest time of a unit of work, in ns.
        fastest_ns: f64,
        /// How many CPUs the system used, where that is known.
        system_cpus: Option<f64>,
    },
    /// Nothing shows how the earlier parts of a variant's pipeline ended, because its shell reports only the last part.
    UnseenParts {
        /// The variant.
        variant: String,
    },
    /// The system's threads waited for a CPU much longer with a variant than with the baseline, or the other way round.
    SystemWaited {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The baseline.
        baseline: String,
        /// How long they waited with the variant, as a share of the window; more than 1 for several threads.
        variant_share: f64,
        /// The same with the baseline.
        baseline_share: f64,
        /// CPUs on which threads of the side that waited more were seen, and on which the load may run too.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        shared: BTreeSet<u32>,
    },
    /// Nothing shows that the files and services that a variant changed are used.
    UseUnproven {
        /// The variant.
        variant: String,
        /// The files and services.
        changed: Vec<String>,
    },
    /// A variant is measured differently right after another variant.
    AfterEffect {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant that is disturbed.
        variant: String,
        /// The variant that leaves something behind.
        after: String,
        /// The metric, with its statistic where it has several.
        metric: String,
        /// The factor of the value right after the other variant.
        ratio: f64,
        /// How probable such a difference is by chance.
        p: f64,
        /// Whether it is the rate in the first second of the slots that differs, and not the value of the whole slots.
        #[serde(default)]
        fades: bool,
        /// After how many seconds of a slot it has faded, if it does so within a slot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lasts_s: Option<u32>,
    },
    /// More of a variant's work failed than the plan allows.
    WorkFailed {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The name of the units of work, in the plural.
        units: String,
        /// How many of them failed.
        failed: u64,
        /// How many of them there were.
        tried: u64,
        /// The share that the plan allows, from 0 to 1.
        limit: f64,
    },
    /// The data path makes its numbers up.
    Synthetic {
        /// The data path.
        path: String,
    },
    /// Another tool made the runs.
    Imported {
        /// The tool.
        tool: String,
    },
    /// Each variant has one run.
    SingleRuns,
    /// The variants did not take turns.
    NoTurns {
        /// How the order of the runs is known.
        order: OrderSource,
    },
    /// The output of the tool has no times.
    UnstampedOrder {
        /// How the order of the runs is known.
        order: OrderSource,
    },
    /// Imported runs of a variant have no counterpart.
    NoCounterpart {
        /// The variant.
        variant: String,
        /// How many runs.
        runs: u32,
    },
    /// A remark on a claim, from when the experiment was read.
    ClaimNote {
        /// As a sentence.
        note: String,
    },
    /// The control differs from the baseline, of which it is a copy.
    ControlDiffers {
        /// The baseline.
        baseline: String,
        /// In which metric they differ.
        metric: String,
    },
    /// A variant's numbers cannot be used.
    Unusable {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// Why.
        state: VariantState,
    },
    /// Slots of a variant have no usable value.
    Valueless {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The name of the units of work, in the plural.
        units: String,
        /// Why.
        lack: Lack,
        /// In how many slots.
        slots: u32,
        /// How many slots the variant has.
        of: u32,
    },
    /// Some slots of a variant failed for one reason.
    SlotsFailed {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The step that failed, and why.
        reason: String,
        /// In how many slots.
        slots: u32,
        /// How many slots the variant has.
        of: u32,
    },
    /// The load, and not the system, was the limit.
    LoadBound {
        /// The variant.
        variant: String,
        /// In how many slots.
        slots: u32,
        /// How many slots the variant has.
        of: u32,
        /// The load in the worst of them.
        health: LoadHealth,
        /// The key of an experiment that gives the load more threads, if it has one.
        threads_key: Option<String>,
    },
    /// The machine did not keep up in some slots of a variant.
    Disturbed {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// In how many slots.
        slots: u32,
        /// How many slots the variant has.
        of: u32,
        /// The evidence of the first of them.
        seen: Evidence,
    },
    /// Some workers of a variant's system had hardly anything to do, so its figures are those of fewer workers.
    IdleWorkers {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The name of the units of work, in the plural.
        units: String,
        /// The quantity that shows it.
        by: WorkerMeasure,
        /// How many workers the system had.
        workers: u32,
        /// The largest number of them that did less than a fifth of an even share in a slot.
        idle: u32,
        /// The largest share of one worker in any such slot, from 0 to 1.
        busiest: f64,
        /// In how many slots.
        slots: u32,
        /// How many slots the variant has.
        of: u32,
    },
    /// The values of a claim follow one another from block to block.
    Autocorrelated {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The left side of the claim.
        left: String,
        /// The variant and metric on its right side, if the claim compares two.
        right: Option<String>,
        /// The correlation of each block with the next.
        lag1: f64,
    },
    /// The capacities of a claim differ too much from block to block for the step of the search: its interval may be too narrow.
    SmallStep {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The left side of the claim.
        left: String,
        /// How many steps, as the standard deviation of blocks.
        spread: f64,
        /// The step, as a share of the rate.
        step: f64,
    },
    /// The ratio of a claim changed during the run: its mean over all blocks is outside the interval that earlier blocks allow.
    Moved {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The left side of the claim.
        left: String,
        /// The variant and metric on its right side.
        right: String,
    },
    /// The hypervisor took CPU time away.
    Stolen {
        /// In how many slots.
        slots: u32,
    },
    /// Processes of neither side used CPU time.
    Neighbours {
        /// In how many slots.
        slots: u32,
        /// More than this share of the CPU time, from 0 to 1.
        limit: f64,
        /// The share that the experiment allows, if it is more.
        allowed: Option<f64>,
    },
    /// The control group was throttled.
    Throttled {
        /// In how many slots.
        slots: u32,
    },
    /// Slots were measured again after a failure.
    Retried {
        /// How many slots.
        slots: u32,
        /// The variant of the first of them.
        variant: String,
        /// The step that failed at first, and why.
        reason: String,
    },
    /// Verdicts were allowed after few blocks.
    FewBlocks {
        /// The number of blocks.
        blocks: u32,
    },
    /// The run was extended after it had shown results.
    Extended {
        /// How many blocks were planned.
        planned: u32,
        /// How many there may be now.
        blocks: u32,
    },
    /// A notice of the load or the system, from all slots that have it.
    Noticed {
        /// With the range of each figure over those slots.
        notice: Notice,
    },
}

impl Caution {
    /// Whether a reader must know it before any figure. The others are counted on top.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(
            self,
            Self::DifferentWork { .. }
                | Self::Redirects { .. }
                | Self::Limiter { .. }
                | Self::UnseenParts { .. }
                | Self::SystemWaited { .. }
                | Self::UseUnproven { .. }
                | Self::AfterEffect { .. }
        )
    }
}

/// Why a slot has no usable value, whatever its value would have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The system failed in it.
    Failed,
    /// The harness failed, so the value is unknown.
    Unmeasured,
    /// Nothing completed.
    Idle,
    /// It was measured again after a failure, so its value hides that failure.
    Replaced,
}

/// One thing in which the work of a variant differs from that of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum WorkDifference {
    /// The share of a value of something that was observed.
    Share {
        /// The observed property: `status`.
        property: String,
        /// The value whose shares differ most: `301`.
        value: String,
        /// The variant's share, from 0 to 1.
        variant: f64,
        /// The baseline's.
        baseline: f64,
    },
    /// How often something happened per unit of work.
    PerWork {
        /// The event, in the plural: `new connections`.
        what: String,
        /// With the variant.
        variant: f64,
        /// With the baseline.
        baseline: f64,
    },
    /// A median size.
    Size {
        /// The part that has that size: `body`.
        what: String,
        /// The variant's, in bytes.
        variant_bytes: f64,
        /// The baseline's, in bytes.
        baseline_bytes: f64,
    },
}

impl Lack {
    /// Says what happened to a variant, and in how many of its slots.
    #[must_use]
    pub fn sentence_about(self, variant: &str, units: &str, (slots, of): (u32, u32)) -> String {
        let what = match self {
            Self::Idle => format!("{variant} completed no {units}"),
            Self::Failed => format!("{variant} failed"),
            Self::Unmeasured => format!("the harness failed to measure {variant}"),
            Self::Replaced => format!("{variant} was measured again after it had failed"),
        };
        format!("{what} in {slots} of {of} slots")
    }
}
