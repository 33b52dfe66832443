//! Closed loops against a limiter, on a simulated clock whose timers are late.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::*;

/// How late a timer may be, in ns: what an idle kernel needs to wake a thread.
const LATE_NS_MAX: u64 = 100_000;

/// A closed loop.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    pub depth: usize,
    pub bytes: u64,
    pub service_ns: u64,
}

#[derive(Debug)]
struct Client {
    shape: Connection,
    flow: Flow,
    /// Arrivals of operations that have not asked yet, or whose first waits.
    backlog: VecDeque<u64>,
    is_waiting: bool,
    begun: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrival(usize),
    Timer,
}

pub struct Simulation {
    limiter: Limiter<usize>,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(u64, Happening)>>,
    begun: Vec<(u64, u64)>,
    now_ns: u64,
    timer_ns: Option<u64>,
    random: u64,
}

impl Simulation {
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limiter: Limiter::new(limits, 0),
            clients: Vec::new(),
            events: BinaryHeap::new(),
            begun: Vec::new(),
            now_ns: 0,
            timer_ns: None,
            random: seed | 1,
        }
    }

    pub fn connect(&mut self, connections: usize, shape: Connection) {
        for _ in 0..connections {
            let index = self.clients.len();
            let backlog = VecDeque::new();
            self.clients.push(Client { shape, flow: Flow::default(), backlog, is_waiting: false, begun: 0 });
            for _ in 0..shape.depth {
                self.events.push(Reverse((self.now_ns, Happening::Arrival(index))));
            }
        }
    }

    /// Runs until a time, and returns when each operation so far began and its bytes.
    pub fn until(&mut self, end_ns: u64) -> Vec<(u64, u64)> {
        while let Some(Reverse((at_ns, _))) = self.events.peek() {
            if *at_ns >= end_ns {
                break;
            }
            let Some(Reverse((at_ns, happening))) = self.events.pop() else { break };
            self.now_ns = at_ns;
            match happening {
                Happening::Arrival(index) => {
                    self.clients[index].backlog.push_back(at_ns);
                    self.advance(index);
                }
                Happening::Timer if self.timer_ns == Some(at_ns) => self.timer_ns = None,
                Happening::Timer => continue,
            }
            self.take_due();
        }
        self.now_ns = end_ns;
        self.begun.clone()
    }

    pub fn change(&mut self, limits: Limits) {
        let mut begun = Vec::new();
        self.limiter.change(limits, self.now_ns, &mut begun);
        self.timer_ns = None;
        self.take_due();
    }

    pub fn account(&self) -> Account {
        self.limiter.account(self.now_ns)
    }

    pub fn shares(&self) -> Vec<u64> {
        let total: u64 = self.clients.iter().map(|client| client.begun).sum();
        let each = |client: &Client| client.begun * 10_000 / total.max(1);
        self.clients.iter().map(each).collect()
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Asks for what the client has in its backlog, until it has to wait.
    fn advance(&mut self, index: usize) {
        while !self.clients[index].is_waiting {
            let client = &mut self.clients[index];
            let Some(&arrival_ns) = client.backlog.front() else { return };
            let bytes = client.shape.bytes;
            match self.limiter.ask(index, &mut client.flow, bytes, arrival_ns, self.now_ns) {
                Admission::Begin => self.begin(index),
                Admission::Wait => self.clients[index].is_waiting = true,
            }
        }
    }

    fn begin(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.backlog.pop_front();
        client.is_waiting = false;
        client.begun += 1;
        self.begun.push((self.now_ns, client.shape.bytes));
        let done_ns = self.now_ns + client.shape.service_ns;
        self.events.push(Reverse((done_ns, Happening::Arrival(index))));
    }

    fn take_due(&mut self) {
        loop {
            let mut begun = Vec::new();
            let next_ns = self.limiter.take_due(self.now_ns, &mut begun);
            if begun.is_empty() {
                let Some(next_ns) = next_ns else { return };
                if self.timer_ns.is_none_or(|timer_ns| timer_ns > next_ns + LATE_NS_MAX) {
                    let at_ns = next_ns.max(self.now_ns) + self.random(LATE_NS_MAX);
                    self.timer_ns = Some(at_ns);
                    self.events.push(Reverse((at_ns, Happening::Timer)));
                }
                return;
            }
            for index in begun {
                self.begin(index);
                self.advance(index);
            }
        }
    }
}
