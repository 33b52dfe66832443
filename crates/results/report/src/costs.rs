//! CPU time per unit of work on each side: all of a variant's slots together, so that a long slot weighs as much as the
//! work that it did.

use std::collections::BTreeMap;

use plumb_model::{CpuCost, LoadHealth, Merge, Placement, SlotResult};

use crate::figures;
use crate::layout::clean;
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

    /// `ingress 610 µs` for each component.
    fn component_words(&self) -> Vec<String> {
        let words =
            |(name, cost): &(String, f64)| format!("{} {}", clean(name), figures::time_ns(cost * 1e3));
        self.components_us.iter().map(words).collect()
    }
}

/// Stands for the cost of a system whose CPU time could not be read.
const UNKNOWN: &str = "not known";

/// The costs of one variant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    /// `None` where it could not be known, as of a system on another host: work without CPU time does not exist.
    pub system: Option<SideCost>,
    pub load: SideCost,
    /// The mean share of all CPU time that the host spent in softirq.
    pub softirq: f64,
    /// Where the system's threads were in any slot; `None` if `plumb` could not see them.
    pub placement: Option<Placement>,
    /// Units of work per worker of the system, see [`workers`], and their name in the plural.
    pub workers: (Vec<u64>, String),
    /// CPU time per worker of the system in ns, see [`worker_cpu_ns`].
    pub worker_cpu_ns: Vec<u64>,
    /// The CPUs that the load's threads had and wanted, in the worst slot.
    pub health: LoadHealth,
}

/// Where the threads of a variant's system were in any of its slots.
pub fn placement(view: &View<'_>, cell: usize, variant: usize) -> Option<Placement> {
    let all = view.results(cell, variant).filter_map(|result| result.placement.as_ref());
    all.fold(None, |sum: Option<Placement>, one| Some(sum.unwrap_or_default().union(one)))
}

/// Units of work per worker of a variant's system over all slots, the busiest of each slot first; none if it has one worker, or does
/// not count them.
pub fn workers(view: &View<'_>, cell: usize, variant: usize) -> Vec<u64> {
    let slots = view.results(cell, variant).map(|result| &result.workers);
    slots.fold(Vec::new(), |sum, workers| sum.and(workers))
}

/// CPU time per worker of a variant's system over all slots, in ns, the busiest of each slot first; none if it has one worker, or counts
/// their work.
pub fn worker_cpu_ns(view: &View<'_>, cell: usize, variant: usize) -> Vec<u64> {
    let slots = view.results(cell, variant).map(|result| &result.worker_cpu_ns);
    slots.fold(Vec::new(), |sum, workers| sum.and(workers))
}

/// The most workers of which each is shown.
const WORKERS_SHOWN: usize = 8;

impl Costs {
    /// The parts of the system's cost, or that it is not known, and where its threads were.
    pub fn system_words(&self) -> Vec<String> {
        let system = self.system.as_ref();
        let parts = system.map_or_else(|| vec![UNKNOWN.to_owned()], SideCost::component_words);
        parts.into_iter().chain(self.placement_words()).chain(self.worker_words()).collect()
    }

    /// `requests per worker: 4,120 / 3,980`, if the system counts them, or `CPU time per worker: 412 ms / 398 ms`.
    fn worker_words(&self) -> Option<String> {
        let (workers, units) = &self.workers;
        let (what, figures): (&str, Vec<String>) = if workers.is_empty() {
            ("CPU time", self.worker_cpu_ns.iter().map(|ns| figures::time_ns(*ns as f64)).collect())
        } else {
            (units, workers.iter().map(|work| figures::count(*work as f64)).collect())
        };
        let words = match figures.as_slice() {
            [] => return None,
            [most, .., least] if figures.len() > WORKERS_SHOWN => {
                format!("{most} to {least} in {} workers", figures.len())
            }
            all => all.join(" / "),
        };
        Some(format!("{what} per worker: {words}"))
    }

    /// `server threads were seen on CPU 1 (allowed: 0-1)`, if `plumb` could see them.
    fn placement_words(&self) -> Option<String> {
        let Placement { ran, allowed, .. } = self.placement.as_ref()?;
        let more =
            if ran == allowed { String::new() } else { format!(" (allowed: {})", figures::ranges(allowed)) };
        Some(format!("server threads were seen on {}{more}", figures::cpus(ran)))
    }

