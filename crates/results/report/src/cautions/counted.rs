//! Cautions that are counted on top and told below.

use std::time::Duration;

use plumb_model::{
    Caution, Evidence, Lack, LoadHealth, LoadLimit, OrderSource, Percent, Shortage, VariantState,
    WorkerMeasure,
};

use crate::figures::{self, in_cell};
use crate::notices;

/// The reason, and what would help.
///
/// # Panics
/// For a caution that leads.
pub fn sentence(caution: &Caution) -> String {
    match caution {
        Caution::WorkFailed { cell, variant, units, failed, tried, limit } => {
            work_failed(&format!("{variant}{}", in_cell(cell)), units, (*failed, *tried), *limit)
        }
        Caution::Synthetic { path } => {
            format!("the {path} data path makes its numbers up: nothing was measured")
        }
        Caution::Imported { tool } => imported(tool),
        Caution::SingleRuns => SINGLE_RUNS.to_owned(),
        Caution::NoTurns { order } => no_turns(*order),
        Caution::UnstampedOrder { order } => {
            format!("the runs are in the order of {}; the output itself has no times", order.in_words())
        }
        Caution::NoCounterpart { variant, runs } => no_counterpart(variant, *runs),
        Caution::ClaimNote { note } => note.clone(),
        Caution::Noticed { notice } => notices::sentence(notice),
        Caution::ControlDiffers { baseline, metric } => format!(
            "the control, a copy of {baseline}, differs from it in {metric}: this run finds effects where there are none"
        ),
        Caution::Unusable { cell, variant, state } => {
            format!("{variant}{} {}", in_cell(cell), unusable(state))
        }
        Caution::Valueless { cell, variant, units, lack, slots, of } => {
            let what = lack.sentence_about(variant, units, (*slots, *of));
            format!("{what}{}; {}", in_cell(cell), counts(*lack, variant))
        }
        Caution::SlotsFailed { cell, variant, reason, slots, of } => {
            format!("in {slots} of {of} slots, {variant}{} failed to {reason}", in_cell(cell))
        }
        Caution::Disturbed { cell, variant, slots, of, seen } => {
            disturbed(&format!("{variant}{}", in_cell(cell)), (*slots, *of), seen)
        }
        Caution::LoadBound { variant, slots, of, health, threads_key } => format!(
            "load-bound: in {slots} of {of} slots of {variant} the load, and not the system, was the limit: {}",
            why_load_bound(health, threads_key.as_deref())
        ),
        Caution::IdleWorkers { cell, variant, units, by, workers, idle, busiest, slots, of } => {
            let name = format!("{variant}{}", in_cell(cell));
            idle_workers(&name, (*by, units), [slots, of, idle, workers], *busiest)
        }
        Caution::Autocorrelated { cell, left, right, lag1 } => {
            autocorrelated(left, right.as_deref(), &in_cell(cell), *lag1)
        }
        Caution::SmallStep { cell, left, spread, step } => {
            small_step(&format!("{left}{}", in_cell(cell)), *spread, *step)
        }
        Caution::InFlight { cell, variant, baseline, units, variant_in_flight, baseline_in_flight } => {
            let place = in_cell(cell);
            in_flight((variant, *variant_in_flight, &place), (baseline, *baseline_in_flight), units)
        }
        Caution::Moved { cell, left, right } => moved(left, right, &in_cell(cell)),
        Caution::Stolen { slots } => noise(*slots, "the hypervisor took more than 2% of the CPU time"),
        Caution::Neighbours { slots, limit, allowed } => noise(*slots, &neighbours(*limit, *allowed)),
        Caution::Throttled { slots } => noise(*slots, "the control group was throttled"),
        Caution::Retried { slots, variant, reason } => retried(*slots, variant, reason),
        Caution::FewBlocks { blocks } => format!(
            "verdicts were allowed from {blocks} blocks on; below 6 a disturbance in step with the blocks can pass for an effect"
        ),
        Caution::Extended { planned, blocks } => extended(*planned, *blocks),
        Caution::DifferentWork { .. }
        | Caution::Redirects { .. }
        | Caution::Limiter { .. }
        | Caution::UnseenParts { .. }
        | Caution::SystemWaited { .. }
        | Caution::UseUnproven { .. }
        | Caution::AfterEffect { .. } => unreachable!("`cautions` has the sentences of cautions that lead"),
    }
}

