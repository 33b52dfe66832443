//! Datagrams that come one way: taken in batches, counted, and looked at for order and jitter.

use std::io;
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};

use super::flow::{DATAGRAM_BYTES_MAX, Report};
use super::session::Flow;
use crate::wire::batch::{Inbox, accept_segments, accepts_segments};
use crate::wire::control::Terms;
use crate::wire::datagram;
use crate::wire::hello::Purpose;
use crate::wire::options;

/// Datagrams that are taken by one call.
const BATCH: usize = 64;
/// Memory for them, where they are large: what fits into a cache of the CPU is written faster.
const INBOX_BYTES_MAX: usize = 128 << 10;
/// What the kernel counts for a datagram in the receive buffer beside its bytes, at most.
const OVERHEAD_BYTES: u64 = 1280;
/// A pause is no shorter, as it costs a timer, and no longer.
const PAUSE_NS_MIN: u64 = 20_000;
const PAUSE_NS_MAX: u64 = 200_000;
/// Datagrams with more time than this between them are waited for.
const INTERVAL_NS_MAX: u64 = 10_000;

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
    let (mut messages, mut bytes, mut pieces) = (0_u64, 0_u64, 0_u64);
    let mut pauses = Pauses::new(flow, terms);
    loop {
        pauses.pause(messages);
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
            pieces += 1;
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
    if terms.batch > 1 {
        let gro = match accepts_segments(flow.socket()) {
            _ if !is_segmented => "not in this kernel",
            Ok(true) => "on",
            _ => "off",
        };
        for (property, value, count) in
            [("udp_gro", gro, 1), ("udp_bw_taken", "messages", messages), ("udp_bw_taken", "pieces", pieces)]
        {
            options::see(&mut report.observed, property, value.to_owned(), count);
        }
    }
    report.reordered = order.has_number.then_some(order.reordered);
    report.jitter_ns = order.has_time.then_some(order.jitter_ns).filter(|_| order.stamped > 1);
    Ok(())
}

/// Pauses while datagrams come as fast as they can. Who waits for the next one is woken for it, which costs the sender more
/// than the datagram; who sleeps for a while finds many. A pause is as short as a quarter of the receive buffer takes to
/// fill. Datagrams that carry a time are taken when they come.
struct Pauses {
    /// Datagrams that may come in a pause; 0 for no pauses.
    room: u64,
    /// When and after how many datagrams the last pause ended.
    since: (u64, u64),
}

impl Pauses {
    fn new(flow: &Flow, terms: &Terms) -> Self {
        let size = u64::from(terms.msg_size);
        let is_apt = !terms.is_paced && !datagram::has_time(terms.msg_size as usize);
        let buffer = options::get(flow.socket(), libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
        let buffer = u64::try_from(buffer).unwrap_or(0);
        if is_apt {
            // Timers of this thread are to be exact: by default they may be 50 us late.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        }
        let room = if is_apt { buffer / (OVERHEAD_BYTES + 2 * size) / 4 } else { 0 };
        Self { room, since: (monotonic_ns(), 0) }
    }

    fn pause(&mut self, messages: u64) {
        let came = messages - self.since.1;
        if self.room == 0 || came < self.room {
            return;
        }
        let now_ns = monotonic_ns();
        let interval_ns = (now_ns - self.since.0) / came;
        let pause_ns = (interval_ns * self.room).min(PAUSE_NS_MAX);
        if interval_ns <= INTERVAL_NS_MAX && pause_ns >= PAUSE_NS_MIN {
            sleep(Duration::from_nanos(pause_ns));
        }
        self.since = (now_ns, messages);
    }
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
