//! Reasons not to rely on a run as it stands, as facts. The report makes sentences of them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason not to rely on a run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caution {
    /// A variant did other work than the baseline, though its settings do not ask for it.
    DifferentWork {
        /// The values of the cell, by axis; empty for a plan with one cell.
        cell: String,
        /// The variant.
        variant: String,
        /// The baseline.
        baseline: String,
        /// In what they differ.
        differences: Vec<WorkDifference>,
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
        /// What the units of work are, in the plural.
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
    /// Nothing shows how earlier parts of the pipeline that a variant runs ended: its shell tells that of the last part alone.
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
    /// A variant's slots differ by whether they come right after another variant's.
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
}

/// One thing in which the work of a variant differs from that of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum WorkDifference {
    /// The share of a value of something that was observed.
    Share {
        /// What was observed: `status`.
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
        /// What happened, in the plural: `new connections`.
        what: String,
        /// With the variant.
        variant: f64,
        /// With the baseline.
        baseline: f64,
    },
    /// A median size.
    Size {
        /// What has it: `body`.
        what: String,
        /// The variant's, in bytes.
        variant_bytes: f64,
        /// The baseline's, in bytes.
        baseline_bytes: f64,
    },
}
