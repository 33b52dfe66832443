//! Findings beyond the claims: an answer to each question of the data path, if the run has one.

mod break_even;
mod capacities;
mod choice;
mod concluded;
mod limits;
mod spread;
mod sweep;

use plumb_model::finding::{Findings, MainMetric, Question};
use plumb_model::{Better, MetricKind, Plan, Slot};

pub(crate) use concluded::Concluded;

/// Answers the plan's questions.
pub(crate) fn find(concluded: &Concluded<'_>) -> Findings {
    let plan = concluded.table.plan;
    let main = main_metric(plan, concluded.table.slots);
    let (spreads, capacities) = (spread::find(concluded), capacities::find(concluded));
    let mut findings = Findings { main, spreads, capacities, ..Findings::default() };
    for question in &plan.questions {
        match question {
            Question::BreakEven { keys } => {
                findings.break_even =
                    findings.main.as_ref().and_then(|main| break_even::find(concluded, main, keys));
            }
            Question::Sweep { level, succeeded, up_to, nowhere } => {
                findings.sweeps.extend(sweep::find(concluded, [level, succeeded], [up_to, nowhere]));
            }
            Question::Choice { time, cost } => findings.choices.extend(choice::find(concluded, time, cost)),
            Question::Limiter { table } => findings.limits.extend(limits::find(concluded, table)),
        }
    }
    let is_swept = |cell| findings.sweeps.iter().any(|sweep| sweep.cell == cell);
    findings.choices.retain(|choice| !is_swept(choice.cell));
    findings
}

fn main_metric(plan: &Plan, slots: &[Slot]) -> Option<MainMetric> {
    let claimed = plan.claims.first().filter(|claim| plan.metric(&claim.left.metric).is_some());
    if let Some(claim) = claimed {
        return Some(MainMetric { metric: claim.left.metric.clone(), statistic: claim.left.statistic });
    }
    let has_readings = |name: &str| {
        slots.iter().filter_map(Slot::result).any(|result| result.measurement.readings.contains_key(name))
    };
    let rate = plan.metrics.iter().find(|metric| {
        metric.kind == MetricKind::Rate && metric.better != Better::Neither && has_readings(&metric.name)
    });
    rate.map(|metric| MainMetric { metric: metric.name.clone(), statistic: None })
}
