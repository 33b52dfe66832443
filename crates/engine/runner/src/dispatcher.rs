//! The dispatcher: one loop that orders slots, records each before it starts the next, judges after every
//! block, and stops.
//!
//! It knows executors, a recorder and a stream of events only as functions, so that all of it is tested
//! without a process, a disk or a terminal.

use plumb_judge::{is_proven, judge_claims};
use plumb_model::event::TimeLeft;
use plumb_model::metric::CAPACITY;
use plumb_model::{
    Cell, ClaimVerdict, Ending, Event, Measurement, Notice, NoticeKind, Plan, Slot, SlotOutcome, Verdict,
};
use plumb_path::Window;
use plumb_places::host_tunings::treatment;
use plumb_places::{Clock, Patience, SlotError};

use crate::error::RunError;
use crate::executor::{Executor, Measured, Searching, SlotOrder};
use crate::order::{block_order, slot_seed};
use crate::prepare::Planned;
use crate::time_left::{at_most_s, is_out_of_time, time_left};

/// How long the trial of a variant is, in ns: enough for a load to get going, and short beside a slot.
const TRIAL_NS: u64 = 300_000_000;

/// The dispatcher's connections to the outside.
pub struct Outlets<'a> {
    /// Stores a slot durably.
    pub record: &'a mut dyn FnMut(&Slot) -> Result<(), RunError>,
    /// Receives the events of the run.
    pub emit: &'a mut dyn FnMut(&Event),
    /// The clock of the run, and whether the user wants it to end.
    pub patience: Patience<'a>,
}

/// How a plan ended, with all slots.
pub type Dispatched = Result<(Ending, Vec<Slot>), RunError>;

/// Runs a plan from where `slots` ends. Returns how it ended, with all slots.
///
/// # Errors
/// When a slot cannot be recorded, or nothing can be measured that a verdict could rest on. A failed slot is
/// a result and not an error, unless all slots of the baseline fail in the first block.
pub fn dispatch(
    planned: &Planned,
    slots: Vec<Slot>,
    executor: &mut dyn Executor,
    outlets: &mut Outlets<'_>,
) -> Dispatched {
    let plan = planned.plan();
    let base_s = slots.last().map_or(0.0, |slot| slot.offset_s + slot.took_s);
    let started_ns = outlets.patience.clock.monotonic_ns();
    let (verdicts, given_up) = (Vec::new(), Vec::new());
    let mut run =
        Dispatch { planned, plan, slots, executor, outlets, started_ns, base_s, verdicts, given_up };
    run.verdicts = judge_claims(plan, &run.slots);
    for (index, cell) in plan.cells.iter().enumerate() {
        let ending = run.cell(index, cell)?;
        run.executor.end_cell();
        if ending == Ending::Interrupted {
            return Ok((Ending::Interrupted, run.slots));
        }
    }
    Ok((Ending::Complete, run.slots))
}

struct Dispatch<'a, 'o> {
    planned: &'a Planned,
    plan: &'a Plan,
    slots: Vec<Slot>,
    executor: &'a mut dyn Executor,
    outlets: &'a mut Outlets<'o>,
    started_ns: u64,
    base_s: f64,
    verdicts: Vec<ClaimVerdict>,
    /// Cells and indices in them of variants that can never be measured, with the reason.
    given_up: Vec<(usize, usize, String)>,
}

impl Dispatch<'_, '_> {
    fn cell(&mut self, index: usize, cell: &Cell) -> Result<Ending, RunError> {
        let indices: Vec<usize> =
            (0..cell.variants.len()).filter(|variant| cell.variants[*variant].skipped.is_none()).collect();
        let before = self.blocks_before(index);
        let mut is_tried = false;
        for block in 0..self.plan.blocks.max {
            let is_done = || self.is_decided(index) && self.is_proven(index);
            let is_late = || is_out_of_time(self.plan, index, before + block, self.elapsed_s(self.now_ns()));
            if block >= self.plan.blocks.min && (is_done() || is_late())
                || block > 0 && self.is_pointless(index)
            {
                break;
            }
            let order = block_order(self.plan.seed, index, block, &indices);
            let done = self.slots.iter().filter(|slot| slot.cell == index && slot.block == block).count();
            if done >= order.len() {
                continue;
            }
            if !std::mem::replace(&mut is_tried, true)
                && self.try_variants(index, cell, &indices)? == Ending::Interrupted
            {
                return Ok(Ending::Interrupted);
            }
            if self.block(index, cell, block, (&order, done))? == Ending::Interrupted {
                return Ok(Ending::Interrupted);
            }
            if block == 0
                && let Some(reason) = self.unmeasurable(index)
            {
                return self.give_up(index, reason);
            }
        }
        Ok(Ending::Complete)
    }

