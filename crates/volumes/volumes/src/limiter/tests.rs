//! The limiter's promises, exactly, on a simulated clock.

mod simulation;

use std::num::NonZeroU64;

use proptest::prelude::*;

use self::simulation::{Connection, Simulation};
use super::*;

const SECOND_NS: u64 = 1_000_000_000;

fn limits(iops: u64, bytes_per_s: u64) -> Limits {
    Limits { iops: NonZeroU64::new(iops), bytes_per_s: NonZeroU64::new(bytes_per_s), ..Limits::NONE }
}

/// The least and the most that any window of 1 s holds, beginning at each operation after the first second.
fn extremes(begun: &[(u64, u64)], weigh: impl Fn(u64) -> u64, until_ns: u64) -> (u64, u64) {
    let (mut least, mut most, mut end, mut sum) = (u64::MAX, 0, 0, 0);
    for &(at_ns, bytes) in begun {
        while end < begun.len() && begun[end].0 < at_ns + SECOND_NS {
            sum += weigh(begun[end].1);
            end += 1;
        }
        if at_ns >= begun[0].0 + SECOND_NS && at_ns + SECOND_NS < until_ns {
            (least, most) = (least.min(sum), most.max(sum));
        }
        // The window that begins just after this operation holds the next ones only.
        sum -= weigh(bytes);
        let is_inside = |next: &&(u64, u64)| next.0 <= at_ns + SECOND_NS;
        let next = begun.get(end).filter(is_inside).map_or(0, |&(_, bytes)| weigh(bytes));
        if at_ns >= begun[0].0 + SECOND_NS && at_ns + SECOND_NS < until_ns {
            least = least.min(sum + next);
        }
    }
    (least, most)
}

/// 0.5% of the policy, or one operation where that is more: whole operations cannot be nearer.
fn assert_exact((least, most): (u64, u64), policy: u64, unit: u64, what: &str) {
    let off = (policy / 200).max(unit);
    assert!(policy - off <= least && most <= policy + off, "{what}: {least} to {most} of {policy}");
}

#[test]
fn every_window_holds_what_the_policy_says() {
    for connections in [1, 16] {
        for bytes in [4 << 10, 64 << 10, 1 << 20] {
            for iops in [500, 5_000, 50_000] {
                let mut run = Simulation::new(limits(iops, 0), 7);
                run.connect(connections, Connection { depth: 8, bytes, service_ns: 20_000 });
                let begun = run.until(4 * SECOND_NS);
                assert_exact(extremes(&begun, |_| 1, 4 * SECOND_NS), iops, 1, &format!("{iops} IOPS"));
            }
            let mut run = Simulation::new(limits(0, 100_000_000), 7);
            run.connect(connections, Connection { depth: 8, bytes, service_ns: 20_000 });
            let begun = run.until(4 * SECOND_NS);
            let seen = extremes(&begun, |bytes| bytes, 4 * SECOND_NS);
            assert_exact(seen, 100_000_000, bytes, &format!("100 MB/s in {bytes} B by {connections}"));
        }
    }
}

#[test]
fn the_limit_that_is_reached_first_wins_and_is_named() {
    // 5,000 IOPS and 100 MB/s cross at 20 kB.
    for (bytes, expected) in [(4 << 10, Binding::Iops), (64 << 10, Binding::Bytes)] {
        let mut run = Simulation::new(limits(5_000, 100_000_000), 1);
        run.connect(4, Connection { depth: 4, bytes, service_ns: 50_000 });
        let begun = run.until(3 * SECOND_NS);
        let account = run.account();
        let (policy, unit) = if expected == Binding::Iops { (5_000, 1) } else { (100_000_000, bytes) };
        let weigh = |bytes| if expected == Binding::Iops { 1 } else { bytes };
        assert_exact(extremes(&begun, weigh, 3 * SECOND_NS), policy, unit, "the first");
        let (ours, other) = match expected {
            Binding::Iops => (account.bound_by_iops_ns, account.bound_by_bytes_ns),
            Binding::Bytes => (account.bound_by_bytes_ns, account.bound_by_iops_ns),
        };
        assert!(ours > 2_970_000_000 && ours <= 3 * SECOND_NS, "{account:?}");
        assert_eq!(other, 0);
    }
}

