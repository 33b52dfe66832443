//! The CPUs that a load's threads had and wanted, in words. The figure that made the load the limit is always among them.

use plumb_model::{LoadHealth, LoadLimit};

use crate::figures;

/// From this wait on, what a thread wanted is shown beside what it had.
const WORTH_SHOWING: f64 = 0.05;

/// The load of one measurement, as `1 thread, the busiest 41.5% of the time on a CPU`.
pub fn of_measurement(health: &LoadHealth) -> String {
    let threads = figures::plural(health.threads as usize, "thread");
    let limit = if health.is_load_bound() {
        ": the load was the limit, not the system"
    } else if health.is_held_up() {
        ", so rates are too low and times too long"
    } else {
        ""
    };
    format!("{threads}, the busiest {} of the time on a CPU{}{limit}", busy(health), remarks(health))
}

/// The load of one variant, as `busiest thread 41.5%`.
pub fn of_variant(health: &LoadHealth) -> String {
    format!("busiest thread {}{}", busy(health), remarks(health))
}

/// A run of an older version may hold more than a whole.
fn busy(health: &LoadHealth) -> String {
    figures::share_coarse(health.busiest_thread.min(1.0))
}

fn remarks(health: &LoadHealth) -> String {
    let mut remarks = String::new();
    if let Some(shortage) = health.shortage
        && health.waited >= WORTH_SHOWING
    {
        let wanted = figures::share_coarse(health.wanted);
        remarks = format!(", and one wanted {wanted} of a CPU but {}", shortage.clause());
    }
    if health.limit() == Some(LoadLimit::Late) {
        let (late, lag) = (figures::share(health.late_share), figures::time_ns(health.lag_ns_max as f64));
        remarks += &format!("; {late} of sends were late by up to {lag}");
    }
    remarks
}

#[cfg(test)]
mod tests {
    use plumb_model::Shortage;

    use super::*;

    fn health(busy: f64, wanted: f64, shortage: Option<Shortage>) -> LoadHealth {
        let waited = (wanted - busy).max(0.0);
        LoadHealth { busiest_thread: busy, wanted, waited, shortage, threads: 2, ..LoadHealth::default() }
    }

    #[test]
    fn the_figure_that_decided_is_shown() {
        let late = LoadHealth { late_share: 0.02, lag_ns_max: 3_200_000, ..health(0.035, 0.04, None) };
        let words: Vec<String> = [
            health(0.415, 0.43, Some(Shortage::Neighbour)),
            health(0.97, 0.99, None),
            health(0.099, 0.98, Some(Shortage::Quota)),
            health(0.5, 0.7, Some(Shortage::Neighbour)),
            health(0.6, 0.95, Some(Shortage::Steal)),
            late,
            health(165_075.0, 0.0, None),
        ]
        .iter()
        .map(of_measurement)
        .collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        2 threads, the busiest 41.5% of the time on a CPU
        2 threads, the busiest 97.0% of the time on a CPU: the load was the limit, not the system
        2 threads, the busiest 9.9% of the time on a CPU, and one wanted 98.0% of a CPU but a CPU quota stopped it: the load was the limit, not the system
        2 threads, the busiest 50.0% of the time on a CPU, and one wanted 70.0% of a CPU but other threads held its CPU, so rates are too low and times too long
        2 threads, the busiest 60.0% of the time on a CPU, and one wanted 95.0% of a CPU but the hypervisor took its CPU away: the load was the limit, not the system
        2 threads, the busiest 3.5% of the time on a CPU; 2.00% of sends were late by up to 3.20 ms: the load was the limit, not the system
        2 threads, the busiest 100.0% of the time on a CPU: the load was the limit, not the system
        ");
    }

    #[test]
    fn the_worst_slot_of_a_variant_is_told() {
        let slots = [health(0.4, 0.4, None), health(0.1, 0.95, Some(Shortage::Quota))];
        let words = of_variant(&slots[0].clone().or_worse(&slots[1]));
        assert_eq!(words, "busiest thread 40.0%, and one wanted 95.0% of a CPU but a CPU quota stopped it");
    }
}