    /// How many blocks the earlier cells took.
    fn blocks_before(&self, cell: usize) -> u32 {
        let of = |cell| self.slots.iter().filter(|slot| slot.cell == cell).map(|slot| slot.block + 1).max();
        (0..cell).filter_map(of).sum()
    }

    /// Builds and briefly measures every variant, so that one that cannot be measured is reported before the
    /// first block. It records nothing. A failing baseline ends a run that has measured nothing yet.
    fn try_variants(&mut self, cell: usize, planned: &Cell, indices: &[usize]) -> Result<Ending, RunError> {
        let of = u32::try_from(indices.len()).unwrap_or(u32::MAX);
        for (position, index) in (0_u32..).zip(indices) {
            let (variant, settings) = (&planned.variants[*index], &self.planned.settings(cell)[*index]);
            let name = &self.plan.variants[variant.variant].name;
            (self.outlets.emit)(&Event::VariantTried { cell, position, of, variant: name.clone() });
            let seed = slot_seed(self.plan.seed, cell, u32::MAX, position);
            let window = Window {
                index: self.slots.len() as u64,
                ..Window::at_once(0, self.plan.window_ns.min(TRIAL_NS), seed)
            };
            let (treatment, pods) = (treatment(variant), &variant.pods);
            let order =
                SlotOrder { name, settings, treatment, pods, cooldown_ns: 0, window, searching: None };
            let reason = match self.try_out(order) {
                Ok(measured) => match measured.result.measurement.hopeless {
                    Some(reason) => {
                        self.given_up.push((cell, *index, reason.clone()));
                        reason
                    }
                    None => continue,
                },
                Err(SlotError::Interrupted) => return Ok(Ending::Interrupted),
                Err(SlotError::Gone(reason)) => return Err(RunError::Gone(reason)),
                Err(error) => error.into_reason(),
            };
            let has_data = self.slots.iter().any(|slot| slot.result().is_some());
            if variant.variant == self.plan.baseline && !has_data {
                return Err(RunError::Unmeasurable(format!("the baseline `{name}`: failed to {reason}")));
            }
            let is_lasting = self.why_given_up(cell, *index).is_some();
            (self.outlets.emit)(&Event::TrialFailed { variant: name.clone(), reason, is_lasting });
        }
        Ok(Ending::Complete)
    }

    /// Measures for a trial. A failure of the harness is tried once more, because nothing rests on a trial.
    fn try_out(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        match self.measure(order, &mut Vec::new()) {
            Err(SlotError::Harness(_)) => self.measure(order, &mut Vec::new()),
            ended => ended,
        }
    }

    /// Why nothing can be compared in a cell; `None` unless every slot of the baseline failed in the first
    /// block.
    fn unmeasurable(&self, cell: usize) -> Option<String> {
        let failed = |slot: &Slot| match &slot.outcome {
            SlotOutcome::Failed { reason, .. } => Some(format!("{} failed to {reason}", slot.variant)),
            SlotOutcome::Measured(_) => None,
        };
        let first: Vec<&Slot> =
            self.slots.iter().filter(|slot| slot.cell == cell && slot.block == 0).collect();
        let baseline = self.plan.baseline_name();
        if first.iter().any(|slot| slot.variant == baseline && failed(slot).is_none()) {
            return None;
        }
        let what = if first.iter().all(|slot| failed(slot).is_some()) {
            "anything: every slot of the first block failed".to_owned()
        } else {
            format!("the baseline `{baseline}`: all its slots in the first block failed")
        };
        // Only the first reason of each variant: later ones differ in a port or a pid.
        let mut reasons: Vec<(&str, String)> = Vec::new();
        for slot in first {
            let is_new = reasons.iter().all(|(variant, _)| *variant != slot.variant);
            reasons.extend(failed(slot).filter(|_| is_new).map(|reason| (slot.variant.as_str(), reason)));
        }
        let reasons: Vec<String> = reasons.into_iter().map(|(_, reason)| reason).collect();
        Some(format!("{what}: {}", reasons.join("; ")))
    }

    /// Ends a cell in which nothing can be compared. Ends the run if no other cell has data.
    fn give_up(&mut self, cell: usize, reason: String) -> Result<Ending, RunError> {
        if !self.slots.iter().any(|slot| slot.cell != cell && slot.result().is_some()) {
            return Err(RunError::Unmeasurable(reason));
        }
        (self.outlets.emit)(&Event::CellGivenUp { cell, reason });
        Ok(Ending::Complete)
    }

