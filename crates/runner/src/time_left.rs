//! An honest time left: what the run takes at most, and what it takes if the data go on as they began.

use plumb_model::event::TimeLeft;
use plumb_model::{ClaimVerdict, Plan, Verdict};

/// The time left after `done` complete blocks of `cell`, with verdicts so far and the seconds a block takes.
#[must_use]
pub fn time_left(plan: &Plan, cell: usize, done: u32, verdicts: &[ClaimVerdict], block_s: f64) -> TimeLeft {
    let later = plan.cells.len().saturating_sub(cell + 1);
    let rest = plan.blocks.max.saturating_sub(done);
    let at_most = f64::from(rest) + later_blocks(later, plan.blocks.max);
    let open =
        verdicts.iter().filter(|verdict| verdict.cell == cell && verdict.verdict == Verdict::Undecided);
    let wanted = open.map(|verdict| verdict.blocks_needed.unwrap_or(rest).max(1)).max().unwrap_or(0);
    let here = wanted.max(plan.blocks.min.saturating_sub(done)).min(rest);
    let probably_per_later_cell = (done + here).max(plan.blocks.min);
    let probably = f64::from(here) + later_blocks(later, probably_per_later_cell);
    TimeLeft { at_most_s: at_most * block_s, probably_s: probably * block_s }
}

#[expect(clippy::cast_precision_loss, reason = "a plan has at most some hundred cells")]
fn later_blocks(cells: usize, blocks: u32) -> f64 {
    cells as f64 * f64::from(blocks)
}
