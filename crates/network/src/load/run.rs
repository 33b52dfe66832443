//! One test from its first message to its last, as the thread that watches it sees it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use plumb_host::cpu::{CpuSupply, CpuTime, available_cpus, process_cpu_time};
use plumb_host::noise::softirq_ns;
use plumb_host::time::monotonic_ns;
use plumb_pace::Frame;
use plumb_path::{Mark, Window};

use super::error::Error;
use super::flow::{Flow, FlowParts, FlowResult};
use super::overdue::{loss_ns, patience_ns};
use super::prepare::Prepared;
use super::sender::OVERDUE_NS;
use super::tally::Live;
use crate::settings::Test;
use crate::wire::control::{Counters, Totals};
use crate::wire::socket;
use crate::wire::tcp_info::{self, TcpInfo};

/// From the moment the threads are started to the moment they all begin, for each.
const LEAD_NS: u64 = 500_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How long a flow may take to see that it is over before it is woken.
const END_NS: u64 = 300_000_000;
/// How often the watching thread looks whether it is interrupted.
const LOOK_NS: u64 = 100_000_000;
/// How often it looks for flows that wait for a datagram, in ns.
const PROBE_TICK_NS: u64 = 10_000_000;

/// What both ends had counted at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// The moment.
    pub at_ns: u64,
    /// Messages of all flows at this end.
    pub messages: u64,
    /// CPU time of this process.
    pub cpu: CpuTime,
    /// Softirq time of this host.
    pub softirq_ns: u64,
    /// The other end.
    pub server: Counters,
}

/// What one test came to.
#[derive(Debug)]
pub struct Outcome {
    /// Which one.
    pub test: Test,
    /// When.
    pub frame: Frame,
    /// At the opening, after each second, and at the close.
    pub samples: Vec<Sample>,
    /// Of each flow.
    pub yields: Vec<FlowResult>,
    /// Of each connection.
    pub infos: Vec<TcpInfo>,
    /// What was read back of this end's sockets.
    pub observed: BTreeMap<String, BTreeMap<String, u64>>,
    /// The other end's account.
    pub totals: Totals,
    /// What kept CPUs from the flows, when the window opened and when it closed.
    pub supply: (CpuSupply, CpuSupply),
    /// How many CPUs the flows' threads had, and whether the other end runs on the same ones.
    pub cpus: (usize, bool),
}

/// What goes on through all tests of a window.
pub struct Watch<'a> {
    mark: &'a mut dyn FnMut(Test, Mark),
    interrupted: &'a dyn Fn() -> bool,
    opened: Option<(u64, CpuTime)>,
    /// Messages since the window opened, of tests that have ended.
    work: u64,
    closed: (u64, CpuTime),
}

impl<'a> Watch<'a> {
    /// Nothing has happened yet.
    pub fn new(mark: &'a mut dyn FnMut(Test, Mark), interrupted: &'a dyn Fn() -> bool) -> Self {
        Self { mark, interrupted, opened: None, work: 0, closed: (0, CpuTime::default()) }
    }

    /// The length of the window over all tests.
    pub fn window_ns(&self) -> u64 {
        self.closed.0.saturating_sub(self.opened.map_or(0, |(at_ns, _)| at_ns))
    }

    /// CPU time of this process in it.
    pub fn cpu(&self) -> CpuTime {
        self.closed.1.saturating_sub(self.opened.map_or(CpuTime::default(), |(_, cpu)| cpu))
    }

    /// Messages in it.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// The window of a test opens, and that of all with the first. Returns how many messages came before that of all.
    fn open(&mut self, test: Test, sample: &Sample) -> u64 {
        if self.opened.is_some() {
            // A rate from here on is this test's alone.
            self.progress(test, sample.messages);
            return 0;
        }
        self.opened = Some((sample.at_ns, sample.cpu));
        (self.mark)(test, Mark::Opened);
        sample.messages
    }

    fn progress(&mut self, test: Test, messages: u64) {
        let opened_ns = self.opened.map_or(0, |(at_ns, _)| at_ns);
        let elapsed_ns = monotonic_ns().saturating_sub(opened_ns);
        (self.mark)(test, Mark::Progress { work: self.work + messages, elapsed_ns });
    }

