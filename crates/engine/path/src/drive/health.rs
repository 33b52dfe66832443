//! The health of a load: the CPU time that its threads had, wanted and lacked.

use plumb_host::demand::{self, Demand};
use plumb_model::{LoadHealth, Shortage};
use plumb_pace::Lateness;

/// The health of a load with these demands of its threads and this lateness of its sends.
#[must_use]
pub fn load_health(demands: impl IntoIterator<Item = Demand>, lateness: &Lateness) -> LoadHealth {
    let mut health = LoadHealth {
        lag_ns_max: lateness.lag_ns_max(),
        late_share: lateness.late_share(),
        ..LoadHealth::default()
    };
    for demand in demands {
        health.threads = health.threads.saturating_add(1);
        health.busiest_thread = health.busiest_thread.max(demand.ran);
        health.wanted = health.wanted.max(demand.wanted);
        let waited = demand.wanted - demand.ran;
        if waited > health.waited {
            health.waited = waited;
            health.shortage = demand.shortage.map(cause);
        }
    }
    health
}

fn cause(shortage: demand::Shortage) -> Shortage {
    match shortage {
        demand::Shortage::Quota => Shortage::Quota,
        demand::Shortage::Neighbour => Shortage::Neighbour,
        demand::Shortage::Steal => Shortage::Steal,
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::LoadLimit;

    use super::*;

    #[test]
    fn the_thread_that_wanted_most_decides_whatever_the_others_had() {
        let demands = [
            Demand { ran: 0.3, ran_user: 0.1, wanted: 0.35, shortage: None },
            Demand { ran: 0.1, ran_user: 0.1, wanted: 0.98, shortage: Some(demand::Shortage::Quota) },
        ];
        let health = load_health(demands, &Lateness::default());
        assert_eq!((health.threads, health.busiest_thread, health.wanted), (2, 0.3, 0.98));
        assert_eq!(health.limit(), Some(LoadLimit::Starved(Shortage::Quota)));
        assert!(!load_health([demands[0]], &Lateness::default()).is_load_bound());
        assert_eq!(load_health([], &Lateness::default()), LoadHealth::default());
    }
}
