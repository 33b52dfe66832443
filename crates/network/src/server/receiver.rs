//! Datagrams that come one way: taken in batches, counted, and looked at for order and jitter.

use std::io;

use plumb_host::time::monotonic_ns;

use super::flow::{DATAGRAM_BYTES_MAX, Report};
use super::session::Flow;
use crate::wire::batch::{Inbox, accept_segments};
use crate::wire::control::Terms;
use crate::wire::datagram;
use crate::wire::hello::Purpose;

/// Datagrams that are taken by one call.
const BATCH: usize = 64;
/// Memory for them, where they are large.
const INBOX_BYTES_MAX: usize = 1 << 20;

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
    let mut order = Order::new(size);
    let (mut messages, mut bytes) = (0_u64, 0_u64);
    loop {
        let taken = match inbox.receive(flow.socket()) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            taken => taken?,
        };
        let now_ns = if order.has_time { monotonic_ns() } else { 0 };
        let mut has_ended = false;
        for at in 0..taken {
            let datagram = inbox.datagram(at);
            if datagram.is_empty() {
                has_ended = true;
                break;
            }
            if datagram.len() != size && !is_segmented {
                if Purpose::is_hello(datagram) {
                    continue;
                }
                report.see_size(datagram.len());
            }
            bytes += datagram.len() as u64;
            for message in datagram.chunks(size) {
                messages += 1;
                order.see(message, now_ns);
            }
            if is_segmented && !datagram.len().is_multiple_of(size) {
                report.see_size(datagram.len() % size);
            }
        }
        flow.tallies.set(messages, bytes);
        if has_ended || taken == 0 {
            break;
        }
    }
    if messages > 0 {
        report.see_size(size);
    }
    report.reordered = order.has_number.then_some(order.reordered);
    report.jitter_ns = order.has_time.then_some(order.jitter_ns).filter(|_| order.stamped > 1);
    Ok(())
}

/// What numbers and times in datagrams tell.
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