    fn close(&mut self, test: Test, sample: &Sample, messages: u64, is_last: bool) {
        self.work += messages;
        self.closed = (sample.at_ns, sample.cpu);
        if is_last {
            (self.mark)(test, Mark::Closed);
        } else {
            self.progress(test, 0);
        }
    }
}

/// The flows of a test, which end with this value however that comes about.
struct Flows {
    lives: Vec<Arc<Live>>,
    yields: Receiver<FlowResult>,
    sockets: Vec<Option<Arc<std::os::fd::OwnedFd>>>,
    collected: Vec<FlowResult>,
}

impl Drop for Flows {
    fn drop(&mut self) {
        self.lives.iter().for_each(|live| live.is_over.store(true, Ordering::Relaxed));
        self.shut();
    }
}

impl Flows {
    fn start(prepared: &Prepared, frame: Frame) -> Result<Self, Error> {
        let (sender, yields) = channel();
        let sockets = prepared.sockets.clone();
        let mut flows = Self { lives: Vec::new(), yields, sockets, collected: Vec::new() };
        for (number, socket) in (0_u32..).zip(&prepared.sockets) {
            let live = Arc::new(Live::default());
            flows.lives.push(Arc::clone(&live));
            let terms = &prepared.terms;
            let making = FlowParts {
                test: terms.test,
                socket: socket.clone(),
                size: terms.msg_size as usize,
                batch: terms.batch as usize,
                zero_copy: prepared.zero_copy,
                token: prepared.token,
                options: terms.options,
                address: prepared.control.address,
                netns: prepared.netns.clone(),
                cpu: terms.shared_cpus.as_ref().and_then(|shared| shared.of(number)),
                due: prepared.schedule.map(|schedule| schedule.share(number.into(), terms.flows.into())),
                frame,
                live,
            };
            let sender = sender.clone();
            thread::Builder::new()
                .name(format!("plumb-load-{number}"))
                .spawn(move || {
                    // The receiver is gone only if the measurement was given up.
                    let _ = sender.send(Flow::new(making).run());
                })
                .map_err(|cause| Error::System { what: "start a load thread", cause })?;
        }
        Ok(flows)
    }

    /// Wakes every flow that waits for its socket.
    fn shut(&self) {
        self.sockets.iter().flatten().for_each(socket::shut);
        self.lives.iter().for_each(|live| live.under_way.shut());
    }

    fn messages(&self) -> u64 {
        self.lives.iter().map(|live| live.messages.load(Ordering::Relaxed)).sum()
    }

