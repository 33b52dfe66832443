//! A stream that is received: all of it, by whichever of three ways brings more.
//!
//! Who takes small messages as they come has the sender wake a CPU for many of them. Who stays awake for a moment finds several,
//! and is not woken. Who sleeps for longer finds many in one segment, and acknowledges them at once. Which is fastest, by half or
//! several times, depends on what waking a CPU costs on that machine, and changes within minutes in a virtual one. So all are
//! tried, the fastest one is kept, and the others are tried again now and then.

use std::io;
use std::thread;
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
/// One that stays awake looks again after so long: less than what waking costs, more than a message takes.
const SPIN_NS: u64 = 20_000;
/// Larger messages fill the kernel's segments by themselves, and are always taken as they come.
const SMALL_MESSAGE_BYTES_MAX: u32 = 16 << 10;
/// Bytes per ns at which 64 KiB come in less than 0.3 ms.
const FAST: f64 = 0.25;
/// How long a way is looked at where all are known.
const LOOK_NS: u64 = 20_000_000;
/// And until they are, so that a warm-up of 50 ms has room for it. Large messages, which have no ways, are looked at so often.
const FIRST_LOOK_NS: u64 = 10_000_000;
/// What is there from the way before is taken in so long, before a look begins.
const SETTLING_NS: u64 = 5_000_000;
/// Of so many looks one is at another way than the fastest; at the beginning it is one of fewer.
const LOOK_AGAIN: u32 = 16;
/// What costs a CPU more than waiting does has to bring so much more.
const WORTH_IT: f64 = 1.05;

