//! Several load agents' measurements of one window as one measurement.
//!
//! Nothing is averaged. Distributions are merged bin for bin, counts are added, and rates and CPU costs follow from the sums. What
//! has no value for several agents, such as a median without its distribution, is left out, and a notice names it.

use std::collections::{BTreeMap, BTreeSet};

use crate::measurement::{LoadLimit, Share, ShareTimes, per_second};
use crate::metric::{CPU_LOAD, CPU_SYSTEM};
use crate::{LoadHealth, Measurement, Merge, Notice, NoticeKind, Reading, Shortage, Statistic};

/// By how much, as a share, a rate's own time may differ from the window before it counts as the time of something else.
const SAME_TIME: f64 = 1e-6;

/// Why measurements have no union.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnionError {
    /// There is nothing to put together.
    #[error("put the load agents' measurements together: there is none")]
    Nothing,
    /// Two of them could not be told apart.
    #[error("put the load agents' measurements together: two agents have the name {0:?}")]
    SameName(String),
}

impl Measurement {
    /// Merges the measurements of all agents, each under its name. All measured the same window, each with its share of the load.
    ///
    /// - Work, attempts, errors, observations, CPU time and the number in flight add up.
    /// - A rate is the sum of the counts over the longest window. Where an agent's rate is over another time than its window, such as
    ///   the time after a burst, it is the sum of the agents' rates.
    /// - One-second rates add up second by second, for as many seconds as every agent has. Means of a second are left out.
    /// - Gauges add up where [`Measurement::additive`] says so. `cpu_load` follows from the sums; `cpu_system` is the system's.
    /// - `stall_ns_max` is the shortest of the agents' longest stalls: whenever nothing completed at all, nothing did at any of them.
    /// - Health is the worst of all in each respect, so a load that is bound at one agent is bound.
    ///
    /// # Errors
    /// When `parts` is empty, or two have the same name.
    pub fn union(mut parts: Vec<(String, Self)>) -> Result<Self, UnionError> {
        let mut names = BTreeSet::new();
        if let Some((twice, _)) = parts.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(UnionError::SameName(twice.clone()));
        }
        if parts.len() < 2 {
            return parts.pop().map(|(_, alone)| alone).ok_or(UnionError::Nothing);
        }
        let mut all = sums(&parts);
        let (readings, left_out) = readings(&parts, all.window_ns);
        all.readings = readings;
        all.read_cpu_load();
        all.windows = windows(&parts, &all.readings);
        let asked: Option<f64> = parts.iter().map(|(_, part)| part.asked).sum();
        all.asked = asked.filter(|asked| *asked > 0.0);
        all.in_flight = parts.iter().map(|(_, part)| part.in_flight).sum();
        all.shares = parts.iter().map(|(name, part)| share(name, part, all.asked)).collect();
        all.notices = notices(&parts, &left_out);
        all.tables = parts
            .into_iter()
            .flat_map(|(agent, part)| {
                let own = move |(name, table)| (format!("{agent}: {name}"), table);
                part.tables.into_iter().map(own)
            })
            .collect();
        Ok(all)
    }
}

/// The readings that add up, or of which the worst counts.
fn sums(parts: &[(String, Measurement)]) -> Measurement {
    let mut all = Measurement::default();
    let mut threads = 0_u32;
    for (_, part) in parts {
        all.window_ns = all.window_ns.max(part.window_ns);
        all.work = all.work.saturating_add(part.work);
        all.attempts.add(&part.attempts);
        all.cpu_user_ns = all.cpu_user_ns.saturating_add(part.cpu_user_ns);
        all.cpu_system_ns = all.cpu_system_ns.saturating_add(part.cpu_system_ns);
        all.stall_ns_max = [all.stall_ns_max, part.stall_ns_max].into_iter().flatten().min();
        threads = threads.saturating_add(part.health.threads);
        all.health = all.health.or_worse(&part.health);
        all.additive.extend(part.additive.iter().cloned());
        all.errors.add(&part.errors);
        all.observed.add(&part.observed);
        all.sizes.add(&part.sizes);
    }
    all.health.threads = threads;
    all.hopeless = parts
        .iter()
        .map(|(_, part)| part.hopeless.clone())
        .collect::<Option<Vec<_>>>()
        .and_then(|all| all.into_iter().next());
    if parts.iter().any(|(_, part)| part.work > 0 && part.cpu_user_ns == 0 && part.cpu_system_ns == 0) {
        // Without one agent's CPU time the sum would be a cost that nobody had.
        (all.cpu_user_ns, all.cpu_system_ns) = (0, 0);
    }
    all
}

