//! One test from its first message to its last, as the thread that watches it sees it.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumb_host::cpu::available_cpus;
use plumb_host::noise::softirq_ns;
use plumb_host::signals::was_asked_to_stop;
use plumb_host::tcp_info::TcpInfo;
use plumb_host::time::monotonic_ns;
use plumb_pace::Frame;
use plumb_path::drive::{Drive, Driven, LOOK_NS, Standing, Watch, lead_ns};
use plumb_path::{Mark, Window};

use super::error::Error;
use super::flow::{Flow, FlowParts};
use super::overdue::{loss_ns, patience_ns};
use super::prepare::Prepared;
use super::sender::OVERDUE_NS;
use super::tally::{Live, Tally};
use crate::settings::Test;
use crate::wire::control::{Counters, Totals};
use crate::wire::socket;

/// How long a flow may take to see that it is over before it is woken.
const END_NS: u64 = 300_000_000;
/// How often the watching thread looks for flows that wait for a datagram, in ns.
const PROBE_LOOK_NS: u64 = 10_000_000;

/// The counts of both ends at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// The moment.
    pub at_ns: u64,
    /// Messages of all flows at this end.
    pub messages: u64,
    /// Softirq time of this host.
    pub softirq_ns: u64,
    /// The other end.
    pub server: Counters,
}

/// The result of one test.
#[derive(Debug)]
pub struct Outcome {
    /// Which one.
    pub test: Test,
    /// The tallies of its flows, and their times.
    pub driven: Driven<Tally>,
    /// At the opening, after each second, and at the close.
    pub samples: Vec<Sample>,
    /// Of each connection.
    pub infos: Vec<TcpInfo>,
    /// The options read back of this end's sockets.
    pub observed: BTreeMap<String, BTreeMap<String, u64>>,
    /// The other end's account.
    pub totals: Totals,
    /// How many CPUs the flows' threads had, and whether the other end runs on the same ones.
    pub cpus: (usize, bool),
}

/// The state that lasts through all tests of a window.
pub struct Series<'a> {
    mark: &'a mut dyn FnMut(Mark),
    opened_ns: Option<u64>,
    /// Messages since the window opened, of tests that have ended.
    work: u64,
    moments: Moments,
}

/// When the tests of a window start, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    window: Window,
    tests: u64,
}

impl Moments {
    /// Of tests that share a window.
    pub fn new(window: Window, tests: usize) -> Self {
        Self { window, tests: (tests as u64).max(1) }
    }

    /// The window of one test, with the moment of its start where the first one has one.
    pub fn part(self, at: usize) -> Window {
        let Window { warmup_ns, start_ns, gap_ns, .. } = self.window;
        let window_ns = self.window.window_ns / self.tests;
        let stride_ns = warmup_ns.saturating_add(window_ns).saturating_add(gap_ns);
        let after_ns = if start_ns == 0 { 0 } else { stride_ns.saturating_mul(at as u64) };
        Window { window_ns, start_ns: start_ns.saturating_add(after_ns), ..self.window }
    }

    /// When the window of all opens and closes, if that is known as the first test starts.
    fn agreed(self, first: Frame) -> Option<Mark> {
        let Window { warmup_ns, window_ns, start_ns, .. } = self.part(self.tests as usize - 1);
        let close_ns = match (self.tests, start_ns) {
            (1, _) => first.close_ns,
            (_, 0) => return None,
            _ => Frame::new(start_ns, warmup_ns, window_ns).close_ns,
        };
        Some(Mark::Agreed { open_ns: first.open_ns, close_ns })
    }
}

impl<'a> Series<'a> {
    /// Nothing has happened yet.
    pub fn new(mark: &'a mut dyn FnMut(Mark), moments: Moments) -> Self {
        Self { mark, opened_ns: None, work: 0, moments }
    }

    /// An interruption left tests out, the last of which would have closed the window.
    pub fn cut_short(&mut self) {
        (self.mark)(Mark::Closed);
    }

    fn agreed(&mut self, frame: Frame) {
        if self.opened_ns.is_none()
            && let Some(agreed) = self.moments.agreed(frame)
        {
            (self.mark)(agreed);
        }
    }

    /// Messages in the window over all tests.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The window of a test opens, and that of all with the first. Returns how many messages came before that of all.
    fn open(&mut self, sample: &Sample) -> u64 {
        if self.opened_ns.is_some() {
            // A rate from here on is this test's alone.
            self.progress(sample.messages);
            return 0;
        }
        self.opened_ns = Some(sample.at_ns);
        (self.mark)(Mark::Opened);
        sample.messages
    }

