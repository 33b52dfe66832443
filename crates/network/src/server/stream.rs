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
    let (mut looks, mut ways, mut awaited) = (Looks { since: (monotonic_ns(), 0) }, Ways::default(), 1);
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let count = socket::receive(flow.socket(), &mut piece)?;
        if count == 0 {
            return Ok(());
        }
        bytes += count as u64;
        flow.tallies.set(0, bytes);
        // What has a schedule is taken as it comes.
        if terms.is_paced {
            continue;
        }
        let rate = looks.rate(bytes, monotonic_ns());
        if is_small {
            rate.into_iter().for_each(|rate| ways.judge(rate));
            if ways.now == Way::Pause && count < PIECE_BYTES_MIN {
                sleep(PAUSE);
            }
        } else if let Some(rate) = rate {
            let wanted = awaited_at(rate);
            if wanted != awaited {
                options::set(flow.socket(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, wanted)?;
                awaited = wanted;
            }
        }
    }
}

/// Looks at a stream every [`LOOK_NS`].
#[derive(Debug)]
struct Looks {
    since: (u64, u64),
}

impl Looks {
    /// Bytes per ns since the last look, when one is due.
    #[inline]
    fn rate(&mut self, bytes: u64, now_ns: u64) -> Option<f64> {
        let passed_ns = now_ns - self.since.0;
        if passed_ns < LOOK_NS {
            return None;
        }
        let rate = (bytes - self.since.1) as f64 / passed_ns as f64;
        self.since = (now_ns, bytes);
        Some(rate)
    }
}

/// For how many bytes of large messages the thread is woken: for many only where they come so fast that those which are there
/// and not counted yet are nothing beside those of a second.
fn awaited_at(rate: f64) -> libc::c_int {
    if rate > FAST { libc::c_int::try_from(PIECE_BYTES_MIN).unwrap_or(1) } else { 1 }
}

/// How small messages are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Way {
    /// As they come.
    #[default]
    Wait,
    /// With pauses.
    Pause,
}

/// Which way is taken, and what either brought.
#[derive(Debug, Default)]
struct Ways {
    now: Way,
    /// Bytes per ns of waiting and of pausing.
    rates: [f64; 2],
    looks: u32,
}

impl Ways {
    /// Takes what the way of now brought, and chooses the next.
    fn judge(&mut self, rate: f64) {
        let known = &mut self.rates[self.now as usize];
        // A moment in which the machine did something else is not to decide for long.
        *known = if *known > 0.0 { (*known + rate) / 2.0 } else { rate };
        self.looks += 1;
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
    fn paused(rates: impl Fn(u32) -> [f64; 2]) -> u32 {
        let mut ways = Ways::default();
        let mut paused = 0;
        for look in 1..=400 {
            let way = ways.now;
            paused += u32::from(way == Way::Pause);
            ways.judge(rates(look)[way as usize]);
        }
        paused
    }

    #[test]
    fn the_faster_way_is_kept_and_the_other_one_tried_now_and_then() {
        assert!((10..=20).contains(&paused(|_| [100.0, 60.0])));
        assert!((380..=390).contains(&paused(|_| [100.0, 160.0])));
    }

    #[test]
    fn a_way_that_has_become_faster_is_found() {
        let changes = |look| if look < 200 { [100.0, 50.0] } else { [100.0, 400.0] };
        let paused = paused(changes);
        assert!((150..=220).contains(&paused), "{paused}");
    }

    #[test]
    fn a_look_is_due_after_its_time_and_has_the_rate_since_the_last() {
        let mut looks = Looks { since: (5, 0) };
        assert_eq!(looks.rate(1 << 20, LOOK_NS + 4), None);
        assert_eq!(looks.rate(LOOK_NS, LOOK_NS + 5), Some(1.0));
        assert_eq!(looks.rate(LOOK_NS + 9, LOOK_NS + 6), None);
        assert_eq!(looks.rate(2 * LOOK_NS, 3 * LOOK_NS + 5), Some(0.5));
    }

    #[test]
    fn a_thread_is_woken_for_many_bytes_only_where_they_come_fast() {
        assert_eq!([0.0, 0.125, 0.24, 0.26, 1.0].map(awaited_at), [1, 1, 1, 64 << 10, 64 << 10]);
    }

    #[test]
    fn one_bad_moment_does_not_decide_for_long() {
        let stutters = |look| if look == 100 { [1.0, 60.0] } else { [100.0, 60.0] };
        assert!(paused(stutters) < 60, "{}", paused(stutters));
    }
}