/// Every reading of all agents together, and the names of those that have no value for several.
fn readings(parts: &[(String, Measurement)], window_ns: u64) -> (BTreeMap<String, Reading>, BTreeSet<&str>) {
    let mut names: BTreeSet<&str> =
        parts.iter().flat_map(|(_, part)| part.readings.keys().map(String::as_str)).collect();
    names.retain(|name| ![CPU_LOAD.name, CPU_SYSTEM.name].contains(name));
    let (mut readings, mut left_out) = (BTreeMap::new(), BTreeSet::new());
    for name in names {
        match together(name, parts, window_ns) {
            Some(reading) => drop(readings.insert(name.to_owned(), reading)),
            None => drop(left_out.insert(name)),
        }
    }
    (readings, left_out)
}

/// One reading of all agents together; `None` where it has no value for several.
fn together(name: &str, parts: &[(String, Measurement)], window_ns: u64) -> Option<Reading> {
    let found: Vec<(&Measurement, &Reading)> =
        parts.iter().filter_map(|(_, part)| Some((part, part.readings.get(name)?))).collect();
    let all = || found.iter().map(|(_, reading)| *reading);
    match found.first()?.1 {
        // An agent without such an event has no distribution and no share of it.
        Reading::Trend(first) => {
            let mut merged = first.clone();
            for reading in all().skip(1) {
                let Reading::Trend(other) = reading else { return None };
                merged.merge(other);
            }
            Some(Reading::Trend(merged))
        }
        Reading::Share { .. } => {
            let (mut yes_sum, mut no_sum) = (0_u64, 0_u64);
            for reading in all() {
                let Reading::Share { yes, no } = reading else { return None };
                (yes_sum, no_sum) = (yes_sum.saturating_add(*yes), no_sum.saturating_add(*no));
            }
            Some(Reading::Share { yes: yes_sum, no: no_sum })
        }
        // A sum that lacks an agent would be wrong.
        _ if found.len() < parts.len() => None,
        Reading::Rate { .. } => rate(&found, window_ns),
        Reading::Count(_) => {
            let mut sum = 0_u64;
            for reading in all() {
                let Reading::Count(count) = reading else { return None };
                sum = sum.saturating_add(*count);
            }
            Some(Reading::Count(sum))
        }
        Reading::Gauge(_) => {
            let mut sum = 0.0;
            for (part, reading) in &found {
                let Reading::Gauge(value) = reading else { return None };
                sum += part.additive.contains(name).then_some(value)?;
            }
            Some(Reading::Gauge(sum))
        }
        Reading::Summary { .. } => None,
    }
}

fn rate(found: &[(&Measurement, &Reading)], window_ns: u64) -> Option<Reading> {
    let (mut sum, mut count_sum, mut is_of_the_window) = (0.0, 0_u64, true);
    for (part, reading) in found {
        let Reading::Rate { value, count } = reading else { return None };
        sum += value;
        count_sum = count_sum.saturating_add(*count);
        let of_window = per_second(*count, part.window_ns);
        is_of_the_window &= (value - of_window).abs() <= SAME_TIME * of_window;
    }
    let value = if is_of_the_window { per_second(count_sum, window_ns) } else { sum };
    Some(Reading::Rate { value, count: count_sum })
}

