//! Datagrams that come one way: taken in batches, counted, and looked at for order and jitter.

use std::io;
use std::time::Duration;

use plumb_host::time::monotonic_ns;

use super::flow::{DATAGRAM_BYTES_MAX, Flow, Report};
use super::receiving::Receiving;
use crate::wire::batch::{Inbox, accept_segments, accepts_segments};
use crate::wire::control::Terms;
use crate::wire::datagram;
use crate::wire::hello::{HELLO_BYTES, Purpose};
use crate::wire::options::{self, Observed};

/// Datagrams that are taken by one call, whatever the way.
const BATCH: usize = 64;
/// Memory for them, where they are large: what fits into a cache of the CPU is written faster.
const INBOX_BYTES_MAX: usize = 128 << 10;
/// How long a receiver that pauses does so: a default receive buffer holds what comes in it at a million small datagrams a
/// second.
const PAUSE: Duration = Duration::from_micros(50);

/// Takes datagrams until the flow ends.
///
/// # Errors
/// When the socket fails.
pub fn take_datagrams(flow: &Flow, terms: &Terms, report: &mut Report) -> io::Result<()> {
    let size = terms.msg_size as usize;
    let is_segmented = terms.batch > 1 && accept_segments(flow.socket());
    // One byte more than a message has, so that a larger one is seen.
    let room = if is_segmented { DATAGRAM_BYTES_MAX } else { (size + 1).next_multiple_of(64) };
    let mut inbox = Inbox::new((INBOX_BYTES_MAX / room).clamp(1, BATCH), room);
    let mut receiving = Receiving::new(terms.receive, PAUSE);
    let mut taking = Taking { order: Order::new(size), size, is_segmented, ..Taking::default() };
    loop {
        let taken = match receiving.take(flow, |waits| inbox.receive(flow.socket(), waits)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            taken => taken?,
        };
        let now_ns = if taking.order.has_time { monotonic_ns() } else { 0 };
        // An empty datagram is the end of a flow that was shut.
        let of_flow = (0..taken).map(|at| inbox.datagram(at)).take_while(|datagram| !datagram.is_empty());
        let count = of_flow.map(|datagram| taking.take(datagram, now_ns, report)).count();
        flow.tallies.set(taking.messages, taking.bytes);
        if count < taken || taken == 0 {
            break;
        }
        receiving.rest(taken == inbox.capacity());
    }
    receiving.account(terms.test, &mut report.observed);
    if terms.batch > 1 {
        taking.account(flow, &mut report.observed);
    }
    taking.finish(report);
    Ok(())
}

/// The counts of a flow so far.
#[derive(Debug, Default)]
struct Taking {
    order: Order,
    size: usize,
    /// Whether the kernel hands over several messages as one datagram.
    is_segmented: bool,
    messages: u64,
    bytes: u64,
    pieces: u64,
}

impl Taking {
    /// Takes a datagram: a message, several that the kernel joined, or a hello that was sent again.
    #[inline]
    fn take(&mut self, mut datagram: &[u8], now_ns: u64, report: &mut Report) {
        if datagram.len() != self.size || self.size == HELLO_BYTES {
            // A client on a long way says hello until it has the answer. The kernel joins only datagrams of one length and
            // one shorter behind them, so that hellos are at the front, or one is at the end.
            while let Some((first, rest)) = datagram.split_at_checked(HELLO_BYTES)
                && Purpose::is_hello(first)
            {
                datagram = rest;
            }
            if let Some((rest, last)) =
                datagram.len().checked_sub(HELLO_BYTES).map(|at| datagram.split_at(at))
                && Purpose::is_hello(last)
            {
                datagram = rest;
            }
            if datagram.is_empty() {
                return;
            }
        }
        if datagram.len() != self.size && !self.is_segmented {
            report.see_size(datagram.len());
        }
        self.pieces += 1;
        self.bytes += datagram.len() as u64;
        for message in datagram.chunks(self.size) {
            self.messages += 1;
            self.order.see(message, now_ns);
        }
        if self.is_segmented && !datagram.len().is_multiple_of(self.size) {
            report.see_size(datagram.len() % self.size);
        }
    }

    /// Whether the kernel joined messages, as it says itself and as they came.
    fn account(&self, flow: &Flow, observed: &mut Observed) {
        let gro = match accepts_segments(flow.socket()) {
            _ if !self.is_segmented => "not in this kernel",
            Ok(true) => "on",
            _ => "off",
        };
        let counts = [
            ("udp_gro", gro, 1),
            ("udp_bw_taken", "messages", self.messages),
            ("udp_bw_taken", "pieces", self.pieces),
        ];
        for (property, value, count) in counts {
            options::see(observed, property, value.to_owned(), count);
        }
    }