fn retried(slots: u32, variant: &str, reason: &str) -> String {
    let were = if slots == 1 { "slot was" } else { "slots were" };
    format!("{slots} {were} measured at the second attempt; the first time, {variant} failed to {reason}")
}

fn work_failed(name: &str, units: &str, (failed, tried): (u64, u64), limit: f64) -> String {
    format!(
        "{name}: {} of its {units} failed ({failed} of {tried}), more than `failures_max` ({}), so claims about its rates and times \
         are void",
        figures::share(failed as f64 / tried as f64),
        Percent(limit)
    )
}

fn disturbed(name: &str, (slots, of): (u32, u32), seen: &Evidence) -> String {
    format!(
        "in {slots} of {of} slots of {name}, the machine did not keep up: {seen}; the variant is void if that happens in more than a tenth of its slots"
    )
}

fn in_flight(
    (variant, kept, place): (&str, f64, &str),
    (baseline, kept_by_it): (&str, f64),
    units: &str,
) -> String {
    format!(
        "{variant} kept {kept:.0} {units} in flight{place}, and {baseline} {kept_by_it:.0}: an effect may come from that alone; give both \
         the same number"
    )
}

/// Why a variant cannot be used, after its name.
fn unusable(state: &VariantState) -> String {
    match state {
        VariantState::Skipped { reason } => format!("was skipped: {reason}"),
        VariantState::Void { reason } => format!("is void: {reason}"),
        VariantState::Unproven { reason } => format!("is not proven: {reason}"),
        VariantState::Measured => "was measured".to_owned(),
        VariantState::Pending => "has not been measured yet".to_owned(),
    }
}

/// How a slot without a value counts.
fn counts(lack: Lack, variant: &str) -> String {
    match lack {
        Lack::Unmeasured => "claims that the value of such a slot could change are not decided".to_owned(),
        Lack::Failed | Lack::Idle | Lack::Replaced => {
            format!("such a slot counts as the worst for {variant}")
        }
    }
}

fn idle_workers(
    name: &str,
    (by, units): (WorkerMeasure, &str),
    [slots, of, idle, workers]: [&u32; 4],
    busiest: f64,
) -> String {
    let (verb, what) = match by {
        WorkerMeasure::Work => ("handled", units),
        WorkerMeasure::CpuTime => ("used", "CPU time"),
    };
    format!(
        "in {slots} of {of} slots of {name}, {idle} of {workers} workers {verb} hardly any {what}, and the busiest {verb} {} of all {what}: \
         the figures are those of fewer workers; give the load more connections",
        figures::share(busiest)
    )
}

fn autocorrelated(left: &str, right: Option<&str>, place: &str, lag1: f64) -> String {
    let (values, so) = match right {
        Some(right) => (format!("ratios of {left} to {right}"), ": their interval may be too narrow"),
        None => (format!("values of {left}"), ", so their interval is wider"),
    };
    format!("the {values}{place} follow one another from block to block (lag 1: {lag1:.2}){so}")
}

fn small_step(left: &str, spread: f64, step: f64) -> String {
    format!(
        "{left} differs from block to block by {spread:.1} steps of its search (each {}), so its interval may be too narrow: choose a \
         larger `step` or longer trials",
        figures::share_coarse(step)
    )
}

fn moved(left: &str, right: &str, place: &str) -> String {
    format!(
        "the ratio of {left} to {right}{place} changed during the run: its mean over all blocks is outside the interval that earlier \
         blocks allow, so the value shown is the end of that interval nearest to the mean"
    )
}

