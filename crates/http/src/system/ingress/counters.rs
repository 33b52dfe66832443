//! What the embedded ingress counts. Each thread counts in a place of its own; a reader sums them up.

use std::sync::atomic::{AtomicU64, Ordering};

/// One thread's counters, on cache lines that no other thread writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) handshakes_full: Counter,
    pub(super) handshakes_resumed: Counter,
    pub(super) key_operations_device: Counter,
    pub(super) requests: Counter,
    pub(super) upstream_connects: Counter,
    /// Private-key operations that the device has now, and has had at most.
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
}

/// A number that only its own thread raises.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn count(&self) {
        // There is one writer, so that no locked instruction is needed.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Shard {
    /// An operation went to the device.
    pub(super) fn submitted(&self) {
        let in_flight = self.in_flight.load(Ordering::Relaxed) + 1;
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
    }

    /// The device has done an operation.
    pub(super) fn completed(&self) {
        self.in_flight.store(self.in_flight.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        self.key_operations_device.count();
    }
}

/// The sums over all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    pub key_operations_device: u64,
    pub requests: u64,
    pub upstream_connects: u64,
    /// The sum of the most operations that each thread had with the device at a time.
    pub in_flight_max: u64,
}

impl Totals {
    pub(super) fn of<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Self {
        shards.into_iter().fold(Self::default(), |totals, shard| Self {
            handshakes_full: totals.handshakes_full + shard.handshakes_full.get(),
            handshakes_resumed: totals.handshakes_resumed + shard.handshakes_resumed.get(),
            key_operations_device: totals.key_operations_device + shard.key_operations_device.get(),
            requests: totals.requests + shard.requests.get(),
            upstream_connects: totals.upstream_connects + shard.upstream_connects.get(),
            in_flight_max: totals.in_flight_max + shard.in_flight_max.load(Ordering::Relaxed),
        })
    }
}
