//! A stream that is received: all of it, by whichever of two ways brings more.
//!
//! Who takes small messages as they come keeps a CPU busy with what else the sender's would have to do. Who leaves them alone
//! for a while finds many in one segment, and neither wakes nor acknowledges for each. Which of the two is faster, by half or
//! several times, depends on what waking a CPU costs on that machine, and changes within minutes in a virtual one. So both are
//! tried, the faster one is kept, and the other one is tried again now and then.

use std::io;
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};

use super::session::Flow;
use crate::wire::control::Terms;
use crate::wire::{options, socket};

/// A stream is received in pieces of up to so many bytes.
const PIECE_BYTES: usize = 256 << 10;
/// A thread that leaves a stream alone does so until so much may be there.
const PIECE_BYTES_MIN: usize = 64 << 10;
/// For so long at a time.
const PAUSE: Duration = Duration::from_micros(200);
/// Larger messages fill the kernel's segments by themselves, and are never left alone.
const SMALL_MESSAGE_BYTES_MAX: u32 = 16 << 10;
/// Bytes per ns at which 64 KiB come in less than 0.3 ms.
const FAST: f64 = 0.25;
/// How long a way is looked at.
const LOOK_NS: u64 = 10_000_000;
/// Looks at the beginning in which the ways take turns.
const LOOKS_AT_FIRST: u32 = 4;
/// Of so many later ones one is at the slower way.
const LOOK_AGAIN: u32 = 32;

/// Takes a stream until it ends.
///
/// # Errors
/// When the socket fails.
pub fn take(flow: &Flow, terms: &Terms) -> io::Result<()> {
    // Timers of this thread are to be exact: by default they may be 50 us late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    let is_small = terms.msg_size <= SMALL_MESSAGE_BYTES_MAX;
    let mut awaits = (!is_small && !terms.is_paced).then(|| Awaits { bytes: 1, since: (monotonic_ns(), 0) });
    let mut ways = (is_small && !terms.is_paced).then(|| Ways::new(monotonic_ns()));
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let count = socket::receive(flow.socket(), &mut piece)?;
        if count == 0 {
            return Ok(());
        }
        bytes += count as u64;
        flow.tallies.set(0, bytes);
        if let Some(ways) = &mut ways
            && ways.look(bytes, monotonic_ns()) == Way::Pause
            && count < PIECE_BYTES_MIN
        {
            sleep(PAUSE);
        }
        if let Some(awaits) = &mut awaits
            && let Some(changed) = awaits.look(bytes, monotonic_ns())
        {
            options::set(flow.socket(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, changed)?;
        }
    }
}

/// For how many bytes of large messages the thread is woken: for many only where they come so fast that those which are there
/// and not counted yet are nothing beside those of a second.
#[derive(Debug)]
struct Awaits {
    bytes: libc::c_int,
    since: (u64, u64),
}

impl Awaits {
    /// Says where that changes.
    #[inline]
    fn look(&mut self, bytes: u64, now_ns: u64) -> Option<libc::c_int> {
        let passed_ns = now_ns - self.since.0;
        if passed_ns < LOOK_NS {
            return None;
        }
        let is_fast = (bytes - self.since.1) as f64 / passed_ns as f64 > FAST;
        self.since = (now_ns, bytes);
        let awaited = if is_fast { libc::c_int::try_from(PIECE_BYTES_MIN).unwrap_or(1) } else { 1 };
        (std::mem::replace(&mut self.bytes, awaited) != awaited).then_some(awaited)
    }
}

/// How small messages are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As they come.
    Wait,
    /// With pauses.
    Pause,
}

/// Which way is taken, and what either brought.
#[derive(Debug)]
struct Ways {
    now: Way,
    /// Bytes per ns of waiting and of pausing.
    rates: [f64; 2],
    looks: u32,
    since: (u64, u64),
}

impl Ways {
    fn new(now_ns: u64) -> Self {
        Self { now: Way::Wait, rates: [0.0; 2], looks: 0, since: (now_ns, 0) }
    }

    /// Says which way to go on.
    #[inline]
    fn look(&mut self, bytes: u64, now_ns: u64) -> Way {
        if now_ns - self.since.0 >= LOOK_NS {
            self.judge(bytes, now_ns);
        }
        self.now
    }

    fn judge(&mut self, bytes: u64, now_ns: u64) {
        let rate = (bytes - self.since.1) as f64 / (now_ns - self.since.0) as f64;
        let known = &mut self.rates[self.now as usize];
        // A moment in which the machine did something else is not to decide for long.
        *known = if *known > 0.0 { (*known + rate) / 2.0 } else { rate };
        self.looks += 1;
        self.since = (now_ns, bytes);
        let (faster, slower) =
            if self.rates[1] > self.rates[0] { (Way::Pause, Way::Wait) } else { (Way::Wait, Way::Pause) };
        self.now = if self.looks < LOOKS_AT_FIRST {
            if self.now == Way::Wait { Way::Pause } else { Way::Wait }
        } else if self.looks.is_multiple_of(LOOK_AGAIN) {
            slower
        } else {
            faster
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many of 400 looks a stream was paused whose rates by waiting and by pausing are these in each look.
    fn paused(rates: impl Fn(u32) -> [u64; 2]) -> u32 {
        let mut ways = Ways::new(0);
        let (mut bytes, mut paused) = (0, 0);
        for look in 1..=400 {
            let way = ways.now;
            paused += u32::from(way == Way::Pause);
            bytes += rates(look)[way as usize];
            ways.look(bytes, u64::from(look) * LOOK_NS);
        }
        paused
    }

    #[test]
    fn the_faster_way_is_kept_and_the_other_one_tried_now_and_then() {
        assert!((10..=20).contains(&paused(|_| [100, 60])));
        assert!((380..=390).contains(&paused(|_| [100, 160])));
    }

    #[test]
    fn a_way_that_has_become_faster_is_found() {
        let changes = |look| if look < 200 { [100, 50] } else { [100, 400] };
        let paused = paused(changes);
        assert!((150..=220).contains(&paused), "{paused}");
    }

    #[test]
    fn a_thread_is_woken_for_many_bytes_only_where_they_come_fast() {
        let mut awaits = Awaits { bytes: 1, since: (0, 0) };
        let slow = LOOK_NS / 8;
        let fast = LOOK_NS;
        assert_eq!(awaits.look(1 << 20, LOOK_NS - 1), None, "not looked at yet");
        assert_eq!(awaits.look(slow, LOOK_NS), None);
        assert_eq!(awaits.look(slow + fast, 2 * LOOK_NS), Some(64 << 10));
        assert_eq!(awaits.look(slow + 2 * fast, 3 * LOOK_NS), None);
        assert_eq!(awaits.look(2 * slow + 2 * fast, 4 * LOOK_NS), Some(1));
    }

    #[test]
    fn one_bad_moment_does_not_decide_for_long() {
        let stutters = |look| if look == 100 { [1, 60] } else { [100, 60] };
        assert!(paused(stutters) < 60, "{}", paused(stutters));
    }
}
