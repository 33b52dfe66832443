//! The loops of the server's flows: answer a message, or take what comes. Nothing is allocated for a message.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::session::Flow;
use super::{receiver, stream};
use crate::settings::Test;
use crate::wire::control::Terms;
use crate::wire::hello::Purpose;
use crate::wire::options::{self, Observed};
use crate::wire::socket;

/// The largest datagram.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;

/// What a flow has counted so far. It has separate cache lines, because its thread writes it for each message.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Tallies {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Tallies {
    /// Messages and bytes.
    pub fn read(&self) -> (u64, u64) {
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

/// What a flow brings home beside its counts.
#[derive(Debug, Default)]
pub struct Report {
    /// Datagrams that came after one that was sent later.
    pub reordered: Option<u64>,
    /// Interarrival jitter.
    pub jitter_ns: Option<f64>,
    /// The smallest and the largest message.
    pub sizes: Option<(u64, u64)>,
    /// What was read back of its socket, and how it took what came.
    pub observed: Observed,
    /// What went wrong.
    pub errors: BTreeMap<String, u64>,
}

impl Report {
    /// Adds what another flow brought home. Jitter is that of the flow that has most.
    pub fn merge(&mut self, other: &Self) {
        self.reordered =
            self.reordered.map_or(other.reordered, |own| Some(own + other.reordered.unwrap_or(0)));
        self.jitter_ns = self.jitter_ns.into_iter().chain(other.jitter_ns).max_by(f64::total_cmp);
        self.sizes = match (self.sizes, other.sizes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, another) => one.or(another),
        };
        options::merge(&mut self.observed, other.observed.clone());
        for (what, count) in &other.errors {
            *self.errors.entry(what.clone()).or_default() += count;
        }
    }

    /// Notes the size of a message.
    #[inline]
    pub fn see_size(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        self.sizes = Some(self.sizes.map_or((bytes, bytes), |(low, high)| (low.min(bytes), high.max(bytes))));
    }
}

/// Runs a flow to its end.
pub fn run(flow: &Flow, terms: &Terms) -> Report {
    let mut report = Report::default();
    let ran = match terms.test {
        Test::TcpLat => answer_stream(flow, terms, &mut report),
        Test::UdpLat => answer_datagrams(flow, &mut report),
        Test::TcpBw => stream::take(flow, terms, &mut report),
        Test::UdpBw => receiver::take_datagrams(flow, terms, &mut report),
        Test::TcpCrr => Ok(()),
    };
    if let Err(error) = ran {
        *report.errors.entry(format!("server: {}", error.kind())).or_default() += 1;
    }
    report
}

fn answer_stream(flow: &Flow, terms: &Terms, report: &mut Report) -> io::Result<()> {
    let mut message = vec![0; terms.msg_size as usize];
    let (mut messages, size) = (0, u64::from(terms.msg_size));
    while socket::receive_all(flow.socket(), &mut message)? {
        messages += 1;
        flow.tallies.set(messages, messages * size);
        socket::send_all(flow.socket(), &message)?;
    }
    if messages > 0 {
        report.see_size(message.len());
    }
    Ok(())
}

fn answer_datagrams(flow: &Flow, report: &mut Report) -> io::Result<()> {
    let mut message = vec![0; DATAGRAM_BYTES_MAX];
    let (mut messages, mut bytes) = (0, 0);
    loop {
        let count = match socket::receive(flow.socket(), &mut message) {
            // The kernel says so on the next call when a datagram from here found nobody.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            received => received?,
        };
        if count == 0 {
            return Ok(());
        }
        if Purpose::is_hello(&message[..count]) {
            continue;
        }
        messages += 1;
        bytes += count as u64;
        flow.tallies.set(messages, bytes);
        report.see_size(count);
        // A datagram that cannot be sent is a lost one.
        let _ = socket::send(flow.socket(), &message[..count]);
    }
}
