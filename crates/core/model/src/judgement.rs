//! Everything that a run's slots say.

use serde::{Deserialize, Serialize};

use crate::{Caution, ClaimVerdict, Comparison, Findings, VariantSummary};

/// Everything that a run's slots say, derived anew from the slots whenever it is needed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Every variant in every cell.
    pub variants: Vec<VariantSummary>,
    /// Every metric of every variant against the baseline.
    pub comparisons: Vec<Comparison>,
    /// Every claim in every cell.
    pub claims: Vec<ClaimVerdict>,
    /// The run's findings beyond its claims.
    #[serde(default)]
    pub findings: Findings,
    /// Reasons not to rely on the run as it stands.
    #[serde(default)]
    pub cautions: Vec<Caution>,
}