#[test]
fn large_and_small_operations_together_come_near_the_limit() {
    let mut run = Simulation::new(limits(500, 100_000_000), 3);
    run.connect(1, Connection { depth: 4, bytes: 1 << 20, service_ns: 10_000 });
    run.connect(1, Connection { depth: 4, bytes: 4 << 10, service_ns: 10_000 });
    let begun = run.until(5 * SECOND_NS);
    let bytes: u64 = begun.iter().map(|(_, bytes)| bytes).sum();
    let operations = begun.len() as f64 / 5.0;
    // Five small ones for each large one, in equal shares of time; waiting for both rates one after the other would give
    // half. The whole limit would take saving up, which is what a burst is.
    let used = (bytes as f64 / 5.0 / 100e6).max(operations / 500.0);
    assert!(used > 0.78, "{operations} IOPS, {bytes} bytes");
    let (_, most) = extremes(&begun, |_| 1, 5 * SECOND_NS);
    assert!(most <= 503, "{most}");
}

#[test]
fn a_limit_that_is_not_reached_binds_at_no_time() {
    let mut run = Simulation::new(limits(5_000, 0), 5);
    // One at a time, each 1 ms: 1,000 IOPS.
    run.connect(1, Connection { depth: 1, bytes: 4096, service_ns: 1_000_000 });
    let begun = run.until(2 * SECOND_NS);
    assert!(begun.len() >= 1_990);
    assert_eq!((run.account().bound_ns(), run.account().delayed), (0, 0));
}

#[test]
fn connections_get_equal_shares_whatever_their_depth() {
    let mut run = Simulation::new(limits(5_000, 0), 11);
    run.connect(1, Connection { depth: 64, bytes: 4096, service_ns: 20_000 });
    run.connect(3, Connection { depth: 1, bytes: 4096, service_ns: 20_000 });
    run.until(2 * SECOND_NS);
    for share in run.shares() {
        assert!((2_400..=2_600).contains(&share), "{:?}", run.shares());
    }
}

#[test]
fn idle_time_saves_nothing_up_unless_a_burst_is_allowed() {
    for (burst_ns, at_once) in [(0, 1), (SECOND_NS / 10, 51)] {
        let limiter = Limiter::new(Limits { burst_ns, ..limits(500, 0) }, 0);
        let now_ns = 60 * SECOND_NS;
        let answers: Vec<Admission> = (0..100_u32)
            .map(|waiter| limiter.ask(waiter, &mut Flow::default(), 4096, now_ns, now_ns))
            .collect();
        let begun = answers.iter().filter(|answer| **answer == Admission::Begin).count();
        assert_eq!(begun, at_once, "with a burst of {burst_ns} ns");
    }
}

#[test]
fn a_limiter_that_was_stopped_makes_up_for_next_to_nothing() {
    let limiter = Limiter::new(limits(50_000, 0), 0);
    for waiter in 0..10_000_u32 {
        limiter.ask(waiter, &mut Flow::default(), 4096, 0, 0);
    }
    let mut begun = Vec::new();
    limiter.take_due(5 * SECOND_NS, &mut begun);
    assert!((225..=227).contains(&begun.len()), "4.5 ms of 50,000 IOPS, and got {}", begun.len());
}

#[test]
fn what_is_larger_than_an_operation_is_charged_as_several() {
    let split = Limits { operation_bytes: NonZeroU64::new(64 << 10), ..limits(500, 0) };
    for (bytes, operations) in [(0, 1), (1, 1), (64 << 10, 1), ((64 << 10) + 1, 2), (1 << 20, 16)] {
        assert_eq!(split.cost(bytes).operations, operations);
    }
    let mut run = Simulation::new(split, 2);
    run.connect(1, Connection { depth: 4, bytes: 128 << 10, service_ns: 10_000 });
    let begun = run.until(4 * SECOND_NS);
    assert_exact(extremes(&begun, |_| 1, 4 * SECOND_NS), 250, 1, "128 KiB as two");
}

