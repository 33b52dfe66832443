//! The loops of the client's flows. A round trip costs two system calls and one look at the clock, a message that goes one
//! way one system call; nothing is allocated for a message, and no socket has a timeout, which would cost a timer each
//! time: a flow that is to end while it waits is woken by a shutdown of its socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumb_host::cpu::{CpuSet, CpuTime, current_thread_cpu_time};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::LoadHealth;
use plumb_pace::{Frame, Share};

use super::sender;
use super::tally::{Live, Tally};
use crate::options::ZeroCopy;
use crate::spec::Test;
use crate::wire::control::SocketTerms;
use crate::wire::hello::Purpose;
use crate::wire::placement::pin;
use crate::wire::socket;

/// How long one connection of a `tcp_crr` may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What a flow is made of.
#[derive(Debug)]
pub struct Making {
    /// What it measures.
    pub test: Test,
    /// Its socket; none where every message has its own.
    pub socket: Option<Arc<OwnedFd>>,
    /// Bytes in a message.
    pub size: usize,
    /// Messages that are handed over at once.
    pub batch: usize,
    /// Whether messages are sent without a copy.
    pub zero_copy: ZeroCopy,
    /// The test's token.
    pub token: u64,
    /// Of the sockets that it opens itself.
    pub options: SocketTerms,
    /// Where these connect to.
    pub address: SocketAddr,
    /// In which network namespace.
    pub netns: Option<PathBuf>,
    /// The CPU to run on; any that it may if absent.
    pub cpu: Option<u32>,
    /// When messages are due; as fast as it goes if absent.
    pub due: Option<Share>,
    /// The measurement.
    pub frame: Frame,
    /// What the watching thread sees.
    pub live: Arc<Live>,
}

/// What a flow brings home.
#[derive(Debug)]
pub struct Yield {
    /// Counts and times.
    pub tally: Tally,
    /// The share of the window for which its thread was on a CPU, and in user mode.
    pub busy: (f64, f64),
    /// Where its thread was kept; nowhere if absent.
    pub cpus: Option<CpuSet>,
}

/// A flow under way.
pub struct Flow {
    /// What it is made of.
    pub make: Making,
    /// Counts and times.
    pub tally: Tally,
    opened: Option<(u64, CpuTime)>,
    closed: Option<(u64, CpuTime)>,
}

impl Flow {
    /// A flow that has not begun.
    #[must_use]
    pub fn new(make: Making) -> Self {
        Self { tally: Tally::new(make.frame), make, opened: None, closed: None }
    }

    /// Runs to the end of the measurement.
    pub fn run(mut self) -> Yield {
        // Timers of this thread are to be exact: by default they may be 50 us late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
        let cpus = self.make.cpu.and_then(|cpu| {
            let pinned = pin(cpu);
            pinned.map_err(|error| self.tally.fail(error.to_string())).ok()
        });
        sleep(Duration::from_nanos(self.make.frame.start_ns.saturating_sub(monotonic_ns())));
        let ran = match (self.make.test, self.make.socket.clone()) {
            (Test::TcpLat, Some(socket)) => self.round_trips(&socket),
            (Test::UdpLat, Some(socket)) => self.datagram_round_trips(&socket),
            (Test::TcpBw, Some(socket)) => sender::stream(&mut self, &socket),
            (Test::UdpBw, Some(socket)) => sender::datagrams(&mut self, &socket),
            _ => self.connections(),
        };
        // A flow that was woken to end has not failed.
        if let Err(error) = ran
            && !self.make.live.is_over()
        {
            self.tally.fail(error.to_string());
        }
        self.observe(monotonic_ns());
        let (opened, closed) = (self.opened.unwrap_or_default(), self.closed.unwrap_or_default());
        let spent = closed.1.saturating_sub(opened.1);
        let share = |cpu_ns| LoadHealth::busy_share(cpu_ns, closed.0.saturating_sub(opened.0));
        Yield { tally: self.tally, busy: (share(spent.total_ns()), share(spent.user_ns)), cpus }
    }

    /// Notes the thread's CPU time where the window opens and where it closes.
    #[inline]
    pub fn observe(&mut self, now_ns: u64) {
        if self.opened.is_none() && now_ns >= self.make.frame.open_ns {
            self.opened = Some((now_ns, current_thread_cpu_time()));
        }
        if self.closed.is_none() && now_ns >= self.make.frame.close_ns {
            self.closed = Some((now_ns, current_thread_cpu_time()));
        }
    }