    fn progress(&mut self, messages: u64) {
        let elapsed_ns = monotonic_ns().saturating_sub(self.opened_ns.unwrap_or(0));
        (self.mark)(Mark::Progress { work: self.work + messages, elapsed_ns });
    }

    fn close(&mut self, messages: u64, is_last: bool) {
        self.work += messages;
        if is_last {
            (self.mark)(Mark::Closed);
        } else {
            self.progress(0);
        }
    }
}

/// A test under way. Its flows end with this value however that comes about.
struct RunningTest<'a, 'b> {
    prepared: Prepared,
    lives: Vec<Arc<Live>>,
    series: &'a mut Series<'b>,
    is_last: bool,
    probes: Probes,
    samples: Vec<Sample>,
    /// Messages that came before the window of all tests opened.
    before: u64,
    infos: Vec<TcpInfo>,
    /// When the flows were told to end, and whether those that wait were woken for it.
    ended_ns: Option<u64>,
    is_shut: bool,
}

impl Drop for RunningTest<'_, '_> {
    fn drop(&mut self) {
        self.end();
        self.shut();
    }
}

impl RunningTest<'_, '_> {
    fn end(&mut self) {
        self.lives.iter().for_each(|live| live.is_over.store(true, Ordering::Relaxed));
        self.ended_ns.get_or_insert_with(monotonic_ns);
    }

    /// Wakes every flow that waits for its socket.
    fn shut(&mut self) {
        self.prepared.sockets.iter().flatten().for_each(socket::shut);
        self.lives.iter().for_each(|live| live.under_way.shut());
        self.is_shut = true;
    }

    /// How long flows that were told to end may take. Answers to datagrams may come until they count as lost.
    fn end_in_ns(&self) -> u64 {
        if !self.probes.is_used || was_asked_to_stop() {
            return END_NS;
        }
        let round_trip = self.lives.iter().map(|live| live.round_trip_ns.load(Ordering::Relaxed)).max();
        END_NS + loss_ns(round_trip.unwrap_or(0))
    }

    fn sample(&mut self, threads: &Standing<'_>) -> Result<Sample, Error> {
        let server = self.prepared.control.sample()?;
        let sample = Sample {
            at_ns: monotonic_ns(),
            messages: threads.work(),
            softirq_ns: softirq_ns().unwrap_or(0),
            server,
        };
        self.samples.push(sample);
        Ok(sample)
    }
}

impl Watch for RunningTest<'_, '_> {
    type Error = Error;

    fn look(&mut self, now_ns: u64) -> Result<(), Error> {
        self.probes.look(&self.lives, &self.prepared.sockets, now_ns);
        match self.ended_ns {
            None => self.prepared.control.wait(Duration::ZERO)?,
            Some(ended_ns) if !self.is_shut && now_ns >= ended_ns + self.end_in_ns() => self.shut(),
            Some(_) => {}
        }
        Ok(())
    }

    fn agreed(&mut self, frame: Frame) {
        self.series.agreed(frame);
    }

    fn mark(&mut self, mark: Mark, threads: &Standing<'_>) -> Result<(), Error> {
        let (test, frame) = (self.prepared.terms.test, threads.frame);
        // A test that was interrupted in its warm-up has no window.
        if frame.close_ns > frame.open_ns {
            let sample = self.sample(threads)?;
            match mark {
                Mark::Opened if sample.at_ns >= frame.close_ns.saturating_add(OVERDUE_NS) => {
                    return Err(Error::Starved { test: test.name() });
                }
                Mark::Opened => self.before = self.series.open(&sample),
                Mark::Agreed { .. } => {}
                Mark::Progress { .. } => self.series.progress(sample.messages - self.before),
                Mark::Closed => {
                    self.series.close(sample.messages - self.before, self.is_last);
                    let sockets = self.prepared.sockets.iter().flatten();
                    self.infos = sockets.filter_map(|socket| TcpInfo::of_socket(socket).ok()).collect();
                }
            }
        }
        if mark == Mark::Closed {
            self.end();
        }
        Ok(())
    }
}

/// Frees flows that wait for the answer to a datagram for too long, from outside, so that they need no timer.
struct Probes {
    /// Whether there are such flows.
    is_used: bool,
    /// Bytes of a message.
    size: usize,
    /// Of each flow: the number that is waited for, and since when it has been seen, or was probed last.
    waiting: Vec<(u64, u64)>,
}

