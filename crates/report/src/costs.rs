//! CPU time per unit of work on each side: all of a variant's slots together, so that a long slot weighs as much as the
//! work that it did.

use std::collections::BTreeMap;

use plumb_model::{CpuCost, LoadHealth, SlotResult};

use crate::view::View;

/// CPU time of one side per unit of work, in µs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideCost {
    pub user_us: f64,
    pub system_us: f64,
    /// User and system time by component, the largest first; those that took none are left out.
    pub components_us: Vec<(String, f64)>,
}

impl SideCost {
    pub fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// What one variant costs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    pub system: SideCost,
    pub load: SideCost,
    /// The mean share of all CPU time that the host spent in softirq.
    pub softirq: f64,
    /// What the load's threads had and wanted of the CPUs, in the worst slot.
    pub health: LoadHealth,
}

impl Costs {
    /// `None` where no work was done.
    pub fn of(view: &View<'_>, cell: usize, variant: usize) -> Option<Self> {
        let results: Vec<&SlotResult> = view.results(cell, variant).collect();
        let work: u64 = results.iter().map(|result| result.measurement.work).sum();
        if work == 0 {
            return None;
        }
        let softirq: f64 = results.iter().map(|result| result.noise.softirq).sum();
        Some(Self {
            system: side(results.iter().map(|result| &result.system_cpu), work),
            load: side(results.iter().map(|result| &result.load_cpu), work),
            softirq: softirq / results.len() as f64,
            health: results
                .iter()
                .map(|result| &result.measurement.health)
                .fold(LoadHealth::default(), LoadHealth::or_worse),
        })
    }
}

fn side<'a>(costs: impl Iterator<Item = &'a CpuCost>, work: u64) -> SideCost {
    let (mut user_ns, mut system_ns) = (0_u64, 0_u64);
    let mut components: BTreeMap<&str, u64> = BTreeMap::new();
    for cost in costs {
        user_ns = user_ns.saturating_add(cost.user_ns);
        system_ns = system_ns.saturating_add(cost.system_ns);
        for (name, time_ns) in &cost.components {
            let sum = components.entry(name).or_default();
            *sum = sum.saturating_add(*time_ns);
        }
    }
    let per_work_us = |time_ns: u64| time_ns as f64 / work as f64 / 1e3;
    let mut components: Vec<(&str, u64)> =
        components.into_iter().filter(|(_, time_ns)| *time_ns > 0).collect();
    components.sort_by_key(|(_, time_ns)| std::cmp::Reverse(*time_ns));
    SideCost {
        user_us: per_work_us(user_ns),
        system_us: per_work_us(system_ns),
        components_us: components.into_iter().map(|(name, ns)| (name.to_owned(), per_work_us(ns))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};

    #[test]
    fn costs_are_all_time_over_all_work() {
        let (run, judgement) = Scenario::tls_offload().run();
        let view = View::new(&run, &judgement);
        let costs = Costs::of(&view, 0, 0).unwrap();
        assert!((costs.system.total_us() - 624.0).abs() < 0.1, "{costs:?}");
        assert_eq!(costs.system.components_us.len(), 2);
        assert!((costs.system.components_us[1].1 - 14.0).abs() < 0.1, "{costs:?}");
        assert!((costs.load.total_us() - 88.0).abs() < 3.0, "{costs:?}");
    }

    #[test]
    fn without_work_there_is_no_cost() {
        let (run, judgement) = fixture::interrupted_at_once();
        assert_eq!(Costs::of(&View::new(&run, &judgement), 0, 0), None);
    }
}