    /// Waits until the next message is due. Returns when it was due and when it is, or nothing at the end.
    #[inline]
    pub fn wait_for_turn(&mut self, free_ns: u64) -> Option<(u64, u64)> {
        let Some(due) = &mut self.make.due else {
            return (free_ns < self.make.frame.close_ns && !self.make.live.is_over())
                .then_some((free_ns, free_ns));
        };
        let due_ns = self.make.frame.start_ns.saturating_add(due.due_ns());
        due.advance();
        let mut now_ns = free_ns;
        while now_ns < due_ns.min(self.make.frame.close_ns) {
            let left_ns = due_ns.min(self.make.frame.close_ns) - now_ns;
            sleep(Duration::from_nanos(left_ns));
            now_ns = monotonic_ns();
        }
        self.observe(now_ns);
        if now_ns >= self.make.frame.close_ns || self.make.live.is_over() {
            return None;
        }
        self.tally.lag(due_ns, free_ns, now_ns);
        Some((due_ns, now_ns))
    }

    /// Counts a message there and back. Times are half of it, or all of it for a connection.
    #[inline]
    fn came_back(&mut self, intended_ns: u64, start_ns: u64, now_ns: u64, parts: u64) {
        self.tally.complete(now_ns, (now_ns - intended_ns) / parts);
        if self.make.due.is_some() {
            self.tally.served(now_ns, (now_ns - start_ns) / parts);
        }
        self.make.live.set_messages(self.tally.messages);
        self.observe(now_ns);
    }

    fn round_trips(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut message = vec![0; self.make.size];
        let mut now_ns = monotonic_ns();
        while let Some((intended_ns, start_ns)) = self.wait_for_turn(now_ns) {
            socket::send_all(socket, &message)?;
            if !socket::receive_all(socket, &mut message)? {
                return Err(io::Error::other("the server closed a connection"));
            }
            now_ns = monotonic_ns();
            self.came_back(intended_ns, start_ns, now_ns, 2);
        }
        Ok(())
    }

    /// The lowest bytes of a datagram's number tell its answer from a late one. One whose answer does not come is sent again
    /// by the watching thread, under the next number; its time is in no distribution, and it counts as lost.
    fn datagram_round_trips(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut message = vec![0; self.make.size];
        let mut answer = vec![0; self.make.size + 1];
        let bytes = self.make.size.min(8);
        let mut now_ns = monotonic_ns();
        let live = Arc::clone(&self.make.live);
        while let Some((intended_ns, start_ns)) = self.wait_for_turn(now_ns) {
            let number = live.number.fetch_add(1, Ordering::Relaxed) + 1;
            let resent = live.resent.load(Ordering::Relaxed);
            message[..bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
            match socket::send(socket, &message) {
                // Of an earlier one that found nobody.
                Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => return Err(error),
                _ => {}
            }
            loop {
                let count = match socket::receive(socket, &mut answer) {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                    received => received?,
                };
                if count == 0 || live.is_over() {
                    return Ok(());
                }
                let expected = live.number.load(Ordering::Relaxed).to_le_bytes();
                if count == message.len() && answer[..bytes] == expected[..bytes] {
                    break;
                }
            }
            now_ns = monotonic_ns();
            live.answered.store(live.number.load(Ordering::Relaxed), Ordering::Relaxed);
            live.round_trip_ns.store(now_ns - start_ns, Ordering::Relaxed);
            if live.resent.load(Ordering::Relaxed) == resent {
                self.came_back(intended_ns, start_ns, now_ns, 2);
            } else {
                self.observe(now_ns);
            }
        }
        Ok(())
    }

    /// A connection for each message; the server closes first, so that this host's ports are free at once.
    fn connections(&mut self) -> io::Result<()> {
        if let Some(netns) = &self.make.netns {
            plumb_host::namespace::enter(netns).map_err(io::Error::other)?;
        }
        let hello = Purpose::Once { token: self.make.token }.encode();
        let mut message = hello.to_vec();
        message.resize(hello.len() + self.make.size, 0);
        let mut answer = vec![0; self.make.size];
        let mut now_ns = monotonic_ns();
        while let Some((intended_ns, start_ns)) = self.wait_for_turn(now_ns) {
            let done = self.connection(&message, &mut answer);
            now_ns = monotonic_ns();
            match done {
                Ok(()) => self.came_back(intended_ns, start_ns, now_ns, 1),
                Err(error) => {
                    self.tally.fail(error.to_string());
                    self.observe(now_ns);
                }
            }
        }
        Ok(())
    }

    fn connection(&self, message: &[u8], answer: &mut [u8]) -> io::Result<()> {
        let connection = socket::connect(self.make.address, Some(&self.make.options), CONNECT_TIMEOUT)
            .map_err(io::Error::other)?;
        socket::send_all(&connection, message)?;
        if !socket::receive_all(&connection, answer)? {
            return Err(io::Error::other("the server closed a connection before its answer"));
        }
        // The end comes right behind the answer.
        socket::receive(&connection, &mut [0]).map(drop)
    }
}