    /// Collects what flows bring home until `at_ns`. Returns whether all of them are done.
    fn collect_until(&mut self, at_ns: u64) -> Result<bool, Error> {
        while self.collected.len() < self.lives.len() {
            let left = Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()));
            match self.yields.recv_timeout(left) {
                Ok(one) => self.collected.push(one),
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => {
                    let cause = io::Error::other("a load thread ended early");
                    return Err(Error::System { what: "measure", cause });
                }
            }
        }
        Ok(true)
    }

    /// Ends all flows and takes what they bring home. Answers to datagrams may come until they count as lost.
    fn end(&mut self, probes: &mut Probes, interrupted: &dyn Fn() -> bool) -> Result<Vec<FlowResult>, Error> {
        self.lives.iter().for_each(|live| live.is_over.store(true, Ordering::Relaxed));
        let round_trip = self.lives.iter().map(|live| live.round_trip_ns.load(Ordering::Relaxed)).max();
        let patience_ns = if probes.is_used { loss_ns(round_trip.unwrap_or(0)) } else { 0 };
        let end_ns = monotonic_ns();
        let deadline_ns = || end_ns + END_NS + if interrupted() { 0 } else { patience_ns };
        let mut is_done = false;
        while !is_done && monotonic_ns() < deadline_ns() {
            probes.look(self);
            is_done = self.collect_until(monotonic_ns() + PROBE_TICK_NS)?;
        }
        if !is_done {
            self.shut();
            if !self.collect_until(monotonic_ns() + 4 * END_NS)? {
                let cause = io::Error::other("a flow does not end");
                return Err(Error::System { what: "measure", cause });
            }
        }
        Ok(std::mem::take(&mut self.collected))
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
    fn look(&mut self, flows: &Flows) {
        if !self.is_used {
            return;
        }
        let now_ns = monotonic_ns();
        for ((live, socket), waiting) in flows.lives.iter().zip(&flows.sockets).zip(&mut self.waiting) {
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
/// When the server goes away.
pub fn run(
    mut prepared: Prepared,
    window: Window,
    is_last: bool,
    watch: &mut Watch<'_>,
) -> Result<Option<Outcome>, Error> {
    let lead_ns = LEAD_NS * u64::from(prepared.terms.flows);
    let mut frame = Frame::new(monotonic_ns() + lead_ns, window.warmup_ns, window.window_ns);
    let mut flows = Flows::start(&prepared, frame)?;
    let interrupted = watch.interrupted;
    let mut probes = Probes {
        is_used: prepared.terms.test == Test::UdpLat,
        size: prepared.terms.msg_size as usize,
        waiting: vec![(0, 0); flows.lives.len()],
    };
    if !wait_until(&prepared, &flows, &mut probes, interrupted, frame.open_ns)? {
        return Ok(None);
    }
    let test = prepared.terms.test;
    let mut samples = vec![sample(&mut prepared, &flows)?];
    if samples[0].at_ns >= frame.close_ns.saturating_add(OVERDUE_NS) {
        return Err(Error::Starved { test: test.name() });
    }
    let before = watch.open(test, &samples[0]);
    let opened = CpuSupply::now();
    let mut next_ns = frame.open_ns.saturating_add(SECOND_NS);
    while wait_until(&prepared, &flows, &mut probes, interrupted, next_ns.min(frame.close_ns))?
        && next_ns < frame.close_ns
    {
        samples.push(sample(&mut prepared, &flows)?);
        watch.progress(test, flows.messages() - before);
        next_ns = next_ns.saturating_add(SECOND_NS);
    }
    frame.close_ns = frame.close_ns.min(monotonic_ns());
    let last = sample(&mut prepared, &flows)?;
    samples.push(last);
    watch.close(test, &last, last.messages.saturating_sub(before), is_last);
    let supply = (opened, CpuSupply::now());
    let infos = prepared.sockets.iter().flatten().filter_map(tcp_info::read).collect();
    let yields = flows.end(&mut probes, interrupted)?;
    if !prepared.terms.test.is_udp() {
        prepared.sockets.iter().flatten().for_each(socket::finish);
    }
    let totals = prepared.control.finish()?;
    let shared = prepared.terms.shared_cpus.as_ref().map(|shared| shared.cpus.len());
    let cpus = (shared.unwrap_or_else(|| available_cpus().map_or(1, |cpus| cpus.len())), shared.is_some());
    Ok(Some(Outcome {
        test,
        frame,
        samples,
        yields,
        infos,
        observed: prepared.observed,
        totals,
        supply,
        cpus,
    }))
}

fn sample(prepared: &mut Prepared, flows: &Flows) -> Result<Sample, Error> {
    let server = prepared.control.sample()?;
    Ok(Sample {
        at_ns: monotonic_ns(),
        messages: flows.messages(),
        cpu: process_cpu_time(std::process::id())?,
        softirq_ns: softirq_ns().unwrap_or(0),
        server,
    })
}

/// Waits for a moment, and looks for a server that is gone and for late datagrams meanwhile. Returns whether it came, and the
/// load was not interrupted before.
fn wait_until(
    prepared: &Prepared,
    flows: &Flows,
    probes: &mut Probes,
    interrupted: &dyn Fn() -> bool,
    at_ns: u64,
) -> Result<bool, Error> {
    let tick_ns = if probes.is_used { PROBE_TICK_NS } else { LOOK_NS };
    loop {
        let now_ns = monotonic_ns();
        if now_ns >= at_ns {
            return Ok(true);
        }
        if interrupted() {
            return Ok(false);
        }
        probes.look(flows);
        prepared.control.wait(Duration::from_nanos((at_ns - now_ns).min(tick_ns)))?;
    }
}
