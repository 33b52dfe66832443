//! Every order of the steps of two threads, by loom: `make loom`.
//!
//! An operation that was told to wait must be named exactly once: by the change that lets it begin, by the retirement that has it ask
//! elsewhere, or by the call that finds it due.

use std::num::NonZeroU64;

use loom::sync::Arc;
use loom::thread;

use super::floor::Meter;
use super::{Admission, Floor, Flow, Limiter, Limits};

const NOW_NS: u64 = 1_000_000_000;

/// Lets one operation begin in ten seconds.
fn slow() -> Limits {
    Limits { bytes_per_s: NonZeroU64::new(100), ..Limits::NONE }
}

fn ask(limiter: &Limiter<u32>, waiter: u32) -> Admission {
    limiter.ask(waiter, &mut Flow::default(), 1000, NOW_NS, NOW_NS)
}

/// A limiter whose next operation has to wait.
fn busy() -> Arc<Limiter<u32>> {
    let limiter = Arc::new(Limiter::new(slow(), 0));
    while ask(&limiter, 99) == Admission::Begin {}
    limiter.forget(99);
    limiter
}

fn asked_beside(limiter: &Arc<Limiter<u32>>) -> thread::JoinHandle<Admission> {
    let limiter = Arc::clone(limiter);
    thread::spawn(move || ask(&limiter, 1))
}

#[test]
fn loom_nobody_waits_for_a_limit_that_was_lifted() {
    loom::model(|| {
        let limiter = busy();
        let asked = asked_beside(&limiter);
        let mut begun = Vec::new();
        limiter.change(Limits::NONE, NOW_NS, &mut begun);
        let expected = match asked.join().unwrap() {
            Admission::Begin => Vec::new(),
            Admission::Wait => vec![1],
        };
        assert_eq!(begun, expected);
        assert!(!limiter.is_limited());
    });
}

#[test]
fn loom_nobody_waits_at_a_limiter_that_has_retired() {
    loom::model(|| {
        let limiter = busy();
        let asked = asked_beside(&limiter);
        let mut again = Vec::new();
        limiter.retire(NOW_NS, &mut again);
        let expected = match asked.join().unwrap() {
            Admission::Begin => Vec::new(),
            Admission::Wait => vec![1],
        };
        assert_eq!(again, expected);
    });
}

#[test]
fn loom_one_of_two_begins_and_both_are_counted() {
    loom::model(|| {
        let limiter = Arc::new(Limiter::new(slow(), NOW_NS));
        let asked = asked_beside(&limiter);
        let answers = [ask(&limiter, 2), asked.join().unwrap()];
        assert!(answers.contains(&Admission::Begin) && answers.contains(&Admission::Wait), "{answers:?}");
        let mut begun = Vec::new();
        assert!(limiter.take_due(NOW_NS, &mut begun).is_some() && begun.is_empty());
        assert_eq!(limiter.take_due(NOW_NS * 100, &mut begun), None);
        assert_eq!(begun, [if answers[0] == Admission::Wait { 2 } else { 1 }]);
        let account = limiter.account(NOW_NS * 100);
        assert_eq!((account.operations, account.delayed), (2, 1));
    });
}

#[test]
fn loom_the_flag_of_a_floor_agrees_with_the_floor() {
    loom::model(|| {
        let meter = Arc::new(Meter::default());
        let floor = Floor { iops: NonZeroU64::new(100), ..Floor::default() };
        let other = Arc::clone(&meter);
        let changed = thread::spawn(move || other.change(floor, NOW_NS));
        meter.change(Floor::default(), NOW_NS);
        changed.join().unwrap();
        assert_eq!(meter.owes(NOW_NS * 2), meter.floor() == floor);
    });
}