/// Takes a stream until it ends.
///
/// # Errors
/// When the socket fails.
pub fn take(flow: &Flow, terms: &Terms) -> io::Result<()> {
    // Timers of this thread are to be exact: by default they may be 50 us late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    let is_small = terms.msg_size <= SMALL_MESSAGE_BYTES_MAX;
    let (mut looks, mut ways, mut awaited) = (Looks::at(monotonic_ns()), Ways::of(may_spin(terms)), 1);
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
        let rate = looks.rate(bytes, monotonic_ns(), ways.look_ns());
        if is_small {
            if let Some(rate) = rate
                && ways.judge(rate)
            {
                looks.settle();
            }
            match ways.now {
                Way::Pause if count < PIECE_BYTES_MIN => sleep(PAUSE),
                Way::Spin if count < PIECE_BYTES_MIN => spin(),
                Way::Wait | Way::Spin | Way::Pause => {}
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

/// Whether each thread that stays awake may have a CPU of its own.
fn may_spin(terms: &Terms) -> bool {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    terms.shared_cpus.is_none() && usize::try_from(terms.flows).is_ok_and(|flows| flows <= cpus)
}

/// Stays awake for [`SPIN_NS`].
fn spin() {
    let until_ns = monotonic_ns() + SPIN_NS;
    while monotonic_ns() < until_ns {
        std::hint::spin_loop();
    }
}

/// Looks at a stream now and then.
#[derive(Debug)]
struct Looks {
    /// When the look began, and what had come by then.
    since: (u64, u64),
    /// Whether it is not one yet, but the time before the next.
    is_settling: bool,
}

impl Looks {
    fn at(now_ns: u64) -> Self {
        Self { since: (now_ns, 0), is_settling: false }
    }

    /// Bytes per ns since the look began, when it has lasted so long.
    #[inline]
    fn rate(&mut self, bytes: u64, now_ns: u64, look_ns: u64) -> Option<f64> {
        let passed_ns = now_ns - self.since.0;
        if passed_ns < if self.is_settling { SETTLING_NS } else { look_ns } {
            return None;
        }
        let rate = (bytes - self.since.1) as f64 / passed_ns as f64;
        self.since = (now_ns, bytes);
        (!std::mem::take(&mut self.is_settling)).then_some(rate)
    }

    /// Begins the next look only when what was there is taken.
    fn settle(&mut self) {
        self.is_settling = true;
    }
}

/// For how many bytes of large messages the thread is woken: for many only where they come so fast that those which are there
/// and not counted yet are nothing beside those of a second.
fn awaited_at(rate: f64) -> libc::c_int {
    if rate > FAST { libc::c_int::try_from(PIECE_BYTES_MIN).unwrap_or(1) } else { 1 }
}

/// How small messages are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As they come.
    Wait,
    /// With pauses in which the CPU stays awake.
    Spin,
    /// With pauses in which it sleeps.
    Pause,
}

impl Way {
    const ALL: [Self; 3] = [Self::Wait, Self::Spin, Self::Pause];
    const ASLEEP: [Self; 2] = [Self::Wait, Self::Pause];
}

/// Which way is taken, and what each brought.
#[derive(Debug)]
struct Ways {
    /// What may be chosen.
    all: &'static [Way],
    now: Way,
    /// The last that was tried beside the fastest.
    tried: Way,
    /// Bytes per ns.
    rates: [f64; Way::ALL.len()],
    looks: u32,
}

impl Ways {
    fn of(may_spin: bool) -> Self {
        let all: &[_] = if may_spin { &Way::ALL } else { &Way::ASLEEP };
        Self { all, now: Way::Wait, tried: Way::Wait, rates: Default::default(), looks: 0 }
    }

    /// Takes what the way of now brought, and chooses the next. Returns whether that is another one.
    fn judge(&mut self, rate: f64) -> bool {
        let known = &mut self.rates[self.now as usize];
        // A moment in which the machine did something else is not to decide for long.
        *known = if *known > 0.0 { (*known + rate) / 2.0 } else { rate };
        self.looks += 1;
        let next = if !self.all_are_known() {
            self.after(self.now)
        } else {
            let fastest = self.fastest();
            if self.looks.is_multiple_of(LOOK_AGAIN) || self.looks.is_power_of_two() {
                self.tried = self.after(self.tried);
                if self.tried == fastest {
                    self.tried = self.after(self.tried);
                }
                self.tried
            } else {
                fastest
            }
        };
        std::mem::replace(&mut self.now, next) != next
    }

    #[inline]
    fn look_ns(&self) -> u64 {
        if self.all_are_known() { LOOK_NS } else { FIRST_LOOK_NS }
    }

    fn all_are_known(&self) -> bool {
        self.looks as usize >= self.all.len()
    }

    fn after(&self, way: Way) -> Way {
        let mut following = self.all.iter().skip_while(|other| **other != way).skip(1);
        *following.next().unwrap_or(&self.all[0])
    }

    fn fastest(&self) -> Way {
        let rate = |way: Way| self.rates[way as usize] * if way == Way::Wait { WORTH_IT } else { 1.0 };
        self.all.iter().copied().max_by(|a, b| rate(*a).total_cmp(&rate(*b))).unwrap_or(Way::Wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In how many of 400 looks a stream was waited for, spun and paused for, where these are the rates in each look.
    fn taken(rates: impl Fn(u32) -> [f64; 3]) -> [u32; 3] {
        taken_of(Ways::of(true), rates)
    }

    fn taken_of(mut ways: Ways, rates: impl Fn(u32) -> [f64; 3]) -> [u32; 3] {
        let mut taken = [0; 3];
        for look in 1..=400 {
            let way = ways.now;
            taken[way as usize] += 1;
            let is_another = ways.judge(rates(look)[way as usize]);
            assert_eq!(is_another, ways.now != way);
        }
        taken
    }

    #[test]
    fn the_fastest_way_is_kept_and_the_others_are_tried_now_and_then() {
        for fastest in Way::ALL {
            let taken = taken(|_| Way::ALL.map(|way| if way == fastest { 100.0 } else { 60.0 }));
            for way in Way::ALL {
                let expected = if way == fastest { 365..=380 } else { 10..=20 };
                assert!(expected.contains(&taken[way as usize]), "{fastest:?}: {taken:?}");
            }
        }
    }

    #[test]
    fn where_cpus_are_few_none_stays_awake() {
        let taken = taken_of(Ways::of(false), |_| [100.0, 900.0, 60.0]);
        assert_eq!(taken[1], 0);
        assert!(taken[0] > 350, "{taken:?}");
    }

    #[test]
    fn what_costs_a_cpu_more_has_to_bring_more() {
        assert!(taken(|_| [100.0, 104.0, 103.0])[0] > 350);
        assert!(taken(|_| [100.0, 106.0, 103.0])[1] > 350);
    }

    #[test]
    fn a_way_that_has_become_faster_is_found() {
        let taken = taken(|look| if look < 200 { [100.0, 50.0, 60.0] } else { [100.0, 50.0, 400.0] });
        assert!((140..=220).contains(&taken[2]), "{taken:?}");
    }

    #[test]
    fn a_look_is_due_after_its_time_and_has_the_rate_since_the_last() {
        let mut looks = Looks::at(5);
        assert_eq!(looks.rate(1 << 20, LOOK_NS + 4, LOOK_NS), None);
        assert_eq!(looks.rate(LOOK_NS, LOOK_NS + 5, LOOK_NS), Some(1.0));
        assert_eq!(looks.rate(LOOK_NS + 9, LOOK_NS + 6, LOOK_NS), None);
        assert_eq!(looks.rate(2 * LOOK_NS, 3 * LOOK_NS + 5, LOOK_NS), Some(0.5));
    }

    #[test]
    fn a_look_at_another_way_begins_when_what_was_there_is_taken() {
        let mut looks = Looks::at(0);
        looks.settle();
        assert_eq!(looks.rate(1 << 30, SETTLING_NS - 1, LOOK_NS), None);
        assert_eq!(looks.rate(1 << 31, SETTLING_NS, LOOK_NS), None);
        assert_eq!(looks.rate(1 << 31, LOOK_NS, LOOK_NS), None);
        assert_eq!(looks.rate((1 << 31) + LOOK_NS / 2, SETTLING_NS + LOOK_NS, LOOK_NS), Some(0.5));
    }

    #[test]
    fn a_warm_up_of_50_ms_is_enough_to_know_all_ways() {
        let mut ways = Ways::of(true);
        let mut passed_ns = 0;
        let mut seen = Vec::new();
        while !ways.all_are_known() {
            seen.push(ways.now);
            passed_ns += ways.look_ns();
            passed_ns += if ways.judge(1.0) { SETTLING_NS } else { 0 };
        }
        assert_eq!(seen, Way::ALL);
        assert!(passed_ns <= 50_000_000, "{passed_ns} ns");
        assert_eq!(ways.look_ns(), LOOK_NS);
    }

    #[test]
    fn a_thread_is_woken_for_many_bytes_only_where_they_come_fast() {
        assert_eq!([0.0, 0.125, 0.24, 0.26, 1.0].map(awaited_at), [1, 1, 1, 64 << 10, 64 << 10]);
    }

    #[test]
    fn one_bad_moment_does_not_decide_for_long() {
        let taken = taken(|look| if look == 100 { [1.0, 60.0, 60.0] } else { [100.0, 60.0, 60.0] });
        assert!(taken[0] > 330, "{taken:?}");
    }
}