    fn finish(self, report: &mut Report) {
        if self.messages > 0 {
            report.see_size(self.size);
        }
        let order = self.order;
        report.reordered = order.has_number.then_some(order.reordered);
        report.jitter_ns = order.has_time.then_some(order.jitter_ns).filter(|_| order.stamped > 1);
    }
}

/// The order and the jitter of datagrams, from the numbers and times in them.
#[derive(Debug, Default)]
struct Order {
    has_number: bool,
    has_time: bool,
    next: u64,
    reordered: u64,
    stamped: u64,
    /// Arrival less departure of the last stamped one, on two clocks.
    transit_ns: i64,
    jitter_ns: f64,
}

impl Order {
    fn new(size: usize) -> Self {
        Self { has_number: datagram::has_number(size), has_time: datagram::has_time(size), ..Self::default() }
    }

    #[inline]
    fn see(&mut self, message: &[u8], now_ns: u64) {
        if !self.has_number {
            return;
        }
        let Some(number) = datagram::number(message) else { return };
        if number < self.next {
            self.reordered += 1;
        } else {
            self.next = number + 1;
        }
        if let Some(sent_ns) = datagram::time(message) {
            // Only differences count, so that it does not matter how far apart the two clocks are.
            let transit_ns = now_ns.wrapping_sub(sent_ns).cast_signed();
            if self.stamped > 0 {
                let difference_ns = transit_ns.wrapping_sub(self.transit_ns).unsigned_abs() as f64;
                self.jitter_ns += (difference_ns - self.jitter_ns) / 16.0;
            }
            self.transit_ns = transit_ns;
            self.stamped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, sent_ns: u64) -> Vec<u8> {
        let mut message = vec![0; 32];
        datagram::write(&mut message, number, Some(sent_ns));
        message
    }

    fn taken(size: usize, datagrams: &[&[u8]]) -> (Taking, Report) {
        let mut taking = Taking { order: Order::new(size), size, is_segmented: true, ..Taking::default() };
        let mut report = Report::default();
        datagrams.iter().for_each(|datagram| taking.take(datagram, 1, &mut report));
        (taking, report)
    }

    #[test]
    fn a_hello_that_was_sent_again_is_no_message_however_the_kernel_joins_it() {
        let hello = Purpose::Flow { token: 7, flow: 3 }.encode();
        for size in [8, 16, 29, 32, 64] {
            let messages: Vec<u8> = (0..3)
                .flat_map(|number| {
                    let mut message = vec![0; size];
                    datagram::write(&mut message, number, None);
                    message
                })
                .collect();
            let (one, rest) = messages.split_at(size);
            // The kernel joins a shorter one behind others, and none that is longer.
            let joined: Vec<Vec<u8>> = match size {
                ..HELLO_BYTES => vec![[&hello, one].concat(), rest.to_vec()],
                _ => vec![[&messages, &hello[..]].concat()],
            };
            let joined = joined.iter().map(Vec::as_slice);
            let twice = [hello, hello].concat();
            let all: Vec<&[u8]> = [&hello[..], &twice].into_iter().chain(joined).collect();
            let (taking, report) = taken(size, &all);
            assert_eq!((taking.messages, taking.bytes), (3, 3 * size as u64), "at {size} B");
            assert_eq!((taking.order.reordered, report.sizes), (0, None), "at {size} B");
        }
    }

    #[test]
    fn a_datagram_after_a_later_one_is_reordered() {
        let mut order = Order::new(32);
        for number in [0, 1, 3, 2, 5, 4, 6] {
            order.see(&message(number, 1), 1);
        }
        assert_eq!(order.reordered, 2);
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let mut order = Order::new(32);
        // The receiver's clock is far behind. Transit: 5, 5, 21, 21.
        for (number, (sent, arrived)) in
            [(1000, 5), (1016, 21), (1032, 53), (1048, 69)].into_iter().enumerate()
        {
            order.see(&message(number as u64, sent), arrived);
        }
        let expected = 16.0 / 16.0;
        assert!((order.jitter_ns - (expected - expected / 16.0)).abs() < 1e-9, "{}", order.jitter_ns);
    }

    #[test]
    fn small_datagrams_carry_nothing() {
        let mut order = Order::new(4);
        order.see(&[9; 4], 5);
        assert!(!order.has_number && !order.has_time && order.reordered == 0);
    }
}
