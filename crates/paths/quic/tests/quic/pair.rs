//! The side under test and its peer, and the datagrams between them. The clock moves only here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use plumb_host::time::{Instants, monotonic_ns};
use quinn_proto::Side;

use crate::host::{Datagram, Host, Loss, Record, body};
use crate::offers::Offers;
use crate::script::Script;

/// An address of which nobody knows.
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 9);
/// The time of a datagram on its way.
const ONE_WAY: Duration = Duration::from_millis(5);
/// Far more steps than an exchange takes, or two sides that close and do not understand each other.
const STEPS_MAX: u32 = 5000;
/// The size of datagrams before the path's MTU is known (RFC 9000, section 14.1).
pub const DATAGRAM_BYTES: u64 = 1200;
/// The most datagrams that the side under test sends by itself, and for each that it receives. Both are far above those of an exchange.
const SENT_MAX: u64 = 300;
const SENT_PER_RECEIVED_MAX: u64 = 4;

/// The datagrams of the side under test.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub sent: u64,
    pub sent_bytes: u64,
    pub received: u64,
    pub received_bytes: u64,
}

/// The outcome for one side, without what differs from call to call.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    handshakes: usize,
    accepted: u64,
    lost: Vec<Loss>,
    bodies: usize,
}

impl Outcome {
    fn new(record: &Record) -> Self {
        // Codes of applications may be any, and the same loss may occur again and again.
        let lost = record.lost.iter().take(2).map(|(kind, code)| (*kind, (*code).min(0x300)));
        Self {
            handshakes: record.handshakes.len().min(3),
            accepted: record.accepted.min(3),
            lost: lost.collect(),
            bodies: record.bodies.len().min(3),
        }
    }
}

/// Two sides.
pub struct Pair {
    pub victim: Host,
    pub peer: Host,
    pub counts: Counts,
    now: Instant,
    script: Script,
    /// Whether the peer got a datagram of the side under test.
    is_heard: bool,
}

impl Pair {
    /// A client that is about to begin, and a server. The script changes datagrams to the `victim`, the side under test.
    pub fn new(offers: &Offers, victim: Side, script: Script) -> Self {
        let now = Instants::new().at(monotonic_ns());
        let (client, server) = (Host::client(offers, now), Host::server(offers, script.asks_for_retry));
        let (victim, peer) = match victim {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        Self { victim, peer, counts: Counts::default(), now, script, is_heard: false }
    }

    /// Goes on until neither side has anything left to do.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < STEPS_MAX, "the exchange does not end: {:?}", self.counts);
        }
    }

    /// Carries the datagrams that both sides send now, or else lets time pass. Whether there was anything left to do.
    pub fn step(&mut self) -> bool {
        let (answers, datagrams) = (self.victim.give(self.now), self.peer.give(self.now));
        self.counts.sent += answers.len() as u64;
        self.counts.sent_bytes += answers.iter().map(|answer| answer.bytes.len() as u64).sum::<u64>();
        self.check_answers();
        if answers.is_empty() && datagrams.is_empty() {
            return self.wait();
        }
        self.now += ONE_WAY;
        for answer in answers {
            self.hand_to_peer(&answer);
        }
        for datagram in datagrams {
            self.hand_to_victim(datagram);
        }
        true
    }

    fn wait(&mut self) -> bool {
        let due = [self.victim.next_due(), self.peer.next_due()].into_iter().flatten().min();
        self.now = due.map_or(self.now, |due| due.max(self.now));
        due.is_some()
    }

    fn hand_to_peer(&mut self, answer: &Datagram) {
        self.script.keep(&answer.bytes);
        if answer.to != self.peer.address {
            return;
        }
        match self.script.unheard.checked_sub(1) {
            Some(unheard) => self.script.unheard = unheard,
            None => {
                self.is_heard = true;
                self.peer.take(self.now, self.victim.address, &answer.bytes);
            }
        }
    }

    fn hand_to_victim(&mut self, datagram: Datagram) {
        for arrival in self.script.arrivals(datagram.bytes) {
            self.counts.received += 1;
            self.counts.received_bytes += arrival.bytes.len() as u64;
            let from = if arrival.is_stray { ELSEWHERE } else { self.peer.address };
            self.victim.take(self.now, from, &arrival.bytes);
        }
    }

    /// The side under test does not answer without end. A server sends at most three times what it received as long as the client's
    /// address may be wrong (RFC 9000, section 8.1). The library completes the last datagram of each connection.
    fn check_answers(&self) {
        let (counts, accepted) = (self.counts, self.victim.record.accepted);
        assert!(counts.sent <= SENT_MAX + SENT_PER_RECEIVED_MAX * counts.received, "{counts:?}");
        if self.victim.side == Side::Server && !self.is_heard {
            let bytes_max = 3 * counts.received_bytes + DATAGRAM_BYTES * accepted;
            assert!(counts.sent_bytes <= bytes_max, "{counts:?}, {accepted} connections");
        }
    }

    /// Every body that arrived whole is the one that was sent.
    pub fn check_bodies(&self) {
        for record in [&self.victim.record, &self.peer.record] {
            assert!(record.bodies.iter().all(|arrived| *arrived == body()), "other bytes than those sent");
        }
    }

    /// Both exchanges were completed.
    pub fn check_complete(&self) {
        self.check_bodies();
        let bodies = [&self.victim.record, &self.peer.record].map(|record| record.bodies.len());
        assert_eq!(bodies, [2, 2], "{:?} and {:?}", self.victim.record.lost, self.peer.record.lost);
    }

    pub fn outcome(&self) -> [Outcome; 2] {
        [&self.victim.record, &self.peer.record].map(Outcome::new)
    }
}
