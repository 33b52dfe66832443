//! How far the load agents of each variant differed, and which are outliers by the rule of `plumb_stats::outliers`.

use plumb_model::finding::{AgentPart, Outlying, Spread};
use plumb_model::{MetricKind, Share};
use plumb_stats::{Side, median, outliers};

use super::concluded::Concluded;

/// The spread of every variant that several agents drove, whatever its state: an agent that differs may be the reason for it.
pub(super) fn find(concluded: &Concluded<'_>) -> Vec<Spread> {
    let plan = concluded.table.plan;
    let places = (0..plan.cells.len()).flat_map(|cell| (0..plan.variants.len()).map(move |at| (cell, at)));
    places.filter_map(|(cell, variant)| spread(concluded, cell, variant)).collect()
}

fn spread(concluded: &Concluded<'_>, cell: usize, variant: usize) -> Option<Spread> {
    let all = concluded.results(cell, variant).map(|result| result.measurement.shares.as_slice());
    let mut slots: Vec<&[Share]> = all.filter(|shares| shares.len() > 1).collect();
    let first = *slots.first()?;
    // A run that was continued from other places has other agents from then on; these are told of when they are the first.
    slots.retain(|shares| shares.iter().map(|share| &share.agent).eq(first.iter().map(|share| &share.agent)));
    let trends = concluded.table.plan.metrics.iter().filter(|metric| metric.kind == MetricKind::Trend);
    let has =
        |name: &str| slots.iter().any(|shares| shares.iter().all(|share| time_ns(share, name).is_some()));
    let metric = trends.map(|metric| metric.name.clone()).find(|name| has(name));
    let parts = each(&slots, part);
    let against = each(&slots, |shares, agent| Some(part(shares, agent)? / shares[agent].asked?));
    let times = each(&slots, |shares, agent| time_ns(&shares[agent], metric.as_deref()?));
    let by_work = outliers(&against);
    let by_time = outliers(&times);
    let agents = first.iter().enumerate().map(|(agent, share)| AgentPart {
        agent: share.agent.clone(),
        share: typical(&parts, agent).unwrap_or(0.0),
        asked: share.asked,
        median_ns: typical(&times, agent),
        outlying: outlying(by_work[agent], by_time[agent]),
    });
    Some(Spread { cell, variant, slots: slots.len(), agents: agents.collect(), metric })
}

/// A value of each agent in each slot.
fn each(slots: &[&[Share]], of: impl Fn(&[Share], usize) -> Option<f64>) -> Vec<Vec<Option<f64>>> {
    slots.iter().map(|shares| (0..shares.len()).map(|agent| of(shares, agent)).collect()).collect()
}

/// An agent's part of the slot's work.
fn part(shares: &[Share], agent: usize) -> Option<f64> {
    let all: f64 = shares.iter().map(|share| share.work as f64).sum();
    (all > 0.0).then(|| shares[agent].work as f64 / all)
}

fn time_ns(share: &Share, metric: &str) -> Option<f64> {
    share.times.get(metric)?.median_ns
}

fn typical(slots: &[Vec<Option<f64>>], agent: usize) -> Option<f64> {
    median(&slots.iter().filter_map(|slot| slot[agent]).collect::<Vec<f64>>())
}

fn outlying(by_work: Option<Side>, by_time: Option<Side>) -> Vec<Outlying> {
    let work = by_work.map(|side| if side == Side::Below { Outlying::LessWork } else { Outlying::MoreWork });
    let time = by_time.map(|side| if side == Side::Above { Outlying::Slower } else { Outlying::Faster });
    work.into_iter().chain(time).collect()
}
