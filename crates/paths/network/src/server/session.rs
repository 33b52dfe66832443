//! A test that a client asked for: its flows, and what they counted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plumb_host::cpu::{process_cpu_time, run_behind};
use plumb_host::noise::softirq_ns;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::Merge;

use super::admission::Admitted;
use super::answer;
use super::flow::{Flow, Report, Tallies};
use super::held::held;
use crate::placement::pin;
use crate::settings::Test;
use crate::wire::control::{Counters, Terms, Totals};
use crate::wire::options::{self, Observed};
use crate::wire::socket;

/// How long flows may take to arrive.
const JOIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long what is under way may take to arrive after the last was sent.
const DRAIN_NS: u64 = 2_000_000_000;
/// A flow of datagrams of which nothing came for so long has ended.
const QUIET: Duration = Duration::from_millis(30);

/// A flow that joined, and its thread.
#[derive(Debug)]
struct Joined {
    flow: Arc<Flow>,
    thread: Option<JoinHandle<Report>>,
}

/// A test under way.
#[derive(Debug)]
pub struct Session {
    token: u64,
    terms: Terms,
    own_ip: IpAddr,
    flows: Mutex<BTreeMap<u32, Joined>>,
    has_joined: Condvar,
    has_ended: AtomicBool,
    /// The counts of connections that are used once, and of flows that have ended.
    once: Tallies,
    observed: Mutex<Observed>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// The room that its flows have among all of the server's.
    _admitted: Admitted,
}

