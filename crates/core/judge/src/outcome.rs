//! A verdict on one claim in one cell, on its way into the judgement.

use plumb_model::Verdict;
use plumb_stats as stats;

/// A verdict without its place among the claims.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    /// Ratio, lower bound, upper bound.
    pub(crate) bounds: Option<(f64, f64, f64)>,
    pub(crate) blocks_needed: Option<u32>,
}

impl Finding {
    pub(crate) fn new(verdict: Verdict, reason: impl Into<String>) -> Self {
        Self { verdict, reason: reason.into(), bounds: None, blocks_needed: None }
    }
}

pub(crate) fn model_verdict(verdict: stats::Decision) -> Verdict {
    match verdict {
        stats::Decision::Holds => Verdict::Holds,
        stats::Decision::Refuted => Verdict::Refuted,
        stats::Decision::Undecided => Verdict::Undecided,
    }
}

pub(crate) fn digits(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.decimals$}")
}

/// `98.2%`, and more digits where it is close to 0 or to 1.
pub(crate) fn percent(share: f64) -> String {
    let close = share.min(1.0 - share);
    let decimals = if close <= 0.0 || close >= 0.1 {
        0
    } else {
        (1.0 - (100.0 * close).log10().floor()).clamp(1.0, 6.0) as usize
    };
    let text = format!("{:.decimals$}", 100.0 * share);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}%")
}
