//! A flow of a test: its socket, what it counts, and what it brings home.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plumb_model::Merge;

use crate::wire::options::Observed;
use crate::wire::socket;

/// The largest datagram.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;

/// A flow's counts so far. It has separate cache lines, because its thread writes it for each message.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tallies {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Tallies {
    /// Messages and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Says what it is now; for the only thread that counts here.
    #[inline]
    pub fn set(&self, messages: u64, bytes: u64) {
        self.messages.store(messages, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Adds; for several threads.
    pub fn add(&self, messages: u64, bytes: u64) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A flow's results beside its counts.
#[derive(Debug, Default)]
pub struct Report {
    /// Datagrams that came after one that was sent later.
    pub reordered: Option<u64>,
    /// Interarrival jitter.
    pub jitter_ns: Option<f64>,
    /// The smallest and the largest message.
    pub sizes: Option<(u64, u64)>,
    /// The options read back of its socket, and how it took messages.
    pub observed: Observed,
    /// The errors.
    pub errors: BTreeMap<String, u64>,
}

impl Report {
    /// Adds what another flow brought home. Jitter is that of the flow that has most.
    pub fn merge(&mut self, other: &Self) {
        let Self { reordered, jitter_ns, sizes, observed, errors } = other;
        self.reordered = self.reordered.map_or(*reordered, |own| Some(own + reordered.unwrap_or(0)));
        self.jitter_ns = self.jitter_ns.into_iter().chain(*jitter_ns).max_by(f64::total_cmp);
        self.sizes = match (self.sizes, *sizes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, another) => one.or(another),
        };
        self.observed.add(observed);
        self.errors.add(errors);
    }

    /// Notes the size of a message.
    #[inline]
    pub fn see_size(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.sizes = Some(self.sizes.map_or((bytes, bytes), |(low, high)| (low.min(bytes), high.max(bytes))));
    }
}

/// One flow of a test.
#[derive(Debug)]
pub struct Flow {
    socket: OwnedFd,
    /// The counters of a running flow.
    pub tallies: Tallies,
    has_ended: AtomicBool,
}

impl Flow {
    /// A flow on its socket.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, tallies: Tallies::default(), has_ended: AtomicBool::new(false) }
    }

    /// The socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether it is over, for a thread that nothing wakes.
    #[inline]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Ends it, which wakes its thread.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        socket::shut(&self.socket);
    }
}
