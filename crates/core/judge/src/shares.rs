//! The shares of α that the claims of a run get, across its cells.
//!
//! Intervals only narrow with each block and with each part of α that other claims pass on, so a decision is final.

use plumb_model::{Claim, Operand, Plan, Term};
use plumb_stats::{Decision, Hypothesis, Level, Sample, share_alpha};

use crate::ratio::{question, sample};
use crate::table::Table;

/// The level at which each claim of each cell is judged.
#[derive(Debug, Clone)]
pub(crate) struct Shares<'a> {
    table: &'a Table<'a>,
    of_claims: Vec<Share<'a>>,
}

#[derive(Debug, Clone)]
struct Share<'a> {
    cell: usize,
    claim: &'a Claim,
    alpha: f64,
}

impl<'a> Shares<'a> {
    /// Passes the shares of decided claims on to the others until no more claims are decided.
    pub(crate) fn new(table: &'a Table<'a>) -> Self {
        let plan = table.plan;
        let all = (0..plan.cells.len()).flat_map(|cell| plan.claims.iter().map(move |claim| (cell, claim)));
        let shared: Vec<(usize, &Claim)> =
            all.filter(|(cell, claim)| plan.takes_share(*cell, claim)).collect();
        let asked: Vec<_> = shared.iter().map(|(cell, claim)| asked(table, *cell, claim)).collect();
        let alphas = share_alpha(Plan::ALPHA, shared.len(), |index, alpha| {
            asked[index].as_ref().is_some_and(|(sample, question)| {
                let interval = sample.interval(table.level(alpha));
                interval.is_some_and(|interval| question.judge(&interval) != Decision::Undecided)
            })
        });
        let of_claims = shared
            .into_iter()
            .zip(alphas)
            .map(|((cell, claim), alpha)| Share { cell, claim, alpha })
            .collect();
        Self { table, of_claims }
    }

    /// The level of a claim; two claims on one ratio share one level.
    pub(crate) fn of_claim(&self, cell: usize, claim: &Claim) -> Level {
        self.level(|share| share.cell == cell && claims_same(share.claim, claim))
    }

    /// The level of the comparison of `above` with `below`: the level of the claims on that ratio.
    pub(crate) fn of_ratio(&self, cell: usize, above: &Term, below: &Term) -> Level {
        self.level(|share| {
            let is_below = matches!(&share.claim.right, Operand::Term { term, .. } if term == below);
            share.cell == cell && share.claim.left == *above && is_below
        })
    }

    fn level(&self, is_it: impl Fn(&Share<'_>) -> bool) -> Level {
        let alphas = self.of_claims.iter().filter(|share| is_it(share)).map(|share| share.alpha);
        self.table.level(alphas.reduce(f64::max).unwrap_or_else(|| self.table.plan.alpha_each()))
    }
}

/// Whether two claims are about the same ratio, whatever they claim of it.
fn claims_same(one: &Claim, other: &Claim) -> bool {
    let is_same = match (&one.right, &other.right) {
        (Operand::Term { term, .. }, Operand::Term { term: other, .. }) => term == other,
        (one, other) => one == other,
    };
    is_same && one.left == other.left
}

/// A claim's hypothesis, and the blocks that it is judged by; `None` if no ratio decides it.
fn asked(table: &Table<'_>, cell: usize, claim: &Claim) -> Option<(Sample, Hypothesis)> {
    let factor = match &claim.right {
        Operand::Term { factor, .. } => *factor,
        Operand::Value(_) | Operand::Cap { .. } => 1.0,
    };
    Some((sample(table, cell, claim)?, question(claim.relation, factor).ok()?))
}