    /// `None` where no work was done, or another tool did it.
    pub fn of_variant(view: &View<'_>, cell: usize, variant: usize) -> Option<Self> {
        if view.plan().imported.is_some() {
            return None;
        }
        let results: Vec<&SlotResult> = view.results(cell, variant).collect();
        let work: u64 = results.iter().map(|result| result.measurement.work).sum();
        if work == 0 {
            return None;
        }
        let softirq: f64 = results.iter().map(|result| result.noise.softirq).sum();
        Some(Self {
            system: Some(side(results.iter().map(|result| &result.system_cpu), work))
                .filter(|side| side.total_us() > 0.0),
            load: side(results.iter().map(|result| &result.load_cpu), work),
            softirq: softirq / results.len() as f64,
            placement: placement(view, cell, variant),
            workers: (workers(view, cell, variant), view.plan().units.clone()),
            worker_cpu_ns: worker_cpu_ns(view, cell, variant),
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
        let costs = Costs::of_variant(&view, 0, 0).unwrap();
        assert!((costs.system.as_ref().unwrap().total_us() - 624.0).abs() < 0.1, "{costs:?}");
        assert_eq!(costs.system.as_ref().unwrap().components_us.len(), 2);
        assert!((costs.system.as_ref().unwrap().components_us[1].1 - 14.0).abs() < 0.1, "{costs:?}");
        assert!((costs.load.total_us() - 88.0).abs() < 3.0, "{costs:?}");
    }

    #[test]
    fn a_system_whose_cpu_time_is_unknown_costs_no_zero() {
        let (mut run, judgement) = Scenario::tls_offload().run();
        for slot in &mut run.slots {
            if let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome {
                result.system_cpu = CpuCost::default();
            }
        }
        assert_eq!(Costs::of_variant(&View::new(&run, &judgement), 0, 0).unwrap().system, None);
        let style = crate::TextStyle { colour: false, width: 120 };
        let text = crate::text(&run, &judgement, &style);
        let line = text.lines().find(|line| line.contains("  system  ")).unwrap();
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>()[1..],
            ["system", "–", "–", "–", "not", "known"]
        );
        assert!(crate::html(&run, &judgement).contains("not known"));
    }

    #[test]
    fn the_cpus_of_a_systems_threads_are_those_of_all_its_slots() {
        let (mut run, judgement) = Scenario::tls_offload().run();
        let mut cpus = [0, 1].into_iter().cycle();
        for slot in &mut run.slots {
            if let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome {
                let ran = [cpus.next().unwrap()].into();
                result.placement = Some(Placement { ran, allowed: [0, 1, 2, 3].into(), load: [3].into() });
            }
        }
        let view = View::new(&run, &judgement);
        let words = Costs::of_variant(&view, 0, 0).unwrap().placement_words().unwrap();
        assert_eq!(words, "server threads were seen on CPUs 0 and 1 (allowed: 0-3)");
        let style = crate::TextStyle { colour: false, width: 200 };
        let text = crate::text(&run, &judgement, &style);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&words), "{text}");
        assert!(crate::html(&run, &judgement).contains(&words));
    }

    #[test]
    fn the_work_or_cpu_time_of_each_worker_is_that_of_all_slots() {
        let (mut run, judgement) = Scenario::tls_offload().run();
        let words = |run: &plumb_model::Run| {
            Costs::of_variant(&View::new(run, &judgement), 0, 0).unwrap().worker_words()
        };
        run.header.plan.units = "requests".to_owned();
        assert_eq!(words(&run), None);
        let mut set = |workers: &[u64], cpu_ns: &[u64]| {
            for slot in &mut run.slots {
                if let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome {
                    (result.workers, result.worker_cpu_ns) = (workers.to_vec(), cpu_ns.to_vec());
                }
            }
            words(&run).unwrap()
        };
        assert_eq!(set(&[], &[50_000_000, 4_000_000]), "CPU time per worker: 600 ms / 48.0 ms");
        assert_eq!(set(&[412, 398], &[]), "requests per worker: 4,944 / 4,776");
        assert_eq!(set(&[9, 8, 7, 6, 5, 4, 3, 2, 1], &[]), "requests per worker: 108 to 12 in 9 workers");
        let style = crate::TextStyle { colour: false, width: 200 };
        assert!(crate::text(&run, &judgement, &style).contains("requests per worker: 108"));
        assert!(crate::html(&run, &judgement).contains("requests per worker: 108"));
    }

    #[test]
    fn without_work_there_is_no_cost() {
        let (run, judgement) = fixture::interrupted_at_once();
        assert_eq!(Costs::of_variant(&View::new(&run, &judgement), 0, 0), None);
    }
}