impl Session {
    pub(super) fn new(token: u64, terms: Terms, own_ip: IpAddr, admitted: Admitted) -> Self {
        Self {
            token,
            terms,
            own_ip,
            flows: Mutex::default(),
            has_joined: Condvar::new(),
            has_ended: AtomicBool::new(false),
            once: Tallies::default(),
            observed: Mutex::default(),
            errors: Mutex::default(),
            _admitted: admitted,
        }
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The first error of a socket, if there was one.
    pub(super) fn first_error(&self) -> Option<String> {
        held(&self.errors).keys().next().cloned()
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn own_ip(&self) -> IpAddr {
        self.own_ip
    }

    pub(super) fn flow(&self, flow: u32) -> Option<Arc<Flow>> {
        held(&self.flows).get(&flow).map(|joined| Arc::clone(&joined.flow))
    }

    /// Starts a flow's thread on its socket.
    pub(super) fn join(&self, number: u32, socket: OwnedFd) {
        let mut flows = held(&self.flows);
        if number >= self.terms.flows || flows.contains_key(&number) || self.has_ended.load(Ordering::Acquire)
        {
            return;
        }
        let is_tcp = !self.terms.test.is_udp();
        if let Err(error) = options::apply(&socket, &self.terms.options, is_tcp) {
            *held(&self.errors).entry(error.to_string()).or_default() += 1;
        }
        options::observe(&socket, is_tcp, &mut held(&self.observed));
        let flow = Arc::new(Flow::new(socket));
        let (own, terms) = (Arc::clone(&flow), self.terms.clone());
        let (ready, pinned) = channel();
        let thread = thread::Builder::new().name(format!("plumb-server-{number}")).spawn(move || {
            // A flow that never waits must not keep the control connection's thread off its CPU.
            run_behind();
            let cpu = terms.shared_cpus.as_ref().and_then(|shared| shared.cpu_for(number));
            // The receiver waits for it below.
            let _ = ready.send(cpu.map(pin).transpose());
            answer::run(&own, &terms)
        });
        match thread {
            Ok(thread) => {
                match pinned.recv() {
                    Ok(Ok(Some(cpus))) => options::see(&mut held(&self.observed), "cpu", cpus.to_string(), 1),
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => *held(&self.errors).entry(error.to_string()).or_default() += 1,
                    // The thread panicked, which is counted where it is joined.
                    Err(_) => {}
                }
                flows.insert(number, Joined { flow, thread: Some(thread) });
            }
            Err(error) => *held(&self.errors).entry(format!("start a thread: {error}")).or_default() += 1,
        }
        self.has_joined.notify_all();
    }

    /// Waits for all flows. Says how many there are when they do not come.
    pub(super) fn wait_for_flows(&self) -> Result<(), u32> {
        if self.terms.test == Test::TcpCrr {
            return Ok(());
        }
        let all = self.terms.flows as usize;
        let waited = self
            .has_joined
            .wait_timeout_while(held(&self.flows), JOIN_TIMEOUT, |flows| flows.len() < all)
            .map(|(flows, _)| flows.len());
        match waited {
            Ok(count) if count >= all => Ok(()),
            Ok(count) => Err(u32::try_from(count).unwrap_or(u32::MAX)),
            Err(_) => Err(0),
        }
    }

    fn counted(&self) -> (u64, u64) {
        let flows = held(&self.flows);
        let tallies = flows.values().map(|joined| joined.flow.tallies.counts());
        let once = std::iter::once(self.once.counts());
        tallies.chain(once).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    pub(super) fn counters(&self) -> Counters {
        let (messages, bytes) = self.counted();
        let cpu = process_cpu_time(std::process::id()).unwrap_or_default();
        Counters {
            at_ns: monotonic_ns(),
            messages,
            bytes,
            cpu_user_ns: cpu.user_ns,
            cpu_system_ns: cpu.system_ns,
            softirq_ns: softirq_ns().unwrap_or(0),
        }
    }

    /// Wakes the threads that wait for a flow.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        held(&self.flows).values().for_each(|joined| joined.flow.end());
    }

    /// Waits until nothing more comes, and adds everything up.
    pub(super) fn finish(&self) -> Totals {
        let deadline_ns = monotonic_ns() + DRAIN_NS;
        if self.terms.test.is_udp() {
            let mut before = self.counted();
            loop {
                sleep(QUIET);
                let now = self.counted();
                if now == before || monotonic_ns() >= deadline_ns {
                    break;
                }
                before = now;
            }
        } else {
            let is_running = || {
                held(&self.flows).values().any(|it| it.thread.as_ref().is_some_and(|it| !it.is_finished()))
            };
            while is_running() && monotonic_ns() < deadline_ns {
                sleep(Duration::from_millis(1));
            }
        }
        self.end();
        self.totals()
    }

    fn totals(&self) -> Totals {
        let mut report = Report::default();
        // With the sockets that they take along: the next flow of the same peer is not to find them.
        let flows = std::mem::take(&mut *held(&self.flows));
        for joined in flows.into_values() {
            let ran = joined.thread.map(JoinHandle::join);
            let (messages, bytes) = joined.flow.tallies.counts();
            self.once.add(messages, bytes);
            match ran {
                Some(Ok(one)) => report.merge(&one),
                _ => *held(&self.errors).entry("a server thread ended early".to_owned()).or_default() += 1,
            }
        }
        let (messages, bytes) = self.counted();
        let mut observed = held(&self.observed).clone();
        observed.add(&report.observed);
        let mut errors = held(&self.errors).clone();
        errors.add(&report.errors);
        Totals {
            messages,
            bytes,
            reordered: report.reordered,
            jitter_ns: report.jitter_ns,
            sizes: report.sizes,
            observed,
            errors,
        }
    }

    /// Answers one connection of a `tcp_crr`: the message comes back, and the connection is closed from here, so that the
    /// client's ports are free at once.
    pub(super) fn answer_once(&self, connection: &OwnedFd) {
        let terms = &self.terms;
        if self.once.counts().0 == 0 {
            options::observe(connection, true, &mut held(&self.observed));
        }
        let mut small = [0; 4096];
        let mut large;
        let message = match small.get_mut(..terms.msg_size as usize) {
            Some(message) => message,
            None => {
                large = vec![0; terms.msg_size as usize];
                &mut large[..]
            }
        };
        let answered = socket::receive_all(connection, message).and_then(|is_whole| {
            if is_whole {
                socket::send_all(connection, message)?;
            }
            Ok(is_whole)
        });
        match answered {
            Ok(true) => self.once.add(1, terms.msg_size.into()),
            // The client went away, or ended its test, before its message was whole.
            Ok(false) => {}
            Err(error) => *held(&self.errors).entry(error.kind().to_string()).or_default() += 1,
        }
    }
}