    /// Why a variant of a cell is not measured any more.
    fn why_given_up(&self, cell: usize, index: usize) -> Option<&String> {
        let is_it = |(of, at, _): &&(usize, usize, String)| (*of, *at) == (cell, index);
        self.given_up.iter().find(is_it).map(|(_, _, reason)| reason)
    }

    /// Whether every claim is about a variant of the cell that can never be measured.
    fn is_pointless(&self, cell: usize) -> bool {
        let planned = &self.plan.cells[cell].variants;
        let is_lost = |name: &str| {
            let is_it = |at: usize| self.plan.variants[planned[at].variant].name == name;
            (0..planned.len()).any(|at| is_it(at) && self.why_given_up(cell, at).is_some())
        };
        let claims = &self.plan.claims;
        !claims.is_empty() && claims.iter().all(|claim| claim.variants().into_iter().any(is_lost))
    }

    fn is_decided(&self, cell: usize) -> bool {
        let mut here = self.verdicts.iter().filter(|verdict| verdict.cell == cell);
        here.all(|verdict| verdict.verdict != Verdict::Undecided)
    }

    /// Whether every treatment of the cell is known to be in effect or not. Open treatments need more blocks.
    fn is_proven(&self, cell: usize) -> bool {
        is_proven(self.plan, &self.slots, cell)
    }

    fn block(
        &mut self,
        cell: usize,
        planned: &Cell,
        block: u32,
        (order, done): (&[usize], usize),
    ) -> Result<Ending, RunError> {
        for (position, index) in (0_u32..).zip(order).skip(done) {
            let (variant, settings) = (&planned.variants[*index], &self.planned.settings(cell)[*index]);
            let name = &self.plan.variants[variant.variant].name;
            let left_s = self.time_left(cell, block, position, order.len());
            (self.outlets.emit)(&Event::SlotStarted {
                cell,
                block,
                position,
                of: u32::try_from(order.len()).unwrap_or(u32::MAX),
                variant: name.clone(),
                left_s,
            });
            let seed = slot_seed(self.plan.seed, cell, block, position);
            let window = Window {
                index: self.slots.len() as u64,
                ..Window::at_once(self.plan.warmup_ns, self.plan.window_ns, seed)
            };
            let place = (cell, block, position);
            let slot = match self.why_given_up(cell, *index).cloned() {
                Some(reason) => {
                    self.finished(place, name, self.now_ns(), Vec::new(), Err(SlotError::Failed(reason)))
                }
                None => {
                    let (treatment, pods) = (treatment(variant), &variant.pods);
                    let cooldown_ns = self.plan.cooldown_ns;
                    let capacity = settings.facts().load.capacity;
                    let start = self.capacity_so_far(cell, name);
                    let others_max = self.plan.others_max;
                    let searching = capacity.as_ref().map(|capacity| Searching {
                        capacity,
                        start,
                        others_max,
                        watch: &|_| (),
                    });
                    let order = SlotOrder { name, settings, treatment, pods, cooldown_ns, window, searching };
                    self.slot(place, order)?
                }
            };
            let Some(slot) = slot else { return Ok(Ending::Interrupted) };
            (self.outlets.record)(&slot)?;
            (self.outlets.emit)(&Event::SlotFinished { slot: Box::new(slot.clone()) });
            self.slots.push(slot);
        }
        self.verdicts = judge_claims(self.plan, &self.slots);
        (self.outlets.emit)(&Event::BlockJudged { cell, blocks: block + 1, verdicts: self.verdicts.clone() });
        Ok(Ending::Complete)
    }

    /// The geometric mean of the capacities that a variant had so far; `None` if it had none. Where the load was the limit, the
    /// capacity is only a lower bound, and so it may be where the system did not recover. Slots before a burst was spent do not
    /// count.
    fn capacity_so_far(&self, cell: usize, name: &str) -> Option<f64> {
        let slots = self.slots.iter().filter(|slot| slot.cell == cell && slot.variant == name);
        let measurements = slots.filter_map(|slot| Some(&slot.result()?.measurement));
        let is_sick = |notice: &Notice| notice.kind == NoticeKind::NotRecovered;
        let has_spent = |it: &&Measurement| it.notices.iter().any(|it| it.kind == NoticeKind::BurstSpent);
        let found = measurements.filter(|it| !it.health.is_load_bound() && !it.notices.iter().any(is_sick));
        let found: Vec<&Measurement> = found.collect();
        let first = found.iter().rposition(has_spent).unwrap_or(0);
        let readings =
            found[first..].iter().filter_map(|measurement| measurement.readings.get(CAPACITY.name));
        let logs = readings.filter_map(|reading| Some(reading.number(None, CAPACITY.unit)?.ln()));
        let (count, sum) = logs.fold((0.0, 0.0), |(count, sum), log| (count + 1.0, sum + log));
        (count > 0.0).then(|| f64::exp(sum / count))
    }

