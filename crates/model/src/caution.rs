//! Reasons not to rely on a run as it stands, as facts. The report makes sentences of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason not to rely on a run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caution {
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
    },
}