/// Rates of each second, for as many seconds as every agent has. `readings` are those of all together.
fn windows(
    parts: &[(String, Measurement)],
    readings: &BTreeMap<String, Reading>,
) -> BTreeMap<String, Vec<f64>> {
    let adds_up =
        |(_, reading): &(&String, &Reading)| matches!(reading, Reading::Rate { .. } | Reading::Gauge(_));
    let of_all = |name: &String| -> Option<(String, Vec<f64>)> {
        let found: Option<Vec<&Vec<f64>>> = parts.iter().map(|(_, part)| part.windows.get(name)).collect();
        let found = found?;
        let seconds = found.iter().map(|values| values.len()).min()?;
        let sum = |second: usize| found.iter().map(|values| values[second]).sum();
        Some((name.clone(), (0..seconds).map(sum).collect()))
    };
    readings.iter().filter(adds_up).filter_map(|(name, _)| of_all(name)).collect()
}

fn share(name: &str, part: &Measurement, asked_sum: Option<f64>) -> Share {
    let times = part.readings.iter().filter_map(|(metric, reading)| {
        let [median_ns, p99_ns] = [Statistic::Med, Statistic::P99].map(|statistic| match reading {
            Reading::Trend(histogram) => histogram.statistic_ns(statistic),
            Reading::Summary { statistics_ns, .. } => statistics_ns.get(&statistic).copied(),
            _ => None,
        });
        (median_ns.is_some() || p99_ns.is_some()).then(|| (metric.clone(), ShareTimes { median_ns, p99_ns }))
    });
    Share {
        agent: name.to_owned(),
        asked: part.asked.zip(asked_sum).map(|(asked, sum)| asked / sum),
        work: part.work,
        work_per_s: per_second(part.work, part.window_ns),
        times: times.collect(),
        cpu_user_ns: part.cpu_user_ns,
        cpu_system_ns: part.cpu_system_ns,
        health: part.health.clone(),
    }
}

/// The agents' notices, each with the agent's name unless all noticed it, and what the union lacks.
fn notices(parts: &[(String, Measurement)], left_out: &BTreeSet<&str>) -> Vec<Notice> {
    let mut notices: Vec<Notice> = Vec::new();
    for (name, part) in parts {
        let is_of_all = |notice: &Notice| parts.iter().all(|(_, other)| other.notices.contains(notice));
        let own = |notice: &Notice| {
            if is_of_all(notice) { notice.clone() } else { notice.clone().attributed_to(name) }
        };
        notices.extend(part.notices.iter().map(own));
        notices.extend(limit(&part.health).map(|limit| limit.attributed_to(name)));
    }
    if !left_out.is_empty() {
        notices.push(Notice::from(NoticeKind::NoUnion).about(left_out.iter().copied()));
    }
    Notice::merged(&notices)
}

