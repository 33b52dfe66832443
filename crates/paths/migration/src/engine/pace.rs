//! The bandwidth cap over all channels together, counted in bytes on the wire.
//!
//! A generic cell rate algorithm (ITU-T I.371, annex A): one theoretical arrival time that every piece moves on by its
//! cost. Nothing is saved up while there is nothing to send, but for a tolerance of some milliseconds, so that a thread
//! that the scheduler woke late does not lose its turn. The first piece starts the clock and has none, or a migration of a
//! tenth of a second would be some hundredths over the cap. In any second that is at most the tolerance over the cap, plus one
//! piece for each channel. Pieces are half a millisecond long: with 8 channels that is 0.7% of a second in all, and each one
//! costs a thread's waking.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};

/// The time by which a piece may be late without losing its turn.
const TOLERANCE_NS: u64 = 3_000_000;
/// The length of a piece.
const PIECE_S: f64 = 0.000_5;
/// The smallest piece. The system calls for smaller ones would cost more than their content.
const PIECE_BYTES_MIN: usize = 4096;
/// The largest piece.
const PIECE_BYTES_MAX: usize = 512 << 10;
/// The time between two checks, during a wait, whether the migration still goes on.
const GLANCE_NS: u64 = 50_000_000;

/// The cap that all channels share.
#[derive(Debug)]
pub struct Pacer {
    bytes_per_s: Option<f64>,
    /// 0 before the first piece.
    arrival_ns: AtomicU64,
    waited_ns: AtomicU64,
}

impl Pacer {
    /// A pacer for a cap in bytes per second; `None` lets everything pass.
    #[must_use]
    pub fn new(bytes_per_s: Option<f64>) -> Self {
        Self { bytes_per_s, arrival_ns: AtomicU64::new(0), waited_ns: AtomicU64::new(0) }
    }

    /// The most bytes of one request.
    #[must_use]
    pub fn piece_bytes(&self) -> usize {
        let piece = self.bytes_per_s.map_or(PIECE_BYTES_MAX, |rate| (rate * PIECE_S) as usize);
        (piece / PIECE_BYTES_MIN * PIECE_BYTES_MIN).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
    }

    /// Waits until this many bytes may pass, or until `is_over` says that they are no longer wanted.
    pub fn pass(&self, bytes: usize, is_over: impl Fn() -> bool) {
        let Some(rate) = self.bytes_per_s else { return };
        let mut now_ns = monotonic_ns();
        let due_ns = self.reserve(bytes, rate, now_ns);
        let began_ns = now_ns;
        while now_ns < due_ns && !is_over() {
            sleep(Duration::from_nanos((due_ns - now_ns).min(GLANCE_NS)));
            now_ns = monotonic_ns();
        }
        self.waited_ns.fetch_add(now_ns - began_ns, Ordering::Relaxed);
    }

    /// The time at which this many bytes may pass.
    fn reserve(&self, bytes: usize, rate: f64, now_ns: u64) -> u64 {
        let cost_ns = (bytes as f64 / rate * 1e9).ceil() as u64;
        let mut arrival_ns = self.arrival_ns.load(Ordering::Relaxed);
        loop {
            let tolerance_ns = if arrival_ns == 0 { 0 } else { TOLERANCE_NS };
            let due_ns = arrival_ns.max(now_ns.saturating_sub(tolerance_ns));
            let next_ns = due_ns.saturating_add(cost_ns);
            match self.arrival_ns.compare_exchange_weak(
                arrival_ns,
                next_ns,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return due_ns,
                Err(seen) => arrival_ns = seen,
            }
        }
    }

    /// The time for which all channels together have waited for the cap.
    #[must_use]
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Times and sizes of the pieces that pass: `channels` ask one after another, each pausing as `pauses_ns` says before it
    /// asks again.
    fn simulate(rate: f64, channels: usize, pauses_ns: &[u64]) -> (Vec<(u64, usize)>, usize) {
        let pacer =
            Pacer { bytes_per_s: Some(rate), arrival_ns: AtomicU64::new(0), waited_ns: AtomicU64::new(0) };
        let piece = pacer.piece_bytes();
        let mut free_ns = vec![0_u64; channels];
        let mut passed = Vec::new();
        for pause_ns in pauses_ns.iter().cycle() {
            let Some(channel) = free_ns.iter_mut().min() else { break };
            if *channel > 4 * SECOND_NS {
                break;
            }
            let sent_ns = pacer.reserve(piece, rate, *channel).max(*channel);
            passed.push((sent_ns, piece));
            *channel = sent_ns + pause_ns;
        }
        passed.sort_unstable();
        (passed, piece)
    }

    fn busiest_second(passed: &[(u64, usize)]) -> usize {
        let within = |from_ns: u64| {
            let later = passed.iter().skip_while(move |(at, _)| *at < from_ns);
            later.take_while(move |(at, _)| *at < from_ns + SECOND_NS).map(|(_, bytes)| bytes).sum::<usize>()
        };
        passed.iter().step_by(37).map(|(at, _)| within(*at)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn no_second_is_more_than_one_percent_over_the_cap(
            rate in prop::sample::select(vec![125e6, 1e9, 1.25e9]), channels in 1_usize..9,
            pauses_ns in prop::collection::vec(0_u64..40_000_000, 1..20)
        ) {
            let (passed, _) = simulate(rate, channels, &pauses_ns);
            let most = busiest_second(&passed) as f64;
            prop_assert!(most <= rate * 1.01, "{most} of {rate}");
        }
    }

    #[test]
    fn a_binding_cap_is_used_whole_although_threads_wake_late() {
        for rate in [125e6, 1e9] {
            // A channel comes back 100 us after its time: later than a piece is long.
            let (passed, piece) = simulate(rate, 2, &[100_000]);
            let bytes = passed.iter().take_while(|(at, _)| *at < SECOND_NS).count() * piece;
            let used = bytes as f64 / rate;
            assert!(used > 0.99, "{used}");
        }
    }

    #[test]
    fn a_short_migration_has_no_head_start() {
        let pacer = Pacer::new(Some(1e9));
        let piece = pacer.piece_bytes();
        let begun_ns = SECOND_NS;
        let last_ns = (0..40).fold(begun_ns, |now_ns, _| pacer.reserve(piece, 1e9, now_ns).max(now_ns));
        // A byte takes a nanosecond at this rate, and each piece's time is rounded up.
        assert!((39 * piece as u64..=39 * (piece as u64 + 1)).contains(&(last_ns - begun_ns)));
    }

    #[test]
    fn without_a_cap_nothing_waits_and_with_one_a_wait_can_be_ended() {
        let open = Pacer::new(None);
        open.pass(usize::MAX, || false);
        assert_eq!((open.waited_ns(), open.piece_bytes()), (0, PIECE_BYTES_MAX));
        let shut = Pacer::new(Some(1.0));
        shut.pass(1 << 20, || false);
        shut.pass(1 << 20, || true);
        assert_eq!(shut.piece_bytes(), PIECE_BYTES_MIN);
    }
}
