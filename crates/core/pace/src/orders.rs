//! Every order of the steps of threads, by loom: `make loom`.

use loom::thread;

use crate::sync::Arc;
use crate::{Budget, Closing, Frame};

#[test]
fn loom_threads_together_take_exactly_the_budget() {
    loom::model(|| {
        let budget = Arc::new(Budget::new(2));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let budget = Arc::clone(&budget);
                thread::spawn(move || (0..2).filter(|_| budget.take()).count())
            })
            .collect();
        let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert_eq!(taken, 2);
        assert!(!budget.take());
    });
}

/// The ends that a thread sees one after the other, while another one closes.
#[test]
fn loom_an_end_only_ever_comes_nearer() {
    loom::model(|| {
        let frame = Frame::new(0, 0, 10_000_000_000);
        let mut closing = Closing::new(frame);
        let end = closing.end();
        let watcher = thread::spawn(move || [(); 2].map(|()| end.before(frame).unwrap_or(frame.close_ns)));
        closing.look(2_000_000_000, true);
        let brought_forward = closing.frame().close_ns;
        // The thread that gives up may do so after the new end.
        closing.abandon(brought_forward + 1);
        closing.abandon(2_000_000_001);
        let [first, then] = watcher.join().unwrap();
        assert!(then <= first, "{first} became {then}");
        let asked = [frame.close_ns, brought_forward, 2_000_000_001];
        assert!(asked.contains(&first) && asked.contains(&then), "nobody asked for {first} or {then}");
        assert_eq!(closing.end().before(frame), Some(2_000_000_001));
    });
}