fn extended(planned: u32, blocks: u32) -> String {
    format!(
        "the run was extended from {planned} to {blocks} blocks after it had shown results, so its intervals are those of the \
         confidence sequence: they hold however often it is extended, and are wider"
    )
}

/// The deciding figure, and a remedy.
fn why_load_bound(health: &LoadHealth, threads_key: Option<&str>) -> String {
    let percent = |share: f64| format!("{:.0}%", share.min(1.0) * 100.0);
    let more =
        threads_key.map_or_else(|| "more CPUs".to_owned(), |key| format!("more threads (`{key}`) or CPUs"));
    let (ran, wanted) = (percent(health.busiest_thread), percent(health.demand()));
    match health.limit() {
        Some(LoadLimit::Starved(shortage)) => {
            let remedy = match shortage {
                Shortage::Quota => "raise the quota of its control group",
                Shortage::Neighbour => "give the load more CPUs, or stop what else runs on this host",
                Shortage::Steal => "move to a host whose CPUs are not shared",
            };
            let cause = shortage.clause();
            format!("the busiest thread ran {ran} of the time, and one wanted {wanted} but {cause}; {remedy}")
        }
        Some(LoadLimit::Late) => {
            let lag_ms = Duration::from_nanos(health.lag_ns_max).as_secs_f64() * 1e3;
            let late = health.late_share * 100.0;
            format!(
                "{late:.1}% of sends were late by up to {lag_ms:.1} ms; lower `load.rate`, or give the load {more}"
            )
        }
        Some(LoadLimit::Busy) | None => {
            format!("a thread was on a CPU {wanted} of the time; give the load {more}")
        }
    }
}

fn noise(slots: u32, what: &str) -> String {
    format!("noise: in {} {what}", figures::plural(slots as usize, "slot"))
}

fn neighbours(limit: f64, allowed: Option<f64>) -> String {
    let allowed = allowed.map_or_else(String::new, |allowed| {
        format!(
            "; claims are judged all the same, since `noise.others_max` was raised to {:.0}%",
            allowed * 100.0
        )
    });
    format!("other processes used more than {:.0}% of the CPU time{allowed}", limit * 100.0)
}

fn imported(tool: &str) -> String {
    format!(
        "imported from {tool}: nothing proves that a treatment was in effect, and neither side's CPU time was measured, so the load \
         may have been the limit"
    )
}

const SINGLE_RUNS: &str = "each variant has one run, which does not tell how much runs differ: the ratios are point estimates; \
                           import at least 6 runs of each variant, made in turn";

fn no_turns(order: OrderSource) -> String {
    format!(
        "the variants did not take turns (the runs are in the order of {}), so every interval holds only if nothing drifted from \
         the runs of one variant to those of the next",
        order.in_words()
    )
}