#[test]
fn a_change_takes_effect_at_once_and_without_a_burst() {
    for (before, after) in [(500, 5_000), (5_000, 500), (1, 50_000), (50_000, 500)] {
        let mut run = Simulation::new(limits(before, 0), 13);
        run.connect(4, Connection { depth: 16, bytes: 4096, service_ns: 20_000 });
        run.until(2 * SECOND_NS);
        run.change(limits(after, 0));
        let begun = run.until(5 * SECOND_NS);
        let later: Vec<(u64, u64)> = begun.into_iter().filter(|(at, _)| *at >= 2 * SECOND_NS).collect();
        let first_second = later.iter().filter(|(at, _)| *at < 3 * SECOND_NS).count() as u64;
        assert!(first_second.abs_diff(after) <= after / 200 + 1, "{before} to {after}: {first_second}");
        assert_exact(extremes(&later, |_| 1, 5 * SECOND_NS), after, 1, "after a change");
    }
}

#[test]
fn a_limit_can_come_and_go_and_move_with_those_who_wait() {
    let limiter = Limiter::new(Limits::NONE, 0);
    assert_eq!(limiter.ask(1_u32, &mut Flow::default(), 4096, 5, 5), Admission::Begin);
    let mut names = Vec::new();
    limiter.change(limits(1, 0), 10, &mut names);
    assert_eq!(limiter.ask(1, &mut Flow::default(), 4096, 10, 10), Admission::Begin);
    assert_eq!(limiter.ask(1, &mut Flow::default(), 4096, 11, 11), Admission::Wait);
    assert_eq!(limiter.ask(2, &mut Flow::default(), 4096, 12, 12), Admission::Wait);
    limiter.forget(1);
    limiter.change(Limits::NONE, 20, &mut names);
    assert_eq!(names, [2]);
    limiter.change(limits(1, 0), 30, &mut names);
    limiter.ask(3, &mut Flow::default(), 4096, 30, 30);
    limiter.ask(4, &mut Flow::default(), 4096, 40, 40);
    names.clear();
    limiter.retire(1_000, &mut names);
    assert_eq!(names, [4]);
    assert_eq!(limiter.ask(5, &mut Flow::default(), 4096, 1_000, 1_000), Admission::Begin);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_rate_any_size_any_load(
        iops in 200..20_000_u64,
        shift in 12..21_u32,
        connections in 1..17_usize,
        // Fewer wait for late timers and not for the limit, where it is above 10,000.
        depth in 4..33_usize,
        seed: u64,
    ) {
        let bytes = 1 << shift;
        let mut run = Simulation::new(limits(iops, 0), seed);
        run.connect(connections, Connection { depth, bytes, service_ns: 30_000 });
        let begun = run.until(3 * SECOND_NS);
        assert_exact(extremes(&begun, |_| 1, 3 * SECOND_NS), iops, 1, "operations");
        prop_assert!(run.account().bound_by_iops_ns > 2_900_000_000);
    }

    #[test]
    fn no_mix_exceeds_either_limit(
        iops in 200..5_000_u64,
        bytes_per_s in 10_000_000..400_000_000_u64,
        sizes in proptest::collection::vec((12..21_u32, 1..9_usize), 1..6),
        seed: u64,
    ) {
        let mut run = Simulation::new(limits(iops, bytes_per_s), seed);
        for (shift, depth) in sizes {
            run.connect(1, Connection { depth, bytes: 1 << shift, service_ns: 30_000 });
        }
        let begun = run.until(3 * SECOND_NS);
        let (_, operations) = extremes(&begun, |_| 1, 3 * SECOND_NS);
        let (_, bytes) = extremes(&begun, |bytes| bytes, 3 * SECOND_NS);
        // 0.45% is what a late machine may make up for; one operation more is what whole operations cost at the edges.
        prop_assert!(operations <= iops + iops / 200 + 2, "{operations} of {iops} IOPS");
        prop_assert!(bytes <= bytes_per_s + bytes_per_s / 200 + (2 << 20), "{bytes} of {bytes_per_s} B/s");
    }
}