    /// Measures one slot; `None` if it was interrupted. A failure is an outcome, too: a second measurement of
    /// failed slots would drop slow and broken ones.
    fn slot(&mut self, place: (usize, u32, u32), order: SlotOrder<'_>) -> Result<Option<Slot>, RunError> {
        let begun_ns = self.now_ns();
        let mut retried: Vec<String> = Vec::new();
        let measured = match self.measure(order, &mut retried) {
            Ok(Measured { doubt: Some(reason), .. }) => Err(SlotError::Harness(reason)),
            Err(SlotError::Gone(reason)) => return Err(RunError::Gone(reason)),
            other => other,
        };
        Ok(self.finished(place, order.name, begun_ns, retried, measured))
    }

    /// Measures once. Measures a second time only after a process outside the run killed an agent: that
    /// affects all variants alike, whatever the slot would have shown.
    fn measure(&mut self, order: SlotOrder<'_>, retried: &mut Vec<String>) -> Result<Measured, SlotError> {
        loop {
            self.outlets.patience.go_on()?;
            let attempt = u32::try_from(retried.len()).unwrap_or(u32::MAX);
            let window = Window { attempt, ..order.window };
            match self.executor.measure(SlotOrder { window, ..order }) {
                Err(SlotError::Killed(reason)) if retried.is_empty() => {
                    let variant = order.name.to_owned();
                    (self.outlets.emit)(&Event::SlotRetried { variant, reason: reason.clone() });
                    retried.push(reason);
                }
                ended => return ended,
            }
        }
    }

    /// The slot of a measurement; `None` if it was interrupted.
    fn finished(
        &self,
        (cell, block, position): (usize, u32, u32),
        name: &str,
        begun_ns: u64,
        retried: Vec<String>,
        measured: Result<Measured, SlotError>,
    ) -> Option<Slot> {
        let (opened_ns, started_at, outcome) = match measured {
            Ok(measured) => {
                (measured.opened_ns, measured.opened_at, SlotOutcome::Measured(Box::new(measured.result)))
            }
            Err(error) => (begun_ns, self.clock().wall_clock_rfc3339(), error.into_outcome()?),
        };
        Some(Slot {
            cell,
            block,
            position,
            variant: name.to_owned(),
            started_at,
            offset_s: self.elapsed_s(opened_ns),
            took_s: seconds(self.now_ns().saturating_sub(begun_ns)),
            retried,
            outcome,
        })
    }

    fn clock(&self) -> &dyn Clock {
        self.outlets.patience.clock
    }

    fn now_ns(&self) -> u64 {
        self.clock().monotonic_ns()
    }

    /// Seconds from the beginning of the run to a monotonic moment.
    fn elapsed_s(&self, at_ns: u64) -> f64 {
        self.base_s + seconds(at_ns.saturating_sub(self.started_ns))
    }

    fn time_left(&self, cell: usize, block: u32, position: u32, of: usize) -> TimeLeft {
        let recent = self.slots.iter().rev().take(40);
        let (count, sum) = recent.fold((0.0_f64, 0.0), |(count, sum), slot| (count + 1.0, sum + slot.took_s));
        let slot_s = if count > 0.0 { sum / count } else { seconds(self.plan.slot_ns()) };
        let slots = f64::from(u32::try_from(of).unwrap_or(u32::MAX));
        let block_s = slot_s * slots;
        let left = time_left(self.plan, cell, block, &self.verdicts, block_s);
        let spent_s = slot_s * f64::from(position);
        let elapsed_s = self.elapsed_s(self.now_ns());
        let begun_s = elapsed_s - spent_s;
        let least_s = begun_s + block_s * f64::from(self.plan.blocks.min.saturating_sub(block).max(1));
        let at_most_s = at_most_s(self.plan, least_s, begun_s + left.at_most_s) - elapsed_s;
        TimeLeft {
            at_most_s: at_most_s.max(0.0),
            probably_s: (left.probably_s - spent_s).min(at_most_s).max(slot_s),
        }
    }
}

fn seconds(span_ns: u64) -> f64 {
    span_ns as f64 / 1e9
}