fn no_counterpart(variant: &str, runs: u32) -> String {
    let (noun, has) = if runs == 1 { ("run", "has") } else { ("runs", "have") };
    format!("{runs} {noun} of {variant} {has} no counterpart, and no comparison or claim rests on it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_bound(health: LoadHealth) -> String {
        let threads_key = Some("load.threads".to_owned());
        sentence(&Caution::LoadBound { variant: "b".to_owned(), slots: 16, of: 16, health, threads_key })
    }

    #[test]
    fn a_load_that_was_the_limit_has_its_cause_and_a_remedy() {
        let idle = LoadHealth::default();
        let starved = LoadHealth {
            busiest_thread: 0.099,
            wanted: 0.98,
            waited: 0.88,
            shortage: Some(Shortage::Quota),
            ..idle.clone()
        };
        insta::assert_snapshot!(load_bound(starved), @"load-bound: in 16 of 16 slots of b the load, and not the system, was the limit: the busiest thread ran 10% of the time, and one wanted 98% but a CPU quota stopped it; raise the quota of its control group");
        let late =
            LoadHealth { busiest_thread: 0.035, late_share: 0.02, lag_ns_max: 3_200_000, ..idle.clone() };
        insta::assert_snapshot!(load_bound(late), @"load-bound: in 16 of 16 slots of b the load, and not the system, was the limit: 2.0% of sends were late by up to 3.2 ms; lower `load.rate`, or give the load more threads (`load.threads`) or CPUs");
        insta::assert_snapshot!(load_bound(LoadHealth { busiest_thread: 0.97, ..idle }), @"load-bound: in 16 of 16 slots of b the load, and not the system, was the limit: a thread was on a CPU 97% of the time; give the load more threads (`load.threads`) or CPUs");
    }

    #[test]
    fn workers_without_work_are_told_with_the_share_of_the_busiest() {
        let idle = |by| Caution::IdleWorkers {
            cell: String::new(),
            variant: "h2".to_owned(),
            units: "requests".to_owned(),
            by,
            workers: 4,
            idle: 3,
            busiest: 0.9987,
            slots: 2,
            of: 12,
        };
        insta::assert_snapshot!(sentence(&idle(WorkerMeasure::Work)), @"in 2 of 12 slots of h2, 3 of 4 workers handled hardly any requests, and the busiest handled 99.87% of all requests: the figures are those of fewer workers; give the load more connections");
        insta::assert_snapshot!(sentence(&idle(WorkerMeasure::CpuTime)), @"in 2 of 12 slots of h2, 3 of 4 workers used hardly any CPU time, and the busiest used 99.87% of all CPU time: the figures are those of fewer workers; give the load more connections");
    }

    #[test]
    fn slots_that_the_machine_disturbed_say_by_what_and_how_many_there_may_be() {
        let seen = Evidence {
            what: "packets that the link forwarded late".to_owned(),
            expected: "at most 1% by more than 200 us".to_owned(),
            observed: "7 of 450".to_owned(),
            of_slot: true,
            ..Evidence::default()
        };
        let cell = "connections=20".to_owned();
        let disturbed = Caution::Disturbed { cell, variant: "h3".to_owned(), slots: 2, of: 24, seen };
        insta::assert_snapshot!(sentence(&disturbed), @"in 2 of 24 slots of h3 (connections=20), the machine did not keep up: expected packets that the link forwarded late to be at most 1% by more than 200 us; observed 7 of 450; the variant is void if that happens in more than a tenth of its slots");
    }

    #[test]
    fn a_ratio_that_changed_says_which_value_is_shown() {
        let (left, right) = ("b.http_reqs".to_owned(), "a.http_reqs".to_owned());
        let moved = Caution::Moved { cell: "connections=20".to_owned(), left, right };
        insta::assert_snapshot!(sentence(&moved), @"the ratio of b.http_reqs to a.http_reqs (connections=20) changed during the run: its mean over all blocks is outside the interval that earlier blocks allow, so the value shown is the end of that interval nearest to the mean");
    }

    #[test]
    fn slots_without_a_value_say_how_they_count() {
        let of = |lack, slots| Caution::Valueless {
            cell: "connections=20".to_owned(),
            variant: "b".to_owned(),
            units: "requests".to_owned(),
            lack,
            slots,
            of: 16,
        };
        insta::assert_snapshot!(sentence(&of(Lack::Idle, 2)), @"b completed no requests in 2 of 16 slots (connections=20); such a slot counts as the worst for b");
        insta::assert_snapshot!(sentence(&of(Lack::Unmeasured, 1)), @"the harness failed to measure b in 1 of 16 slots (connections=20); claims that the value of such a slot could change are not decided");
    }

    #[test]
    fn failed_work_and_neighbours_come_with_the_limits_that_they_exceed() {
        let failed = Caution::WorkFailed {
            cell: String::new(),
            variant: "b".to_owned(),
            units: "requests".to_owned(),
            failed: 192,
            tried: 16_000,
            limit: 0.01,
        };
        insta::assert_snapshot!(sentence(&failed), @"b: 1.20% of its requests failed (192 of 16000), more than `failures_max` (1%), so claims about its rates and times are void");
        let others = |slots, allowed| sentence(&Caution::Neighbours { slots, limit: 0.1, allowed });
        insta::assert_snapshot!(others(1, None), @"noise: in 1 slot other processes used more than 10% of the CPU time");
        insta::assert_snapshot!(others(8, Some(1.0)), @"noise: in 8 slots other processes used more than 10% of the CPU time; claims are judged all the same, since `noise.others_max` was raised to 100%");
    }

    #[test]
    fn other_counted_cautions_are_whole_sentences() {
        let (cell, variant) = (|| "connections=20".to_owned(), || "b".to_owned());
        let (left, reason, order) =
            (|| "b.http_reqs".to_owned(), || "start nginx".to_owned(), OrderSource::Files);
        let state = VariantState::Unproven { reason: "the counter stood still".to_owned() };
        let right = Some("a.http_reqs".to_owned());
        let all = [
            Caution::Synthetic { path: "null".to_owned() },
            Caution::Imported { tool: "wrk".to_owned() },
            Caution::SingleRuns,
            Caution::NoTurns { order },
            Caution::UnstampedOrder { order },
            Caution::NoCounterpart { variant: variant(), runs: 1 },
            Caution::NoCounterpart { variant: variant(), runs: 2 },
            Caution::ControlDiffers { baseline: "a".to_owned(), metric: "http_reqs".to_owned() },
            Caution::Unusable { cell: cell(), variant: variant(), state },
            Caution::SlotsFailed { cell: cell(), variant: variant(), reason: reason(), slots: 2, of: 16 },
            Caution::Autocorrelated { cell: cell(), left: left(), right, lag1: 0.61 },
            Caution::Autocorrelated { cell: cell(), left: left(), right: None, lag1: 0.61 },
            Caution::SmallStep { cell: cell(), left: "b.capacity".to_owned(), spread: 1.34, step: 0.05 },
            Caution::Stolen { slots: 2 },
            Caution::Throttled { slots: 1 },
            Caution::Retried { slots: 1, variant: variant(), reason: reason() },
            Caution::Retried { slots: 2, variant: variant(), reason: reason() },
            Caution::FewBlocks { blocks: 2 },
            Caution::Extended { planned: 20, blocks: 40 },
        ];
        insta::assert_snapshot!(all.each_ref().map(sentence).join("\n"), @r"
        the null data path makes its numbers up: nothing was measured
        imported from wrk: nothing proves that a treatment was in effect, and neither side's CPU time was measured, so the load may have been the limit
        each variant has one run, which does not tell how much runs differ: the ratios are point estimates; import at least 6 runs of each variant, made in turn
        the variants did not take turns (the runs are in the order of the times at which the files were modified), so every interval holds only if nothing drifted from the runs of one variant to those of the next
        the runs are in the order of the times at which the files were modified; the output itself has no times
        1 run of b has no counterpart, and no comparison or claim rests on it
        2 runs of b have no counterpart, and no comparison or claim rests on it
        the control, a copy of a, differs from it in http_reqs: this run finds effects where there are none
        b (connections=20) is not proven: the counter stood still
        in 2 of 16 slots, b (connections=20) failed to start nginx
        the ratios of b.http_reqs to a.http_reqs (connections=20) follow one another from block to block (lag 1: 0.61): their interval may be too narrow
        the values of b.http_reqs (connections=20) follow one another from block to block (lag 1: 0.61), so their interval is wider
        b.capacity (connections=20) differs from block to block by 1.3 steps of its search (each 5.0%), so its interval may be too narrow: choose a larger `step` or longer trials
        noise: in 2 slots the hypervisor took more than 2% of the CPU time
        noise: in 1 slot the control group was throttled
        1 slot was measured at the second attempt; the first time, b failed to start nginx
        2 slots were measured at the second attempt; the first time, b failed to start nginx
        verdicts were allowed from 2 blocks on; below 6 a disturbance in step with the blocks can pass for an effect
        the run was extended from 20 to 40 blocks after it had shown results, so its intervals are those of the confidence sequence: they hold however often it is extended, and are wider
        ");
    }
}
