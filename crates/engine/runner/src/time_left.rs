//! The time left: the most that the run takes, and the time it takes if the data continue as they began.

use std::time::Duration;

use plumb_model::event::TimeLeft;
use plumb_model::{ClaimVerdict, Plan, Verdict};

/// The time by which a block beyond the least of a quick run must end, in seconds.
const QUICK_S: f64 = 85.0;

/// How long a run may take, at most, beyond its least blocks.
fn limit_s(plan: &Plan) -> Option<f64> {
    if plan.blocks_asked.is_some() || plan.extended_from.is_some() {
        return None;
    }
    let budget_s = plan.budget_ns.map(|ns| Duration::from_nanos(ns).as_secs_f64());
    budget_s.or_else(|| plan.quick.then_some(QUICK_S))
}

/// Whether another block would take a run with a limit beyond its time, after `done` blocks in `elapsed_s`.
/// Each cell has an equal part of the time.
#[must_use]
pub fn is_out_of_time(plan: &Plan, cell: usize, done: u32, elapsed_s: f64) -> bool {
    let part = (cell + 1) as f64 / plan.cells.len() as f64;
    limit_s(plan).is_some_and(|limit_s| elapsed_s * f64::from(done + 1) > limit_s * part * f64::from(done))
}

/// The longest time that a run takes, in seconds from its beginning, if its blocks take this long.
#[must_use]
pub fn at_most_s(plan: &Plan, at_least_s: f64, all_s: f64) -> f64 {
    limit_s(plan).map_or(all_s, |limit_s| all_s.min(limit_s.max(at_least_s)))
}

/// The time left after `done` complete blocks of `cell`, from the verdicts so far and the seconds that a
/// block takes.
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

fn later_blocks(cells: usize, blocks: u32) -> f64 {
    cells as f64 * f64::from(blocks)
}