impl Probes {
    fn look(&mut self, lives: &[Arc<Live>], sockets: &[Option<Arc<OwnedFd>>], now_ns: u64) {
        if !self.is_used {
            return;
        }
        for ((live, socket), waiting) in lives.iter().zip(sockets).zip(&mut self.waiting) {
            let number = live.number.load(Ordering::Relaxed);
            if number == live.answered.load(Ordering::Relaxed) || number != waiting.0 {
                *waiting = (number, now_ns);
            } else if now_ns - waiting.1 >= patience_ns(live.round_trip_ns.load(Ordering::Relaxed)) {
                let Some(socket) = socket else { continue };
                live.probed.store(number, Ordering::Relaxed);
                let mut message = vec![0; self.size];
                let bytes = self.size.min(8);
                message[..bytes].copy_from_slice(&(number + 1).to_le_bytes()[..bytes]);
                // One that cannot be sent is sent again later.
                let _ = socket::send(socket, &message);
                *waiting = (number, now_ns);
            }
        }
    }
}

/// Runs a test. Returns nothing where it was interrupted before its window opened.
///
/// # Errors
/// When the server goes away, or the moment of the start has passed.
pub fn run(
    prepared: Prepared,
    window: Window,
    is_last: bool,
    series: &mut Series<'_>,
) -> Result<Option<Outcome>, Error> {
    let ready_ns = monotonic_ns() + lead_ns(prepared.terms.flows);
    if series.opened_ns.is_some() && window.start_ns > 0 && ready_ns > window.start_ns {
        return Err(Error::Late { test: prepared.terms.test.name() });
    }
    let (terms, sockets, netns) = (prepared.terms.clone(), prepared.sockets.clone(), prepared.netns.clone());
    let (zero_copy, token, address) = (prepared.zero_copy, prepared.token, prepared.control.address);
    let is_probed = terms.test == Test::UdpLat;
    let drive = Drive {
        threads: terms.flows,
        window,
        rate_per_s: prepared.rate_per_s,
        units: None,
        look_ns: if is_probed { PROBE_LOOK_NS } else { LOOK_NS },
    };
    let lives: Vec<Arc<Live>> = sockets.iter().map(|_| Arc::default()).collect();
    let mut running = RunningTest {
        prepared,
        lives: lives.clone(),
        series,
        is_last,
        probes: Probes {
            is_used: is_probed,
            size: terms.msg_size as usize,
            waiting: vec![(0, 0); sockets.len()],
        },
        samples: Vec::new(),
        before: 0,
        infos: Vec::new(),
        ended_ns: None,
        is_shut: false,
    };
    let driven = drive.run(&mut running, |part| {
        let flow = FlowParts {
            test: terms.test,
            socket: sockets[part.number as usize].clone(),
            size: terms.msg_size as usize,
            batch: terms.batch as usize,
            zero_copy,
            token,
            options: terms.options,
            address,
            netns: netns.clone(),
            cpu: terms.shared_cpus.as_ref().and_then(|shared| shared.cpu_for(part.number)),
            live: Arc::clone(&lives[part.number as usize]),
            part,
        };
        move || Ok(Flow::new(flow).placed())
    })?;
    if running.samples.is_empty() {
        return Ok(None);
    }
    let prepared = &mut running.prepared;
    if !terms.test.is_udp() {
        prepared.sockets.iter().flatten().for_each(socket::finish);
    }
    let totals = prepared.control.finish()?;
    let observed = std::mem::take(&mut prepared.observed);
    let shared = terms.shared_cpus.as_ref().map(|shared| shared.cpus.len());
    let cpus = (shared.unwrap_or_else(|| available_cpus().map_or(1, |cpus| cpus.len())), shared.is_some());
    let (samples, infos) = (std::mem::take(&mut running.samples), std::mem::take(&mut running.infos));
    Ok(Some(Outcome { test: terms.test, driven, samples, infos, observed, totals, cpus }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(start_ns: u64, tests: usize) -> Moments {
        let window = Window { start_ns, gap_ns: 50, ..Window::at_once(20, 900, 1) };
        Moments::new(window, tests)
    }

    #[test]
    fn tests_of_several_hosts_start_at_moments_known_before_the_first() {
        let three = moments(5_000, 3);
        let starts = [0, 1, 2].map(|at| three.part(at).start_ns);
        assert_eq!(starts, [5_000, 5_370, 5_740]);
        assert_eq!(three.part(2).window_ns, 300);
        let first = Frame::new(5_000, 20, 300);
        assert_eq!(three.agreed(first), Some(Mark::Agreed { open_ns: 5_020, close_ns: 6_060 }));
    }

    #[test]
    fn one_after_the_other_as_soon_as_each_is_ready_has_no_moment_to_agree_on() {
        let first = Frame::new(7_000, 20, 300);
        assert_eq!(moments(0, 3).part(2).start_ns, 0);
        assert_eq!(moments(0, 3).agreed(first), None);
        let frame = Frame::new(7_000, 20, 900);
        assert_eq!(moments(0, 1).agreed(frame), Some(Mark::Agreed { open_ns: 7_020, close_ns: 7_920 }));
    }
}
