//! Counters of the embedded ingress. Each thread has its own; a reader sums them up.

use std::sync::atomic::{AtomicU64, Ordering};

/// One thread's counters, on cache lines that no other thread writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) handshakes_full: Counter,
    pub(super) handshakes_resumed: Counter,
    /// Those resumed handshakes that followed requests in 0-RTT.
    pub(super) handshakes_zero_rtt: Counter,
    pub(super) key_operations_device: Counter,
    /// Those that the device declined, since a pass would not have paid.
    pub(super) key_operations_declined: Counter,
    pub(super) connections_h1: Counter,
    pub(super) connections_h2: Counter,
    pub(super) connections_h3: Counter,
    pub(super) requests_h1: Counter,
    pub(super) requests_h2: Counter,
    pub(super) requests_h3: Counter,
    pub(super) datagrams_received: Counter,
    pub(super) datagrams_sent: Counter,
    pub(super) upstream_connects: Counter,
}

/// A number that only its own thread raises.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn count(&self) {
        // There is one writer, so that no locked instruction is needed.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(super) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many private-key operations the device has, of all threads together.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    now: AtomicU64,
    max: AtomicU64,
}

impl InFlight {
    pub(super) fn submitted(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.max.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn completed(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// The most that there were at a time.
    pub(super) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }
}

/// The sums over all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    pub handshakes_zero_rtt: u64,
    pub key_operations_device: u64,
    pub key_operations_declined: u64,
    pub connections_h1: u64,
    pub connections_h2: u64,
    pub connections_h3: u64,
    pub requests_h1: u64,
    pub requests_h2: u64,
    pub requests_h3: u64,
    pub datagrams_received: u64,
    pub datagrams_sent: u64,
    pub upstream_connects: u64,
}

impl Totals {
    /// Requests in any version.
    pub(super) fn requests(&self) -> u64 {
        self.requests_h1 + self.requests_h2 + self.requests_h3
    }

    pub(super) fn over<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Self {
        shards.into_iter().fold(Self::default(), |totals, shard| Self {
            handshakes_full: totals.handshakes_full + shard.handshakes_full.get(),
            handshakes_resumed: totals.handshakes_resumed + shard.handshakes_resumed.get(),
            handshakes_zero_rtt: totals.handshakes_zero_rtt + shard.handshakes_zero_rtt.get(),
            key_operations_device: totals.key_operations_device + shard.key_operations_device.get(),
            key_operations_declined: totals.key_operations_declined + shard.key_operations_declined.get(),
            connections_h1: totals.connections_h1 + shard.connections_h1.get(),
            connections_h2: totals.connections_h2 + shard.connections_h2.get(),
            connections_h3: totals.connections_h3 + shard.connections_h3.get(),
            requests_h1: totals.requests_h1 + shard.requests_h1.get(),
            requests_h2: totals.requests_h2 + shard.requests_h2.get(),
            requests_h3: totals.requests_h3 + shard.requests_h3.get(),
            datagrams_received: totals.datagrams_received + shard.datagrams_received.get(),
            datagrams_sent: totals.datagrams_sent + shard.datagrams_sent.get(),
            upstream_connects: totals.upstream_connects + shard.upstream_connects.get(),
        })
    }
}