/// Why a load was the limit.
fn limit(health: &LoadHealth) -> Option<Notice> {
    let (kind, share) = match health.limit()? {
        LoadLimit::Busy => (NoticeKind::LoadBusy, health.demand()),
        LoadLimit::Starved(Shortage::Quota) => (NoticeKind::LoadStoppedByQuota, health.demand()),
        LoadLimit::Starved(Shortage::Neighbour) => (NoticeKind::LoadCrowded, health.demand()),
        LoadLimit::Starved(Shortage::Steal) => (NoticeKind::LoadStolen, health.demand()),
        LoadLimit::Late => (NoticeKind::LoadLate, health.late_share),
    };
    Some(kind.with([share.min(1.0)]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Attempts, Column, Histogram, Table, Unit};

    const SECOND_NS: u64 = 1_000_000_000;

    fn histogram(times_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        times_ns.iter().for_each(|time_ns| histogram.record(*time_ns));
        histogram
    }

    /// An agent that had these answers in two seconds.
    fn part(times_ns: &[u64]) -> Measurement {
        let work = times_ns.len() as u64;
        let mut part = Measurement {
            window_ns: 2 * SECOND_NS,
            work,
            readings: [
                ("reqs".to_owned(), Reading::rate(work, 2 * SECOND_NS)),
                ("time".to_owned(), Reading::Trend(histogram(times_ns))),
                ("failed".to_owned(), Reading::Share { yes: 1, no: work }),
                ("handshakes".to_owned(), Reading::Count(work / 2)),
            ]
            .into(),
            windows: [("reqs".to_owned(), vec![1.0, work as f64]), ("time".to_owned(), vec![5.0, 6.0])]
                .into(),
            observed: [("status".to_owned(), [("200".to_owned(), work)].into())].into(),
            errors: [("reset".to_owned(), 1)].into(),
            attempts: Attempts { tried: work + 1, failed: 1 },
            stall_ns_max: Some(1_000 + work),
            cpu_user_ns: 2_000 * work,
            cpu_system_ns: 1_000 * work,
            ..Measurement::default()
        };
        part.read_cpu_load();
        part
    }

    fn named(parts: impl IntoIterator<Item = Measurement>) -> Vec<(String, Measurement)> {
        (1..).map(|number| format!("client{number}")).zip(parts).collect()
    }

    fn union(parts: impl IntoIterator<Item = Measurement>) -> Measurement {
        Measurement::union(named(parts)).unwrap()
    }

    fn bins(reading: &Reading) -> Vec<(u64, u64)> {
        let Reading::Trend(histogram) = reading else { panic!("{reading:?}") };
        histogram.bins().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn sixteen_agents_are_the_distribution_of_all_their_values(
            agents in prop::collection::vec(prop::collection::vec(0_u64..1 << 42, 0..60), 16),
            through_text in any::<bool>(),
        ) {
            // What comes from another process has been written down and read back, which packs it.
            let sent = |part: Measurement| match through_text {
                true => serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap(),
                false => part,
            };
            let all = union(agents.iter().map(|times_ns| sent(part(times_ns))));
            let together = Reading::Trend(histogram(&agents.concat()));
            prop_assert_eq!(bins(&all.readings["time"]), bins(&together));
        }

        #[test]
        fn everything_counted_adds_up_in_whatever_order(
            agents in prop::collection::vec(prop::collection::vec(1_u64..1 << 30, 1..40), 2..8),
        ) {
            let all = union(agents.iter().map(|times_ns| part(times_ns)));
            let work: u64 = agents.iter().map(|times_ns| times_ns.len() as u64).sum();
            let count = agents.len() as u64;
            prop_assert_eq!(all.work, work);
            prop_assert_eq!(all.attempts, Attempts { tried: work + count, failed: count });
            prop_assert_eq!(all.observed_count("status", "200"), work);
            prop_assert_eq!(all.errors["reset"], count);
            prop_assert_eq!(&all.readings["reqs"], &Reading::rate(work, 2 * SECOND_NS));
            prop_assert_eq!(&all.readings["failed"], &Reading::Share { yes: count, no: work });
            prop_assert_eq!(&all.readings["cpu_load"], &Reading::Gauge(3.0));
            prop_assert_eq!(&all.windows["reqs"], &vec![count as f64, work as f64]);
            prop_assert!(!all.windows.contains_key("time"), "the mean of means is no mean");
            prop_assert_eq!(all.shares.iter().map(|share| share.work).sum::<u64>(), work);
            let mut turned = union(agents.iter().rev().map(|times_ns| part(times_ns)));
            turned.shares = all.shares.clone();
            prop_assert_eq!(turned, all);
        }
    }

    #[test]
    fn a_share_has_its_agents_own_figures() {
        let asked = |asked: f64, part: Measurement| Measurement { asked: Some(asked), ..part };
        let all = union([asked(3.0, part(&[100, 200, 300])), asked(1.0, part(&[900]))]);
        assert_eq!(all.shares.iter().map(|share| share.asked).collect::<Vec<_>>(), [Some(0.75), Some(0.25)]);
        assert_eq!(union([asked(3.0, part(&[1])), part(&[1])]).shares[0].asked, None);
        let in_flight = |in_flight: f64| Measurement { in_flight: Some(in_flight), ..part(&[1]) };
        assert_eq!(union([in_flight(16.0), in_flight(8.0)]).in_flight, Some(24.0));
        assert_eq!(union([in_flight(16.0), part(&[1])]).in_flight, None);
        let medians: Vec<Option<f64>> =
            all.shares.iter().map(|share| share.times["time"].median_ns).collect();
        assert_eq!(medians, [Some(200.0), Some(900.0)]);
        let second = &all.shares[1];
        assert_eq!((second.agent.as_str(), second.work, second.work_per_s), ("client2", 1, 0.5));
        assert_eq!((second.cpu_user_ns, second.cpu_system_ns), (2_000, 1_000));
    }

    #[test]
    fn one_agent_alone_is_its_own_union_and_a_name_is_taken_once() {
        let alone = Measurement { notices: vec![Notice::text("slow")], ..part(&[1]) };
        assert_eq!(union([alone.clone()]), alone);
        assert_eq!(Measurement::union(Vec::new()), Err(UnionError::Nothing));
        let twice = vec![("a".to_owned(), part(&[1])), ("a".to_owned(), part(&[1]))];
        assert_eq!(Measurement::union(twice), Err(UnionError::SameName("a".to_owned())));
    }

    #[test]
    fn a_gauge_adds_up_only_where_that_means_something() {
        let with = |depth: f64, is_additive: bool| {
            let mut part = part(&[1, 2]);
            part.readings.insert("depth".to_owned(), Reading::Gauge(depth));
            part.readings.insert("jitter".to_owned(), Reading::Gauge(7.0));
            part.readings.insert("cpu_system".to_owned(), Reading::Gauge(9.0));
            part.additive = is_additive.then(|| "depth".to_owned()).into_iter().collect();
            part
        };
        let all = union([with(3.0, true), with(4.5, true)]);
        assert_eq!(all.readings["depth"], Reading::Gauge(7.5));
        assert!(!all.readings.contains_key("jitter") && !all.readings.contains_key("cpu_system"));
        assert_eq!(all.notices, [Notice::from(NoticeKind::NoUnion).about(["jitter"])]);
        assert!(!union([with(3.0, true), with(4.5, false)]).readings.contains_key("depth"));
    }

    #[test]
    fn what_has_no_distribution_or_lacks_an_agent_is_left_out_with_a_notice() {
        let summed = |median_ns: f64| {
            let statistics_ns = [(Statistic::Med, median_ns)].into();
            let mut part = part(&[]);
            part.readings.insert("time".to_owned(), Reading::Summary { count: Some(3), statistics_ns });
            part
        };
        let mut second = summed(5.0);
        second.readings.remove("reqs");
        let all = union([summed(4.0), second]);
        assert!(!all.readings.contains_key("time") && !all.readings.contains_key("reqs"));
        assert!(!all.windows.contains_key("reqs"));
        assert_eq!(all.notices, [Notice::from(NoticeKind::NoUnion).about(["reqs", "time"])]);
        assert_eq!(all.shares[1].times["time"], ShareTimes { median_ns: Some(5.0), p99_ns: None });
        assert!(!union([part(&[1]), summed(4.0)]).readings.contains_key("time"), "one of each kind");
    }

    #[test]
    fn rates_over_another_time_than_the_window_add_up() {
        let mut settled = part(&[1]);
        settled.readings.insert("reqs".to_owned(), Reading::rate(100, SECOND_NS));
        let mut whole = part(&[1]);
        whole.readings.insert("reqs".to_owned(), Reading::rate(200, 2 * SECOND_NS));
        assert_eq!(
            union([settled, whole.clone()]).readings["reqs"],
            Reading::Rate { value: 200.0, count: 300 }
        );
        // An agent that was done early does not make the others faster.
        let early = Measurement { window_ns: SECOND_NS, ..whole.clone() };
        let mut early = early;
        early.readings.insert("reqs".to_owned(), Reading::rate(100, SECOND_NS));
        let all = union([early, whole]);
        assert_eq!(all.readings["reqs"], Reading::Rate { value: 150.0, count: 300 });
        assert_eq!(all.window_ns, 2 * SECOND_NS);
    }

    #[test]
    fn seconds_are_added_as_far_as_all_agents_have_them() {
        let mut longer = part(&[1]);
        longer.windows.insert("reqs".to_owned(), vec![1.0, 2.0, 4.0]);
        assert_eq!(union([part(&[1]), longer.clone()]).windows["reqs"], [2.0, 3.0]);
        longer.windows.clear();
        assert!(!union([part(&[1]), longer]).windows.contains_key("reqs"));
    }

    #[test]
    fn a_stall_of_all_is_no_longer_than_the_shortest_and_cpu_time_that_one_lacks_is_not_known() {
        let all = union([part(&[1, 2, 3]), part(&[1])]);
        assert_eq!(all.stall_ns_max, Some(1_001));
        let unknown = Measurement { cpu_user_ns: 0, cpu_system_ns: 0, stall_ns_max: None, ..part(&[1]) };
        let all = union([part(&[1, 2, 3]), unknown]);
        assert_eq!((all.cpu_user_ns, all.cpu_system_ns, all.stall_ns_max), (0, 0, Some(1_003)));
        assert!(!all.readings.contains_key("cpu_load"));
    }

    #[test]
    fn a_load_that_is_bound_at_one_agent_is_bound_and_the_notice_names_it() {
        let of = |health: LoadHealth| Measurement { health, ..part(&[1]) };
        let idle = LoadHealth { busiest_thread: 0.2, wanted: 0.2, threads: 2, ..LoadHealth::default() };
        let busy = LoadHealth { busiest_thread: 0.97, wanted: 0.99, threads: 3, ..LoadHealth::default() };
        let all = union([of(idle.clone()), of(busy)]);
        assert!(all.health.is_load_bound());
        assert_eq!(all.health.threads, 5);
        assert_eq!(all.notices, [NoticeKind::LoadBusy.with([0.99]).attributed_to("client2")]);
        let quota = LoadHealth { waited: 0.2, shortage: Some(Shortage::Quota), ..idle.clone() };
        let neighbour = LoadHealth { waited: 0.4, shortage: Some(Shortage::Neighbour), ..idle };
        for pair in [[quota.clone(), neighbour.clone()], [neighbour, quota]] {
            let all = union(pair.map(of));
            assert!(all.health.is_load_bound(), "a quota bound one of them");
            assert!(matches!(&all.notices[..], [it] if it.kind == NoticeKind::LoadStoppedByQuota));
        }
    }

    #[test]
    fn notices_name_their_agent_unless_all_say_the_same_and_tables_stay_apart() {
        let table = Table {
            columns: vec![Column { name: "rate".to_owned(), unit: Unit::PerSecond }],
            rows: vec![vec![1.0]],
        };
        let says = |texts: &[&str]| Measurement {
            notices: texts.iter().copied().map(Notice::text).collect(),
            tables: [("limiter".to_owned(), table.clone())].into(),
            ..part(&[1])
        };
        let all = union([says(&["cold"]), says(&["slow", "cold"])]);
        assert_eq!(all.notices, [Notice::text("cold"), Notice::text("slow").attributed_to("client2")]);
        assert_eq!(all.tables.keys().collect::<Vec<_>>(), ["client1: limiter", "client2: limiter"]);
    }
}
